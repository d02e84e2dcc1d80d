"""Discrete Fourier transforms with the names, the arguments and the results of `torch.fft`.

For a length N, an index j = 0 ... N - 1 of the data and a frequency k = 0 ... N - 1, they are

    fft     X[k] = scale * sum_j x[j] exp(-2 pi i j k / N)
    ifft    x[j] = scale * sum_k X[k] exp(+2 pi i j k / N)

`rfft` is `fft` of real data. It returns only X[0] ... X[N // 2], which determine the other numbers.
`irfft` is its inverse. `ihfft` and `hfft` are the same two functions with the opposite sign in the
exponent. The functions whose names end in 2 or n transform several dimensions.

All transforms compute float64 and complex128 in float64, and all smaller floating-point dtypes in
float32. They convert integers and bool to torch's default dtype first. The elements of a real
result and the parts of a complex result have the dtype of the computation. `n` and `s` trim the
input, or pad it with zeros, at the end of a dimension. -1 in `s` keeps the size of a dimension.

The kind of the input decides the kind of a complex result. A native tensor, real or complex, gives
a native complex tensor on the backend "torch", which "auto" selects on the CPU and on CUDA. A
`ComplexTensor` gives a ComplexTensor on every backend. The backends "matmul", "nki" and "nki-sim"
return a ComplexTensor for every input, unless `set_complex_storage` says that the device stores
complex numbers. See `docs/complex_tensor.md`.

The result of a DTensor, or of a ComplexTensor of two DTensors, has the placements of the input; see
`trnfft.distributed`. Where devices split a dimension, `trnfft.distributed.frequencies` returns its
planned order.

All transforms raise these errors:

- `TypeError`: an argument has the wrong type, or the backend lacks the dtype.
- `ValueError`: a length or a dimension has more than 64 bits.
- `IndexError`: a dimension is out of range.
- `RuntimeError`: a length is less than 1; dimensions repeat, differ in number from the lengths, or
  are none for real or Hermitian data; `norm` or `order` is unknown; `input` has a dtype that cannot
  be transformed, or is complex where it must be real; `out` does not fit; or an array is larger
  than the memory.
- `NotImplementedError`: the backend cannot compute the length or the precision.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.overrides import is_tensor_like

from trnfft.backends.backend import Call
from trnfft.backends.torch_native import MOST_DIMENSIONS, torchs
from trnfft.base import config
from trnfft.base.checks import brief
from trnfft.base.memory import check_memory, may_be_too_many
from trnfft.base.torch_private import len_torch_function_stack
from trnfft.complex.dispatch import implements
from trnfft.complex.parts import is_followed, is_sharded, of_parts, parts_apart, stored_parts
from trnfft.complex.table import FUNCTIONS, Function
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import (
    NORMS,
    Input,
    check_choice,
    check_length,
    check_tensor,
    dimension,
    dimensions,
    integer,
    integers,
    normalization,
    operand,
)
from trnfft.ops import transforms as ops
from trnfft.ops.operand import Operand, is_recorded

# This file checks and normalises the arguments. trnfft.ops computes the transforms.

Sizes = int | Iterable[int] | None
"""Lengths of a transform of several dimensions: one int, several ints, or None for the default."""

ORDERS = ("natural", "planned")
_LAST_TWO = (-2, -1)
_LONG = 2**16  # the kernels compute every shorter length
_FEW = 2**24  # any computer has the memory for so many numbers


_REAL, _COMPLEX = (torch.float32, torch.float64), (torch.complex64, torch.complex128)
_COMPUTED = _REAL + _COMPLEX


FFT, IFFT = Call("c2c", False), Call("c2c", True)
RFFT, IRFFT = Call("r2c", False), Call("c2r", True)
_HFFT, _IHFFT = Call("c2r", False), Call("r2c", True)

# By name: torch's own function, and the dtypes for which it returns the same. These functions leave
# no result conjugated lazily.
_OF_TORCH: dict[str, tuple[Any, tuple[torch.dtype, ...]]] = {
    "fft": (torchs.fft, _REAL + _COMPLEX),
    "ifft": (torchs.ifft, _COMPLEX),
    "rfft": (torchs.rfft, _REAL),
    "irfft": (torchs.irfft, _COMPLEX),
}
for _name in ("fft2", "fftn", "ifft2", "ifftn", "rfft2", "rfftn", "irfft2", "irfftn"):
    _OF_TORCH[_name] = getattr(torchs, f"{_name[:-1]}n"), _OF_TORCH[_name[:-1]][1]


def fft(
    input: Input,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
    order: str = "natural",
) -> torch.Tensor:
    """Returns the discrete Fourier transform along one dimension.

    The counterpart in torch is `torch.fft.fft`. See `docs/getting_started.md`.

    Args:
        input: a real tensor, a native complex tensor or a ComplexTensor of any shape with at least
            one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: no factor), "ortho" (factor 1/sqrt(n)) or "forward" (1/n).
        out: a tensor with the shape, dtype and device of the result, which is written into it.
        order: order of the frequencies in the result. "natural" is the order of torch.fft.
            "planned" is the order in which the stages of the plan leave the frequencies, see
            `trnfft.order`.

    Returns:
        A complex tensor with the shape of `input`, in which `n` replaces the size of `dim`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: the opening of
            `trnfft.functions.fft` says when, for all transforms.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
        >>> trnfft.fft(torch.ones(3, 4), n=8).shape
        torch.Size([3, 8])
    """
    return _one("fft", FFT, input, n, dim, norm, out, order)


def ifft(
    input: Input,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
    order: str = "natural",
) -> torch.Tensor:
    """Returns the inverse discrete Fourier transform along one dimension.

    Args:
        input, n, dim, out: as for `fft`.
        norm: "backward" (the default: factor 1/n), "ortho" (1/sqrt(n)) or "forward" (no factor).
        order: order of the frequencies in `input`, as for `fft`. "planned" needs all frequencies:
            `n` must then be the size of `dim`.

    Examples:
        >>> import torch, trnfft
        >>> X = trnfft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        >>> trnfft.ifft(X)
        tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return _one("ifft", IFFT, input, n, dim, norm, out, order)


