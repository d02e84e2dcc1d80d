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
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.placement_types import Placement

from trnfft.backends.backend import Call
from trnfft.complex.dtensor import (
    Kind,
    distributed,
    is_pending,
    local_of,
    summed_placements,
    without_partial,
)
from trnfft.complex.tensor import ComplexTensor, join, parts_of, to_transform
from trnfft.distributed import agreement, blocks, four_step
from trnfft.distributed.blocks import Held, Rows, of_last
from trnfft.distributed.dtensor import check_fits, misfit
from trnfft.distributed.exchange import Exchange, Parts, coordinate_of, exchanged
from trnfft.distributed.four_step import Devices, aligned, chunks
from trnfft.distributed.layout import Interval, Layout, layout_of
from trnfft.distributed.route import (
    Across,
    Exchanged,
    Line,
    Problem,
    Transformed,
    final_layout,
    route,
    sizes_of,
)
from trnfft.distributed.stages import Stage, Stages
from trnfft.distributed.turns import turn
from trnfft.memory import check_memory
from trnfft.ops import across
from trnfft.ops import transforms as ops

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
    job = _Job.of(given, call, placements, kept)
    wrong = misfit(given, job.problem.source)
    steps = route(job.problem)
    meets = any(not isinstance(step, Transformed) for step in steps) or any(map(is_pending, given))
    with turn(job.mesh, meets):
        if meets and not torch.compiler.is_compiling():  # a graph cannot contain the comparison
            _check(given, job, wrong)
        check_fits(wrong)
        made = job.run([local_of(without_partial(part)) for part in given])
    shape = sizes_of(job.problem, frozenset(call.dims))
    kind = Kind.in_rows(job.mesh, job.placements, shape)
    results = tuple(distributed(part, kind) for part in made)
    return results[0] if call.kind == "c2r" else join(*results)


across.FUNCTIONS["transform"] = transform


def dtensors_of(x: torch.Tensor | ComplexTensor) -> list[DTensor]:
    """Returns the one or two DTensors of an input."""
    parts = parts_of(x) if isinstance(x, ComplexTensor) else (x,)
    found = [part for part in parts if isinstance(part, DTensor)]
    if len(found) < len(parts):
        raise TypeError(
            "argument 'input' has one part that is a DTensor and one that is not, allowed are two "
            "DTensors; distribute the other part, with torch.distributed.tensor.distribute_tensor"
        )
    return found


