"""Checks of arguments: errors that say what an argument is, what is allowed, and what to do.

Functions named `check_...` return nothing; the others return the argument as it is computed with.
`name` is that of the argument. Types of errors are those of the functions of torch that the public
functions follow, so that some checks are told theirs.
"""

import math
import numbers
import operator
from collections.abc import Collection, Iterable
from typing import Any

import torch

from trnfft.complex.parts import Numbers
from trnfft.complex.tensor import PART_DTYPES, ComplexTensor

Input = torch.Tensor | ComplexTensor

NORMS = ("backward", "ortho", "forward")

_COMPUTED = (torch.float32, torch.float64, torch.complex64, torch.complex128)


# Numbers and names


def integer(name: str, value: object) -> int:
    """The int that an argument is.

    Raises:
        TypeError: it is none, or a bool.
    """
    # bool is an int in Python; torch.fft rejects it, as n=True is surely a mistake.
    if isinstance(value, bool):
        raise TypeError(f"argument '{name}' must be an int, not bool")
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"argument '{name}' must be an int, not {type(value).__name__}") from None


def integers(name: str, values: int | Iterable[int]) -> tuple[int, ...]:
    """The ints of an argument that is one or several.

    Raises:
        TypeError: one is no int.
    """
    if isinstance(values, Iterable) and not isinstance(values, str):
        return tuple(integer(name, value) for value in values)
    return (integer(name, values),)


def dimension(name: str, dim: int, ndim: int) -> int:
    """A dimension, which may count from the end, counted from 0 on.

    Raises:
        IndexError: an input of `ndim` dimensions has no such.
    """
    if ndim == 0:
        raise IndexError(
            f"argument '{name}' is {dim}, but argument 'input' has no dimensions; "
            f"give it one with input.reshape(1)"
        )
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"argument '{name}' is {dim}, allowed is {-ndim} to {ndim - 1} for an input of {ndim} "
            f"dimension{'s' if ndim > 1 else ''}"
        )
    return dim % ndim


def dimensions(
    name: str, dims: int | Iterable[int] | None, lengths: tuple[int, ...] | None, ndim: int
) -> tuple[int, ...]:
    """The distinct dimensions of an argument, from 0 on; as many as there are lengths, if any.

    None stands for all of an input of `ndim` dimensions, or for the last ones where there are
    lengths, those of argument 's'.

    Raises:
        IndexError: the input has no such dimension.
        RuntimeError: they are not distinct, or not as many as lengths.
        TypeError: one is no int.
    """
    if dims is None:
        count = ndim if lengths is None else len(lengths)
        if count > ndim:
            raise RuntimeError(
                f"argument 's' has {count} lengths, but argument 'input' has only {ndim} dimensions"
            )
        return tuple(range(ndim - count, ndim))
    chosen = integers(name, dims)
    if lengths is not None and len(lengths) != len(chosen):
        raise RuntimeError(
            f"argument 's' has {len(lengths)} lengths and argument '{name}' {len(chosen)} "
            f"dimensions; there must be as many"
        )
    found = tuple(dimension(name, dim, ndim) for dim in chosen)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argument '{name}' is {chosen}, the dimensions must be distinct")
    return found


def normalization(norm: str | None) -> str:
    """The name of argument 'norm'. RuntimeError for an unknown one, TypeError for none."""
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"argument 'norm' must be a str or None, not {type(norm).__name__}")
    check_choice("norm", norm, (None, *NORMS), RuntimeError)
    return "backward" if norm is None else norm


def finite(name: str, value: object) -> float:
    """The float that an argument is.

    Raises:
        TypeError: it is no real number.
        ValueError: it is infinite or NaN.
    """
    if not isinstance(value, numbers.Real):
        raise TypeError(f"argument '{name}' must be a real number, not {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"argument '{name}' is {value}, allowed are finite numbers")
    return float(value)


def check_positive(**sizes: int) -> None:
    """ValueError for an argument, given by its name, that is less than 1; TypeError for no int."""
    for name, size in sizes.items():
        if integer(name, size) < 1:
            raise ValueError(f"argument '{name}' is {size}, allowed is 1 or more")


def check_length(name: str, given: object, length: int, available: int) -> None:
    """RuntimeError for a transform of less than one point.

    Args:
        name: of the argument that says the length.
        given: what it is, None for the default.
        length: what it comes to.
        available: size of the dimension to transform.
    """
    if length >= 1:
        return
    if given is not None:
        raise RuntimeError(
            f"argument '{name}' is {given}, allowed is 1 or more; leave it out for the size of the "
            f"dimension, {available}"
        )
    raise RuntimeError(
        f"argument 'input' has size {available} along the dimension to transform, which makes a "
        f"length of {length}, allowed is 1 or more; pass {name} to pad with zeros"
    )


def check_choice(
    name: str,
    value: object,
    choices: Collection[str | int | None],
    error_type: type[Exception] = ValueError,
) -> None:
    """Error of this type for a value that is none of the choices."""
    if isinstance(value, torch.Tensor) or value not in choices:
        raise error_type(
            f"argument '{name}' is {value!r}, allowed are {', '.join(map(repr, choices))}"
        )


# Tensors


def check_tensor(name: str, x: object) -> None:
    """TypeError for what is no tensor."""
    if not isinstance(x, (torch.Tensor, ComplexTensor)):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed are torch.Tensor and "
            f"ComplexTensor; convert it with torch.as_tensor"
        )
    _check_one_shape(name, x)


