"""Sums, products, quotients, powers and comparisons of ComplexTensors.

Either operand may be the ComplexTensor; the other one may be real, native complex or a number.
"""

from collections.abc import Callable
from typing import Any

import torch

from trnfft.base.torch_private import OpOverload
from trnfft.complex.dispatch import TABLE, Argument, Parts, aten, both, implements, joined, split
from trnfft.complex.elementary import complex_exp, complex_log, complex_sqrt, divided
from trnfft.complex.given_parts import PART_DTYPES
from trnfft.complex.sharded import summed
from trnfft.complex.table import Function
from trnfft.complex.tensor import ComplexTensor


def _checked(function: Function) -> Any:
    """Returns an operator of two operands whose error names shapes that do not broadcast."""

    def implementation(self: Argument, other: Argument, *args: object, **kwargs: object) -> Any:
        try:
            return function(self, other, *args, **kwargs)
        except RuntimeError as error:
            shapes = [x.shape for x in (self, other) if isinstance(x, torch.Tensor)]
            if len(shapes) == 2 and not fit(*shapes):
                raise RuntimeError(
                    f"operands of shapes {tuple(shapes[0])} and {tuple(shapes[1])} do not "
                    f"broadcast; sizes must be equal or 1, counted from the last dimension"
                ) from error
            raise

    return implementation


def fit(shape: torch.Size, other: torch.Size) -> bool:
    """Returns whether two shapes broadcast."""
    if shape == other:
        return True
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return all(size == its or 1 in (size, its) for size, its in pairs)


def _operator(*overloads: OpOverload) -> Callable[[Function], Function]:
    return lambda function: implements(*overloads)(_checked(function))


# These functions accept anything that has parts, so that they also serve above autograd.


def total(self: Argument, other: Argument) -> Parts:
    (a, b), (c, d) = split(self), split(other)
    # The zeros of a real operand still broadcast and promote the imaginary part.
    b = _zeros(a) if b is None else b
    d = _zeros(c) if d is None else d
    return Parts(a + c, b + d)


def difference(self: Argument, other: Argument) -> Parts:
    (a, b), (c, d) = split(self), split(other)
    b = _zeros(a) if b is None else b
    d = _zeros(c) if d is None else d
    return Parts(a - c, b - d)


def product(self: Argument, other: Argument) -> Parts:
    (a, b), (c, d) = split(self), split(other)
    if b is None:
        return Parts(a * c, _zeros(a * c) if d is None else a * d)
    if d is None:
        return Parts(a * c, b * c)
    if isinstance(c, torch.Tensor) and isinstance(a, torch.Tensor) and a.dtype == c.dtype:
        # Sums that are pending in DTensors are carried out before, because products need them.
        a, b, c, d = map(summed, (a, b, c, d))
        # This saves a pass over memory for each part.
        return Parts((a * c).addcmul_(b, d, value=-1), (a * d).addcmul_(b, c))
    return Parts(a * c - b * d, a * d + b * c)


def quotient(self: Argument, other: Argument) -> Parts:
    (a, b), (c, d) = split(self), split(other)
    if d is None:
        return Parts(a / c, b / c)
    if not isinstance(c, torch.Tensor):
        c, d = (a.new_full((), part, dtype=torch.float64).to(a.dtype) for part in (c, d))
    elif isinstance(a, torch.Tensor):  # the divisor is scaled in the precision of the result
        dtype = torch.result_type(a, c)
        c, d = c.to(dtype), d.to(dtype)
    return Parts(*divided(a, _zeros(a) if b is None else b, c, d))


def _zeros(x: Argument) -> Any:
    return torch.zeros_like(x) if isinstance(x, torch.Tensor) else 0


@_operator(aten.add.Tensor, aten.add.Scalar)
def add(self: Argument, other: Argument, alpha: complex = 1) -> ComplexTensor:
    return joined(*total(self, other if alpha == 1 else product(alpha, other)))


@_operator(aten.sub.Tensor, aten.sub.Scalar)
def sub(self: Argument, other: Argument, alpha: complex = 1) -> ComplexTensor:
    return joined(*difference(self, other if alpha == 1 else product(alpha, other)))


