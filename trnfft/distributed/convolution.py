"""Convolution of DTensors by transforms, with half of their exchanges.

    y = F^-1 (F x . F h)

The product cares not where a frequency is: spectra stay where the last forward transform leaves
them, and the inverse starts there. Of a slab decomposition that is one exchange each, in place of
two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from trnfft.complex.kinds import of_kind
from trnfft.complex.tensor import ComplexTensor
from trnfft.convolution import convolve as local
from trnfft.distributed.dtensor import replicated, summed_placements
from trnfft.distributed.functions import check_sharded
from trnfft.distributed.transforms import Asked, dtensors_of, transform
from trnfft.ops.sharded import is_sharded


def convolve(
    input: torch.Tensor | ComplexTensor,
    filter: torch.Tensor | ComplexTensor,
    mode: str = "full",
    dims: int | Iterable[int] | None = None,
) -> Any:
    """`trnfft.convolve` of a DTensor.

    Args:
        input: DTensor, real or complex, or ComplexTensor of two.
        filter: likewise on the same mesh, or a tensor that every device has a copy of.
        mode: as there.
        dims: as there.

    Returns:
        With the placements of `input`, and its shape but along `dims`: a real DTensor, or, where an
        operand is complex, a ComplexTensor of two.

    Raises:
        TypeError: an argument is of the wrong type, or `input` is no DTensor.
        IndexError, ValueError, NotImplementedError: as `trnfft.convolve`; ValueError also for a
            filter on another mesh.
        RuntimeError: as `trnfft.distributed.fftn`.
    """
    check_sharded("input", input)
    if torch.compiler.is_compiling():
        from trnfft.distributed import in_graph  # here, as it loads torch's compiler

        return in_graph.convolve(input, filter, mode, dims)
    return convolved(input, filter, mode, dims)


def convolved(input: Any, filter: Any, mode: str, dims: int | Iterable[int] | None) -> Any:
    """As `convolve`, also inside of a graph."""
    x, h, axes = local.operands(input, filter, mode, dims)
    if not is_sharded(x):
        raise ValueError(
            "argument 'filter' is longer than argument 'input', allowed with mode 'valid' is only "
            "where it is a DTensor, too; distribute it, or use mode 'full'"
        )
    mesh, placements = _placed(x)
    if is_sharded(h) and (other := _placed(h)[0]) != mesh:
        raise ValueError(
            f"argument 'filter' is on {other}, allowed is the mesh of argument 'input', "
            f"{mesh}; distribute it there, or pass a tensor that all processes have"
        )
    split = {p.dim % x.ndim for p in placements if isinstance(p, Shard)}
    axes.sort(key=lambda dim: dim not in split)  # the last one comes first, and is better whole
    kept = local.kept_of(mode, x, h, axes)
    sizes = tuple(local.fast_length(x.shape[dim] + h.shape[dim] - 1, x.device) for dim in axes)
    is_real = not x.is_complex() and not h.is_complex()
    common = (sizes, tuple(axes))
    operation = "r2c" if is_real else "c2c"
    spectrum = transform(x, Asked(operation, *common, False, "backward", placements=()))
    _, found = _placed(spectrum)
    if not is_sharded(h):
        h = replicated(h, mesh)
    copies = all(isinstance(placement, Replicate) for placement in _placed(h)[1])
    wanted = None if copies else found
    product = spectrum * transform(
        h, Asked(operation, *common, False, "backward", placements=wanted)
    )
    asked = Asked(
        "c2r" if is_real else "c2c",
        *common,
        True,
        "backward",
        placements=placements,
        kept={dim: (start, stop - start) for dim, (start, stop) in zip(axes, kept, strict=True)},
    )
    return of_kind(transform(product, asked), input, filter)


def _placed(x: torch.Tensor | ComplexTensor) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    """The mesh of DTensors, and their placements once pending sums are done."""
    part = dtensors_of(x)[0]
    return part.device_mesh, summed_placements(part)
