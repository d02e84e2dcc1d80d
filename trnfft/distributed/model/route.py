"""The cheapest way through a transform: the order in which dimensions become whole, and how.

A dimension is transformed where one device has all of it. Other dimensions become whole by
exchanges: the last mesh dimension that splits such a dimension splits another dimension instead.
Slab and pencil decompositions, the order of their exchanges, and results that stay where the last
transform left them (`out_placements`) are all paths in one small graph:

    node    the layout, and which dimensions are transformed
    edge    an exchange, then every transform that has become possible     cost: numbers received
            a transform across devices (`four_step.py`), where no other dimension can be split

Dijkstra's algorithm finds the cheapest path. The numbers that a device receives follow from shapes
alone, so that all devices find the same path.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trnfft.distributed.layout import Layout
from trnfft.distributed.run.four_step import padded_length
from trnfft.distributed.run.rows_and_columns import has_rows_and_columns

# The factor by which a move may increase what the fullest device holds. More would nearly be a
# gather, unless input or result are as uneven.
_MOST_UNEVEN = 2


@dataclass(frozen=True)
class Line:
    """What happens along one dimension.

    Attributes:
        given: the size before.
        length: the length of the transform, or None where there is none.
        kept: the start and the size of what is kept afterwards: half of a spectrum, or a part of a
            convolution.
    """

    given: int
    length: int | None
    kept: tuple[int, int]

    @property
    def left(self) -> int:
        """Returns the size after the transform."""
        return self.kept[1]


@dataclass(frozen=True)
class Problem:
    """A transform for which a route is wanted.

    Attributes:
        operation: "c2c", "r2c" or "c2r"; or "whole", for all of `dims` being whole at once.
        lines: a Line for every dimension.
        dims: the dimensions to transform; the last one halves a spectrum, or gets it back.
        is_real: whether the input is real.
        across: whether the only dimension is to be transformed across devices at any cost, because
            its frequencies are in planned order.
        source, target: layouts of input and result, or None for the cheapest.
    """

    operation: str
    lines: tuple[Line, ...]
    dims: tuple[int, ...]
    is_real: bool
    across: bool
    source: Layout
    target: Layout | None


@dataclass(frozen=True)
class Exchanged:
    """The step in which the owner `along` of dimension `source` becomes one of `target`."""

    along: int
    source: int
    target: int


@dataclass(frozen=True)
class Transformed:
    """The step of transforms of these dimensions, which each device has whole."""

    operation: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Across:
    """The step of a transform of a dimension that the devices along a mesh dimension split."""

    operation: str
    dim: int
    along: int


Step = Exchanged | Transformed | Across


@dataclass(frozen=True)
class _Node:
    """The state of a path."""

    layout: Layout
    done: frozenset[int]


@functools.lru_cache(1024)
def route(problem: Problem) -> tuple[Step, ...]:
    """Returns the steps of the cheapest way.

    Raises:
        NotImplementedError: there is no way.
    """
    first = _Node(problem.source, frozenset())
    start, steps = (first, ()) if problem.across else _transformed(problem, first)
    counter = itertools.count()  # of equally cheap paths, the first is taken
    heap: list[tuple[int, int, _Node, tuple[Step, ...]]] = [(0, next(counter), start, steps)]
    seen: set[_Node] = set()
    while heap:
        cost, _, node, steps = heapq.heappop(heap)
        if node in seen:
            continue
        seen.add(node)
        if len(node.done) == len(problem.dims) and _is_target(problem, node.layout):
            return steps
        for price, after, more in _edges(problem, node):
            heapq.heappush(heap, (cost + price, next(counter), after, steps + more))
    raise NotImplementedError(
        f"argument 'input' has the placements {problem.source.placements()} on a mesh of shape "
        f"{problem.source.mesh} and dimensions of sizes {tuple(x.given for x in problem.lines)}: "
        f"there is no dimension to split instead of {problem.dims}, along which it is transformed; "
        f"split another dimension before, such as a batch, or use a mesh of fewer dimensions "
        f"(mesh._flatten() makes one), or copies: x.redistribute(placements=[Replicate()])"
    )


def _is_target(problem: Problem, layout: Layout) -> bool:
    if problem.target is None:  # any layout that placements can express
        return problem.operation == "whole" or all(
            owners == tuple(sorted(owners)) for owners in layout.owners
        )
    return layout == problem.target


def final_layout(problem: Problem) -> Layout:
    """Returns the layout at the end of the cheapest way."""
    layout = problem.source
    for step in route(problem):
        if isinstance(step, Exchanged):
            layout = layout.moved(step.source, step.target)
    return layout


def _edges(problem: Problem, node: _Node) -> Iterator[tuple[int, _Node, tuple[Step, ...]]]:
    """Yields cost, node and steps of each possible continuation."""
    sizes = sizes_of(problem, node.done)
    held = node.layout.largest(sizes)
    ends = [layout.largest(sizes) for layout in (problem.source, problem.target) if layout]
    most = max(_MOST_UNEVEN * held, *ends)
    if not problem.across:
        for source, target in node.layout.moves():
            layout = node.layout.moved(source, target)
            if source == target or layout.largest(sizes) > most:
                continue
            step = Exchanged(node.layout.owners[source][-1], source, target)
            price = held * _parts(problem, node)
            after, steps = _transformed(problem, _Node(layout, node.done))
            yield price, after, (step, *steps)
    for dim in problem.dims if problem.operation != "whole" else ():
        owners = node.layout.owners[dim]
        if len(owners) != 1 or not _possible(problem, node.done, {dim}):
            continue
        operation = _operation(problem, (dim,))
        price = _price_across(problem, held, dim, node.layout.mesh[owners[0]])
        after, steps = _Node(node.layout, node.done | {dim}), ()
        if not problem.across:
            after, steps = _transformed(problem, after)
        yield price, after, (Across(operation, dim, owners[0]), *steps)


def _price_across(problem: Problem, held: int, dim: int, devices: int) -> int:
    """Returns the numbers that a device receives: three exchanges of both parts, or Bluestein's."""
    line = problem.lines[dim]
    length = line.length or 1
    times = (
        1 if has_rows_and_columns(length, devices) else 3 * padded_length(length, devices) // length
    )
    return 2 * 3 * times * held * -(-length // max(line.given, 1))


def _transformed(problem: Problem, node: _Node) -> tuple[_Node, tuple[Step, ...]]:
    """Returns the node after all transforms that are possible, and these transforms."""
    whole = {dim for dim in problem.dims if not node.layout.owners[dim]}
    steps: list[Step] = []
    done = node.done
    while dims := _possible(problem, done, whole):
        steps.append(Transformed(_operation(problem, dims), dims))
        done = done | set(dims)
    return replace(node, done=done), tuple(steps)


def _possible(
    problem: Problem, done: frozenset[int], whole: set[int] | frozenset[int]
) -> tuple[int, ...]:
    """Returns the dimensions among `whole` that could be transformed now, in the order of `dims`.

    The last of `dims` makes real numbers complex, before all others, or real again, after all
    others.
    """
    left = [dim for dim in problem.dims if dim not in done]
    possible = [dim for dim in left if dim in whole]
    last = problem.dims[-1] if problem.dims else None
    if problem.operation == "whole" and len(possible) < len(left):
        return ()
    if problem.operation == "r2c" and not done and last not in possible:
        return ()
    if problem.operation == "c2r" and len(possible) < len(left):
        possible = [dim for dim in possible if dim != last]
    return tuple(possible)


def _operation(problem: Problem, dims: tuple[int, ...]) -> str:
    return problem.operation if problem.dims[-1] in dims else "c2c"


def _parts(problem: Problem, node: _Node) -> int:
    if problem.operation == "c2r":
        return 1 if len(node.done) == len(problem.dims) else 2
    return 1 if problem.is_real and not node.done else 2


def sizes_of(problem: Problem, done: frozenset[int]) -> tuple[int, ...]:
    """Returns the shape of the whole tensor after some dimensions are transformed."""
    return tuple(line.left if dim in done else line.given for dim, line in enumerate(problem.lines))
