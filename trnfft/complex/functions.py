"""What functions of torch do on ComplexTensors: what they do on native complex tensors.

Importing this file makes torch call these implementations (`ComplexTensor.__torch_function__`)
and gives ComplexTensor the methods that torch.Tensor has for them. Each is a few torch operations
on the parts: differentiable, and without native complex dtypes, so that it runs on every device.

Arguments are named as in torch; for `dtype`, a complex dtype and that of its parts are the same.
What the arguments may be is decided, and errors are raised, by torch's function on the parts.
"""

import itertools
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from trnfft import frequencies, transforms
from trnfft.complex.tensor import FUNCTIONS, ComplexTensor, dtype_of_parts

Function = Callable[..., Any]

# Functions that do the same to the real and to the imaginary part, and to nothing else.
_ON_EACH_PART = """
    atleast_1d atleast_2d atleast_3d bfloat16 broadcast_to cat chunk clone column_stack concat
    concatenate contiguous cpu cuda cumsum detach diag diag_embed diagonal diff double dsplit
    dstack expand flatten flip fliplr flipud float gather half hsplit hstack index_add index_copy
    index_select masked_scatter masked_select mean moveaxis movedim narrow neg negative new_empty
    new_zeros permute positive ravel repeat repeat_interleave reshape roll rot90 scatter_add
    select split split_with_sizes squeeze stack sum swapaxes swapdims t take take_along_dim
    tensor_split tile trace transpose tril triu unbind unflatten unfold unsqueeze vsplit vstack
"""

# Functions that make a tensor of the shape and dtype of another; a real dtype makes a real tensor.
_LIKE = "empty_like rand_like zeros_like"

# Functions linear in each of their first two arguments.
_BILINEAR = "bmm dot inner kron linalg.matmul matmul mm mv outer tensordot"

# Functions that ask of every number whether it is zero.
_OF_NONZERO = "all any argwhere count_nonzero logical_not nonzero"

# Functions with a form that writes into the first argument, named with an underscore at the end.
_WITH_IN_PLACE_FORM = """
    add conj_physical cos cosh div divide exp index_add index_copy log masked_fill masked_scatter
    mul multiply neg negative pow reciprocal scatter_add sgn sin sinh sqrt square sub subtract
    tanh true_divide
"""

_TRANSFORMS = """
    fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft hfft2 hfftn ihfft
    ihfft2 ihfftn
"""


# From functions of real to functions of complex tensors


def _on_each_part(function: Function) -> Function:
    """The function of the real parts of all arguments, and of the imaginary parts."""

    def implementation(*args: Any, **kwargs: Any) -> Any:
        real, imag = (
            function(
                *(_part(i, value) for value in args),
                **{name: _part(i, value) for name, value in kwargs.items()},
            )
            for i in (0, 1)
        )
        return _joined(real, imag)

    return implementation


def _part(i: int, value: Any, is_data: bool = False) -> Any:
    """The real (i = 0) or imaginary (i = 1) part of an argument that has such."""
    if isinstance(value, (list, tuple)):
        return tuple(_part(i, element, is_data=True) for element in value)
    # Integer and bool tensors outside of lists are indices and masks.
    if _is_inexact(value) or (is_data and isinstance(value, torch.Tensor)):
        return _both_parts(value)[i]
    return dtype_of_parts(value)


def _is_inexact(value: Any) -> bool:
    is_tensor = isinstance(value, (ComplexTensor, torch.Tensor))
    return is_tensor and (value.is_floating_point() or value.is_complex())


def _joined(real: Any, imag: Any) -> Any:
    """A ComplexTensor, or a tuple of them from functions such as `split`."""
    if isinstance(real, torch.Tensor):
        return ComplexTensor(real, imag)
    return tuple(map(_joined, real, imag))


def _parts(value: Any) -> tuple[Any, ...]:
    """Real and imaginary part of a tensor or number, but only the former of a real tensor."""
    if isinstance(value, torch.Tensor) and not value.is_complex():
        return (value,)
    return value.real, value.imag


def _both_parts(value: Any) -> tuple[Any, Any]:
    """Real and imaginary part of a tensor or number; zeros for that of a real tensor."""
    real, *imag = _parts(value)
    return real, imag[0] if imag else torch.zeros_like(real)


def _like(function: Function) -> Function:
    def implementation(
        input: ComplexTensor, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any
    ) -> Any:
        real, imag = (
            function(part, *args, dtype=dtype_of_parts(dtype), **kwargs)
            for part in (input.real, input.imag)
        )
        return ComplexTensor(real, imag) if dtype is None or dtype.is_complex else real

    return implementation


