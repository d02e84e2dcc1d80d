"""The steps of a transform as it runs on many devices, with modelled times.

Dimensions become whole by the route of `route.py`, in the legs of `legs.py`. A dimension that
stays split is transformed as in `four_step.py`. Each step is that of the devices that have the
most: kernels have the prices of the planner and a launch, exchanges the times of `network.py` for
the boxes that they move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnfft.distributed.layout import Box, Interval, Layout
from trnfft.distributed.model.legs import Leg, Legs
from trnfft.distributed.model.network import Exchange, Machine, between_boxes
from trnfft.distributed.model.route import Across, Exchanged, Problem, Transformed, sizes_of
from trnfft.distributed.run.four_step import Long, check_longest, chunks, padded_length
from trnfft.distributed.run.rows_and_columns import has_rows_and_columns, rows_and_columns

if TYPE_CHECKING:
    from trnfft.distributed.model.prices import Kernel, Launches

COMPLEX_BYTES = 8  # two float32
FOUR_STEP, BLUESTEIN = "four-step", "bluestein"
_LONG = 2**16  # points of a row, below which one launch is faster than two with a pass between them

Group = tuple["Kernel | Exchange", ...]  # exchanges may pass while the kernels run


@dataclass(frozen=True)
class Way:
    """How a transform is done.

    Attributes:
        groups: groups of steps that are done together, in their order.
        algorithm: the algorithm of a dimension that is transformed in rows and columns, or "".
        split: their lengths; in Bluestein's algorithm, those of the convolution.
    """

    groups: tuple[Group, ...]
    algorithm: str = ""
    split: tuple[int, ...] = ()

    @property
    def ns(self) -> float:
        """Returns the modelled time of the steps, one after the other, with the launches."""
        return sum(step.total_ns for group in self.groups for step in group)


@dataclass(frozen=True)
class Cluster:
    """The devices of a mesh, and the links that join them."""

    launches: Launches
    machine: Machine
    mesh: tuple[int, ...]

    def way(self, problem: Problem) -> Way:
        """Returns the way by which a transform of a DTensor runs."""
        groups: list[Group] = []
        algorithm, split = "", tuple[int, ...]()
        for leg in Legs(problem, False, "backward", "meta", COMPLEX_BYTES // 2):
            if not isinstance(leg.step, Across):
                groups.append(tuple(self._together(problem, leg, leg.step)))
                continue
            assert leg.long is not None
            line, long = problem.lines[leg.step.dim], leg.long
            check_longest(long.n)
            across = _Across(self.launches, self.machine, self.mesh, leg.step.along)
            groups += across.transformed(long, line.given)
            kept = [Interval(*(line.kept[0] + x for x in own)) for own in across.own(line.left)]
            groups += across.aligned(long.rows, across.own(long.n), kept)
            algorithm, split = across.algorithm(long.n), across.split(long.n)
        return Way(tuple(groups), algorithm, split)

    def _together(
        self, problem: Problem, leg: Leg, step: Transformed | None
    ) -> Iterator[Kernel | Exchange]:
        """Yields transforms of whole dimensions, and the exchanges before and after them."""
        sizes = sizes_of(problem, leg.done)
        number_bytes = COMPLEX_BYTES // (2 if problem.is_real and not leg.done else 1)
        if leg.before:
            yield self._exchange(leg.before, leg.layout, sizes, number_bytes)
        if step:
            lengths = tuple(problem.lines[dim].length or 1 for dim in step.dims)
            points = leg.between.largest(sizes)
            yield from self.launches.transforms(lengths, points, step.operation == "r2c")
        if leg.after:
            sizes = sizes_of(problem, leg.following.done)
            yield self._exchange(leg.after, leg.between, sizes, COMPLEX_BYTES)

    def _exchange(
        self, step: Exchanged, before: Layout, sizes: Sequence[int], number_bytes: int
    ) -> Exchange:
        first, after = (0,) * len(self.mesh), before.moved(step.source, step.target)
        held, needed = (x.boxes(sizes, first, step.along) for x in (before, after))
        dims = (step.source, step.target)
        return between_boxes(self.machine, self.mesh, step.along, held, needed, number_bytes, dims)


def way_alone(launches: Launches, machine: Machine, shape: tuple[int, ...], real: bool) -> Way:
    """Returns the quickest way on one device that has all the data.

    One launch transforms some of the last dimensions, and the dimensions before them follow one by
    one.
    """
    *before, last = shape
    points = math.prod(before) * (last // 2 + 1 if real else last)
    lines = [_line_alone(launches, machine, n, points, False) for n in before]
    ways = []
    for whole in range(len(shape)):
        first = shape[whole:]
        if len(first) == 1:
            way = _line_alone(launches, machine, last, math.prod(shape), real)
        elif max(first) <= _longest():
            way = Way((launches.transforms(first, math.prod(shape), real),))
        else:
            continue
        ways.append(_in_turn([way, *reversed(lines[:whole])]))
    return min(ways, key=lambda way: way.ns)


def _line_alone(launches: Launches, machine: Machine, n: int, points: int, real: bool) -> Way:
    """Returns the way of one dimension of so many points: in one launch, or in rows and columns."""
    ways = []
    if n <= _longest():
        ways.append(Way((launches.transforms((n,), points, real),)))
    across = _Across(launches, machine, (1,), 0)
    if not ways or n >= _LONG and across.algorithm(n) == FOUR_STEP:
        long = Long(n, False, "backward", rows=points // n)
        groups = tuple(across.transformed(long, n))
        ways.append(Way(groups, across.algorithm(n), across.split(n)))
    return min(ways, key=lambda way: way.ns)


def _in_turn(ways: Sequence[Way]) -> Way:
    split = next((way for way in ways if way.split), ways[0])
    groups = tuple(group for way in ways for group in way.groups)
    return Way(groups, split.algorithm, split.split)


@dataclass(frozen=True)
class _Across:
    """Transforms of a dimension of which the devices along one axis of a mesh have chunks."""

    launches: Launches
    machine: Machine
    mesh: tuple[int, ...]
    along: int

    @property
    def count(self) -> int:
        return self.mesh[self.along]

    def own(self, n: int) -> list[Interval]:
        """Returns the chunks of the devices."""
        return chunks(n, self.count)

    def algorithm(self, n: int) -> str:
        return FOUR_STEP if has_rows_and_columns(n, max(2, self.count)) else BLUESTEIN

    def split(self, n: int) -> tuple[int, int]:
        """Returns the rows and columns of this length, or of the length to which it is padded."""
        length = n if self.algorithm(n) == FOUR_STEP else padded_length(n, max(2, self.count))
        return rows_and_columns(length, max(2, self.count))

    def transformed(self, long: Long, given: int) -> Iterator[Group]:
        """Yields the steps of `four_step.transformed`."""
        if self.algorithm(long.n) == FOUR_STEP:
            return self._four_steps(long, given)
        return self._bluestein(long, given)

    def aligned(
        self, lead: int, sources: list[Interval], targets: list[Interval]
    ) -> Iterator[Group]:
        """Yields the steps of `four_step.aligned`, for `lead` rows."""
        if sources != targets:
            rows = Interval(0, lead)
            yield self._exchange([(rows, own) for own in sources], [(rows, own) for own in targets])

    def _four_steps(self, long: Long, given: int) -> Iterator[Group]:
        rows, columns = self.split(long.n)
        lead, own_rows, own_columns = Interval(0, long.rows), self.own(rows), self.own(columns)
        by_rows = [(lead, own, Interval(0, columns)) for own in own_rows]
        by_columns = [(lead, Interval(0, rows), own) for own in own_columns]
        to_columns = self._exchange(by_rows, by_columns)
        to_rows = self._exchange(by_columns, by_rows)
        held, wanted = _flat(own_rows, columns), self.own(long.n)
        most_rows, most_columns = (long.rows * own[0].size for own in (own_rows, own_columns))
        of_columns = self.launches.transforms((rows,), rows * most_columns, False)
        of_rows = self.launches.transforms((columns,), columns * most_rows, False)
        yield from self.aligned(long.rows, self.own(given), held)
        if long.inverse and long.planned:
            yield (*of_rows, self._twiddles(columns * most_rows), *to_columns)
            yield (*of_columns, *to_rows)
        else:
            yield (*to_columns, *of_columns, self._twiddles(rows * most_columns), *to_rows)
            yield (*of_rows, *(() if long.planned else to_columns))
            held = held if long.planned else _flat(own_columns, rows)
        yield from self.aligned(long.rows, held, wanted)

    def _bluestein(self, long: Long, given: int) -> Iterator[Group]:
        padded = math.prod(self.split(long.n))
        forward = Long(padded, False, "backward", planned=True, rows=long.rows)
        wanted, product = self.own(long.n), self.launches.product
        points, spectrum = wanted[0].size, self.own(padded)[0].size
        yield from self.aligned(long.rows, self.own(given), wanted)
        yield (product("chirp", long.rows * points, 16),)
        yield from self._four_steps(forward, long.n)
        yield (product("filter", spectrum, 8),)  # the filter, which is made from a chirp
        yield from self._four_steps(replace(forward, rows=1), padded)
        yield (product("spectrum of the filter", long.rows * spectrum, 24),)
        yield from self._four_steps(replace(forward, inverse=True), padded)
        yield from self.aligned(long.rows, self.own(padded), wanted)
        yield (product("chirp and scale", long.rows * points, 32),)  # in two passes

    def _twiddles(self, points: int) -> Kernel:
        return self.launches.product("twiddle factors", points, 16)

    def _exchange(self, sources: Sequence[Box], targets: Sequence[Box]) -> Group:
        if self.count == 1:
            return ()
        boxes = sources, targets
        return (between_boxes(self.machine, self.mesh, self.along, *boxes, COMPLEX_BYTES),)


def _flat(rows: Sequence[Interval], columns: int) -> list[Interval]:
    """Returns rows of `columns` numbers each, as intervals of these numbers."""
    return [Interval(own.start * columns, own.stop * columns) for own in rows]


def _longest() -> int:
    from trnfft.planner.planner import LONGEST

    return LONGEST
