"""Checks of arguments, whose errors name the argument, its value, what is allowed and what to do.

Functions named `check_...` return nothing. The others return the argument in the form that is used
for the computation. `name` is always the name of the argument. The public functions raise the same
types of errors as the functions of torch that they follow, so some checks are given an error type.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TypeGuard

import torch

from trnfft.base.checks import brief, check_flag, index
from trnfft.base.memory import check_memory, check_memory_of, may_be_too_many
from trnfft.complex.given_parts import PART_DTYPES
from trnfft.complex.kinds import is_native, made_of
from trnfft.complex.parts import Numbers, described, is_sharded, split
from trnfft.complex.tensor import ComplexTensor
from trnfft.ops.operand import Operand, is_recorded, operand_of

Input = torch.Tensor | ComplexTensor
"""Numbers that a function accepts: a real tensor, a native complex tensor or a ComplexTensor.

A native complex tensor has one of torch's complex dtypes, such as `torch.complex64`. A
`trnfft.ComplexTensor`, itself a `torch.Tensor`, holds two real tensors and needs no device with
complex dtypes. DTensors, and ComplexTensors of two DTensors, are allowed as well.
"""

MOST_DIMENSIONS = 64  # of a tensor; many of torch's functions have this limit

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
    """Returns an argument as an int.

    Raises:
        TypeError: it is not an int, or it is a bool.
        ValueError: it has more than 64 bits.
    """
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    number = index(name, value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"argument '{name}' is {brief(number)}, allowed are ints of 64 bits")
    return number


def integers(name: str, values: object) -> tuple[int, ...]:
    """Returns the ints of an argument that is one int or several, as many as dimensions can be."""
    if not are_several(values):
        return (integer(name, values),)
    ints = tuple(integer(name, value) for value in islice(values, MOST_DIMENSIONS + 1))
    if len(ints) > MOST_DIMENSIONS:  # an iterable may be endless
        raise RuntimeError(
            f"argument '{name}' has more than {MOST_DIMENSIONS} numbers, allowed are at most as "
            f"many as a tensor has dimensions"
        )
    return ints


def are_several(values: object) -> TypeGuard[Iterable[object]]:
    """Whether an argument is a collection of values, which may hold one value or none."""
    is_iterable = isinstance(values, Iterable) and not isinstance(values, (str, bytes))
    return is_iterable and getattr(values, "ndim", 1) > 0


def dimension(name: str, dim: int, ndim: int) -> int:
    """Returns a dimension, which may count from the end, counted from 0.

    Raises:
        IndexError: an input of `ndim` dimensions does not have it.
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
    """Returns the distinct dimensions of an argument, counted from 0.

    None stands for all dimensions of an input of `ndim` dimensions. With `lengths`, which are
    argument 's', None stands for the last dimensions, as many as there are lengths.
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
            f"dimensions; give as many lengths as dimensions"
        )
    axes = tuple(dimension(name, dim, ndim) for dim in chosen)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"argument '{name}' is {chosen}, the dimensions must be distinct")
    return axes


def normalization(norm: str | None, name: str = "norm") -> str:
    """Returns argument 'norm', with "backward" in place of None."""
    if norm is None:
        return "backward"
    if not isinstance(norm, str):
        raise TypeError(f"argument '{name}' must be a str or None, not {type(norm).__name__}")
    check_choice(name, norm, (None, *NORMS), RuntimeError)
    return norm


def check_positive(**sizes: int) -> None:
    """Raises ValueError for an argument less than 1, TypeError for one that is not an int."""
    for name, size in sizes.items():
        if integer(name, size) < 1:
            raise ValueError(f"argument '{name}' is {size}, allowed is 1 or more")


def check_flags(**flags: object) -> None:
    """Raises TypeError for an argument that is not a bool."""
    for name, value in flags.items():
        check_flag(name, value)


def check_sizes(name: str, sizes: int | Iterable[int], dimensions: int, least: int) -> None:
    """Raises an error unless `sizes` is one int or one for each dimension, `least` or more."""
    if isinstance(sizes, Iterator):
        raise TypeError(
            f"argument '{name}' is of type {type(sizes).__name__}, which can be read once only, "
            f"allowed is an int or a tuple of {dimensions}; convert it with tuple()"
        )
    ints = integers(name, sizes)
    if are_several(sizes) and len(ints) != dimensions or min(ints, default=0) < least:
        raise ValueError(
            f"argument '{name}' is {brief(sizes)}, allowed is an int or a tuple of {dimensions}, "
            f"each {least} or more"
        )


def check_length(name: str, given: object, length: int, available: int) -> None:
    """Raises RuntimeError for a transform of less than one point.

    Args:
        name: name of the argument that gives the length.
        given: value of that argument, None for the default.
        length: the length that follows from it.
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
    """Raises an error of the given type for a value that is not one of the choices."""
    if not isinstance(value, (str, int, type(None))) or value not in choices:
        raise error_type(
            f"argument '{name}' is {brief(value)}, allowed are {', '.join(map(repr, choices))}"
        )