def rfft(
    input: torch.Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the first half of the discrete Fourier transform of real data along one dimension.

    Args:
        input: a real tensor of any shape with at least one dimension.
        n, dim, norm, out: as for `fft`.

    Returns:
        A complex tensor with the shape of `input`, in which `n // 2 + 1` replaces the size of
        `dim`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _one("rfft", RFFT, input, n, dim, norm, out)


def irfft(
    input: Input,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns real data, given the first half of its transform: the inverse of `rfft`.

    Args:
        input: the first n // 2 + 1 of n Hermitian numbers along `dim`. The imaginary parts of X[0]
            and, for even n, of X[n/2] are ignored.
        n: length of the result. Default: 2 * (size of `dim` - 1), which is even.
        dim, norm, out: as for `ifft`.

    Returns:
        A real tensor with the shape of `input`, in which `n` replaces the size of `dim`.

    Examples:
        >>> import torch, trnfft
        >>> X = trnfft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
        >>> trnfft.irfft(X, n=5).round(decimals=4)
        tensor([1., 2., 3., 4., 5.])
        >>> trnfft.irfft(X).shape
        torch.Size([4])
    """
    return _one("irfft", IRFFT, input, n, dim, norm, out)


def hfft(
    input: Input,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the real discrete Fourier transform of Hermitian data, given the first half of it.

    Args:
        input, n: as for `irfft`.
        dim, norm, out: as for `fft`.

    Returns:
        A real tensor, as `irfft`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.hfft(torch.tensor([1.0, 2.0, 3.0]))  # the transform of 1, 2, 3, 2
        tensor([ 8., -2.,  0., -2.])
    """
    return _one("hfft", _HFFT, input, n, dim, norm, out)


def ihfft(
    input: torch.Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the first half of the Hermitian data whose transform is real, the inverse of `hfft`.

    Args:
        input, n: as for `rfft`.
        dim, norm, out: as for `ifft`.

    Returns:
        A complex tensor, as `rfft`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.ihfft(torch.tensor([8.0, -2.0, 0.0, -2.0])).real
        tensor([1., 2., 3.])
    """
    return _one("ihfft", _IHFFT, input, n, dim, norm, out)


def fft2(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the discrete Fourier transform along two dimensions.

    Args:
        input, s, norm, out: as for `fftn`.
        dim: the two dimensions to transform.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.fft2(torch.tensor([[0.0, 1.0], [2.0, 3.0]])).real
        tensor([[ 6., -2.],
                [-4.,  0.]])
    """
    return _many("fft2", FFT, input, s, dim, norm, out)


def ifft2(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the inverse discrete Fourier transform along two dimensions.

    Args:
        input, s, norm, out: as for `fftn`.
        dim: the two dimensions to transform.

    Examples:
        >>> import torch, trnfft
        >>> X = trnfft.fft2(torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
        >>> trnfft.ifft2(X).real
        tensor([[0., 1.],
                [2., 3.]])
    """
    return _many("ifft2", IFFT, input, s, dim, norm, out)


def rfft2(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns half of the discrete Fourier transform of real data along two dimensions.

    It is `rfft` along the last of `dim` and `fft` along the other.

    Args:
        input, s, norm, out: as for `rfftn`.
        dim: the two dimensions to transform.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.rfft2(torch.arange(8.0).reshape(2, 4))
        tensor([[ 28.+0.j,  -4.+4.j,  -4.+0.j],
                [-16.+0.j,   0.+0.j,   0.+0.j]])
    """
    return _many("rfft2", RFFT, input, s, dim, norm, out)


def irfft2(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns real data of two dimensions, given half of its transform: the inverse of `rfft2`.

    It is `ifft` along the first of `dim` and `irfft` along the last.

    Args:
        input, s, norm, out: as for `irfftn`.
        dim: the two dimensions to transform.

    Examples:
        >>> import torch, trnfft
        >>> X = trnfft.rfft2(torch.arange(8.0).reshape(2, 4))
        >>> trnfft.irfft2(X)
        tensor([[0., 1., 2., 3.],
                [4., 5., 6., 7.]])
    """
    return _many("irfft2", IRFFT, input, s, dim, norm, out)


def hfft2(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the real transform of Hermitian data of two dimensions, given half of the data.

    It is `fft` along the first of `dim` and `hfft` along the last.

    Args:
        input, s, norm, out: as for `irfftn`.
        dim: the two dimensions to transform.

    Examples:
        >>> import torch, trnfft
        >>> x = trnfft.ihfft2(torch.arange(8.0).reshape(2, 4))
        >>> trnfft.hfft2(x)
        tensor([[0., 1., 2., 3.],
                [4., 5., 6., 7.]])
    """
    return _many("hfft2", _HFFT, input, s, dim, norm, out)


def ihfft2(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns half of the Hermitian data of two dimensions whose transform is real.

    It is the inverse of `hfft2`: `ihfft` along the last of `dim` and `ifft` along the other.

    Args:
        input, s, norm, out: as for `rfftn`.
        dim: the two dimensions to transform.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.ihfft2(torch.arange(8.0).reshape(2, 4)).real
        tensor([[ 3.5000, -0.5000, -0.5000],
                [-2.0000,  0.0000,  0.0000]])
    """
    return _many("ihfft2", _IHFFT, input, s, dim, norm, out)


def fftn(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the discrete Fourier transform along several dimensions.

    Args:
        input: a real tensor, a native complex tensor or a ComplexTensor of any shape that has the
            dimensions `dim`.
        s: lengths of the transforms. -1 stands for the size of the dimension. Default: the sizes of
            `dim`.
        dim: the dimensions to transform. Default: the last dimensions, as many as `s` has lengths,
            or all of them without `s`.
        norm: as for one dimension, where n is the product of the lengths.
        out: a tensor with the shape, dtype and device of the result, which is written into it.

    Returns:
        A complex tensor with the shape of `input`, in which the lengths replace the sizes of `dim`.

    Examples:
        >>> import torch, trnfft
        >>> x = torch.ones(2, 3, 4)
        >>> trnfft.fftn(x)[0, 0, 0]  # the sum of all numbers
        tensor(24.+0.j)
        >>> trnfft.fftn(x, s=(5, 8), dim=(0, 2)).shape
        torch.Size([5, 3, 8])
    """
    return _many("fftn", FFT, input, s, dim, norm, out)


def ifftn(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the inverse discrete Fourier transform along several dimensions.

    Args:
        input, s, dim, norm, out: as for `fftn`.

    Examples:
        >>> import torch, trnfft
        >>> x = torch.arange(8.0).reshape(2, 2, 2)
        >>> torch.allclose(trnfft.ifftn(trnfft.fftn(x)).real, x)
        True
    """
    return _many("ifftn", IFFT, input, s, dim, norm, out)


def rfftn(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns half of the discrete Fourier transform of real data along several dimensions.

    It is `rfft` along the last of `dim` and `fft` along the others.

    Args:
        input: a real tensor of any shape that has the dimensions `dim`.
        s, dim, norm, out: as for `fftn`.

    Returns:
        A complex tensor as that of `fftn`, in which the last length, n, becomes n // 2 + 1.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.rfftn(torch.ones(2, 3, 8)).shape
        torch.Size([2, 3, 5])
    """
    return _many("rfftn", RFFT, input, s, dim, norm, out)


def irfftn(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns real data of several dimensions, given half of its transform.

    It is the inverse of `rfftn`: `ifft` along all but the last of `dim` and `irfft` along the last.
    Args:
        input: the first n // 2 + 1 of n Hermitian numbers along the last of `dim`. Numbers that
            must be real are read without their imaginary parts.
        s: lengths of the result along `dim`. -1 stands for the default, which is the size of the
            dimension and, for the last one, 2 * (size - 1).
        dim, norm, out: as for `fftn`.

    Returns:
        A real tensor with the shape of `input`, in which the lengths replace the sizes of `dim`.

    Examples:
        >>> import torch, trnfft
        >>> X = trnfft.rfftn(torch.ones(2, 3, 7))
        >>> trnfft.irfftn(X, s=(2, 3, 7)).shape
        torch.Size([2, 3, 7])
        >>> trnfft.irfftn(X).shape
        torch.Size([2, 3, 6])
    """
    return _many("irfftn", IRFFT, input, s, dim, norm, out)


def hfftn(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the real transform of Hermitian data of several dimensions, given half of the data.

    It is `fft` along all but the last of `dim` and `hfft` along the last.

    Args:
        input, s: as for `irfftn`.
        dim, norm, out: as for `fftn`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.hfftn(torch.ones(2, 3, 5)).shape
        torch.Size([2, 3, 8])
    """
    return _many("hfftn", _HFFT, input, s, dim, norm, out)


def ihfftn(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns half of the Hermitian data of several dimensions whose transform is real.

    It is the inverse of `hfftn`: `ihfft` along the last of `dim` and `ifft` along the others.

    Args:
        input, s, dim, norm, out: as for `rfftn`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.ihfftn(torch.ones(2, 3, 8)).shape
        torch.Size([2, 3, 5])
    """
    return _many("ihfftn", _IHFFT, input, s, dim, norm, out)


def _one(
    name: str,
    kind: Call,
    input: Input,
    n: int | None,
    dim: int,
    norm: str | None,
    out: object,
    order: str = "natural",
) -> Any:
    if out is None and order == "natural" and name in _OF_TORCH:
        of_torch, takes = _OF_TORCH[name]
        if type(input) is not ComplexTensor:
            if _is_straight(takes, input, norm) and _are_usual(input, n, dim):
                return of_torch(input, n, dim, norm)
        elif (
            takes is not _REAL
            and _is_straight(_REAL, input._real, norm)
            and _are_usual(input._real, n, dim)
            and not is_followed(input)
        ):
            parts = parts_apart(of_torch(torch.complex(*stored_parts(input)), n, dim, norm))
            return of_parts(*parts) if len(parts) == 2 else parts[0]
    x = _entered(name, kind, input)
    size, dim = length_and_dimension(x, n, dim, is_half=kind.kind == "c2r")
    norm = normalization(norm)
    planned = order != "natural" and _is_planned(order)
    if planned and kind.inverse and size != x.like.shape[dim]:
        raise RuntimeError(
            f"argument 'n' is {n}, allowed with order 'planned' is the size of the dimension, "
            f"{x.like.shape[dim]}: a spectrum in planned order has no end to trim or pad; "
            f"leave 'n' out"
        )
    call = Call(kind.kind, kind.inverse, (size,), (dim,), norm, "", planned)
    result = ops.transformed(x, call)
    return result if out is None else _written(result, out)


def _is_straight(takes: tuple[torch.dtype, ...], x: object, norm: object) -> bool:
    """Whether torch.fft's own function does what is asked, apart from lengths and dimensions.

    The checks and the planning that all other inputs need take longer than a transform of 64
    numbers.
    """
    return (
        type(x) is torch.Tensor
        and x.dtype in takes
        and not is_recorded()
        and 0 < x.numel() < _FEW
        and (norm is None or type(norm) is str and norm in NORMS)
        and (x.is_cpu or x.is_cuda)  # reading a device's type would take as long as all the rest
        and config.is_of_torch()
        and x.layout is torch.strided
        and not x.is_nested
        and not len_torch_function_stack()  # a mode that must not see torch's functions
    )


def _are_usual(x: torch.Tensor, n: object, dim: object) -> bool:
    """Whether `dim` is a dimension of `x`, and `n` a length for which `x` has enough numbers."""
    ndim = x.ndim
    if type(dim) is not int or not -ndim <= dim < ndim:
        return False
    return x.size(dim) > 1 if n is None else type(n) is int and 0 < n < _LONG


def _are_several_usual(x: torch.Tensor, lengths: Any, dims: Any) -> bool:
    """Whether `_are_usual` holds for distinct dimensions, as many as torch.fft accepts at once."""
    lengths = (None,) * len(dims) if lengths is None else lengths
    if type(lengths) not in (tuple, list) or len(lengths) != len(dims):
        return False
    if not all(_are_usual(x, n, dim) for n, dim in zip(lengths, dims, strict=True)):
        return False
    return 0 < len({dim % x.ndim for dim in dims}) == len(dims) <= MOST_DIMENSIONS


def length_and_dimension(x: Operand, n: int | None, dim: int, is_half: bool) -> tuple[int, int]:
    """Returns the length of a transform along one dimension, and that dimension counted from 0.

    Args:
        x: the input.
        n, dim: arguments of the public functions.
        is_half: whether the input is half of a spectrum, whose transform is real.
    """
    like = x.like
    dim = dimension("dim", integer("dim", dim), like.ndim)
    usual = 2 * (like.shape[dim] - 1) if is_half else like.shape[dim]
    size = usual if n is None else integer("n", n)
    check_length("n", n, size, like.shape[dim])
    check_longest(size, x)
    if n is not None:
        check_result("n", n, (*like.shape[:dim], size, *like.shape[dim + 1 :]), x)
    return size, dim


def _many(
    name: str,
    kind: Call,
    input: Input,
    s: Sizes,
    dim: int | Iterable[int] | None,
    norm: str | None,
    out: object,
) -> Any:
    if out is None and name in _OF_TORCH and type(dim) in (tuple, list):
        of_torch, takes = _OF_TORCH[name]
        if _is_straight(takes, input, norm) and _are_several_usual(input, s, dim):
            return of_torch(input, s, dim, norm)
    x, call = several(name, kind, input, s, dim)
    result = ops.transformed(x, call._replace(norm=normalization(norm)))
    return result if out is None else _written(result, out)


def several(
    name: str, kind: Call, input: Input, s: Sizes, dim: int | Iterable[int] | None
) -> tuple[Operand, Call]:
    """Returns what `trnfft.ops.transforms.transformed` needs, without the norm."""
    x = _entered(name, kind, input)
    like = x.like
    given = None if s is None else integers("s", s)
    dims = dimensions("dim", dim, given, like.ndim)
    if not dims and kind.kind != "c2c":
        raise RuntimeError(f"argument 'dim' is (), {name} must transform at least one dimension")
    sizes = [like.shape[d] for d in dims] if given is None else list(given)
    for i, (size, d) in enumerate(zip(sizes, dims, strict=True)):
        if given is None or size == -1:
            is_half = kind.kind == "c2r" and i == len(dims) - 1
            sizes[i] = 2 * (like.shape[d] - 1) if is_half else like.shape[d]
        check_length("s", given, sizes[i], like.shape[d])
        check_longest(sizes[i], x)
    if given is not None:
        lengths = dict(zip(dims, sizes, strict=True))
        shape = [lengths.get(d, size) for d, size in enumerate(like.shape)]
        check_result("s", given, shape, x)
    return x, Call(kind.kind, kind.inverse, tuple(sizes), dims)


def _entered(name: str, kind: Call, input: Input) -> Operand:
    """Returns the operand of `input`, in a dtype to compute in."""
    x = operand("input", input)
    if kind.kind == "r2c" and x.is_complex:
        raise RuntimeError(
            f"argument 'input' has dtype {input.dtype}, {name} allows real dtypes only; "
            f"take its .real, or use {name.replace('r', '').replace('h', '')}"
        )
    return x


def check_result(name: str, given: object, shape: Sequence[int], x: Operand) -> None:
    """Raises RuntimeError where the result of these lengths does not fit in memory."""
    if may_be_too_many(math.prod(shape)) and not x.is_sharded:
        what = f"argument '{name}' is {brief(given)}"
        check_memory(what, shape, x.like.element_size(), x.like.device)


def check_longest(size: int, x: Operand) -> None:
    """Raises NotImplementedError for a length that no kernel computes, before any padding."""
    if size >= _LONG and x.backend not in ("", "torch") and x.precision != "double":
        from trnfft.planner import planner  # imported here, because it loads the kernels

        planner.check_longest(size)


def _is_planned(order: str) -> bool:
    if not isinstance(order, str):
        raise TypeError(f"argument 'order' must be a str, not {type(order).__name__}")
    check_choice("order", order, ORDERS, RuntimeError)
    return order == "planned"


def _written(result: torch.Tensor, out: Any) -> torch.Tensor:
    """Returns `out` with the result in it."""
    check_tensor("out", out)
    if out.is_complex() != result.is_complex() or is_sharded(out) != is_sharded(result):
        raise TypeError(
            f"argument 'out' is of type {type(out).__name__}, it must be a {type(result).__name__}"
        )
    given, made = (
        f"shape {tuple(x.shape)}, dtype {x.dtype}, parts of {x.real.dtype}, {x.device}"
        for x in (out, result)
    )
    if given != made:
        raise RuntimeError(
            f"argument 'out' has {given}; the result has {made}; make 'out' like the result, or "
            f"leave it out"
        )
    try:
        return out.copy_(result)
    except RuntimeError as error:  # for example where several indices share a number in memory
        raise RuntimeError(f"argument 'out' cannot be written: {error}") from None


# NumPy's names of arguments, which torch.fft accepts as well.
_OTHER_NAMES = {"axis": "dim", "a": "input", "x": "input"}


def _with_names_of_torch(function: Function, of_torch: Function) -> Function:
    """Returns a transform that accepts all that torch's transform accepts.

    These are torch's other argument names, a native `out`, and objects that are no tensors and have
    a `__torch_function__` of their own, as the proxies of torch.fx.
    """

    @functools.wraps(function)
    def transform(*args: object, **kwargs: object) -> Any:
        if args and not isinstance(args[0], torch.Tensor) and is_tensor_like(args[0]):
            return of_torch(*args, **kwargs)
        kwargs = {_OTHER_NAMES.get(name, name): value for name, value in kwargs.items()}
        out: Any = kwargs.get("out")
        is_tensor = isinstance(out, torch.Tensor) and not isinstance(out, ComplexTensor)
        if not is_tensor or not out.is_complex():
            return function(*args, **kwargs)
        result = function(*args, **{**kwargs, "out": None})
        if out.device != result.device:
            raise RuntimeError(
                f"argument 'out' is on device '{out.device}' and the result on '{result.device}'; "
                f"move one with .to(device)"
            )
        return out.resize_(result.shape).copy_(result)

    return transform


_NAMES = """
    fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft hfft2 hfftn ihfft
    ihfft2 ihfftn
"""
# The transforms of torch.fft, and the functions of this library that replace them.
OF_TORCH: dict[Any, Callable[..., Any]] = {
    getattr(torch.fft, name): _with_names_of_torch(globals()[name], getattr(torch.fft, name))
    for name in _NAMES.split()
}
FUNCTIONS |= OF_TORCH

# The operators to which torch's own functions come below `torch.func` and in derivatives of torch.
# By torch's numbers: norms for the forward direction; the inverse direction has the opposite.
_NORMS = {0: "backward", 1: "ortho", 2: "forward"}
_INVERSE_NORMS = {0: "forward", 1: "ortho", 2: "backward"}


@implements(torch.ops.aten._fft_c2c.default)
def _c2c(self: ComplexTensor, dim: list[int], normalization: int, forward: bool) -> torch.Tensor:
    dims = tuple(d % self.ndim for d in dim)
    sizes = tuple(self.shape[d] for d in dims)
    norm = (_NORMS if forward else _INVERSE_NORMS)[normalization]
    return ops.c2c(self, sizes, dims, not forward, norm)


@implements(torch.ops.aten._fft_c2r.default)
def _c2r(
    self: ComplexTensor, dim: list[int], normalization: int, last_dim_size: int
) -> torch.Tensor:
    dims = tuple(d % self.ndim for d in dim)
    sizes = (*(self.shape[d] for d in dims[:-1]), last_dim_size)
    return ops.c2r(self, sizes, dims, True, _INVERSE_NORMS[normalization])
