"""The steps of a route in legs: a transform with the exchanges that pass while it is computed.

An exchange belongs to the transform before it. If there is none, or if it is across devices, the
exchange belongs to the transform after it. `overlap.py` decides the number of chunks of a leg.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trnfft.distributed.layout import Layout
from trnfft.distributed.model.route import (
    Across,
    Exchanged,
    Problem,
    Step,
    Transformed,
    route,
    sizes_of,
)
from trnfft.distributed.run import four_step, overlap
from trnfft.distributed.run.four_step import Long
from trnfft.distributed.run.overlap import Work

_ENOUGH = 16  # numbers along a dimension that suffice to cut it into chunks and blocks


@dataclass(frozen=True)
class Leg:
    """Steps that are done together.

    Attributes:
        layout: the layout before all of them.
        done: the dimensions that are transformed before.
        before: the exchange before the transform.
        step: the transform.
        after: the exchange after it.
        dim: the dimension that is cut, or None where none can be.
        chunks: the number of chunks.
        long: the transform across devices.
    """

    layout: Layout
    done: frozenset[int]
    before: Exchanged | None = None
    step: Transformed | Across | None = None
    after: Exchanged | None = None
    dim: int | None = None
    chunks: tuple[int, ...] = (1,)
    long: Long | None = None

    @property
    def between(self) -> Layout:
        """Returns the layout after the exchange before the transform."""
        return _moved(self.layout, self.before)

    @property
    def following(self) -> Leg:
        """Returns an empty leg that follows this one."""
        dims = set[int]()
        if self.step:
            dims = {self.step.dim} if isinstance(self.step, Across) else set(self.step.dims)
        return Leg(_moved(self.between, self.after), self.done | dims)


@dataclass(frozen=True)
class Legs:
    """The legs of a route."""

    problem: Problem
    inverse: bool
    norm: str
    device: str
    itemsize: int

    def __iter__(self) -> Iterator[Leg]:
        """Yields the legs, one after the other."""
        left = list(route(self.problem))
        leg = Leg(self.problem.source, frozenset())
        while left:
            leg = _with_steps(leg, left)
            if isinstance(leg.step, Across):
                leg = self._across(leg, leg.step)
            elif leg.step:
                leg = self._cut(leg, leg.step)
            yield leg
            leg = leg.following

    def _across(self, leg: Leg, step: Across) -> Leg:
        """Returns the leg with the number of chunks of its exchanges."""
        line, mesh = self.problem.lines[step.dim], leg.layout.mesh
        sizes = sizes_of(self.problem, leg.done)
        box = leg.layout.box(sizes, (0,) * len(mesh))
        rows = math.prod(x.size for dim, x in enumerate(box) if dim != step.dim)
        long = Long(line.length or 1, self.inverse, self.norm, self.problem.across, rows)
        arguments = long, mesh, step.along, self.device, self.itemsize
        return replace(leg, long=long, chunks=four_step.chunks_of_exchanges(*arguments))

    def _cut(self, leg: Leg, step: Transformed) -> Leg:
        """Returns the leg with a dimension that is whole during all of it, and its chunks."""
        mesh = leg.layout.mesh
        sizes = [sizes_of(self.problem, x.done) for x in (leg, leg.following)]
        box = leg.between.box(sizes[0], (0,) * len(mesh))
        needed = {
            *step.dims,
            *([leg.before.source] if leg.before else []),
            *([leg.after.target] if leg.after else []),
        }
        others = [dim for dim in range(len(box)) if dim not in needed]
        if not others:
            return leg
        # The first dimension with enough numbers: cutting along the last one gives many small
        # pieces.
        dim = min(others, key=lambda dim: (-min(box[dim].size, _ENOUGH), dim))
        held = [
            (leg.before, leg.layout, sizes[0], 1 if step.operation == "r2c" else 2),
            (leg.after, leg.between, sizes[1], 1 if step.operation == "c2r" else 2),
        ]
        work = Work(
            self.device,
            mesh,
            tuple(
                (exchange.along, self.itemsize * parts * layout.largest(shape))
                for exchange, layout, shape, parts in held
                if exchange
            ),
            tuple(self.problem.lines[dim].length or 1 for dim in step.dims),
            math.prod(x.size for i, x in enumerate(box) if i not in step.dims),
            step.operation != "c2c",
            box[dim].size,
        )
        return replace(leg, dim=dim, chunks=(overlap.chunks_of(work),))


def _with_steps(leg: Leg, left: list[Step]) -> Leg:
    """Returns the leg with the first of these steps, which are removed from the list."""
    step = left.pop(0)
    if isinstance(step, Exchanged):
        leg = replace(leg, before=step)
        if not left or not isinstance(left[0], Transformed):
            return leg
        step = left.pop(0)
    assert not isinstance(step, Exchanged)
    leg = replace(leg, step=step)
    if isinstance(step, Transformed) and left and isinstance(left[0], Exchanged):
        leg = replace(leg, after=left[0])
        del left[0]
    return leg


def _moved(layout: Layout, step: Exchanged | None) -> Layout:
    return layout.moved(step.source, step.target) if step else layout