@_operator(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(self: Argument, other: Argument, alpha: complex = 1) -> ComplexTensor:
    return sub(other, self, alpha)


@_operator(aten.mul.Tensor, aten.mul.Scalar)
def mul(self: Argument, other: Argument) -> ComplexTensor:
    return joined(*product(self, other))


@_operator(aten.div.Tensor, aten.div.Scalar)
def div(self: Argument, other: Argument) -> ComplexTensor:
    return joined(*quotient(self, other))


@implements(aten.reciprocal.default)
def reciprocal(self: ComplexTensor) -> ComplexTensor:
    ones = torch.ones_like(self._real)
    return joined(*divided(ones, torch.zeros_like(ones), self._real, self._imag))


@_operator(aten.eq.Tensor, aten.eq.Scalar)
def eq(self: Argument, other: Argument) -> torch.Tensor:
    (a, b), (c, d) = both(self), both(other)
    return (a == c).bitwise_and(b == d)


@_operator(aten.ne.Tensor, aten.ne.Scalar)
def ne(self: Argument, other: Argument) -> torch.Tensor:
    return ~eq(self, other)


@implements(aten.equal.default)
def equal(self: torch.Tensor, other: torch.Tensor) -> bool:
    return self.shape == other.shape and bool(eq(self, other).all())


@implements(aten.isclose.default)
def isclose(
    self: torch.Tensor,
    other: torch.Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> torch.Tensor:
    close = eq(self, other)
    if equal_nan:
        close = close.bitwise_or(torch.isnan(self).bitwise_and(torch.isnan(other)))
    error = abs(sub(self, other))
    is_near = (error < torch.inf).bitwise_and(error <= atol + rtol * abs(other))
    return close.bitwise_or(is_near)


@implements(aten.allclose.default)
def allclose(self: Argument, other: Argument, *tolerances: object, **kwargs: object) -> bool:
    return bool(isclose(self, other, *tolerances, **kwargs).all())


@implements(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(self: Argument, end: Argument, weight: Argument) -> ComplexTensor:
    return add(self, mul(sub(end, self), weight))


def _plus(function: Function) -> Any:
    def implementation(
        self: Argument, tensor1: Argument, tensor2: Argument, *, value: Argument = 1
    ) -> ComplexTensor:
        return add(self, function(tensor1, tensor2), value)

    return implementation


TABLE[aten.addcmul.default], TABLE[aten.addcdiv.default] = _plus(mul), _plus(div)


# Powers


@_operator(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow(self: Argument, exponent: Argument) -> ComplexTensor:
    return joined(*complex_pow(self, exponent))


def complex_pow(base: object, exponent: object) -> Parts:
    """Returns exp(exponent log(base)) for tensors, parts or numbers."""
    (a, b), (c, d) = _numbers(base, exponent), _numbers(exponent, base)
    is_zero = (a == 0).bitwise_and(b == 0)
    # The logarithm of zero is infinite, so the limit is written there. Where the exponent is 1, the
    # limit is the base itself, which has a derivative.
    limit = (
        torch.where(c > 0, 0.0, torch.nan).to(a.dtype).masked_fill((c == 0).bitwise_and(d == 0), 1)
    )
    limit = torch.where((c == 1).bitwise_and(d == 0), a, limit)
    x, y = complex_log(a.masked_fill(is_zero, 1), b.masked_fill(is_zero, 0))
    real, imag = complex_exp(x * c - y * d, x * d + y * c)
    return Parts(torch.where(is_zero, limit, real), torch.where(is_zero, b * (c == 1), imag))


@implements(aten.pow.Tensor_Scalar)
def pow_of_number(self: ComplexTensor, exponent: int | float | complex) -> ComplexTensor:
    if isinstance(exponent, complex) and exponent.imag == 0:
        exponent = exponent.real
    if not isinstance(exponent, complex):
        if float(exponent).is_integer():
            return _integer_power(self, int(exponent))
        if exponent == 0.5:
            return joined(*complex_sqrt(self._real, self._imag))
    return pow(self, exponent)


def _integer_power(base: ComplexTensor, exponent: int) -> ComplexTensor:
    """Returns a power by squaring, with log2(exponent) roundings and without a logarithm."""
    if exponent == 0:
        return joined(torch.ones_like(base._real), torch.zeros_like(base._imag))
    base = reciprocal(base) if exponent < 0 else joined(base._real.clone(), base._imag.clone())
    power = base
    for digit in bin(abs(exponent))[3:]:
        power = mul(power, power)
        power = mul(power, base) if digit == "1" else power
    return power


def _numbers(value: object, like: object) -> Parts:
    """Returns an operand's parts, in the dtype to which torch promotes it together with `like`."""
    reals = split(value)[0], split(like)[0]
    first, *others = (x for x in reals if isinstance(x, torch.Tensor))
    dtype = torch.result_type(first, others[0]) if others else None
    dtype = dtype if dtype in PART_DTYPES else first.dtype
    return Parts(*(torch.as_tensor(x, dtype=dtype, device=first.device) for x in both(value)))
