"""The math operators that instructions accept as ``op``, and their arithmetic in float32.

The table follows "Supported Math Operators" and "Supported Activation Functions" of the SDK's
nki.api.shared.rst. Functions of ``nki.language`` have their operator as ``__nki_operator__``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dtypes import Array

F = np.float32


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator: its arithmetic, and where it may be used."""

    name: str
    binary: Callable[..., Any] | None = None  # ALU operator of two operands
    unary: Callable[..., Any] | None = None  # ALU operator of one operand
    activation: Callable[..., Any] | None = None  # function of ScalarE
    bitvec: bool = False  # works on bit patterns of integers
    identity: Any = None  # initial value of a reduction; None: cannot reduce
    valid: tuple[float, float] | None = None  # range of inputs of ScalarE
    valid_magnitude: bool = False  # the range is one of |x|
    first_generation: int = 2
    unsupported: str = ""  # why the compiler refuses it, and what to write instead


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return (F(1) / (F(1) + np.exp(-x))).astype(F)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[F])(x)


def _normal_cdf(x: Array) -> Array:
    return F(0.5) * (F(1) + _erf(x / F(math.sqrt(2))))


def _normal_pdf(x: Array) -> Array:
    return np.exp(F(-0.5) * x * x) / F(math.sqrt(2 * math.pi))


def _softplus(x: Array) -> Array:
    return np.logaddexp(F(0), x)


def _gelu_tanh(x: Array) -> Array:
    inner = F(math.sqrt(2 / math.pi)) * (x + F(0.044715) * x * x * x)
    return F(0.5) * x * (F(1) + np.tanh(inner))


def _sigmoid_gelu_dx(x: Array) -> Array:
    s = _sigmoid(F(1.702) * x)
    return s + F(1.702) * x * s * (F(1) - s)


def _silu_dx(x: Array) -> Array:
    s = _sigmoid(x)
    return s * (F(1) + x * (F(1) - s))


def _sin(x: Array) -> Array:
    # The engine does not reduce the range. Outside of [-pi, pi] this is a cubic, which is fitted to
    # the documented sin(9.0) = 27.65 and to the value and the slope at pi.
    t = np.abs(x) - F(math.pi)
    span = 9.0 - math.pi
    a = F((27.65 + span) / span**3)
    outside = np.sign(x) * (-t + a * t * t * t)
    return np.where(np.abs(x) <= F(math.pi), np.sin(x), outside).astype(F)


def _logical(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: function(np.asarray(x) != 0, np.asarray(y) != 0)


_NO_DIVIDE = "the hardware has no such instruction: multiply by nl.reciprocal(y)"
_NO_MODULO = (
    "the hardware has no such instruction: it runs in AWS's simulator, but it does not compile"
)

_TABLE = [
    Operator("add", binary=np.add, identity=0.0),
    Operator("subtract", binary=np.subtract, identity=0.0),
    Operator("multiply", binary=np.multiply, identity=1.0),
    Operator("maximum", binary=np.maximum, identity=-math.inf),
    Operator("minimum", binary=np.minimum, identity=math.inf),
    Operator("equal", binary=np.equal),
    Operator("not_equal", binary=np.not_equal),
    Operator("greater_equal", binary=np.greater_equal),
    Operator("greater", binary=np.greater),
    Operator("less_equal", binary=np.less_equal),
    Operator("less", binary=np.less),
    Operator("logical_and", binary=_logical(np.logical_and), identity=1.0),
    Operator("logical_or", binary=_logical(np.logical_or), identity=0.0),
    Operator("logical_xor", binary=_logical(np.logical_xor), identity=0.0),
    Operator("power", binary=np.power),
    Operator(
        "abs_max", binary=lambda x, y: np.where(np.abs(x) > np.abs(y), x, y), first_generation=4
    ),
    Operator(
        "abs_min", binary=lambda x, y: np.where(np.abs(x) < np.abs(y), x, y), first_generation=4
    ),
    Operator("divide", unsupported=_NO_DIVIDE),
    Operator("mod", unsupported=_NO_MODULO),
    Operator("fmod", unsupported=_NO_MODULO),
    Operator("average", binary=np.add, identity=0.0),
    Operator("bypass"),
    Operator("invert", unary=np.invert, bitvec=True),
    Operator("bitwise_and", binary=np.bitwise_and, bitvec=True, identity=-1),
    Operator("bitwise_or", binary=np.bitwise_or, bitvec=True, identity=0),
    Operator("bitwise_xor", binary=np.bitwise_xor, bitvec=True, identity=0),
    Operator("left_shift", binary=np.left_shift, bitvec=True),
    Operator("right_shift", binary=np.right_shift, bitvec=True),
    Operator("abs", unary=np.abs, activation=np.abs),
    Operator("square", unary=np.square, activation=np.square),
    Operator("relu", unary=lambda x: np.maximum(x, 0), activation=lambda x: np.maximum(x, 0)),
    Operator(
        "rsqrt",
        unary=lambda x: F(1) / np.sqrt(x),
        activation=lambda x: F(1) / np.sqrt(x),
        valid=(2.0**-87, 2.0**97),
    ),
    Operator(
        "reciprocal",
        unary=lambda x: F(1) / x,
        activation=lambda x: F(1) / x,
        valid=(2.0**-42, 2.0**42),
        valid_magnitude=True,
    ),
    Operator("copy", activation=lambda x: x),
    Operator("sigmoid", activation=_sigmoid),
    Operator("prelu"),
    Operator("gelu", activation=lambda x: x * _normal_cdf(x)),
    Operator("gelu_dx", activation=lambda x: _normal_cdf(x) + x * _normal_pdf(x)),
    Operator("gelu_apprx_tanh", activation=_gelu_tanh),
    Operator("gelu_apprx_sigmoid", activation=lambda x: x * _sigmoid(F(1.702) * x)),
    Operator("gelu_apprx_sigmoid_dx", activation=_sigmoid_gelu_dx),
    Operator("silu", activation=lambda x: x * _sigmoid(x)),
    Operator("silu_dx", activation=_silu_dx),
    Operator("tanh", activation=np.tanh),
    Operator("softplus", activation=_softplus),
    Operator("mish", activation=lambda x: x * np.tanh(_softplus(x))),
    Operator("erf", activation=_erf),
    Operator("erf_dx", activation=lambda x: F(2 / math.sqrt(math.pi)) * np.exp(-x * x)),
    Operator("exp", activation=np.exp),
    Operator("log", activation=np.log, valid=(2.0**-64, 2.0**64)),
    Operator("sin", activation=_sin, valid=(0.0, np.pi), valid_magnitude=True),
    Operator("arctan", activation=np.arctan, valid=(0.0, np.pi / 2), valid_magnitude=True),
    Operator("sqrt", activation=np.sqrt, valid=(2.0**-116, 2.0**118)),
    Operator("sign", activation=np.sign),
]
OPERATORS = {operator.name: operator for operator in _TABLE}
Op = Operator | Callable[..., object]  # what an argument `op` accepts: nl.add and so on


def operator_of(op: object) -> Operator | None:
    """Returns the operator of a function of ``nki.language``, or an Operator as it is."""
    return op if isinstance(op, Operator) else getattr(op, "__nki_operator__", None)
