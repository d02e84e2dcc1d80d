"""Transforms of DTensors: each device has a shard, and never more than a few of that size.

    route          which dimensions to bring together when: `route.py`
    exchanges      all-to-all between the devices along one dimension of the mesh: `exchange.py`
    transforms     of what a device has whole: `trnfft.ops`, by the chosen backend
    four steps     of one dimension that stays split: `four_step.py`

Dimensions that are not transformed may be split in any way, without communication. All devices
compare what they were asked for before the first exchange: `agreement.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.placement_types import Placement

from trnfft.backends.backend import Call
from trnfft.base.cache import cached
from trnfft.base.memory import check_memory
from trnfft.complex.dtensor import (
    Kind,
    contiguous_strides,
    distributed,
    is_pending,
    local_of,
    summed_placements,
    without_partial,
)
from trnfft.complex.parts import join, parts_to_transform
from trnfft.complex.tensor import ComplexTensor
from trnfft.distributed.dtensor import check_fits, misfit
from trnfft.distributed.layout import Interval, Layout, layout_of
from trnfft.distributed.model.legs import Leg, Legs
from trnfft.distributed.model.route import (
    Across,
    Exchanged,
    Line,
    Problem,
    Transformed,
    final_layout,
    route,
    sizes_of,
)
from trnfft.distributed.run import agreement, blocks, four_step, overlap
from trnfft.distributed.run.blocks import Held, Rows, of_last
from trnfft.distributed.run.exchange import (
    Boxes,
    Exchange,
    Parts,
    boxes_of,
    coordinate_of,
    exchanged,
)
from trnfft.distributed.run.exclusive_exchanges import exclusive
from trnfft.distributed.run.four_step import Devices, aligned, chunks
from trnfft.ops import many_devices
from trnfft.ops import transforms as ops
from trnfft.ops.operand import operand_of

_MOST_KEPT = 2**12  # plans that are kept, and the devices of their exchanges
_SHARDS = "shards of 'input'"


Kept = Mapping[int, tuple[int, int]]
NOTHING: Kept = MappingProxyType({})


def transform(
    x: torch.Tensor | ComplexTensor,
    call: Call,
    placements: tuple[Placement, ...] | None = None,
    kept: Kept = NOTHING,
) -> Any:
    """Transforms a DTensor, or a ComplexTensor whose parts are DTensors. Differentiable.

    Args:
        x: the input, with parts in float32 or float64.
        call: the transform, with a named norm.
        placements: placements of the result; None for those of the input, () for the cheapest.
        kept: for some dimensions, the start and the size of what is kept of the result.

    Returns:
        A DTensor for "c2r", else a ComplexTensor of two.

    Raises:
        NotImplementedError: a placement is not known, no decomposition is possible, or the backend
            cannot transform a length.
        RuntimeError: the devices were not asked for the same, or one of them has failed.
    """
    given = dtensors_of(x)
    mesh = given[0].device_mesh
    plan = _plan(_Given.of(given, call, placements, tuple(kept.items())))
    wrong = misfit(given, plan.shard)
    meets = plan.exchanges or any(map(is_pending, given))
    with exclusive(mesh, meets):
        if meets and not torch.compiler.is_compiling():  # a graph cannot contain the comparison
            agreement.check(given, {**plan.described, _SHARDS: wrong or "as placed"})
        check_fits(wrong)
        made = plan.run([local_of(without_partial(part)) for part in given], mesh)
    kind = Kind(mesh, plan.placements, plan.shape, plan.stride)
    results = tuple(distributed(part, kind) for part in made)
    return results[0] if call.kind == "c2r" else join(*results)


many_devices.FUNCTIONS["transform"] = transform


def dtensors_of(x: torch.Tensor | ComplexTensor) -> list[DTensor]:
    """Returns the one or two DTensors of an input."""
    parts = parts_to_transform(x) if isinstance(x, ComplexTensor) else (x,)
    dtensors = [part for part in parts if isinstance(part, DTensor)]
    if len(dtensors) < len(parts):
        raise TypeError(
            "argument 'input' has one part that is a DTensor and one that is not, allowed are two "
            "DTensors; distribute the other part, with torch.distributed.tensor.distribute_tensor"
        )
    return dtensors


class _Given(NamedTuple):
    """All on which a plan depends: arguments of a transform, its input, and the settings.

    Attributes:
        call, wanted, kept: the arguments of `transform`.
        is_real: whether the input is one tensor of real numbers.
        shape, itemsize: the input's shape, and the bytes of a real number.
        placements: the input's placements after pending sums are carried out.
        types: the types of all placements; torch lets some of different types be equal.
        device, mesh: the type of the devices, and the shape of their mesh.
        coordinate: the coordinates of this device.
        settings: the settings of `overlap.chunks_of`.
    """

    call: Call
    wanted: tuple[Placement, ...] | None
    kept: tuple[tuple[int, tuple[int, int]], ...]
    is_real: bool
    shape: tuple[int, ...]
    itemsize: int
    placements: tuple[Placement, ...]
    types: tuple[type, ...]
    device: str
    mesh: tuple[int, ...]
    coordinate: tuple[int, ...]
    settings: Any

    @staticmethod
    def of(
        parts: Sequence[DTensor],
        call: Call,
        wanted: tuple[Placement, ...] | None,
        kept: tuple[tuple[int, tuple[int, int]], ...],
    ) -> _Given:
        """Returns what is given by these DTensors, in this context."""
        like = parts[0]
        mesh, placements = like.device_mesh, summed_placements(like)
        return _Given(
            call,
            wanted,
            kept,
            len(parts) == 1,
            tuple(map(int, like.shape)),
            like.element_size(),
            placements,
            tuple(map(type, (*placements, *(wanted or ())))),
            mesh.device_type,
            tuple(mesh.shape),
            coordinate_of(mesh),
            overlap.settings_of(mesh.device_type),
        )

    def problem(self) -> Problem:
        """Returns the routing problem."""
        call = self.call
        source = layout_of("input", self.placements, self.mesh, self.shape)
        lines = _lines(self.shape, call, dict(self.kept))
        target = None
        if self.wanted != ():
            wanted = self.placements if self.wanted is None else self.wanted
            target = layout_of("out_placements", wanted, self.mesh, [line.left for line in lines])
            _check_copies(self.placements, wanted, self.mesh)
        is_across = call.planned and bool(source.owners[call.dims[0]])
        return Problem(call.kind, lines, call.dims, self.is_real, is_across, source, target)


class _Step(NamedTuple):
    """A leg with what follows for this device."""

    leg: Leg
    before: Boxes | None
    after: Boxes | None
    rows: Rows | None
    made: tuple[int, ...]

    @staticmethod
    def of(leg: Leg, given: _Given, problem: Problem) -> _Step:
        """Returns the step of a leg."""

        def boxes(step: Exchanged | None, layout: Layout, done: frozenset[int]) -> Boxes | None:
            if step is None:
                return None
            after, sizes = layout.moved(step.source, step.target), sizes_of(problem, done)
            return boxes_of(given.coordinate, step.along, sizes, layout, after)

        before = boxes(leg.before, leg.layout, leg.done)
        after = boxes(leg.after, leg.between, leg.following.done)
        rows = None
        made = leg.between.local_shape(sizes_of(problem, leg.done), given.coordinate)
        if isinstance(leg.step, Transformed):
            rows = _rows(leg, leg.step, given)
            lengths = dict(zip(given.call.dims, given.call.sizes, strict=True))
            made = tuple(
                lengths[dim] if dim in leg.step.dims else size for dim, size in enumerate(made)
            )
        return _Step(leg, before, after, rows, made)

    def exchange_before(self, mesh: DeviceMesh, last: tuple[int, ...] = ()) -> Exchange | None:
        """Returns the exchange before the transform, which makes dimensions last in memory."""
        step, boxes = self.leg.before, self.before
        return Exchange(mesh.get_group(step.along), boxes, last) if step and boxes else None

    def exchange_after(self, mesh: DeviceMesh) -> Exchange | None:
        """Returns the exchange after the transform."""
        step, boxes = self.leg.after, self.after
        return Exchange(mesh.get_group(step.along), boxes) if step and boxes else None


@dataclass(frozen=True, eq=False)
class _Plan:
    """The work of this device, one step after the other. It holds neither a mesh nor its groups.

    Attributes:
        given: what it depends on.
        problem, steps: the routing problem, and the legs of its route.
        shard: the shape of this device's shard of the input.
        exchanges: whether there are exchanges.
        placements, shape, stride: those of the result.
        described: what all devices have to be asked for, as `agreement.check` needs it.
    """

    given: _Given
    problem: Problem
    steps: tuple[_Step, ...]
    shard: tuple[int, ...]
    exchanges: bool
    placements: tuple[Placement, ...]
    shape: torch.Size
    stride: tuple[int, ...]
    described: dict[str, str]

    @property
    def size(self) -> int:
        """Returns a measure of the memory."""
        boxes = [x for step in self.steps for x in (step.before, step.after) if x]
        return 1 + sum(x.count for x in boxes)

    def run(self, parts: Held, mesh: DeviceMesh) -> Parts:
        """Returns the one or two parts of the result, from those of this device's shard."""
        if not self.steps:  # there is nothing to transform: real numbers become complex
            function = functools.partial(ops.c2c, sizes=(), dims=(), inverse=False, norm="backward")
            parts = blocks.transformed(parts, Rows(of_last(function, ()), None))
        for step in self.steps:
            done = step.leg.step
            if isinstance(done, Across):
                parts = self._across(parts, step.leg, done, mesh)
            elif done and step.rows:
                _check_fits(parts[0], step.made)
                before = step.exchange_before(mesh, done.dims)
                parts = blocks.transformed(parts, step.rows, before, step.exchange_after(mesh))
            elif before := step.exchange_before(mesh):
                parts = exchanged(parts, before)
        return tuple(part.contiguous() for part in parts)

    def _across(self, parts: Held, leg: Leg, step: Across, mesh: DeviceMesh) -> Held:
        """Transforms a dimension of which every device along the mesh has a chunk."""
        line, given = self.problem.lines[step.dim], self.given
        group = mesh.get_group(step.along)
        devices = Devices(group, given.coordinate[step.along], given.mesh, step.along)
        four_step.check_longest(line.length or 1)
        moved = [part.movedim(step.dim, -1) for part in parts]
        parts.clear()
        held, length = line.given, line.length or 1
        if len(moved) == 1:
            moved.append(torch.zeros_like(moved[0]))
        if step.operation == "c2r":
            moved, held = _weighted(moved, held, length, devices), length // 2 + 1
        assert leg.long is not None
        made = four_step.transformed(moved, held, leg.long, devices)
        if step.operation == "c2r":
            del made[1]
        start, size = line.kept
        wanted = [
            Interval(start + chunk.start, start + chunk.stop)
            for chunk in chunks(size, devices.count)
        ]
        made = aligned(made, chunks(length, devices.count), wanted, devices)
        return [part.movedim(-1, step.dim) for part in made]


