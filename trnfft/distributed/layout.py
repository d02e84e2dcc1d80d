"""Which part of a tensor each device holds: a box, an interval of every dimension.

Along a dimension that devices split, these have the chunks of torch.chunk, as with DTensor:
ceil(n / p) numbers each, the last ones fewer or none. Where several dimensions of the mesh split
one dimension of the tensor, each splits the chunks of the ones before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard

Owners = tuple[tuple[int, ...], ...]  # the mesh dimensions that split each dimension, in order


class Interval(NamedTuple):
    """The indices start ... stop - 1."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def overlap(self, other: Interval) -> Interval:
        """What both have, of size 0 where that is nothing."""
        start = max(self.start, other.start)
        return Interval(start, max(start, min(self.stop, other.stop)))

    def chunk(self, index: int, count: int) -> Interval:
        """The chunk of this index, of so many."""
        size = -(-self.size // count)
        start = min(self.start + index * size, self.stop)
        return Interval(start, min(start + size, self.stop))


Box = tuple[Interval, ...]


@dataclass(frozen=True)
class Layout:
    """How the devices of a mesh split a tensor.

    Attributes:
        mesh: the shape of the mesh.
        owners: for each dimension of the tensor the mesh dimensions that split it, in this order.
            A mesh dimension that occurs nowhere holds copies, or has a single device.
    """

    mesh: tuple[int, ...]
    owners: Owners

    def box(self, shape: Sequence[int], coordinate: Sequence[int]) -> Box:
        """What the device at these coordinates of the mesh holds of a tensor of this shape."""
        box = []
        for size, owners in zip(shape, self.owners, strict=True):
            interval = Interval(0, size)
            for owner in owners:
                interval = interval.chunk(coordinate[owner], self.mesh[owner])
            box.append(interval)
        return tuple(box)

    def boxes(self, shape: Sequence[int], coordinate: Sequence[int], along: int) -> list[Box]:
        """The boxes of all devices along one dimension of the mesh, through these coordinates."""
        return [
            self.box(shape, (*coordinate[:along], index, *coordinate[along + 1 :]))
            for index in range(self.mesh[along])
        ]

    def largest(self, shape: Sequence[int]) -> int:
        """The most numbers that a device holds, which the first one does."""
        return math.prod(interval.size for interval in self.box(shape, (0,) * len(self.mesh)))

    def moved(self, source: int, target: int) -> Layout:
        """The last owner of one dimension as the last one of another."""
        owners = list(self.owners)
        owners[target] = (*owners[target], owners[source][-1])
        owners[source] = owners[source][:-1]
        return Layout(self.mesh, tuple(owners))

    def moves(self) -> Iterator[tuple[int, int]]:
        """The dimensions between which an owner can move."""
        for source, owners in enumerate(self.owners):
            if owners:
                yield from ((source, target) for target in range(len(self.owners)))

    def placements(self) -> tuple[Placement, ...]:
        """As DTensor has it, where the owners of each dimension are sorted."""
        found: list[Placement] = [Replicate()] * len(self.mesh)
        for dim, owners in enumerate(self.owners):
            for owner in owners:
                found[owner] = Shard(dim)
        return tuple(found)


def layout_of(
    name: str, placements: Sequence[Placement], mesh: tuple[int, ...], shape: Sequence[int]
) -> Layout:
    """The layout of DTensor's placements, those of the argument of this name, of this shape.

    Of _StridedShard, which FSDP makes of parameters that are split already, the split factor says
    after how many shards of later mesh dimensions it comes.

    Raises:
        NotImplementedError: one is neither Shard nor Replicate, or is a _StridedShard that others
            say nothing of, or that is uneven: torch has other shards of these than FSDP.
        RuntimeError: they are not as many as the mesh has dimensions.
        IndexError: there is no such dimension.
    """
    ndim = len(shape)
    if len(placements) != len(mesh):
        raise RuntimeError(
            f"argument '{name}' has {len(placements)} placements, allowed are {len(mesh)}: one for "
            f"each dimension of the mesh"
        )
    owners: list[tuple[int, ...]] = [()] * ndim
    for owner, placement in reversed(list(enumerate(placements))):
        if type(placement) is Replicate:
            continue
        if type(placement) not in (Shard, _StridedShard):
            raise NotImplementedError(
                f"argument '{name}' has the placement {placement!r}, allowed are Shard and "
                f"Replicate; use x.redistribute(placements=...) before"
            )
        dim = placement.dim  # type: ignore[attr-defined]
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"argument '{name}' has {placement!r}, allowed are {-ndim} to {ndim - 1} for "
                f"an input of {ndim} dimensions"
            )
        later, factor = owners[dim % ndim], getattr(placement, "split_factor", 1)
        before = [math.prod(mesh[i] for i in later[:count]) for count in range(len(later) + 1)]
        count = math.prod(mesh[i] for i in (owner, *later))
        if factor not in before or factor > 1 and shape[dim] % count:
            raise NotImplementedError(
                f"argument '{name}' has the placements {tuple(placements)}, allowed is a "
                f"_StridedShard of {shape[dim]} numbers only where the shards of later dimensions "
                f"of the mesh, here {before[-1]}, are its split factor and all are equal; use "
                f"x.redistribute(placements=...) before"
            )
        if mesh[owner] > 1:
            at = before.index(factor)
            owners[dim % ndim] = (*later[:at], owner, *later[at:])
    return Layout(mesh, tuple(owners))
