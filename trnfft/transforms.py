"""The public transforms: arguments and results as in torch.fft.

Definitions, for a length N and k = 0 ... N-1:

    fft:   X[k] = scale * sum_j x[j] exp(-2 pi i j k / N)
    ifft:  x[k] = scale * sum_j X[j] exp(+2 pi i j k / N)

rfft is fft of real data, of which it keeps X[0] ... X[N//2], and irfft its inverse; ihfft and hfft
are these two with the other sign. The 2-D and n-D forms transform several dimensions.

Of every transform here: float64 and complex128 are computed in float64, float16, bfloat16 and
everything smaller in float32; integers and bool are converted to torch's default dtype first. The
result has parts (or, where it is real, elements) of float64 or float32 accordingly. `n` and `s`
trim the input, or pad it with zeros, at the end of a dimension; -1 in `s` keeps the size.

Complex results are of the kind of the input. Native tensors, real ones too, give native complex
tensors where the backend is "torch", as "auto" takes it on the CPU and on CUDA. A ComplexTensor
gives a ComplexTensor everywhere, and the backends "matmul", "nki" and "nki-sim" give nothing else.

Of DTensors, or of a ComplexTensor of two DTensors, the result has the placements of the input, see
`trnfft.distributed`; the planned order of a dimension that devices split is that of
`trnfft.distributed.frequencies`. All raise

    TypeError: an argument is of the wrong type, or the backend lacks the dtype.
    ValueError: a length or a dimension has more than 64 bits.
    IndexError: a dimension is out of range.
    RuntimeError: a length is less than 1, dimensions are not distinct or not as many as lengths,
        `norm` or `order` is unknown, `input` has a dtype that cannot be transformed or is complex
        where it must be real, `out` does not fit, or an array is larger than the memory.
    NotImplementedError: the length or the precision is beyond what the backend can do.

This file checks and normalises arguments; `trnfft.ops` computes.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trnfft import config
from trnfft.arguments import (
    DTYPE_ERROR,
    NORMS,
    Input,
    check_choice,
    check_length,
    check_tensor,
    dimension,
    dimensions,
    floating_point,
    integer,
    integers,
    normalization,
    widened,
)
from trnfft.backends.choice import backend_for
from trnfft.backends.torch_native import MOST_DIMENSIONS, split_whole, torchs
from trnfft.checks import shown
from trnfft.complex.kinds import of_kind
from trnfft.complex.tensor import ComplexTensor, described, is_followed, parts_to_read
from trnfft.memory import check_memory, may_be_too_many
from trnfft.ops import traced
from trnfft.ops import transforms as ops
from trnfft.ops.sharded import is_sharded

Sizes = int | Iterable[int] | None

ORDERS = ("natural", "planned")
_LAST_TWO = (-2, -1)
_LONG = 2**16  # below, no length is beyond the kernels
_FEW = 2**24  # numbers that any computer has the memory for


_REAL, _COMPLEX = (torch.float32, torch.float64), (torch.complex64, torch.complex128)


@dataclass(frozen=True)
class Kind:
    """What a transform is made of.

    Attributes:
        operation: `c2c`, `r2c` or `c2r` of `trnfft.ops.transforms`.
        inverse: the sign of the exponent, as there.
        one, several: torch.fft's functions of one dimension and of several that do the same to a
            tensor of one of `takes`, and leave nothing conjugated; None for none.
    """

    operation: Any
    inverse: bool
    one: Any = None
    several: Any = None
    takes: tuple[torch.dtype, ...] = ()


FFT = Kind(ops.c2c, False, torchs.fft, torchs.fftn, _REAL + _COMPLEX)
IFFT = Kind(ops.c2c, True, torchs.ifft, torchs.ifftn, _COMPLEX)
RFFT = Kind(ops.r2c, False, torchs.rfft, torchs.rfftn, _REAL)
IRFFT = Kind(ops.c2r, True, torchs.irfft, torchs.irfftn, _COMPLEX)
_HFFT, _IHFFT = Kind(ops.c2r, False), Kind(ops.r2c, True)


def fft(
    input: Input,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: torch.Tensor | None = None,
    order: str = "natural",
) -> torch.Tensor:
    """Discrete Fourier transform, along one dimension.

    Args:
        input: real, native complex or ComplexTensor, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: no scaling), "ortho" (1/sqrt(n)) or "forward" (1/n).
        out: where to write the result, of its shape, dtype and device.
        order: of the frequencies in the result: "natural", or "planned": as the stages of the plan
            leave them, see `trnfft.order`.

    Returns:
        A complex tensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """Inverse discrete Fourier transform, along one dimension.

    Args:
        input: real, native complex or ComplexTensor, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: 1/n), "ortho" (1/sqrt(n)) or "forward" (no scaling).
        out: where to write the result, of its shape, dtype and device.
        order: of the frequencies in `input`: "natural", or "planned": as `fft` with this argument
            gives them, all of them, so that `n` must be the size of `dim`.

    Returns:
        A complex tensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """Discrete Fourier transform of real data, its first half, along one dimension.

    Args:
        input: real, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: no scaling), "ortho" (1/sqrt(n)) or "forward" (1/n).
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with `n // 2 + 1` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """Inverse of `rfft`: real data from the first half of its spectrum, along one dimension.

    Args:
        input: real, native complex or ComplexTensor: the first n // 2 + 1 of n Hermitian
            numbers along `dim`. What is no part of such (imag of X[0]) is ignored.
        n: length of the result. Default: 2 * (size of `dim` - 1), which is even.
        dim: the dimension to transform.
        norm: "backward" (the default: 1/n), "ortho" (1/sqrt(n)) or "forward" (no scaling).
        out: where to write the result, of its shape, dtype and device.

    Returns:
        torch.Tensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """Discrete Fourier transform, real as the data is Hermitian: given its first half.

    Args:
        input: real, native complex or ComplexTensor: the first n // 2 + 1 of n Hermitian
            numbers along `dim`. What is no part of such (imag of X[0]) is ignored.
        n: length of the result. Default: 2 * (size of `dim` - 1), which is even.
        dim: the dimension to transform.
        norm: "backward" (the default: no scaling), "ortho" (1/sqrt(n)) or "forward" (1/n).
        out: where to write the result, of its shape, dtype and device.

    Returns:
        torch.Tensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """Inverse of `hfft`: the first half of the Hermitian data of a real spectrum.

    Args:
        input: real, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: 1/n), "ortho" (1/sqrt(n)) or "forward" (no scaling).
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with `n // 2 + 1` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`fft` along two dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`ifft` along two dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`rfft` along two dimensions, `fft` along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`irfft` along two dimensions, `ifft`'s sum along all but the last.

    Args:
        input: real, native complex or ComplexTensor: the first n // 2 + 1 of n Hermitian
            numbers along the last of `dim`. What is no part of such (imag of X[0]) is ignored.
        s: lengths of the transforms. Default: the sizes of `dim`. The last length is that of the
            result; its default is 2 * (size of the last `dim` - 1).
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`hfft` along two dimensions, `fft`'s sum along all but the last.

    Args:
        input: real, native complex or ComplexTensor: the first n // 2 + 1 of n Hermitian
            numbers along the last of `dim`. What is no part of such (imag of X[0]) is ignored.
        s: lengths of the transforms. Default: the sizes of `dim`. The last length is that of the
            result; its default is 2 * (size of the last `dim` - 1).
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`ihfft` along two dimensions, `ifft`'s sum along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`fft` along several dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`ifft` along several dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`rfft` along several dimensions, `fft` along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`irfft` along several dimensions, `ifft`'s sum along all but the last.

    Args:
        input: real, native complex or ComplexTensor: the first n // 2 + 1 of n Hermitian
            numbers along the last of `dim`. What is no part of such (imag of X[0]) is ignored.
        s: lengths of the transforms. Default: the sizes of `dim`. The last length is that of the
            result; its default is 2 * (size of the last `dim` - 1).
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`hfft` along several dimensions, `fft`'s sum along all but the last.

    Args:
        input: real, native complex or ComplexTensor: the first n // 2 + 1 of n Hermitian
            numbers along the last of `dim`. What is no part of such (imag of X[0]) is ignored.
        s: lengths of the transforms. Default: the sizes of `dim`. The last length is that of the
            result; its default is 2 * (size of the last `dim` - 1).
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
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
    """`ihfft` along several dimensions, `ifft`'s sum along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape, dtype and device.

    Returns:
        A complex tensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("ihfftn", _IHFFT, input, s, dim, norm, out)