@cached(_MOST_KEPT, lambda plan: plan.size)
def _plan(given: _Given) -> _Plan:
    """Returns the plan of a transform."""
    call, problem = given.call, given.problem()
    placements = given.placements if given.wanted is None else given.wanted
    if problem.target is None:
        placements = final_layout(problem).placements()
    legs = tuple(Legs(problem, call.inverse, str(call.norm), given.device, given.itemsize))
    shape = torch.Size(sizes_of(problem, frozenset(call.dims)))
    return _Plan(
        given,
        problem,
        tuple(_Step.of(leg, given, problem) for leg in legs),
        problem.source.local_shape(given.shape, given.coordinate),
        any(not isinstance(step, Transformed) for step in route(problem)),
        placements,
        shape,
        contiguous_strides(shape),
        _described(given, legs),
    )


def _rows(leg: Leg, step: Transformed, given: _Given) -> Rows:
    """Returns the transform of dimensions that this device has whole; what is kept of it."""
    call, kept = given.call, dict(given.kept)
    lengths = dict(zip(call.dims, call.sizes, strict=True))
    sizes = tuple(lengths[dim] for dim in step.dims)
    last = tuple(range(len(given.shape) - len(sizes), len(given.shape)))
    own = call._replace(kind=step.operation, sizes=sizes, dims=last)

    def function(x: torch.Tensor) -> Any:
        y: Any = ops.transformed(operand_of(x), own)
        for dim, moved in zip(step.dims, last, strict=True):
            if dim in kept:
                y = y.narrow(moved, *kept[dim])
        return y

    dims = None if leg.dim is None else (leg.dim, leg.dim)
    return Rows(of_last(function, step.dims), dims, *leg.chunks)