def _multilinear(function: Function, *operands: Any) -> ComplexTensor:
    """The function of every choice of parts, summed as the terms of (a + ib)(c + id) are."""
    sums: list[Any] = [None, None]
    for choice in itertools.product(*(enumerate(_parts(operand)) for operand in operands)):
        # The factor of this term is i ** power: 1, i, -1, -i.
        power = sum(i for i, _ in choice)
        term = function(*(part for _, part in choice))
        term = -term if power % 4 >= 2 else term
        total = sums[power % 2]
        sums[power % 2] = term if total is None else total + term
    return ComplexTensor(*sums)


def _bilinear(function: Function) -> Function:
    def implementation(input: Any, other: Any, *args: Any, **kwargs: Any) -> ComplexTensor:
        return _multilinear(lambda a, b: function(a, b, *args, **kwargs), input, other)

    return implementation


def _of_nonzero(function: Function) -> Function:
    def implementation(input: ComplexTensor, *args: Any, **kwargs: Any) -> Any:
        return function(input != 0, *args, **kwargs)

    return implementation


def _in_place(function: Function) -> Function:
    def implementation(self: ComplexTensor, *args: Any, **kwargs: Any) -> ComplexTensor:
        return self.copy_(function(self, *args, **kwargs))

    return implementation


# Arithmetic: either operand may be the ComplexTensor, the other one real or a number


def _operator(name: str, reflected: str) -> Function:
    """The operator's method of the operand that is the ComplexTensor."""

    # Not the operator itself, for which torch.compile would call __torch_function__ again.
    def implementation(input: Any, other: Any) -> Any:
        if isinstance(input, ComplexTensor):
            result = getattr(input, name)(other)
        else:
            result = getattr(other, reflected)(input)
        if result is NotImplemented:
            raise TypeError(
                f"argument 'other' is of type {type(other).__name__}, allowed are ComplexTensor, "
                f"torch.Tensor and numbers; convert it with torch.as_tensor"
            )
        return result

    return implementation


_add = _operator("__add__", "__radd__")
_sub = _operator("__sub__", "__rsub__")
_mul = _operator("__mul__", "__rmul__")
_div = _operator("__truediv__", "__rtruediv__")
_eq = _operator("__eq__", "__eq__")
_ne = _operator("__ne__", "__ne__")


def _with_alpha(function: Function) -> Function:
    def implementation(input: Any, other: Any, *, alpha: Any = 1) -> ComplexTensor:
        if alpha == 1:
            return function(input, other)
        like = input if isinstance(input, ComplexTensor) else other
        return function(input, _promoted(alpha, like) * other)

    return implementation


def _pow(input: Any, exponent: Any) -> ComplexTensor:
    if isinstance(exponent, numbers.Real) and float(exponent).is_integer():
        return _integer_power(input, int(float(exponent)))
    if isinstance(exponent, numbers.Real) and exponent == 0.5:
        return _sqrt(input)
    z, w = _promoted(input, exponent), _promoted(exponent, input)
    is_zero = z == 0
    # The logarithm of zero is infinite: compute elsewhere, then write the limit.
    limit = torch.where(w.real > 0, 0.0, torch.nan).to(z.real.dtype).masked_fill(w == 0, 1)
    power = _exp(w * _log(_masked_fill(z, is_zero, 1)))
    return _where(is_zero, limit, power)


def _integer_power(base: ComplexTensor, exponent: int) -> ComplexTensor:
    """By squaring: log2(exponent) roundings, and no logarithm."""
    if exponent == 0:
        return _full_like(base, 1)
    base = 1 / base if exponent < 0 else base.clone()
    power = base
    for digit in bin(abs(exponent))[3:]:
        power = power * power
        power = power * base if digit == "1" else power
    return power


def _promoted(value: Any, like: Any) -> ComplexTensor:
    """The tensor or number as a ComplexTensor, in the dtype of `like` if it has no parts'."""
    if isinstance(value, ComplexTensor):
        return value
    if _is_inexact(value):
        return ComplexTensor.from_complex(value)
    options = {"dtype": like.real.dtype, "device": like.device}
    return ComplexTensor(*(torch.as_tensor(part, **options) for part in _both_parts(value)))


def _equal(input: Any, other: Any) -> bool:
    return input.shape == other.shape and bool(_eq(input, other).all())