def _one(
    name: str,
    kind: Kind,
    input: Input,
    n: int | None,
    dim: int,
    norm: str | None,
    out: Any,
    order: str = "natural",
) -> Any:
    """A transform along one dimension."""
    if out is None and order == "natural":
        if _is_straight(kind.takes, input, norm) and _are_usual(input, n, dim):
            return kind.one(input, n, dim, norm)
        if _is_split_straight(kind, input, norm) and _are_usual(described(input), n, dim):
            z = torch.complex(*parts_to_read(input))
            return split_whole(kind.one(z, n, dim, norm), z.device)
    x = _prepared(name, kind, input)
    size, dim = length_and_dimension(x, n, dim, is_half=kind.operation is ops.c2r)
    arguments = (x, (size,), (dim,), kind.inverse, normalization(norm))
    if not _is_planned(order):
        return _written(kind.operation(*arguments), input, out)
    if kind.inverse and size != described(x).shape[dim]:
        raise RuntimeError(
            f"argument 'n' is {n}, allowed with order 'planned' is the size of the dimension, "
            f"{described(x).shape[dim]}: a spectrum in planned order has no end to trim or pad"
        )
    return _written(ops.c2c(*arguments, planned=True), input, out)


def _is_straight(takes: tuple[torch.dtype, ...], x: Any, norm: Any) -> bool:
    """Whether torch.fft's own function does what is asked, of usual lengths and dimensions.

    To check and plan as for all other inputs takes longer than to transform 64 numbers.
    """
    return (
        type(x) is torch.Tensor
        and x.dtype in takes
        and not traced.is_traced()
        and 0 < x.numel() < _FEW
        and (norm is None or type(norm) is str and norm in NORMS)
        and ops.is_plain(x)
    )


