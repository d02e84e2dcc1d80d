"""The public transforms: arguments as in torch.fft, complex results as ComplexTensor.

Definitions, for a length N and k = 0 ... N-1:

    fft:   X[k] = scale * sum_j x[j] exp(-2 pi i j k / N)
    ifft:  x[k] = scale * sum_j X[j] exp(+2 pi i j k / N)

rfft is fft of real data, of which it keeps X[0] ... X[N//2], and irfft its inverse; ihfft and hfft
are these two with the other sign. The 2-D and n-D forms transform several dimensions.

Of every transform here: float64 and complex128 are computed in float64, float16, bfloat16 and
everything smaller in float32; integers and bool are converted to torch's default dtype first. The
result has parts (or, where it is real, elements) of float64 or float32 accordingly. `n` and `s`
trim the input, or pad it with zeros, at the end of a dimension; -1 in `s` keeps the size. All
raise

    TypeError: an argument is of the wrong type, or the backend lacks the dtype.
    IndexError: a dimension is out of range.
    RuntimeError: a length is less than 1, dimensions are not distinct or not as many as lengths,
        `norm` or `order` is unknown, `input` has a dtype that cannot be transformed or is complex
        where it must be real, or `out` does not fit.
    NotImplementedError: the length or the precision is beyond what the backend can do.

This file checks and normalises arguments; `trnfft.ops` computes.
"""

import operator
from collections.abc import Iterable
from typing import Any

import torch

from trnfft.complex.tensor import PART_DTYPES, ComplexTensor
from trnfft.ops import transforms as ops

Input = torch.Tensor | ComplexTensor
Sizes = int | Iterable[int] | None

NORMS = ("backward", "ortho", "forward")
ORDERS = ("natural", "planned")
_LAST_TWO = (-2, -1)
_COMPUTED = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def fft(
    input: Input,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
    order: str = "natural",
) -> ComplexTensor:
    """Discrete Fourier transform, along one dimension.

    Args:
        input: real, native complex or ComplexTensor, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: no scaling), "ortho" (1/sqrt(n)) or "forward" (1/n).
        out: where to write the result, of its shape and dtype.
        order: of the frequencies in the result: "natural", or "planned": as the stages of the plan
            leave them, see `trnfft.order`.

    Returns:
        ComplexTensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _one("fft", ops.c2c, input, n, dim, norm, False, out, order)


def ifft(
    input: Input,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
    order: str = "natural",
) -> ComplexTensor:
    """Inverse discrete Fourier transform, along one dimension.

    Args:
        input: real, native complex or ComplexTensor, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: 1/n), "ortho" (1/sqrt(n)) or "forward" (no scaling).
        out: where to write the result, of its shape and dtype.
        order: of the frequencies in `input`: "natural", or "planned": as `fft` with this argument
            gives them, all of them, so that `n` must be the size of `dim`.

    Returns:
        ComplexTensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _one("ifft", ops.c2c, input, n, dim, norm, True, out, order)


def rfft(
    input: torch.Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Discrete Fourier transform of real data, its first half, along one dimension.

    Args:
        input: real, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: no scaling), "ortho" (1/sqrt(n)) or "forward" (1/n).
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with `n // 2 + 1` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _one("rfft", ops.r2c, input, n, dim, norm, False, out)


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
        out: where to write the result, of its shape and dtype.

    Returns:
        torch.Tensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _one("irfft", ops.c2r, input, n, dim, norm, True, out)


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
        out: where to write the result, of its shape and dtype.

    Returns:
        torch.Tensor of the shape of `input` with `n` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _one("hfft", ops.c2r, input, n, dim, norm, False, out)


def ihfft(
    input: torch.Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Inverse of `hfft`: the first half of the Hermitian data of a real spectrum.

    Args:
        input: real, of any shape with at least one dimension.
        n: length of the transform. Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: 1/n), "ortho" (1/sqrt(n)) or "forward" (no scaling).
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with `n // 2 + 1` in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _one("ihfft", ops.r2c, input, n, dim, norm, True, out)


