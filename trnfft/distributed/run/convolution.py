"""Convolution of DTensors by transforms, with half of their exchanges.

    y = F^-1 (F x . F h)

The product does not depend on where a frequency is stored: spectra stay where the last forward
transform leaves them, and the inverse starts there. With a slab decomposition each transform takes
one exchange in place of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from trnfft.backends.backend import Call
from trnfft.complex.dtensor import (
    Kind,
    distributed,
    local_of,
    summed_placements,
)
from trnfft.complex.kinds import of_kind
from trnfft.complex.parts import is_sharded, join, parts_of, real_tensors_of
from trnfft.complex.sharded import replicated_on
from trnfft.complex.tensor import ComplexTensor
from trnfft.distributed.dtensor import local_copy_of
from trnfft.distributed.functions import check_sharded
from trnfft.distributed.layout import layout_of
from trnfft.distributed.run.exchange import coordinate_of
from trnfft.distributed.run.transforms import dtensors_of, transform
from trnfft.functions import convolve as local
from trnfft.functions.arguments import check_choice
from trnfft.ops import many_devices


def convolve(
    input: torch.Tensor | ComplexTensor,
    filter: torch.Tensor | ComplexTensor,
    mode: str = "full",
    dims: int | Iterable[int] | None = None,
) -> Any:
    """Returns `trnfft.convolve` of a DTensor.

    See `docs/distributed.md`.

    Args:
        input: a real or complex DTensor, or a ComplexTensor of two DTensors.
        filter: the same on the same mesh, or a tensor of which every device has a copy.
        mode, dims: as for `trnfft.convolve`.

    Returns:
        A tensor with the placements of `input` and its shape, except along `dims`. It is a real
        DTensor or, where an operand is complex, a ComplexTensor of two DTensors.

    Raises:
        TypeError: an argument has the wrong type, or `input` is not a DTensor.
        IndexError, ValueError, NotImplementedError: as `trnfft.convolve`; ValueError also for a
            filter on another mesh.
        RuntimeError: as `trnfft.distributed.fftn`.

    Examples:
        >>> import torch, trnfft
        >>> from torch.distributed import HashStore, destroy_process_group, init_process_group
        >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> init_process_group("gloo", store=HashStore(), rank=0, world_size=1)  # one process
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(torch.ones(2, 8), mesh, [Shard(0)])
        >>> trnfft.distributed.convolve(x, torch.ones(3), dims=1).shape
        torch.Size([2, 10])
        >>> destroy_process_group()
    """
    check_sharded("input", input)
    return many_devices.call("convolve", input, filter, mode, dims)


def convolved(
    input: torch.Tensor, filter: torch.Tensor, mode: str, dims: int | Iterable[int] | None
) -> Any:
    """Computes `convolve`, also inside a graph."""
    check_choice("mode", mode, local.MODES)
    x, h, axes = given = local.operands(input, filter, "full", dims)
    mesh, placements = _placed(x)
    _check_filter(h, mesh, placements)
    if mode == "valid":
        x, h = local.longer_first(x, h, axes)
    if x is not given[0] and _are_copies(x):
        x = _shards_of_copies(x, mesh, placements)
    split = {p.dim % x.ndim for p in _placed(x)[1] if isinstance(p, Shard)}
    # the last of these is transformed first, and should be whole
    axes.sort(key=lambda dim: dim not in split)
    kept = local.kept_of(mode, x, h, axes)
    sizes = tuple(local.fast_length(x.shape[dim] + h.shape[dim] - 1, x.device) for dim in axes)
    is_real = not x.is_complex() and not h.is_complex()
    forward = Call("r2c" if is_real else "c2c", False, sizes, tuple(axes))
    product = _product(transform(x, forward, ()), h, forward)
    backward = forward._replace(kind="c2r" if is_real else "c2c", inverse=True)
    sliced = {dim: (start, stop - start) for dim, (start, stop) in zip(axes, kept, strict=True)}
    y = transform(product, backward, placements, sliced)
    return of_kind(y, input, filter)


many_devices.FUNCTIONS["convolve"] = convolved


def _product(spectrum: torch.Tensor, h: torch.Tensor, forward: Call) -> Any:
    """Returns the spectrum of the input times that of the filter, placed as the former.

    Each device multiplies what it has. torch's own product gathers a dimension that has fewer
    numbers than there are devices, as half a spectrum easily has. It is used only where one operand
    has a single number, on one device, for many numbers of the other operand on many devices.
    """
    mesh, placements = _placed(spectrum)
    owners = tuple(i for i, placement in enumerate(placements) if isinstance(placement, Shard))
    split = {placements[i].dim for i in owners}  # type: ignore[attr-defined]
    are_copies = _are_copies(h)
    is_shared = _is_shared(spectrum, h, split)
    if are_copies and not is_shared:
        h = local_copy_of(h, mesh, owners)
    if not is_sharded(h):
        h = replicated_on(mesh, h)
    factor = transform(h, forward, None if are_copies else placements)
    if is_shared or not are_copies and _is_shared(factor, spectrum, split):
        product = dtensors_of(spectrum * factor)
        return join(*(part.redistribute(mesh, placements) for part in product))
    shape = torch.broadcast_shapes(spectrum.shape, factor.shape)
    kind = Kind.in_rows(mesh, placements, shape)
    ours, theirs = (join(*map(local_of, dtensors_of(z))) for z in (spectrum, factor))
    product = ours * (_own_part(theirs, kind) if are_copies else theirs)
    return join(*(distributed(part.contiguous(), kind) for part in parts_of(product)))


def _is_shared(single: torch.Tensor, other: torch.Tensor, split: set[int]) -> bool:
    """Returns whether along a split dimension `single` has a single number for many of `other`."""
    return any(single.shape[dim] == 1 < other.shape[dim] for dim in split)


def _are_copies(x: torch.Tensor) -> bool:
    return not is_sharded(x) or all(isinstance(p, Replicate) for p in _placed(x)[1])


def _shards_of_copies(x: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
    """Returns a tensor that all devices have as a DTensor with these placements."""
    owners = tuple(i for i, placement in enumerate(placements) if isinstance(placement, Shard))
    kind = Kind.in_rows(mesh, placements, x.shape)
    own = _own_part(local_copy_of(x, mesh, owners), kind)
    made = [distributed(part.contiguous(), kind) for part in real_tensors_of(own)]
    return join(*made) if len(made) == 2 else made[0]


def _own_part(copy: torch.Tensor, kind: Kind) -> Any:
    """Returns the part of a tensor's copy that belongs to this device's shard of a DTensor.

    Dimensions with a single number for many stay as they are, because they broadcast.
    """
    layout = layout_of("input", kind.placements, tuple(kind.mesh.shape), kind.shape)
    box = layout.box(kind.shape, coordinate_of(kind.mesh))
    for dim, interval in enumerate(box):
        if copy.shape[dim] == kind.shape[dim] > interval.size:
            copy = copy.narrow(dim, interval.start, interval.size)
    return copy


def _check_filter(h: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> None:
    """Checks the filter's placements for an input with these placements."""
    if not is_sharded(h):
        return
    other, theirs = _placed(h)
    if other != mesh:
        raise ValueError(
            f"argument 'filter' is on {other}, allowed is the mesh of argument 'input', "
            f"{mesh}; distribute it there, or pass a tensor that all processes have"
        )
    copies, both = (
        [isinstance(placement, Replicate) for placement in each] for each in (theirs, placements)
    )
    if not all(copies) and copies != both:
        raise NotImplementedError(
            f"argument 'filter' has the placements {theirs} and argument 'input' "
            f"{tuple(placements)}, allowed are copies, or shards along the dimensions of the mesh "
            f"along which 'input' has shards; use filter.redistribute(placements="
            f"[Replicate()] * {mesh.ndim}) before"
        )


def _placed(x: torch.Tensor | ComplexTensor) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    """Returns the mesh of DTensors, and their placements after pending sums are carried out."""
    part = dtensors_of(x)[0]
    return part.device_mesh, summed_placements(part)