def _check_one_shape(name: str, x: torch.Tensor | ComplexTensor) -> None:
    if not isinstance(x, ComplexTensor) and x.is_nested:
        raise TypeError(
            f"argument '{name}' is a nested tensor, allowed are tensors of one shape; pad it with "
            f"torch.nested.to_padded_tensor, or take its parts with .unbind()"
        )


def check_real(name: str, x: object, advice: str = "") -> None:
    """TypeError for what is no tensor of real floating point numbers; `advice` follows ours."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed is a real torch.Tensor; "
            f"convert it with torch.as_tensor{advice}"
        )
    _check_one_shape(name, x)
    if x.dtype not in PART_DTYPES:
        raise TypeError(
            f"argument '{name}' has dtype {x.dtype}, allowed are "
            f"{', '.join(map(str, PART_DTYPES))}; convert it with .float(){advice}"
        )


def check_device(name: str, device: torch.device, other: str, its: torch.device) -> None:
    """ValueError where the argument of this name is on another device than `other`, some words."""
    if device != its:
        raise ValueError(
            f"argument '{name}' is on device '{device}' and {other} on '{its}'; "
            f"move one with .to(device)"
        )


def check_real_dtype(dtype: torch.dtype | None) -> None:
    """TypeError for an argument 'dtype', of parameters of a layer, that is not real."""
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(
            f"argument 'dtype' is {dtype!r}, allowed are real floating point dtypes, those of the "
            f"parts; use torch.float32 for complex64, torch.float64 for complex128"
        )


def floating_point(
    name: str, x: Any, error_type: type[Exception], *, with_integers: bool = True
) -> Input:
    """A tensor of real or complex floating point numbers.

    Args:
        x: such; integers and bool are converted to torch's default dtype.
        error_type: the error for a dtype that cannot be computed with.
        with_integers: False where integers and bool are such.

    Raises:
        TypeError: `x` is no tensor.
    """
    check_tensor(name, x)
    if x.is_complex():
        return x
    if with_integers and not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    if x.dtype not in PART_DTYPES:
        others = "complex, integer and bool" if with_integers else "complex"
        raise error_type(
            f"argument '{name}' has dtype {x.dtype}, allowed are {others} dtypes and "
            f"{', '.join(map(str, PART_DTYPES))}; convert it with .float()"
        )
    return x


def as_complex(name: str, x: Input) -> ComplexTensor:
    """Real or complex floating point numbers as a ComplexTensor.

    Raises:
        TypeError: `x` is no tensor, or one of other numbers.
    """
    x = floating_point(name, x, TypeError, with_integers=False)
    return x if isinstance(x, ComplexTensor) else ComplexTensor.from_complex(x)


def split_complex(x: Input) -> Input:
    """A ComplexTensor in place of a native complex tensor; all others as they are."""
    if isinstance(x, torch.Tensor) and x.is_complex():
        return ComplexTensor.from_complex(x)
    return x


def computed_dtype(dtype: torch.dtype) -> torch.dtype:
    """The real dtype that real numbers of a dtype are computed in: float64, or float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def widened(x: Numbers) -> Numbers:
    """Floating point numbers in a dtype that is computed in, by the rule of `computed_dtype`."""
    if isinstance(x, ComplexTensor):
        return x if x.real.dtype == torch.float64 else x.to(torch.float32)  # type: ignore[return-value]
    if x.dtype in _COMPUTED:
        return x
    return x.to(torch.complex64 if x.is_complex() else torch.float32)  # type: ignore[return-value]