def _is_split_straight(kind: Kind, x: Any, norm: Any) -> bool:
    """As `_is_straight`, of the two parts of a ComplexTensor that nothing follows."""
    return (
        type(x) is ComplexTensor
        and torch.complex64 in kind.takes
        and _is_straight(_REAL, x._real, norm)
        and not is_followed(x)
    )


def _are_usual(x: torch.Tensor, n: Any, dim: Any) -> bool:
    """Whether this is a dimension, and a length for which it has enough numbers."""
    ndim = x.ndim
    if type(dim) is not int or not -ndim <= dim < ndim:
        return False
    return x.size(dim) > 1 if n is None else type(n) is int and 0 < n < _LONG


def _are_several_usual(x: torch.Tensor, lengths: Any, dims: Any) -> bool:
    """As `_are_usual`, for distinct dimensions, no more than torch.fft takes at once."""
    lengths = (None,) * len(dims) if lengths is None else lengths
    if type(lengths) not in (tuple, list) or len(lengths) != len(dims):
        return False
    if not all(_are_usual(x, n, dim) for n, dim in zip(lengths, dims, strict=True)):
        return False
    return 0 < len({dim % x.ndim for dim in dims}) == len(dims) <= MOST_DIMENSIONS


def length_and_dimension(x: Input, n: int | None, dim: int, is_half: bool) -> tuple[int, int]:
    """The length of a transform along one dimension, and this dimension counted from 0 on.

    Args:
        x: the input; with `is_half` half a spectrum, of a real result.
        n, dim: arguments of the public functions.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: as all transforms.
    """
    like = described(x)
    dim = dimension("dim", integer("dim", dim), like.ndim)
    usual = 2 * (like.shape[dim] - 1) if is_half else like.shape[dim]
    size = usual if n is None else integer("n", n)
    check_length("n", n, size, like.shape[dim])
    if not is_sharded(x):
        check_longest(size, like.device)
    if n is not None:
        check_result("n", n, (*like.shape[:dim], size, *like.shape[dim + 1 :]), x)
    return size, dim