def _isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> torch.Tensor:
    close = _eq(input, other)
    if equal_nan:
        close = close | (torch.isnan(input) & torch.isnan(other))
    error = _sub(input, other).abs()
    return close | (error.isfinite() & (error <= atol + rtol * abs(other)))


def _allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    return bool(_isclose(input, other, rtol, atol, equal_nan).all())


# Elementary functions


def _exp(input: ComplexTensor) -> ComplexTensor:
    return ComplexTensor.from_polar(torch.exp(input.real), input.imag)


def _log(input: ComplexTensor) -> ComplexTensor:
    a, b, absolute = input.real, input.imag, input.abs()
    # Near z = 1, rounding the absolute value would cost the digits of its logarithm.
    is_near = (absolute > 0.5) & (absolute < 2)
    excess = ((a - 1) * (a + 1) + b * b).masked_fill(~is_near, 0)
    real = torch.where(is_near, torch.log1p(excess) / 2, torch.log(absolute))
    return ComplexTensor(real, input.angle())


def _sqrt(input: ComplexTensor) -> ComplexTensor:
    """The root with a real part >= 0; on the cut, the sign of the zero chooses the side."""
    real, imag = input.real, input.imag
    is_right = real >= 0
    sign = torch.copysign(torch.ones_like(imag), imag.detach())
    # The larger of the parts, then the smaller one without a difference that cancels.
    large = torch.sqrt(torch.where(is_right, real, -real) / 2 + input.abs() / 2)
    small = sign * imag / (2 * large.masked_fill(large == 0, 1))
    return ComplexTensor(
        torch.where(is_right, large, small), sign * torch.where(is_right, small, large)
    )


def _sgn(input: ComplexTensor) -> ComplexTensor:
    absolute = input.abs()
    is_zero = absolute == 0
    return _masked_fill(input / absolute.masked_fill(is_zero, 1), is_zero, 0)


def _sin(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.sin(a) * torch.cosh(b), torch.cos(a) * torch.sinh(b))


def _cos(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.cos(a) * torch.cosh(b), -torch.sin(a) * torch.sinh(b))


def _sinh(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.sinh(a) * torch.cos(b), torch.cosh(a) * torch.sin(b))


def _cosh(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.cosh(a) * torch.cos(b), torch.sinh(a) * torch.sin(b))


def _tanh(input: ComplexTensor) -> ComplexTensor:
    # The addition theorem: unlike sinh / cosh, it does not overflow.
    a, b = torch.tanh(input.real), torch.tan(input.imag)
    return ComplexTensor(a, b) / ComplexTensor(torch.ones_like(a), a * b)


# Reductions and products


