"""Checks of arguments: errors that say what an argument is, what is allowed, and what to do.

Functions named `check_...` return nothing; the others return the argument as it is computed with.
`name` is that of the argument. Types of errors are those of the functions of torch that the public
functions follow, so that some checks are told theirs.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch

from trnfft.checks import check_flag, index, shown
from trnfft.complex.kinds import is_native, made_of
from trnfft.complex.parts import Numbers
from trnfft.complex.tensor import PART_DTYPES, ComplexTensor, described
from trnfft.memory import check_memory, may_be_too_many
from trnfft.ops.sharded import is_sharded
from trnfft.ops.traced import is_traced

Input = torch.Tensor | ComplexTensor

NORMS = ("backward", "ortho", "forward")

_KNOWN = (torch.Tensor, torch.nn.Parameter, ComplexTensor)
_COMPUTED = (torch.float32, torch.float64, torch.complex64, torch.complex128)

_INTEGERS = (
    torch.bool,
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)

# Numbers and names


def integer(name: str, value: object) -> int:
    """The int that an argument is.

    Raises:
        TypeError: it is none, or a bool.
        ValueError: it has more than 64 bits.
    """
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    number = index(name, value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"argument '{name}' is {shown(number)}, allowed are ints of 64 bits")
    return number


def integers(name: str, values: Any) -> tuple[int, ...]:
    """The ints of an argument that is one or several.

    Raises:
        TypeError, ValueError: one is no int, or has more than 64 bits.
    """
    if are_several(values):
        return tuple(integer(name, value) for value in values)
    return (integer(name, values),)


def are_several(values: object) -> bool:
    """Whether an argument has several values, perhaps one or none of them."""
    is_iterable = isinstance(values, Iterable) and not isinstance(values, (str, bytes))
    return is_iterable and getattr(values, "ndim", 1) > 0


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


def normalization(norm: str | None, name: str = "norm") -> str:
    """The name of argument 'norm'. RuntimeError for an unknown one, TypeError for none."""
    if norm is None:
        return "backward"
    if not isinstance(norm, str):
        raise TypeError(f"argument '{name}' must be a str or None, not {type(norm).__name__}")
    check_choice(name, norm, (None, *NORMS), RuntimeError)
    return norm


def check_positive(**sizes: int) -> None:
    """ValueError for an argument, given by its name, that is less than 1; TypeError for no int."""
    for name, size in sizes.items():
        if integer(name, size) < 1:
            raise ValueError(f"argument '{name}' is {size}, allowed is 1 or more")


def check_flags(**flags: object) -> None:
    """TypeError for an argument, given by its name, that is no bool."""
    for name, value in flags.items():
        check_flag(name, value)


def check_sizes(name: str, sizes: Any, dimensions: int, least: int) -> None:
    """Error for what is neither an int, `least` or more, nor one for each dimension."""
    if isinstance(sizes, Iterator):
        raise TypeError(
            f"argument '{name}' is of type {type(sizes).__name__}, which can be read once only, "
            f"allowed is an int or a tuple of {dimensions}; convert it with tuple()"
        )
    found = integers(name, sizes)
    if are_several(sizes) and len(found) != dimensions or min(found, default=0) < least:
        raise ValueError(
            f"argument '{name}' is {shown(sizes)}, allowed is an int or a tuple of {dimensions}, "
            f"each {least} or more"
        )


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
    if not isinstance(value, (str, int, type(None))) or value not in choices:
        raise error_type(
            f"argument '{name}' is {shown(value)}, allowed are {', '.join(map(repr, choices))}"
        )


# Tensors


def check_tensor(name: str, x: object) -> None:
    """TypeError for what is no tensor."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed are torch.Tensor and "
            f"ComplexTensor; convert it with torch.as_tensor"
        )
    _check_ordinary(name, x)


def _check_ordinary(name: str, x: torch.Tensor | ComplexTensor) -> None:
    """Error for a tensor of other numbers, or in another layout, than rows of them in memory."""
    if not isinstance(x, ComplexTensor):  # of which the parts are such
        _check_dense(name, x)
    # Of one that exists on many devices this one has a part.
    if may_be_too_many(described(x).numel()) and not is_sharded(x):
        what = f"argument '{name}' has shape {tuple(x.shape)}"
        check_memory(what, x.shape, x.element_size(), x.device)


def _check_dense(name: str, x: torch.Tensor) -> None:
    """Error for a tensor whose numbers are no rows of plain ones."""
    if x.is_nested:
        raise TypeError(
            f"argument '{name}' is a nested tensor, allowed are tensors of one shape; pad it with "
            f"torch.nested.to_padded_tensor, or take its parts with .unbind()"
        )
    if x.layout != torch.strided:
        raise NotImplementedError(
            f"argument '{name}' has the layout {x.layout}, allowed is torch.strided; convert "
            f"it with .to_dense()"
        )
    if x.is_quantized:
        raise TypeError(
            f"argument '{name}' is quantized ({x.dtype}), allowed are plain numbers; convert "
            f"it with .dequantize()"
        )