def _many(
    name: str,
    kind: Kind,
    input: Input,
    s: Sizes,
    dim: int | Iterable[int] | None,
    norm: str | None,
    out: Any,
) -> Any:
    """A transform along several dimensions."""
    is_usual = out is None and type(dim) in (tuple, list) and _is_straight(kind.takes, input, norm)
    if is_usual and _are_several_usual(input, s, dim):
        return kind.several(input, s, dim, norm)
    x, sizes, dims = several(name, kind, input, s, dim)
    result = kind.operation(x, sizes, dims, kind.inverse, normalization(norm))
    return _written(result, input, out)


def several(
    name: str, kind: Kind, input: Input, s: Sizes, dim: int | Iterable[int] | None
) -> tuple[Input, tuple[int, ...], tuple[int, ...]]:
    """Input, lengths and dimensions of a transform, as `trnfft.ops.transforms` takes them.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: as all transforms.
    """
    x = _prepared(name, kind, input)
    like = described(x)
    given = None if s is None else integers("s", s)
    dims = dimensions("dim", dim, given, like.ndim)
    if not dims and kind.operation is not ops.c2c:
        raise RuntimeError(f"argument 'dim' is (), {name} must transform at least one dimension")
    sizes = [like.shape[d] for d in dims] if given is None else list(given)
    for i, (size, d) in enumerate(zip(sizes, dims, strict=True)):
        if given is None or size == -1:
            is_half = kind.operation is ops.c2r and i == len(dims) - 1
            sizes[i] = 2 * (like.shape[d] - 1) if is_half else like.shape[d]
        check_length("s", given, sizes[i], like.shape[d])
        if not is_sharded(x):
            check_longest(sizes[i], like.device)
    if given is not None:
        lengths = dict(zip(dims, sizes, strict=True))
        shape = [lengths.get(d, size) for d, size in enumerate(like.shape)]
        check_result("s", given, shape, x)
    return x, tuple(sizes), dims


def _prepared(name: str, kind: Kind, input: Input) -> Input:
    """`input` with a dtype to compute in."""
    x = floating_point("input", input, DTYPE_ERROR)
    if kind.operation is ops.r2c and x.is_complex():
        raise RuntimeError(
            f"argument 'input' has dtype {x.dtype}, {name} allows real dtypes only; "
            f"take its .real, or use {name.replace('r', '').replace('h', '')}"
        )
    return widened(x)


def check_result(name: str, given: object, shape: Sequence[int], x: Input) -> None:
    """Refuses lengths for which the result does not fit in memory. RuntimeError."""
    if not is_sharded(x) and may_be_too_many(math.prod(shape)):
        what = f"argument '{name}' is {shown(given)}"
        part = described(x)
        check_memory(what, shape, part.element_size(), part.device)


def check_longest(size: int, device: torch.device) -> None:
    """Refuses what no kernel can do before the input is padded to it. NotImplementedError."""
    if torch.compiler.is_compiling() or size < _LONG or config.get_precision() == "double":
        return
    if backend_for(device) != "torch":
        from trnfft.planner import planner  # here: only its users load the kernels

        planner.check_longest(size)


def _is_planned(order: str) -> bool:
    if not isinstance(order, str):
        raise TypeError(f"argument 'order' must be a str, not {type(order).__name__}")
    check_choice("order", order, ORDERS, RuntimeError)
    return order == "planned"


def _written(result: Any, input: Input, out: Any) -> Any:
    """The result, of the kind that the input gives, or `out` with the result in it."""
    if is_sharded(input):
        result = of_kind(result, input)
    if out is None:
        return result
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
        raise RuntimeError(f"argument 'out' has {given}; the result has {made}")
    try:
        return out.copy_(result)
    except RuntimeError as error:  # as of one number in several places
        raise RuntimeError(f"argument 'out' cannot be written: {error}") from None


# The names of NumPy, which torch takes for its own.
_OTHER_NAMES = {"axis": "dim", "a": "input", "x": "input"}


def _with_names_of_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """A transform of this library with all that torch's takes: other names, a native `out`."""

    @functools.wraps(function)
    def transform(*args: Any, **kwargs: Any) -> Any:
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
# The transforms of torch.fft, and in their place those of this library.
OF_TORCH: dict[Any, Callable[..., Any]] = {
    getattr(torch.fft, name): _with_names_of_torch(globals()[name]) for name in _NAMES.split()
}