# Tensors


def check_tensor(name: str, x: object) -> None:
    """Raises an error for an argument that is no tensor, or a tensor that is not plain numbers."""
    tensor = _of_plain_numbers(name, x)
    # Of a sharded tensor, this device holds only a part.
    if may_be_too_many(described(tensor).numel()) and not is_sharded(tensor):
        check_memory_of(name, tensor)


def _of_plain_numbers(name: str, x: object) -> torch.Tensor:
    """Returns a tensor; raises an error for anything else, and for those that are not dense."""
    if isinstance(x, ComplexTensor):  # whose parts are always dense
        return x
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed are torch.Tensor and "
            f"ComplexTensor; convert it with torch.as_tensor"
        )
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
    return x


def check_real(name: str, x: object, advice: str = "") -> None:
    """Raises TypeError unless `x` is a tensor of real floating-point numbers.

    `advice` is appended to the message.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"argument '{name}' is of type {type(x).__name__}, allowed is a real torch.Tensor; "
            f"convert it with torch.as_tensor{advice}"
        )
    check_tensor(name, x)
    if x.dtype not in PART_DTYPES:
        raise TypeError(
            f"argument '{name}' has dtype {x.dtype}, allowed are "
            f"{', '.join(map(str, PART_DTYPES))}; convert it with .float(){advice}"
        )


def check_same_dtype(name: str, x: Input, dtype: torch.dtype) -> None:
    """Raises RuntimeError, as torch's layers do, for parts of another dtype than the weight's."""
    if x.real.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise RuntimeError(
            f"argument '{name}' has parts of {x.real.dtype}, allowed is {dtype}, the dtype of the "
            f"weight; convert one with .to(dtype)"
        )


def check_device(name: str, device: torch.device, other: str, its: torch.device) -> None:
    """Raises ValueError where an argument is on another device than a tensor, named by `other`."""
    if device != its:
        raise ValueError(
            f"argument '{name}' is on device '{device}' and {other} on '{its}'; "
            f"move one with .to(device)"
        )


def check_parameters(
    device: torch.device | str | None,
    dtype: torch.dtype | None,
    shape: Iterable[int] = (),
    **sizes: int,
) -> None:
    """Raises an error for arguments of a layer that its parameters cannot have.

    Args:
        device, dtype: of the parameters.
        shape: shape of the largest parameter.
        sizes: the arguments from which the shape follows, by their names.

    Raises:
        TypeError: `dtype` is not real, or `device` has the wrong type.
        RuntimeError: the device does not exist, or its memory is too small.
    """
    if dtype is not None and dtype not in PART_DTYPES:
        raise TypeError(
            f"argument 'dtype' is {brief(dtype)}, allowed are real floating point dtypes, those of "
            f"the parts: {', '.join(map(str, PART_DTYPES))}; use torch.float32 for complex64, "
            f"torch.float64 for complex128"
        )
    empty = no_numbers(device, dtype)
    if sizes:
        name = max(sizes, key=lambda name: sizes[name])
        what = f"argument '{name}' is {sizes[name]}, for a weight of shape {tuple(shape)}"
        check_memory(what, shape, empty.element_size(), empty.device)


def no_numbers(device: torch.device | str | None, dtype: torch.dtype | None) -> torch.Tensor:
    """Returns an empty tensor on the device that argument 'device' names.

    Raises:
        TypeError, RuntimeError: it is not a device, or this computer does not have the device.
    """
    try:
        return torch.empty(0, device=device, dtype=dtype)
    except (TypeError, RuntimeError, AssertionError) as error:  # AssertionError for lack of CUDA
        kind = TypeError if isinstance(error, TypeError) else RuntimeError
        reason = str(error).split("\n")[0]
        raise kind(
            f"argument 'device' is {brief(device)}, allowed are devices of this computer: {reason}"
        ) from None


# The errors of torch's own functions: of transforms for other dtypes, of istft for real input.
_IS_OLD = torch.__version__ < "2.14"
DTYPE_ERROR = RuntimeError if _IS_OLD else NotImplementedError
NOT_COMPLEX_ERROR = RuntimeError if _IS_OLD else TypeError


def floating_point(
    name: str, x: torch.Tensor, error_type: type[Exception], *, with_integers: bool = True
) -> Input:
    """Returns a tensor of real or complex floating-point numbers.

    Args:
        name: name of the argument.
        x: the argument. Integers and bool are converted to torch's default dtype.
        error_type: type of the error for a dtype that cannot be used.
        with_integers: whether integers and bool are allowed.
    """
    check_tensor(name, x)
    return _floating(name, x, error_type, with_integers)


def _floating(
    name: str, x: torch.Tensor, error_type: type[Exception], with_integers: bool
) -> Input:
    if isinstance(x, ComplexTensor):
        return x
    if x.is_complex():
        # Other classes of complex tensors, such as torch's own of two parts, are split.
        is_kept = type(x) in _KNOWN or is_recorded() and not is_sharded(x)
        return x if is_kept else split(x)
    if x.dtype in PART_DTYPES:
        return x
    if with_integers and x.dtype in _INTEGERS:
        return x.to(torch.get_default_dtype())
    others = "complex, integer and bool" if with_integers else "complex"
    raise error_type(
        f"argument '{name}' has dtype {x.dtype}, allowed are {others} dtypes and "
        f"{', '.join(map(str, PART_DTYPES))}; convert it with .float()"
    )


def operand(
    name: str,
    x: torch.Tensor,
    error_type: type[Exception] = DTYPE_ERROR,
    *,
    with_integers: bool = True,
) -> Operand:
    """Returns the operand of an argument, in a dtype of computation; as `floating_point`."""
    made = operand_of(_of_plain_numbers(name, x))
    if not made.is_sharded:
        if may_be_too_many(made.like.numel()):
            check_memory_of(name, x)
        if type(x) in _KNOWN and made.like.dtype in _COMPUTED:
            return made
    floating = widened(_floating(name, x, error_type, with_integers))
    return made if floating is x else operand_of(floating)


def to_compute(
    name: str,
    x: Input,
    error_type: type[Exception] = DTYPE_ERROR,
    *,
    with_integers: bool = True,
) -> torch.Tensor:
    """Returns a tensor of the kind that `x` gives, in a dtype of computation; as `operand`."""
    given = floating_point(name, x, error_type, with_integers=with_integers)
    return widened(of_given_kind(given))


def as_complex(name: str, x: Input) -> torch.Tensor:
    """Returns floating-point numbers as complex numbers of the kind that `x` gives."""
    x = floating_point(name, x, TypeError, with_integers=False)
    if x.dtype not in _COMPUTED:  # torch computes in no native complex dtype of such parts
        return ComplexTensor.from_complex(x)
    return of_given_kind(x) if x.is_complex() else made_of(x.clone(), torch.zeros_like(x), x)


def of_given_kind(x: Input) -> Input:
    """Returns a ComplexTensor for a native complex tensor whose results are ComplexTensors.

    All other tensors are returned as they are.
    """
    is_split = isinstance(x, torch.Tensor) and x.is_complex() and not is_native(x)
    return ComplexTensor.from_complex(x) if is_split else x


def computed_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns the real dtype in which numbers of a real dtype are computed: float64, or float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def widened(x: Numbers) -> Numbers:
    """Returns floating-point numbers in a dtype of computation, as `computed_dtype` decides."""
    if isinstance(x, ComplexTensor):
        dtype = described(x).dtype if not torch.compiler.is_compiling() else x.real.dtype
        return x if dtype in (torch.float32, torch.float64) else x.to(torch.complex64)
    if x.dtype in _COMPUTED:
        return x
    return x.to(torch.complex64 if x.is_complex() else torch.float32)  # type: ignore[return-value]