def _prod(
    input: ComplexTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> ComplexTensor:
    """By products of halves: log2(size) roundings, and gradients that are exact at zeros."""
    input = input if dtype is None else input.to(dtype)
    x = input.reshape(-1) if dim is None else input.movedim(dim, -1)
    while (size := x.shape[-1]) > 1:
        product = x[..., : size // 2] * x[..., size // 2 : size // 2 * 2]
        x = torch.cat([product, x[..., size // 2 * 2 :]], dim=-1)  # type: ignore[list-item]
    x = x[..., 0] if x.shape[-1] else _full_like(x.sum(-1), 1)
    return x.unsqueeze(dim) if keepdim else x


def _var(input: ComplexTensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.var(input.real, *args, **kwargs) + torch.var(input.imag, *args, **kwargs)


def _std(input: ComplexTensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.sqrt(_var(input, *args, **kwargs))


def _norm(
    input: ComplexTensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: torch.Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    _check_norm("p", p, is_matrix=False)
    return torch.norm(input.abs(), p, dim, keepdim, out, dtype_of_parts(dtype))


def _linalg_norm(
    A: ComplexTensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    dims = range(A.ndim) if dim is None else dim
    _check_norm("ord", ord, is_matrix=isinstance(dims, Iterable) and len(list(dims)) == 2)
    return torch.linalg.norm(A.abs(), ord, dim, keepdim, dtype=dtype_of_parts(dtype))


def _vector_norm(
    x: ComplexTensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return torch.linalg.vector_norm(x.abs(), ord, dim, keepdim, dtype=dtype_of_parts(dtype))


def _check_norm(name: str, order: Any, is_matrix: bool) -> None:
    if order == "nuc" or (is_matrix and order in (2, -2)):
        raise TypeError(
            f"argument '{name}' is {order!r}, a norm of singular values, which ComplexTensor has "
            f"not; allowed are the norms of absolute values; call it on x.to_complex()"
        )


def _vdot(input: Any, other: Any) -> ComplexTensor:
    return _multilinear(torch.dot, input.conj(), other)


def _einsum(equation: str, *operands: Any) -> ComplexTensor:
    operands = _sequence(operands)
    return _multilinear(lambda *parts: torch.einsum(equation, *parts), *operands)


def _linear(input: Any, weight: Any, bias: Any = None) -> ComplexTensor:
    product = _multilinear(torch.nn.functional.linear, input, weight)
    return product if bias is None else product + bias


def _convolution(function: Function) -> Function:
    def implementation(input: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Any:
        sums = _multilinear(lambda x, w: function(x, w, None, *args, **kwargs), input, weight)
        # The dimensions after that of the channels are as many as those of a kernel.
        return sums if bias is None else sums + bias.reshape(-1, *[1] * (weight.ndim - 2))

    return implementation


# Choices and other functions that take numbers


def _where(condition: Any, input: Any = None, other: Any = None) -> Any:
    if input is None:
        return torch.nonzero(condition != 0, as_tuple=True)
    _check_mask("condition", condition)
    (a_real, a_imag), (b_real, b_imag) = _both_parts(input), _both_parts(other)
    return ComplexTensor(
        torch.where(condition, a_real, b_real), torch.where(condition, a_imag, b_imag)
    )


def _view(input: ComplexTensor, *shape: Any) -> ComplexTensor:
    if isinstance(shape[0], torch.dtype):
        raise TypeError(
            f"argument 'dtype' is {shape[0]}, allowed is a shape only; convert with x.to(dtype), "
            f"or take both parts with torch.view_as_real(x)"
        )
    return ComplexTensor(input.real.view(*shape), input.imag.view(*shape))


def _check_mask(name: str, mask: Any) -> None:
    if isinstance(mask, ComplexTensor):
        raise TypeError(
            f"argument '{name}' has dtype {mask.dtype}, allowed is torch.bool; "
            f"compare first, for example x != 0"
        )


def _masked_fill(input: ComplexTensor, mask: torch.Tensor, value: Any) -> ComplexTensor:
    _check_mask("mask", mask)
    real, imag = _both_parts(value)
    return ComplexTensor(input.real.masked_fill(mask, real), input.imag.masked_fill(mask, imag))


def _full_like(
    input: ComplexTensor, fill_value: Any, *, dtype: torch.dtype | None = None, **kwargs: Any
) -> Any:
    if dtype is not None and not dtype.is_complex:
        return torch.full_like(input.real, fill_value, dtype=dtype, **kwargs)
    kwargs["dtype"] = dtype_of_parts(dtype)
    real, imag = _both_parts(fill_value)
    return ComplexTensor(
        torch.full_like(input.real, real, **kwargs), torch.full_like(input.imag, imag, **kwargs)
    )


def _randn_like(input: ComplexTensor, **kwargs: Any) -> ComplexTensor:
    # The variance of the complex number is one, so that of each part a half.
    return _like(torch.randn_like)(input, **kwargs) * math.sqrt(0.5)


def _pad(
    input: ComplexTensor, pad: Any, mode: str = "constant", value: Any = None
) -> ComplexTensor:
    parts = zip(_parts(input), (None, None) if value is None else _both_parts(value), strict=True)
    return ComplexTensor(*(torch.nn.functional.pad(x, pad, mode, v) for x, v in parts))


def _broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    tensors = _sequence(tensors)
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    return tuple(x.expand(shape) for x in tensors)


_OTHERS: dict[str, Function] = {
    "abs": ComplexTensor.abs,
    "absolute": ComplexTensor.abs,
    "add": _with_alpha(_add),
    "adjoint": lambda input: input.mH,
    "allclose": _allclose,
    "angle": ComplexTensor.angle,
    "broadcast_tensors": _broadcast_tensors,
    "conj": ComplexTensor.conj,
    "conj_physical": ComplexTensor.conj,
    "cos": _cos,
    "cosh": _cosh,
    "div": _div,
    "divide": _div,
    "einsum": _einsum,
    "eq": _eq,
    "equal": _equal,
    "exp": _exp,
    "full_like": _full_like,
    "imag": lambda input: input.imag,
    "is_complex": ComplexTensor.is_complex,
    "is_conj": lambda input: False,
    "is_floating_point": ComplexTensor.is_floating_point,
    "isclose": _isclose,
    "isfinite": lambda input: input.real.isfinite() & input.imag.isfinite(),
    "isinf": lambda input: input.real.isinf() | input.imag.isinf(),
    "isnan": lambda input: input.real.isnan() | input.imag.isnan(),
    "isreal": lambda input: input.imag == 0,
    "linalg.norm": _linalg_norm,
    "linalg.vector_norm": _vector_norm,
    "log": _log,
    "log10": lambda input: _log(input) / math.log(10),
    "log2": lambda input: _log(input) / math.log(2),
    "masked_fill": _masked_fill,
    "mul": _mul,
    "multiply": _mul,
    "ne": _ne,
    "nn.functional.conv1d": _convolution(torch.nn.functional.conv1d),
    "nn.functional.conv2d": _convolution(torch.nn.functional.conv2d),
    "nn.functional.conv3d": _convolution(torch.nn.functional.conv3d),
    "nn.functional.linear": _linear,
    "nn.functional.pad": _pad,
    "norm": _norm,
    "not_equal": _ne,
    "numel": ComplexTensor.numel,
    "ones_like": lambda input, **kwargs: _full_like(input, 1, **kwargs),
    "pow": _pow,
    "prod": _prod,
    "randn_like": _randn_like,
    "real": lambda input: input.real,
    "reciprocal": lambda input: 1 / input,
    "resolve_conj": lambda input: input,
    "resolve_neg": lambda input: input,
    "rsqrt": lambda input: 1 / _sqrt(input),
    "rsub": lambda input, other, alpha=1: _with_alpha(_sub)(other, input, alpha=alpha),
    "sgn": _sgn,
    "sin": _sin,
    "sinh": _sinh,
    "sqrt": _sqrt,
    "square": lambda input: input * input,
    "std": _std,
    "sub": _with_alpha(_sub),
    "subtract": _with_alpha(_sub),
    "tan": lambda input: -1j * _tanh(1j * input),
    "tanh": _tanh,
    "true_divide": _div,
    "var": _var,
    "vdot": _vdot,
    "view": _view,
    "view_as_real": lambda input: torch.stack([input.real, input.imag], dim=-1),
    "where": _where,
}


def _sequence(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, whether they were passed one by one or as one list."""
    return tuple(arguments[0]) if isinstance(arguments[0], (list, tuple)) else arguments


# The table


def _named(names: Iterable[str]) -> Iterator[tuple[str, Function]]:
    """The function of torch and the method of torch.Tensor of each name, where they exist."""
    for name in names:
        for owner in (torch, torch.Tensor):
            try:
                function = operator.attrgetter(name)(owner)
            except AttributeError:
                continue
            if callable(function):
                yield name, function


_GROUPS: tuple[tuple[str, Callable[[Function], Function]], ...] = (
    (_ON_EACH_PART, _on_each_part),
    (_LIKE, _like),
    (_BILINEAR, _bilinear),
    (_OF_NONZERO, _of_nonzero),
)
for _names, _implementation_of in _GROUPS:
    FUNCTIONS.update(
        (function, _implementation_of(function)) for _, function in _named(_names.split())
    )
FUNCTIONS.update((function, _OTHERS[name]) for name, function in _named(_OTHERS))
FUNCTIONS[torch.Tensor.where] = lambda self, condition, other: _where(condition, self, other)
FUNCTIONS.update(
    (getattr(torch.fft, name), getattr(transforms, name)) for name in _TRANSFORMS.split()
)
FUNCTIONS[torch.fft.fftshift] = frequencies.fftshift
FUNCTIONS[torch.fft.ifftshift] = frequencies.ifftshift

# The methods of ComplexTensor, where the class itself does not define them.
_METHODS: dict[str, Function] = {
    "fill_": ComplexTensor.copy_,
    "zero_": lambda self: self.copy_(0),
}
for _name in {function.__name__ for function in FUNCTIONS}:
    _method = getattr(torch.Tensor, _name, None)
    if _method in FUNCTIONS:
        _METHODS[_name] = FUNCTIONS[_method]
for _name in _WITH_IN_PLACE_FORM.split():
    _METHODS[f"{_name}_"] = _in_place(_METHODS[_name])
for _name, _method in _METHODS.items():
    _method.__doc__ = _method.__doc__ or f"As torch.Tensor.{_name}."
    if _name not in vars(ComplexTensor):
        setattr(ComplexTensor, _name, _method)