def fft2(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`fft` along two dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("fft2", ops.c2c, input, s, dim, norm, False, out)


def ifft2(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`ifft` along two dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("ifft2", ops.c2c, input, s, dim, norm, True, out)


def rfft2(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`rfft` along two dimensions, `fft` along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("rfft2", ops.r2c, input, s, dim, norm, False, out)


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
        out: where to write the result, of its shape and dtype.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("irfft2", ops.c2r, input, s, dim, norm, True, out)


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
        out: where to write the result, of its shape and dtype.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("hfft2", ops.c2r, input, s, dim, norm, False, out)


def ihfft2(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] = _LAST_TWO,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`ihfft` along two dimensions, `ifft`'s sum along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the two dimensions to transform.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("ihfft2", ops.r2c, input, s, dim, norm, True, out)


def fftn(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`fft` along several dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("fftn", ops.c2c, input, s, dim, norm, False, out)


def ifftn(
    input: Input,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`ifft` along several dimensions.

    Args:
        input: real, native complex or ComplexTensor, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("ifftn", ops.c2c, input, s, dim, norm, True, out)


def rfftn(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`rfft` along several dimensions, `fft` along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("rfftn", ops.r2c, input, s, dim, norm, False, out)


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
        out: where to write the result, of its shape and dtype.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("irfftn", ops.c2r, input, s, dim, norm, True, out)


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
        out: where to write the result, of its shape and dtype.

    Returns:
        torch.Tensor of the shape of `input` with the lengths in place of `dim`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("hfftn", ops.c2r, input, s, dim, norm, False, out)


def ihfftn(
    input: torch.Tensor,
    s: Sizes = None,
    dim: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """`ihfft` along several dimensions, `ifft`'s sum along all but the last.

    Args:
        input: real, of any shape with these dimensions.
        s: lengths of the transforms. Default: the sizes of `dim`.
        dim: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with n the product of the lengths.
        out: where to write the result, of its shape and dtype.

    Returns:
        ComplexTensor of the shape of `input` with the lengths in place of `dim`; for the
        last length, n, it is n // 2 + 1.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: see `trnfft.transforms`.
    """
    return _many("ihfftn", ops.r2c, input, s, dim, norm, True, out)


def _one(
    name: str,
    operation: Any,
    input: Input,
    n: int | None,
    dim: int,
    norm: str | None,
    inverse: bool,
    out: Any,
    order: str = "natural",
) -> Any:
    """A transform along one dimension, by an operation of `trnfft.ops`."""
    x = _prepared(name, operation, input)
    dim = _dimension(_integer("dim", dim), x.ndim)
    if n is None:
        size = x.shape[dim]
        size = 2 * (size - 1) if operation is ops.c2r else size
    else:
        size = _integer("n", n)
    _check_size("n", n, size, x.shape[dim])
    arguments = (x, (size,), (dim,), inverse, _norm(norm))
    if not _is_planned(order):
        return _written(operation(*arguments), out)
    if inverse and size != x.shape[dim]:
        raise RuntimeError(
            f"argument 'n' is {n}, allowed with order 'planned' is the size of the dimension, "
            f"{x.shape[dim]}: a spectrum in planned order has no end to trim or pad"
        )
    return _written(ops.c2c(*arguments, planned=True), out)


def _many(
    name: str,
    operation: Any,
    input: Input,
    s: Sizes,
    dim: int | Iterable[int] | None,
    norm: str | None,
    inverse: bool,
    out: Any,
) -> Any:
    """A transform along several dimensions, by an operation of `trnfft.ops`."""
    x = _prepared(name, operation, input)
    given = None if s is None else _integers("s", s)
    dims = _dimensions(given, dim, x.ndim)
    if not dims and operation is not ops.c2c:
        raise RuntimeError(f"argument 'dim' is (), {name} must transform at least one dimension")
    sizes = [x.shape[d] for d in dims] if given is None else list(given)
    for i, (size, d) in enumerate(zip(sizes, dims, strict=True)):
        if given is None or size == -1:
            is_half = operation is ops.c2r and i == len(dims) - 1
            sizes[i] = 2 * (x.shape[d] - 1) if is_half else x.shape[d]
        _check_size("s", given, sizes[i], x.shape[d])
    if not dims:
        return _written(x if isinstance(x, ComplexTensor) else ComplexTensor.from_complex(x), out)
    return _written(operation(x, tuple(sizes), dims, inverse, _norm(norm)), out)


def _prepared(name: str, operation: Any, input: Input) -> Input:
    """`input` with a dtype to compute in."""
    if not isinstance(input, (torch.Tensor, ComplexTensor)):
        raise TypeError(
            f"argument 'input' is of type {type(input).__name__}, allowed are torch.Tensor and "
            f"ComplexTensor; convert it with torch.as_tensor"
        )
    is_complex = isinstance(input, ComplexTensor) or input.is_complex()
    if operation is ops.r2c and is_complex:
        raise RuntimeError(
            f"argument 'input' has dtype {input.dtype}, {name} allows real dtypes only; "
            f"take its .real, or use {name.replace('r', '').replace('h', '')}"
        )
    if isinstance(input, torch.Tensor) and not is_complex:
        if not input.is_floating_point():
            input = input.to(torch.get_default_dtype())
        if input.dtype not in PART_DTYPES:
            raise RuntimeError(
                f"argument 'input' has dtype {input.dtype}, allowed are complex, integer and bool "
                f"dtypes and {', '.join(map(str, PART_DTYPES))}; convert it with .float()"
            )
    if isinstance(input, ComplexTensor):
        return input if input.real.dtype == torch.float64 else input.to(torch.float32)
    if input.dtype in _COMPUTED:
        return input
    return input.to(torch.complex64 if is_complex else torch.float32)


def _dimensions(
    given: tuple[int, ...] | None, dim: int | Iterable[int] | None, ndim: int
) -> tuple[int, ...]:
    """The dimensions to transform, from 0 on; as many as there are lengths."""
    if dim is None:
        count = ndim if given is None else len(given)
        if count > ndim:
            raise RuntimeError(
                f"argument 's' has {count} lengths, but argument 'input' has only {ndim} dimensions"
            )
        return tuple(range(ndim - count, ndim))
    chosen = _integers("dim", dim)
    if given is not None and len(given) != len(chosen):
        raise RuntimeError(
            f"argument 's' has {len(given)} lengths and argument 'dim' {len(chosen)} dimensions; "
            f"there must be as many"
        )
    dims = tuple(_dimension(d, ndim) for d in chosen)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"argument 'dim' is {chosen}, the dimensions must be distinct")
    return dims


def _dimension(dim: int, ndim: int) -> int:
    if ndim == 0:
        raise IndexError(
            f"argument 'dim' is {dim}, but argument 'input' has no dimensions; "
            f"give it one with input.reshape(1)"
        )
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"argument 'dim' is {dim}, allowed is {-ndim} to {ndim - 1} for an input of {ndim} "
            f"dimension{'s' if ndim > 1 else ''}"
        )
    return dim % ndim


def _check_size(name: str, given: object, size: int, available: int) -> None:
    if size >= 1:
        return
    if given is not None:
        raise RuntimeError(
            f"argument '{name}' is {given}, allowed is 1 or more; leave it out for the size of the "
            f"dimension, {available}"
        )
    raise RuntimeError(
        f"argument 'input' has size {available} along the dimension to transform, which makes a "
        f"length of {size}, allowed is 1 or more; pass {name} to pad with zeros"
    )


def _norm(norm: str | None) -> str:
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"argument 'norm' must be a str or None, not {type(norm).__name__}")
    norm = "backward" if norm is None else norm
    if norm not in NORMS:
        raise RuntimeError(
            f"argument 'norm' is {norm!r}, allowed are None and {', '.join(map(repr, NORMS))}"
        )
    return norm


def _is_planned(order: str) -> bool:
    if not isinstance(order, str):
        raise TypeError(f"argument 'order' must be a str, not {type(order).__name__}")
    if order not in ORDERS:
        raise RuntimeError(
            f"argument 'order' is {order!r}, allowed are {', '.join(map(repr, ORDERS))}"
        )
    return order == "planned"


def _written(result: Any, out: Any) -> Any:
    """The result, or `out` with the result in it."""
    if out is None:
        return result
    if type(out) is not type(result) and not isinstance(out, type(result)):
        raise TypeError(
            f"argument 'out' is of type {type(out).__name__}, it must be a {type(result).__name__}"
        )
    if out.shape != result.shape or out.dtype != result.dtype:
        raise RuntimeError(
            f"argument 'out' has shape {tuple(out.shape)} and dtype {out.dtype}, the result has "
            f"shape {tuple(result.shape)} and dtype {result.dtype}"
        )
    parts = [(out, result)]
    if isinstance(result, ComplexTensor):
        parts = [(out.real, result.real), (out.imag, result.imag)]
    for place, part in parts:
        place.copy_(part)
    return out


def _integers(name: str, values: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(values, Iterable) and not isinstance(values, str):
        return tuple(_integer(name, value) for value in values)
    return (_integer(name, values),)


def _integer(name: str, value: object) -> int:
    # bool is an int in Python; torch.fft rejects it, as n=True is surely a mistake.
    if isinstance(value, bool):
        raise TypeError(f"argument '{name}' must be an int, not bool")
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"argument '{name}' must be an int, not {type(value).__name__}") from None
