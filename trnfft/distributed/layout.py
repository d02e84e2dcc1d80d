"""The part of a tensor that each device holds: a box, which is an interval of every dimension.

Devices that split a dimension have the chunks of torch.chunk, as with DTensor: ceil(n / p) numbers
each, the last ones fewer or none. Where several dimensions of the mesh split one dimension of the
tensor, each of them splits the chunks of the ones before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from trnfft.base.torch_private import strided_shard

# for each dimension, the mesh dimensions that split it, in order
Owners = tuple[tuple[int, ...], ...]


class Interval(NamedTuple):
    """The indices start ... stop - 1."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def overlap(self, other: Interval) -> Interval:
        """Returns the common part of two intervals, of size 0 where there is none."""
        start = max(self.start, other.start)
        return Interval(start, max(start, min(self.stop, other.stop)))

    def chunk(self, index: int, count: int) -> Interval:
        """Returns one of `count` chunks."""
        size = -(-self.size // count)
        start = min(self.start + index * size, self.stop)
        return Interval(start, min(start + size, self.stop))


Box = tuple[Interval, ...]


@dataclass(frozen=True)
class Layout:
    """How the devices of a mesh split a tensor.

    Attributes:
        mesh: the shape of the mesh.
        owners: for each dimension of the tensor, the mesh dimensions that split it, in this order.
            A mesh dimension that occurs nowhere holds copies, or has a single device.
    """

    mesh: tuple[int, ...]
    owners: Owners

    def box(self, shape: Sequence[int], coordinate: Sequence[int]) -> Box:
        """Returns what the device at these coordinates of the mesh holds of such a tensor."""
        box = []
        for size, owners in zip(shape, self.owners, strict=True):
            interval = Interval(0, size)
            for owner in owners:
                interval = interval.chunk(coordinate[owner], self.mesh[owner])
            box.append(interval)
        return tuple(box)

    def local_shape(self, shape: Sequence[int], coordinate: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of what the device at these coordinates holds of such a tensor."""
        return tuple(interval.size for interval in self.box(shape, coordinate))

    def boxes(self, shape: Sequence[int], coordinate: Sequence[int], along: int) -> list[Box]:
        """Returns the boxes of all devices along one mesh dimension, through these coordinates."""
        return [
            self.box(shape, (*coordinate[:along], index, *coordinate[along + 1 :]))
            for index in range(self.mesh[along])
        ]

    def largest(self, shape: Sequence[int]) -> int:
        """Returns the most numbers that any device holds; the first device holds as many."""
        return math.prod(interval.size for interval in self.box(shape, (0,) * len(self.mesh)))

    def moved(self, source: int, target: int) -> Layout:
        """Returns the layout with the last owner of one dimension as the last one of another."""
        owners = list(self.owners)
        owners[target] = (*owners[target], owners[source][-1])
        owners[source] = owners[source][:-1]
        return Layout(self.mesh, tuple(owners))

    def moves(self) -> Iterator[tuple[int, int]]:
        """Yields the pairs of dimensions between which an owner can move."""
        for source, owners in enumerate(self.owners):
            if owners:
                yield from ((source, target) for target in range(len(self.owners)))

    def placements(self) -> tuple[Placement, ...]:
        """Returns the placements of DTensor, for owners that are sorted in each dimension."""
        placements: list[Placement] = [Replicate()] * len(self.mesh)
        for dim, owners in enumerate(self.owners):
            for owner in owners:
                placements[owner] = Shard(dim)
        return tuple(placements)


def layout_of(
    name: str, placements: Sequence[Placement], mesh: tuple[int, ...], shape: Sequence[int]
) -> Layout:
    """Returns the layout of DTensor's placements for a tensor of this shape.

    FSDP makes a _StridedShard of parameters that are split already. Its split factor is the number
    of shards of later mesh dimensions after which it comes.

    Args:
        name: the argument that has these placements.
        placements: one for each dimension of the mesh.
        mesh: the shape of the mesh.
        shape: the shape of the tensor.

    Raises:
        NotImplementedError: a placement is neither Shard nor Replicate, or is a _StridedShard whose
            factor does not fit the others, or that is uneven: for these torch has other shards than
            FSDP.
        RuntimeError: there are not as many placements as the mesh has dimensions.
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
        if type(placement) not in (Shard, strided_shard()):
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
                f"_StridedShard of {shape[dim]} numbers only where all shards are equal and its "
                f"split factor is the number of shards of later dimensions of the mesh, here "
                f"{before[-1]}; use x.redistribute(placements=...) before"
            )
        if mesh[owner] > 1:
            at = before.index(factor)
            owners[dim % ndim] = (*later[:at], owner, *later[at:])
    return Layout(mesh, tuple(owners))
