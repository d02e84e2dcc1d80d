"""The public transforms: arguments as in torch.fft, results as ComplexTensor.

Definitions, for a length N and k = 0 ... N-1:

    fft:   X[k] = scale * sum_j x[j] exp(-2 pi i j k / N)
    ifft:  x[k] = scale * sum_j X[j] exp(+2 pi i j k / N)

This file checks and normalises arguments. `trnfft.ops` computes, along the last dimension.
"""

import math
import operator

import torch

from trnfft import ops
from trnfft.complex_tensor import PART_DTYPES, ComplexTensor

NORMS = ("backward", "ortho", "forward")


def fft(
    input: torch.Tensor | ComplexTensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
) -> ComplexTensor:
    """Discrete Fourier transform along one dimension.

    Args:
        input: real, native complex or ComplexTensor of any shape with at least one dimension.
            float64 is computed in float64. float16 and bfloat16 are computed in float32.
            Integers and bool are converted to torch's default dtype first.
        n: length of the transform: `input` is trimmed or padded with zeros at the end of `dim`.
            Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: no scaling), "ortho" (1/sqrt(n)) or "forward" (1/n).

    Returns:
        ComplexTensor of the shape of `input` with `n` in place of `dim`. Its parts are float64
        for float64 and complex128 input, float32 otherwise.

    Raises:
        TypeError: an argument is of the wrong type, or the backend lacks the dtype.
        IndexError: `dim` is out of range, or `input` has no dimension.
        RuntimeError: `n` is less than 1, `norm` is unknown, `input` has an 8-bit float dtype, or
            its device needs another backend.
        NotImplementedError: the length is beyond what the "nki-sim" backend can do.
    """
    return _transform(input, n, dim, norm, inverse=False)


def ifft(
    input: torch.Tensor | ComplexTensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
) -> ComplexTensor:
    """Inverse discrete Fourier transform along one dimension.

    Args:
        input: real, native complex or ComplexTensor; dtypes as for `fft`.
        n: length of the transform: `input` is trimmed or padded with zeros at the end of `dim`.
            Default: the size of `dim`.
        dim: the dimension to transform.
        norm: "backward" (the default: 1/n), "ortho" (1/sqrt(n)) or "forward" (no scaling).

    Returns:
        ComplexTensor of the shape of `input` with `n` in place of `dim`; parts as for `fft`.

    Raises:
        TypeError, IndexError, RuntimeError, NotImplementedError: as `fft`.
    """
    return _transform(input, n, dim, norm, inverse=True)


def _transform(
    input: torch.Tensor | ComplexTensor,
    n: int | None,
    dim: int,
    norm: str | None,
    inverse: bool,
) -> ComplexTensor:
    x = _complex_input(input)
    dim = _dimension(dim, x.ndim)
    n = _length(n, x.shape[dim])
    scale = _scale(norm, n, inverse)
    real, imag = ops.c2c(
        _resize(x.real.transpose(dim, -1), n), _resize(x.imag.transpose(dim, -1), n), inverse, scale
    )
    return ComplexTensor(real.transpose(dim, -1), imag.transpose(dim, -1))


def _complex_input(input: torch.Tensor | ComplexTensor) -> ComplexTensor:
    """Split `input` into float32 or float64 parts."""
    if not isinstance(input, (torch.Tensor, ComplexTensor)):
        raise TypeError(
            f"argument 'input' is of type {type(input).__name__}, allowed are torch.Tensor and "
            f"ComplexTensor; convert it with torch.as_tensor"
        )
    if isinstance(input, torch.Tensor):
        if not input.is_complex() and not input.is_floating_point():
            input = input.to(torch.get_default_dtype())
        if not input.is_complex() and input.dtype not in PART_DTYPES:
            raise RuntimeError(
                f"argument 'input' has dtype {input.dtype}, allowed are complex, integer and bool "
                f"dtypes and {', '.join(map(str, PART_DTYPES))}; convert it with .float()"
            )
        input = ComplexTensor.from_complex(input)
    if input.real.dtype == torch.float64:
        return input
    return input.to(torch.float32)


def _dimension(dim: int, ndim: int) -> int:
    dim = _integer("dim", dim)
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
    return dim


def _length(n: int | None, size: int) -> int:
    if n is not None:
        n = _integer("n", n)
        if n < 1:
            raise RuntimeError(
                f"argument 'n' is {n}, allowed is 1 or more; leave it out to use the size of the "
                f"dimension, {size}"
            )
        return n
    if size < 1:
        raise RuntimeError(
            "argument 'input' has size 0 along the dimension to transform, allowed is 1 or more; "
            "pass n to pad with zeros"
        )
    return size


def _scale(norm: str | None, n: int, inverse: bool) -> float:
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"argument 'norm' must be a str or None, not {type(norm).__name__}")
    norm = "backward" if norm is None else norm
    if norm not in NORMS:
        raise RuntimeError(
            f"argument 'norm' is {norm!r}, allowed are None and {', '.join(map(repr, NORMS))}"
        )
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if (norm == "backward") == inverse else 1.0


def _resize(x: torch.Tensor, n: int) -> torch.Tensor:
    """Trim the last dimension to `n`, or pad it with zeros."""
    size = x.shape[-1]
    return x[..., :n] if n <= size else torch.nn.functional.pad(x, (0, n - size))


def _integer(name: str, value: object) -> int:
    # bool is an int in Python; torch.fft rejects it, as n=True is surely a mistake.
    if isinstance(value, bool):
        raise TypeError(f"argument '{name}' must be an int, not bool")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"argument '{name}' must be an int, not {type(value).__name__}") from None
