"""The public transforms of DTensors, with other placements of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Placement

from trnfft.backends.backend import Call
from trnfft.complex.kinds import of_kind
from trnfft.complex.parts import is_sharded
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions import fft as transforms
from trnfft.functions.arguments import normalization
from trnfft.ops import many_devices

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
    """Returns `trnfft.fftn` of a DTensor, in the given placements.

    torch has no counterpart: `torch.fft.fftn` does not accept such tensors. See
    `docs/distributed.md`.

    Args:
        input: a real or complex DTensor, or a ComplexTensor of two DTensors, of any shape.
        s, dim, norm: as for `trnfft.fftn`.
        out_placements: placements of the result, one for each dimension of the mesh: a Shard where
            `input` has a Shard, and Replicate where it has Replicate. Default: the placements of
            `input`. The placements that the last transform leaves save exchanges. For example, a
            tensor of three dimensions with [Shard(0)], all transformed, needs one exchange in place
            of two for a result with [Shard(1)].

    Returns:
        ComplexTensor of DTensors with the shape of `input`, in which the lengths replace the sizes
        of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: as `trnfft.fftn`. TypeError also
            for placements of another type; RuntimeError also where the processes were asked for
            different transforms; NotImplementedError also for a mesh on which no other dimension
            can be split.

    Examples:
        >>> import torch, trnfft
        >>> from torch.distributed import HashStore, destroy_process_group, init_process_group
        >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> init_process_group("gloo", store=HashStore(), rank=0, world_size=1)  # one process
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
        >>> X = trnfft.distributed.fftn(x, out_placements=[Shard(1)])
        >>> X.shape, X.placements
        (torch.Size([4, 4]), (Shard(dim=1),))
        >>> destroy_process_group()
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
    """Returns `trnfft.ifftn` of a DTensor, in the given placements. See `docs/distributed.md`.

    Args:
        input, s, dim, norm, out_placements: as for `trnfft.distributed.fftn`, also for the result
            and the errors.

    Examples:
        >>> import torch, trnfft
        >>> from torch.distributed import HashStore, destroy_process_group, init_process_group
        >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> init_process_group("gloo", store=HashStore(), rank=0, world_size=1)  # one process
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
        >>> y = trnfft.distributed.ifftn(trnfft.distributed.fftn(x))
        >>> y.full_tensor().real[0]
        tensor([1., 1., 1., 1.])
        >>> destroy_process_group()
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
    """Returns `trnfft.rfftn` of a DTensor, in the given placements. See `docs/distributed.md`.

    Args:
        input: a real DTensor of any shape that has the dimensions `dim`.
        s, dim, norm, out_placements: as for `trnfft.distributed.fftn`.

    Returns:
        ComplexTensor of DTensors, as `trnfft.distributed.fftn` returns it, in which the last
        length, n, becomes n // 2 + 1.

    Examples:
        >>> import torch, trnfft
        >>> from torch.distributed import HashStore, destroy_process_group, init_process_group
        >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> init_process_group("gloo", store=HashStore(), rank=0, world_size=1)  # one process
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
        >>> trnfft.distributed.rfftn(x).shape
        torch.Size([4, 3])
        >>> destroy_process_group()
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
    """Returns `trnfft.irfftn` of a DTensor, in the given placements. See `docs/distributed.md`.

    Args:
        input: a DTensor, or a ComplexTensor of two DTensors. It holds the first n // 2 + 1 of n
            Hermitian numbers along the last of `dim`.
        s, dim, norm, out_placements: as for `trnfft.distributed.fftn`. The last length is that of
            the result.

    Returns:
        A real DTensor with the shape of `input`, in which the lengths replace the sizes of `dim`.

    Examples:
        >>> import torch, trnfft
        >>> from torch.distributed import HashStore, destroy_process_group, init_process_group
        >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> init_process_group("gloo", store=HashStore(), rank=0, world_size=1)  # one process
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
        >>> y = trnfft.distributed.irfftn(trnfft.distributed.rfftn(x))
        >>> y.full_tensor()[0]
        tensor([1., 1., 1., 1.])
        >>> destroy_process_group()
    """
    return _transformed("irfftn", transforms.IRFFT, input, s, dim, norm, out_placements)


def _transformed(
    name: str,
    kind: Call,
    input: torch.Tensor,
    s: Sizes,
    dim: int | Iterable[int] | None,
    norm: str | None,
    out_placements: Placements,
) -> Any:
    x, call = transforms.several(name, kind, input, s, dim)
    check_sharded("input", input)
    placements = None if out_placements is None else _placements(out_placements)
    call = call._replace(norm=normalization(norm))
    return of_kind(many_devices.call("transform", x.whole(), call, placements), input)


def check_sharded(name: str, x: torch.Tensor | ComplexTensor) -> None:
    """Checks that an argument is a DTensor, or a ComplexTensor of DTensors."""
    if not is_sharded(x):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed are DTensor and "
            f"ComplexTensor of DTensors; make one with torch.distributed.tensor.distribute_tensor"
        )


def _placements(given: object) -> tuple[Placement, ...]:
    """Returns the argument `out_placements` as a tuple."""
    placements = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(
                f"argument 'out_placements' has {placement!r}, allowed are Shard and Replicate of "
                f"torch.distributed.tensor"
            )
    if not placements:
        raise RuntimeError(
            "argument 'out_placements' is empty, allowed is one placement for each dimension of "
            "the mesh"
        )
    return placements