@dataclass(frozen=True)
class _Job:
    """The work of this device, one step after the other.

    Attributes:
        call, wanted, kept: the arguments of `transform`.
        problem, stages: the routing problem, and the stages of its route.
        mesh: the devices.
        coordinate: the coordinates of this device.
        placements: the placements of the result.
    """

    call: Call
    wanted: tuple[Placement, ...] | None
    kept: Kept
    problem: Problem
    stages: tuple[Stage, ...]
    mesh: DeviceMesh
    coordinate: tuple[int, ...]
    placements: tuple[Placement, ...]

    @staticmethod
    def of(
        parts: Sequence[DTensor], call: Call, asked: tuple[Placement, ...] | None, kept: Kept
    ) -> _Job:
        """Returns the job for these DTensors."""
        like = parts[0]
        mesh, placements = like.device_mesh, summed_placements(like)
        coordinate = coordinate_of(mesh)
        shape = tuple(mesh.shape)
        source = layout_of("input", placements, shape, like.shape)
        target = None
        if asked != ():
            wanted = placements if asked is None else asked
            left = [line.left for line in _lines(tuple(like.shape), call, kept)]
            target = layout_of("out_placements", wanted, shape, left)
            _check_copies(placements, wanted, shape)
        problem = Problem(
            call.kind,
            _lines(tuple(map(int, like.shape)), call, kept),
            call.dims,
            len(parts) == 1,
            call.planned and bool(source.owners[call.dims[0]]),
            source,
            target,
        )
        if target is None:
            wanted = final_layout(problem).placements()
        device, itemsize = mesh.device_type, like.element_size()
        stages = tuple(Stages(problem, call.inverse, str(call.norm), device, itemsize))
        return _Job(call, asked, kept, problem, stages, mesh, coordinate, wanted)

    def run(self, parts: Held) -> Parts:
        """Returns the one or two parts of the result, from those of this device's shard."""
        if not self.stages:  # there is nothing to transform: real numbers become complex
            function = functools.partial(ops.c2c, sizes=(), dims=(), inverse=False, norm="backward")
            parts = blocks.transformed(parts, Rows(of_last(function, ()), None))
        for stage in self.stages:
            if isinstance(stage.step, Across):
                parts = self._across(parts, stage, stage.step)
            elif stage.step:
                parts = self._transformed(parts, stage, stage.step)
            elif stage.before:
                parts = exchanged(parts, self._exchange(stage.before, stage.layout, stage.done))
        return tuple(part.contiguous() for part in parts)

    def _exchange(self, step: Exchanged, before: Layout, done: frozenset[int]) -> Exchange:
        sizes, after = sizes_of(self.problem, done), before.moved(step.source, step.target)
        return Exchange.of_layouts(self.mesh, step.along, sizes, before, after)

    def _transformed(self, parts: Held, stage: Stage, step: Transformed) -> Held:
        """Transforms dimensions that this device has whole; returns what is kept of the results."""
        call, kept = self.call, self.kept
        lengths = dict(zip(call.dims, call.sizes, strict=True))
        sizes = tuple(lengths[dim] for dim in step.dims)
        before = after = None
        shape = parts[0].shape
        if stage.before:
            before = self._exchange(stage.before, stage.layout, stage.done)
            before = replace(before, last=step.dims)
            shape = torch.Size(interval.size for interval in before.target)
        if stage.after:
            after = self._exchange(stage.after, stage.between, stage.following.done)
        _check_fits(parts[0], shape, step.dims, sizes)

        last = tuple(range(len(shape) - len(sizes), len(shape)))

        def function(x: Any) -> Any:
            own = call._replace(kind=step.operation, sizes=sizes, dims=last)
            y: Any = ops.transformed(*to_transform(x), own)
            for dim, moved in zip(step.dims, last, strict=True):
                if dim in kept:
                    y = y.narrow(moved, *kept[dim])
            return y

        dims = None if stage.dim is None else (stage.dim, stage.dim)
        rows = Rows(of_last(function, step.dims), dims, *stage.chunks)
        return blocks.transformed(parts, rows, before, after)

    def _across(self, parts: Held, stage: Stage, step: Across) -> Held:
        """Transforms a dimension of which every device along the mesh has a chunk."""
        line = self.problem.lines[step.dim]
        shape = self.problem.source.mesh
        group = self.mesh.get_group(step.along)
        devices = Devices(group, self.coordinate[step.along], shape, step.along)
        four_step.check_longest(line.length or 1)
        moved = [part.movedim(step.dim, -1) for part in parts]
        parts.clear()
        given, length = line.given, line.length or 1
        if len(moved) == 1:
            moved.append(torch.zeros_like(moved[0]))
        if step.operation == "c2r":
            moved, given = _weighted(moved, given, length, devices), length // 2 + 1
        assert stage.long is not None
        made = four_step.transformed(moved, given, stage.long, devices)
        if step.operation == "c2r":
            del made[1]
        start, size = line.kept
        wanted = [
            Interval(start + chunk.start, start + chunk.stop)
            for chunk in chunks(size, devices.count)
        ]
        made = aligned(made, chunks(length, devices.count), wanted, devices)
        return [part.movedim(-1, step.dim) for part in made]


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
    """Checks that shards stay shards and copies stay copies.

    Raises:
        RuntimeError: copies are to become shards, or shards copies.
    """
    for owner, (before, after) in enumerate(zip(given, wanted, strict=True)):
        is_same = isinstance(before, Replicate) == isinstance(after, Replicate)
        if not is_same and mesh[owner] > 1:
            raise RuntimeError(
                f"argument 'out_placements' has {after!r} for dimension {owner} of the mesh, where "
                f"argument 'input' has {before!r}; shards stay shards and copies copies, see "
                f"DTensor.redistribute for the others"
            )


def _check_fits(
    part: torch.Tensor, before: torch.Size, dims: Sequence[int], sizes: Sequence[int]
) -> None:
    """Checks that this device has the memory for its part of the result.

    Raises:
        RuntimeError: it does not.
    """
    shape = list(before)
    for dim, size in zip(dims, sizes, strict=True):
        shape[dim] = size
    check_memory(
        f"argument 'input' has shards that become {tuple(shape)}",
        shape,
        part.element_size(),
        part.device,
    )


def _check(parts: Sequence[DTensor], job: _Job, wrong: str) -> None:
    """Checks that all devices of exchanges or pending sums were asked for the same.

    Raises:
        RuntimeError: they were not.
    """
    call = job.call
    described = {
        "transform": f"{call.kind}, inverse={call.inverse}",
        "shards of 'input'": wrong or "as placed",
        "'out_placements'": str(job.wanted),
        "lengths": str(call.sizes),
        "'dim'": str(call.dims),
        "'norm'": str(call.norm),
        "'order'": "planned" if call.planned else "natural",
        "part that is kept": str(sorted(job.kept.items())),
        "chunks of exchanges": str([stage.chunks for stage in job.stages]),
    }
    agreement.check(parts, described)