def check_real(name: str, x: object, advice: str = "") -> None:
    """TypeError for what is no tensor of real floating point numbers; `advice` follows ours."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed is a real torch.Tensor; "
            f"convert it with torch.as_tensor{advice}"
        )
    _check_ordinary(name, x)
    if x.dtype not in PART_DTYPES:
        raise TypeError(
            f"argument '{name}' has dtype {x.dtype}, allowed are "
            f"{', '.join(map(str, PART_DTYPES))}; convert it with .float(){advice}"
        )


def check_same_dtype(name: str, x: Input, dtype: torch.dtype) -> None:
    """RuntimeError, as torch's layers have it, for parts of another dtype than a weight's."""
    if x.real.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise RuntimeError(
            f"argument '{name}' has parts of {x.real.dtype}, allowed is {dtype}, the dtype of the "
            f"weight; convert one with .to(dtype)"
        )


def check_device(name: str, device: torch.device, other: str, its: torch.device) -> None:
    """ValueError where the argument of this name is on another device than `other`, some words."""
    if device != its:
        raise ValueError(
            f"argument '{name}' is on device '{device}' and {other} on '{its}'; "
            f"move one with .to(device)"
        )


def check_parameters(
    device: Any, dtype: torch.dtype | None, shape: Iterable[int] = (), **sizes: int
) -> None:
    """Errors for arguments of a layer that its parameters cannot have.

    Args:
        device, dtype: of the parameters.
        shape: of the largest of them.
        sizes: the arguments that it comes from, by their names.

    Raises:
        TypeError: `dtype` is not real, or `device` of another type.
        RuntimeError: there is no such device, or its memory is too small.
    """
    if dtype is not None and dtype not in PART_DTYPES:
        raise TypeError(
            f"argument 'dtype' is {shown(dtype)}, allowed are real floating point dtypes, those of "
            f"the parts: {', '.join(map(str, PART_DTYPES))}; use torch.float32 for complex64, "
            f"torch.float64 for complex128"
        )
    empty = no_numbers(device, dtype)
    if sizes:
        name = max(sizes, key=lambda name: sizes[name])
        what = f"argument '{name}' is {sizes[name]}, for a weight of shape {tuple(shape)}"
        check_memory(what, shape, empty.element_size(), empty.device)


def no_numbers(device: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """An empty tensor on the device that argument 'device' names.

    Raises:
        TypeError, RuntimeError: it is none, or none of this computer.
    """
    try:
        return torch.empty(0, device=device, dtype=dtype)
    except (TypeError, RuntimeError, AssertionError) as error:  # the last one where CUDA is absent
        kind = TypeError if isinstance(error, TypeError) else RuntimeError
        reason = str(error).split("\n")[0]
        raise kind(f"argument 'device' is {shown(device)}, which is none here: {reason}") from None


# What torch's own functions raise: transforms for dtypes that they do not take, istft for reals.
_IS_OLD = torch.__version__ < "2.14"
DTYPE_ERROR = RuntimeError if _IS_OLD else NotImplementedError
NOT_COMPLEX_ERROR = RuntimeError if _IS_OLD else TypeError


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
    if isinstance(x, ComplexTensor):
        return x
    if x.is_complex():
        if is_sharded(x):
            from trnfft.distributed import dtensor  # here, as it loads DTensor

            return dtensor.split(x)
        # Other classes of complex tensors are taken apart, as torch's own of two parts.
        return x if type(x) in _KNOWN or is_traced() else ComplexTensor.from_complex(x)
    if x.dtype in PART_DTYPES:
        return x
    if with_integers and x.dtype in _INTEGERS:
        return x.to(torch.get_default_dtype())
    others = "complex, integer and bool" if with_integers else "complex"
    raise error_type(
        f"argument '{name}' has dtype {x.dtype}, allowed are {others} dtypes and "
        f"{', '.join(map(str, PART_DTYPES))}; convert it with .float()"
    )


def as_complex(name: str, x: Input) -> torch.Tensor:
    """Real or complex floating point numbers as complex ones, of the kind that `x` gives.

    Raises:
        TypeError: `x` is no tensor, or one of other numbers.
    """
    x = floating_point(name, x, TypeError, with_integers=False)
    if x.dtype not in _COMPUTED:  # no native complex dtype that torch computes in
        return ComplexTensor.from_complex(x)
    return of_given_kind(x) if x.is_complex() else made_of(x.clone(), torch.zeros_like(x), x)


def of_given_kind(x: Input) -> Input:
    """A ComplexTensor in place of a native complex tensor that gives such; others as they are."""
    is_split = isinstance(x, torch.Tensor) and x.is_complex() and not is_native(x)
    return ComplexTensor.from_complex(x) if is_split else x


def computed_dtype(dtype: torch.dtype) -> torch.dtype:
    """The real dtype that real numbers of a dtype are computed in: float64, or float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def widened(x: Numbers) -> Numbers:
    """Floating point numbers in a dtype that is computed in, by the rule of `computed_dtype`."""
    if isinstance(x, ComplexTensor):
        dtype = described(x).dtype if not torch.compiler.is_compiling() else x.real.dtype
        return x if dtype in (torch.float32, torch.float64) else x.to(torch.float32)  # type: ignore[return-value]
    if x.dtype in _COMPUTED:
        return x
    return x.to(torch.complex64 if x.is_complex() else torch.float32)  # type: ignore[return-value]
