"""The public transforms with other placements of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Placement

from trnfft import transforms
from trnfft.arguments import normalization
from trnfft.complex.kinds import of_kind
from trnfft.complex.tensor import ComplexTensor
from trnfft.distributed.transforms import Asked, transform
from trnfft.ops.sharded import is_sharded

Sizes = int | Iterable[int] | None
Placements = Sequence[Placement] | None


def fftn(
    input: torch.Tensor | ComplexTensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out_placements: Placements = None,
) -> ComplexTensor:
    """`trnfft.fftn` of a DTensor, with the placements of the result.

    Args:
        input: DTensor, real or complex, or ComplexTensor of two, of any shape.
        s, dim, norm: as there.
        out_placements: of the result, one for each dimension of the mesh: a Shard where `input`
            has one, and Replicate where it has that. Default: those of `input`. Those that the last
            transform leaves save exchanges: of a tensor of three dimensions, all transformed, with
            [Shard(0)], a result with [Shard(1)] needs one in place of two.

    Returns:
        ComplexTensor of DTensors, of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`; also for
            placements that are none, or a mesh on which no other dimension can be split.
    """
    return _transformed("fftn", transforms.FFT, input, s, dim, norm, out_placements)


def ifftn(
    input: torch.Tensor | ComplexTensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out_placements: Placements = None,
) -> ComplexTensor:
    """`trnfft.ifftn` of a DTensor, with the placements of the result.

    Args:
        input, s, dim, norm, out_placements: as for `fftn`.

    Returns:
        ComplexTensor of DTensors, of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: as `fftn`.
    """
    return _transformed("ifftn", transforms.IFFT, input, s, dim, norm, out_placements)


def rfftn(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out_placements: Placements = None,
) -> ComplexTensor:
    """`trnfft.rfftn` of a DTensor, with the placements of the result.

    Args:
        input: real DTensor, of any shape with these dimensions.
        s, dim, norm, out_placements: as for `fftn`.

    Returns:
        ComplexTensor of DTensors, of the shape of `input` with the lengths in place of `dim`; for
        the last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: as `fftn`.
    """
    return _transformed("rfftn", transforms.RFFT, input, s, dim, norm, out_placements)


def irfftn(
    input: torch.Tensor | ComplexTensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out_placements: Placements = None,
) -> DTensor:
    """`trnfft.irfftn` of a DTensor, with the placements of the result.

    Args:
        input: DTensor or ComplexTensor of two: the first n // 2 + 1 of n Hermitian numbers along
            the last of `dim`.
        s, dim, norm, out_placements: as for `fftn`; the last length is that of the result.

    Returns:
        DTensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: as `fftn`.
    """
    return _transformed("irfftn", transforms.IRFFT, input, s, dim, norm, out_placements)


def _transformed(
    name: str,
    kind: transforms.Kind,
    input: Any,
    s: Sizes,
    dim: int | Iterable[int] | None,
    norm: str | None,
    out_placements: Placements,
) -> Any:
    x, sizes, dims = transforms.several(name, kind, input, s, dim)
    check_sharded("input", x)
    placements = None if out_placements is None else _placements(out_placements)
    rest = (dims, kind.inverse, normalization(norm), False, placements)
    operation = kind.operation.__name__
    if torch.compiler.is_compiling():
        from trnfft.distributed import in_graph  # here, as it loads torch's compiler

        return of_kind(in_graph.transform(x, operation, sizes, *rest), input)
    return of_kind(transform(x, Asked(operation, sizes, *rest)), input)


def check_sharded(name: str, x: torch.Tensor | ComplexTensor) -> None:
    """TypeError for what is no DTensor, nor made of such."""
    if not is_sharded(x):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed are DTensor and "
            f"ComplexTensor of DTensors; make one with torch.distributed.tensor.distribute_tensor"
        )


def _placements(given: Any) -> tuple[Placement, ...]:
    """TypeError for what is no sequence of placements, RuntimeError for none."""
    found = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for placement in found:
        if not isinstance(placement, Placement):
            raise TypeError(
                f"argument 'out_placements' has {placement!r}, allowed are Shard and Replicate of "
                f"torch.distributed.tensor"
            )
    if not found:
        raise RuntimeError(
            "argument 'out_placements' is empty, allowed is one placement for each dimension of "
            "the mesh"
        )
    return found