def _weighted(parts: Held, given: int, length: int, devices: Devices) -> Held:
    """Weights half a spectrum so that the real part of its transform is that of the whole one.

    Numbers whose conjugates are not there count twice.
    """
    half = length // 2 + 1
    wanted = chunks(half, devices.count)
    own = wanted[devices.rank]
    parts = aligned(parts, chunks(given, devices.count), wanted, devices)
    index = torch.arange(own.start, own.stop, device=parts[0].device)
    weights = 2.0 - ((index == 0) | (2 * index == length)).to(parts[0])
    return [part * weights for part in parts]


def _lines(shape: Sequence[int], call: Call, kept: Kept) -> tuple[Line, ...]:
    """Returns what happens along each dimension."""
    lines = [Line(size, None, (0, size)) for size in shape]
    for dim, length in zip(call.dims, call.sizes, strict=True):
        is_half = call.kind == "r2c" and dim == call.dims[-1]
        size = length // 2 + 1 if is_half else length
        lines[dim] = Line(shape[dim], length, kept.get(dim, (0, size)))
    return tuple(lines)


def _check_copies(
    given: Sequence[Placement], wanted: Sequence[Placement], mesh: Sequence[int]
) -> None:
    """Checks that shards stay shards and copies stay copies."""
    for owner, (before, after) in enumerate(zip(given, wanted, strict=True)):
        is_same = isinstance(before, Replicate) == isinstance(after, Replicate)
        if not is_same and mesh[owner] > 1:
            raise RuntimeError(
                f"argument 'out_placements' has {after!r} for dimension {owner} of the mesh, where "
                f"argument 'input' has {before!r}; shards stay shards and copies copies, see "
                f"DTensor.redistribute for the others"
            )


def _check_fits(part: torch.Tensor, shape: Sequence[int]) -> None:
    """Checks that this device has the memory for its part of the result."""
    check_memory(
        f"argument 'input' has shards that become {tuple(shape)}",
        shape,
        part.element_size(),
        part.device,
    )


def _described(given: _Given, legs: Sequence[Leg]) -> dict[str, str]:
    """Returns what all devices of exchanges or pending sums have to be asked for."""
    call = given.call
    return {
        "transform": f"{call.kind}, inverse={call.inverse}",
        _SHARDS: "",  # which each call checks
        "'out_placements'": str(given.wanted),
        "lengths": str(call.sizes),
        "'dim'": str(call.dims),
        "'norm'": str(call.norm),
        "'order'": "planned" if call.planned else "natural",
        "part that is kept": str(sorted(given.kept)),
        "chunks of exchanges": str([leg.chunks for leg in legs]),
    }
