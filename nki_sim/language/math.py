"""Elementwise functions and reductions, which allocate a tile in SBUF and issue instructions.

As in the SDK, the operands of binary functions are tiles of equal shapes, or a tile and a number.
A function such as ``nl.add`` also names the operator in an instruction, as in ``op=nl.add``.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nki_sim import isa
from nki_sim.base import dtypes
from nki_sim.base.arguments import Axes, integer, integers
from nki_sim.base.arguments import axes as sorted_axes
from nki_sim.base.dtypes import Dtype
from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.base.operators import OPERATORS
from nki_sim.base.removed_api import defined_in
from nki_sim.errors import NkiValidationError
from nki_sim.views.tensor import NkiTensor

from .creation import Shape, copy, ndarray

_ROUND = 12582912.0  # 1.5 * 2**23: adding it rounds a float32 number to an integer
_TWO_PI = 2 * math.pi


Function = Callable[..., object]  # of nl, which instructions accept as op


def _named(function: Callable[..., Any], name: str, summary: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    return function


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__nki_operator__ = OPERATORS[function.__name__]  # type: ignore[attr-defined]
    return function


def _tile(x: object, function: str, operand: str = "x") -> NkiTensor:
    if not isinstance(x, NkiTensor):
        raise NkiValidationError(f"nl.{function}", operand, repr(x), "must be a tile")
    return x


def _tile_and_result(x: object, function: str, dtype: Dtype | None) -> tuple[NkiTensor, NkiTensor]:
    """Returns an operand as a tile, and a new tile of its shape."""
    tile = _tile(x, function)
    return tile, ndarray(tile.shape, dtype or tile.dtype)


def _binary(function: Function, x: object, y: object, dtype: Dtype | None) -> NkiTensor:
    name = function.__name__
    operator = OPERATORS[name]
    if operator.unsupported:
        raise NkiValidationError(f"nl.{name}", "the function", f"nl.{name}", operator.unsupported)
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        column = name in ("abs_max", "abs_min") and y.shape == (x.shape[0], 1) != x.shape
        if column:
            out = ndarray(x.shape, dtype or x.dtype)
            isa.tensor_scalar(out, x, op0=function, operand0=y)
            return out
        if x.shape != y.shape:
            x, y = _of_one_shape(name, x, y)
        pair = [x.dtype, y.dtype]
        floats = [d for d in pair if d in dtypes.FLOATS] or pair  # take precedence over integers
        out = ndarray(x.shape, dtype or builtins.max(floats, key=dtypes.itemsize))
        isa.tensor_tensor(out, x, y, op=function)
        return out
    if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
        raise NkiValidationError(f"nl.{name}", "(x, y)", (x, y), "at least one must be a tile")
    if name == "power":
        rule = "both must be tiles: make a tile of a number by nl.full"
        raise NkiValidationError("nl.power", "(x, y)", f"({x!r}, {y!r})", rule)
    tile, scalar = (x, y) if isinstance(x, NkiTensor) else (_tile(y, name), x)
    out = ndarray(tile.shape, dtype or tile.dtype)
    isa.tensor_scalar(out, tile, op0=function, operand0=scalar, reverse0=tile is y)
    return out


def _of_one_shape(name: str, x: NkiTensor, y: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """Returns both tiles in their common shape, by NumPy's rules for equal numbers of dimensions.

    A documented example of the former nl.add has rows and columns in place of tiles.
    """
    pairs = list(zip(x.shape, y.shape, strict=False))
    if x.ndim != y.ndim or any(a != b and 1 not in (a, b) for a, b in pairs):
        rule = "x and y must have the same shape, except for dimensions of size 1"
        value = f"{x.shape} for x, {y.shape} for y"
        raise NkiValidationError(f"nl.{name}", "the shape", value, rule)
    shape = tuple(builtins.max(pair) for pair in pairs)
    return _spread(x, shape), _spread(y, shape)


def _spread(x: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Returns a view with this shape, or a copy if the view had to repeat a partition."""
    if x.shape[0] != shape[0]:
        return broadcast_to(x, shape)
    for dim in range(1, x.ndim):
        if x.shape[dim] != shape[dim]:
            x = x.broadcast(dim, shape[dim])
    return x


def _make_binary(name: str, summary: str) -> Callable[..., NkiTensor]:
    def function(x: object, y: object, dtype: Dtype | None = None) -> NkiTensor:
        return _binary(function, x, y, dtype)

    return _operator(_named(function, name, summary))


def _make_activation(name: str, summary: str) -> Callable[..., NkiTensor]:
    def function(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
        tile, out = _tile_and_result(x, name, dtype)
        isa.activation(out, function, tile)
        return out

    return _operator(_named(function, name, summary))


add = _make_binary("add", "Computes ``x + y``.")
subtract = _make_binary("subtract", "Computes ``x - y``.")
multiply = _make_binary("multiply", "Computes ``x * y``.")
divide = _make_binary("divide", "Raises NkiValidationError: the hardware cannot do this.")
maximum = _make_binary("maximum", "Returns the larger of x and y.")
minimum = _make_binary("minimum", "Returns the smaller of x and y.")
abs_max = _make_binary("abs_max", "Returns x where ``|x| > |y|``, else y (NeuronCore-v4).")
abs_min = _make_binary("abs_min", "Returns x where ``|x| < |y|``, else y (NeuronCore-v4).")
power = _make_binary("power", "Computes ``x ** y`` of two tiles on GpSimdE.")
equal = _make_binary("equal", "Returns 1 where x == y, else 0.")
not_equal = _make_binary("not_equal", "Returns 1 where x != y, else 0.")
less = _make_binary("less", "Returns 1 where x < y, else 0.")
less_equal = _make_binary("less_equal", "Returns 1 where x <= y, else 0.")
greater = _make_binary("greater", "Returns 1 where x > y, else 0.")
greater_equal = _make_binary("greater_equal", "Returns 1 where x >= y, else 0.")
bitwise_and = _make_binary("bitwise_and", "Computes the bitwise AND of integers.")
bitwise_or = _make_binary("bitwise_or", "Computes the bitwise OR of integers.")
bitwise_xor = _make_binary("bitwise_xor", "Computes the bitwise XOR of integers.")
left_shift = _make_binary("left_shift", "Computes ``x << y`` of integers.")
right_shift = _make_binary("right_shift", "Computes ``x >> y`` of integers.")
logical_and = _make_binary("logical_and", "Computes the logical AND of 0/1 values.")
logical_or = _make_binary("logical_or", "Computes the logical OR of 0/1 values.")
logical_xor = _make_binary("logical_xor", "Computes the logical XOR of 0/1 values.")
fmod = _make_binary("fmod", "Raises NkiValidationError: the hardware cannot do this.")
mod = _make_binary("mod", "Raises NkiValidationError: the hardware cannot do this.")

exp = _make_activation("exp", "Computes the exponential.")
log = _make_activation("log", "Computes the natural logarithm.")
sqrt = _make_activation("sqrt", "Computes the square root.")
tanh = _make_activation("tanh", "Computes the hyperbolic tangent.")
sigmoid = _make_activation("sigmoid", "Computes the logistic function.")
relu = _make_activation("relu", "Computes max(x, 0).")
gelu = _make_activation("gelu", "Computes GELU.")
gelu_apprx_sigmoid = _make_activation("gelu_apprx_sigmoid", "Approximates GELU by a sigmoid.")
gelu_apprx_tanh = _make_activation("gelu_apprx_tanh", "Approximates GELU by a tanh.")
gelu_dx = _make_activation("gelu_dx", "Computes the derivative of GELU.")
gelu_apprx_sigmoid_dx = _make_activation(
    "gelu_apprx_sigmoid_dx", "Computes the derivative of gelu_apprx_sigmoid."
)
silu = _make_activation("silu", "Computes x * sigmoid(x).")
silu_dx = _make_activation("silu_dx", "Computes the derivative of SiLU.")
softplus = _make_activation("softplus", "Computes log(1 + exp(x)).")
mish = _make_activation("mish", "Computes x * tanh(softplus(x)).")
erf = _make_activation("erf", "Computes the error function.")
erf_dx = _make_activation("erf_dx", "Computes the derivative of the error function.")
arctan = _make_activation("arctan", "Computes the inverse tangent.")
sign = _make_activation("sign", "Returns -1, 0 or 1, the sign of x.")
abs = _make_activation("abs", "Computes the absolute value.")
square = _make_activation("square", "Computes x * x.")


@_operator
def invert(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes the bitwise NOT, as XOR with all ones."""
    tile, out = _tile_and_result(x, "invert", dtype)
    isa.tensor_scalar(out, tile, op0=bitwise_xor, operand0=-1)
    return out


def logical_not(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes 1 - x of 0/1 values, as XOR with 1."""
    return logical_xor(x, 1, dtype)


@_operator
def rsqrt(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes ``1 / sqrt(x)`` precisely on GpSimdE; x must not be in PSUM."""
    tile, out = _tile_and_result(x, "rsqrt", dtype)
    isa.tensor_scalar(out, tile, op0=rsqrt, operand0=0.0)
    return out


@_operator
def reciprocal(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes ``1 / x`` on VectorE."""
    tile, out = _tile_and_result(x, "reciprocal", dtype)
    isa.reciprocal(out, tile)
    return out


def negative(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes ``-x``."""
    return multiply(_tile(x, "negative"), -1.0, dtype)


def _sine(x: NkiTensor, shift: float, dtype: Dtype | None) -> NkiTensor:
    """Computes sin(x + shift): subtracts the nearest multiple of 2 pi, then calls ScalarE."""
    turns = ndarray(x.shape, "float32")
    reduced = ndarray(x.shape, "float32")
    isa.tensor_scalar(reduced, x, op0=add, operand0=shift)
    isa.tensor_scalar(turns, reduced, multiply, 1 / _TWO_PI, op1=add, operand1=_ROUND)
    isa.tensor_scalar(turns, turns, subtract, _ROUND, op1=multiply, operand1=_TWO_PI)
    isa.tensor_tensor(reduced, reduced, turns, op=subtract)
    low, high = -np.float32(math.pi), np.float32(math.pi)
    isa.tensor_scalar(reduced, reduced, maximum, float(low), op1=minimum, operand1=float(high))
    out = ndarray(x.shape, dtype or x.dtype)
    isa.activation(out, sin, reduced)
    return out


@_operator
def sin(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes the sine, with a reduction of the range before ScalarE's polynomial."""
    return _sine(_tile(x, "sin"), 0.0, dtype)


def cos(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes the cosine, as sin(x + pi/2)."""
    return _sine(_tile(x, "cos"), math.pi / 2, dtype)


def tan(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Computes the tangent, as sin/cos."""
    return multiply(sin(x, "float32"), reciprocal(cos(x, "float32")), dtype or x.dtype)


def _rounded(x: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """Returns (x as float32, x rounded to an integer); from 2**23 on float32 has no fraction."""
    tile = ndarray(x.shape, "float32")
    isa.tensor_copy(tile, x)
    integer = ndarray(x.shape, "int32")
    isa.tensor_copy(integer, tile)
    nearest = ndarray(x.shape, "float32")
    isa.tensor_copy(nearest, integer)
    large = ndarray(x.shape, "uint8")
    isa.tensor_scalar(large, abs(tile), op0=greater_equal, operand0=float(1 << 23))
    isa.tensor_copy_predicated(nearest, tile, large)
    return tile, nearest


def floor(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Returns the largest integer <= x."""
    tile, nearest = _rounded(_tile(x, "floor"))
    return subtract(nearest, greater(nearest, tile), dtype or x.dtype)


def ceil(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Returns the smallest integer >= x."""
    tile, nearest = _rounded(_tile(x, "ceil"))
    return add(nearest, less(nearest, tile), dtype or x.dtype)


def trunc(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Returns x without its fraction."""
    return multiply(floor(abs(_tile(x, "trunc"), "float32")), sign(x, "float32"), dtype or x.dtype)


def _reduce(
    function: Function, name: str, x: object, axis: Axes, dtype: Dtype | None, keepdims: bool
) -> NkiTensor:
    tile = _tile(x, name)
    axes = sorted_axes(f"nl.{name}", axis, tile.ndim)
    shape = tuple([n for d, n in enumerate(tile.shape) if d not in axes])
    if keepdims:
        shape = tuple([1 if d in axes else n for d, n in enumerate(tile.shape)])
    elif len(shape) == 1:
        shape = shape + (1,)
    out = ndarray(shape, dtype or tile.dtype)
    isa.tensor_reduce(out, function, tile, axis=axis, keepdims=keepdims)
    return out


def _make_reduction(name: str, function: Function, summary: str) -> Callable[..., NkiTensor]:
    def reduction(
        x: NkiTensor, axis: Axes, dtype: Dtype | None = None, keepdims: bool = False
    ) -> NkiTensor:
        return _reduce(function, name, x, axis, dtype, keepdims)

    return _named(reduction, name, summary)


sum = _make_reduction("sum", add, "Computes the sum over the last free axes.")
max = _make_reduction("max", maximum, "Computes the maximum over the last free axes.")
min = _make_reduction("min", minimum, "Computes the minimum over the last free axes.")
prod = _make_reduction("prod", multiply, "Computes the product over the last free axes.")


def all(x: NkiTensor, axis: Axes, dtype: Dtype | None = None) -> NkiTensor:
    """Returns 1 where every element along the last free axes is nonzero, else 0."""
    return _reduce(logical_and, "all", x, axis, dtype, False)


def mean(x: NkiTensor, axis: Axes, dtype: Dtype | None = None, keepdims: bool = False) -> NkiTensor:
    """Computes the mean over the last free axes in float32."""
    x = _tile(x, "mean")
    total = _reduce(add, "mean", x, axis, "float32", keepdims)
    count = x.size // total.size
    return multiply(total, 1.0 / count, dtype or x.dtype)


def var(x: NkiTensor, axis: Axes, dtype: Dtype | None = None, keepdims: bool = False) -> NkiTensor:
    """Computes the variance over all free axes, which have size 1 in the result."""
    tile = _tile(x, "var")
    axes = sorted_axes("nl.var", axis, tile.ndim)
    if axes != list(range(1, tile.ndim)):
        raise NkiValidationError("nl.var", "axis", axis, "must be all free axes")
    flat = tile.reshape((tile.shape[0], tile.size // tile.shape[0]))
    pieces = -(-flat.shape[1] // 512)
    stats = ndarray((flat.shape[0], 6 * pieces), "float32")
    for i in range(pieces):
        end = 512 * i + 512 if i < pieces - 1 else flat.shape[1]
        isa.bn_stats(stats[:, 6 * i : 6 * i + 6], flat[:, 512 * i : end])
    both = ndarray((flat.shape[0], 2), "float32")
    isa.bn_aggr(both, stats)
    out = ndarray((tile.shape[0],) + (1,) * (tile.ndim - 1), dtype or tile.dtype)
    isa.tensor_copy(out, both[:, 1:2])
    return out


def softmax(x: NkiTensor, axis: Axes = -1, dtype: Dtype | None = None) -> NkiTensor:
    """Computes exp(x - max) / sum over all free axes."""
    tile = _tile(x, "softmax")
    axes = sorted_axes("nl.softmax", axis, tile.ndim)
    if not axes or axes[0] != 1:
        raise NkiValidationError("nl.softmax", "axis", axis, "must cover all free axes")
    flat = tile.reshape((tile.shape[0], tile.size // tile.shape[0]))
    negative_max = ndarray((tile.shape[0], 1), "float32")
    isa.tensor_reduce(negative_max, maximum, flat, axis=1, negate=True)
    total = ndarray((tile.shape[0], 1), "float32")
    exponent = ndarray(flat.shape, "float32")
    isa.activation_reduce(exponent, exp, flat, add, total, bias=negative_max)
    out = ndarray(tile.shape, dtype or tile.dtype)
    isa.tensor_scalar(out, exponent.reshape(tile.shape), multiply, reciprocal(total))
    return out


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axes,
    n: int,
    epsilon: float = 1e-06,
    dtype: Dtype | None = None,
    compute_dtype: Dtype | None = None,
) -> NkiTensor:
    """Computes ``x / sqrt(sum(x * x) / n + epsilon) * w``, with the sum over the last free axes."""
    if not isinstance(n, (int, float)) or n <= 0:
        raise NkiValidationError("nl.rms_norm", "n", repr(n), "must be a positive number")
    squares = sum(square(_tile(x, "rms_norm"), "float32"), axis, compute_dtype or "float32")
    scale = ndarray(squares.shape, "float32")
    isa.tensor_scalar(scale, squares, multiply, 1.0 / n, op1=add, operand1=epsilon)
    scale = rsqrt(scale)
    out = ndarray(x.shape, "float32")
    isa.tensor_scalar(out, x, multiply, scale.reshape((x.shape[0], scale.size // x.shape[0])))
    return multiply(out, w, dtype or x.dtype)


def where(condition: NkiTensor, x: object, y: object, dtype: Dtype | None = None) -> NkiTensor:
    """Returns x where ``condition`` is nonzero, else y."""
    tile = _tile(condition, "where", "condition")
    source = x if isinstance(x, NkiTensor) else y if isinstance(y, NkiTensor) else tile
    out = ndarray(tile.shape, dtype or source.dtype)
    predicate = ndarray(tile.shape, "uint8")
    isa.tensor_scalar(predicate, tile, op0=not_equal, operand0=0.0)
    if isinstance(y, NkiTensor):
        isa.tensor_copy(out, y)
    else:
        isa.memset(out, y)
    if isinstance(x, NkiTensor) and x.dtype != out.dtype:
        x = copy(x, out.dtype)
    isa.tensor_copy_predicated(out, x, predicate)
    return out


def transpose(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Swaps the axes of a tile with 2 dimensions; the result is in PSUM."""
    tile = _tile(x, "transpose")
    if tile.ndim != 2:
        value = f"a tile of shape {tile.shape}"
        raise NkiValidationError("nl.transpose", "x", value, "must have 2 dimensions")
    if dtype is not None and dtypes.canonical(dtype) != tile.dtype:
        tile = copy(tile, dtype)
    out = ndarray((tile.shape[1], tile.shape[0]), tile.dtype, MemoryRegion.psum)
    isa.nc_transpose(out, tile)
    return out


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """Computes ``x.T @ y`` in PSUM. As in the SDK, ``transpose_x`` must be True."""
    if not transpose_x:
        rule = "must be True: pass x transposed"
        raise NkiValidationError("nl.matmul", "transpose_x", False, rule)
    shape = (_tile(x, "matmul").shape[1], _tile(y, "matmul", "y").shape[1])
    out = ndarray(shape, "float32", MemoryRegion.psum)
    isa.nc_matmul(out, x, y)
    return out


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """Returns a view with a new axis of size 1 at ``axis``."""
    tile = _tile(x, "expand_dims")
    return tile.expand_dim(integer("nl.expand_dims", "axis", axis) % (tile.ndim + 1))


def broadcast_to(x: NkiTensor, shape: Shape, dtype: Dtype | None = None) -> NkiTensor:
    """Repeats ``x`` along dimensions of size 1; stream shuffles repeat a single partition."""
    tile = _tile(x, "broadcast_to")
    target = integers("nl.broadcast_to", "shape", shape)
    fits = len(target) == tile.ndim and not [
        1 for a, b in zip(tile.shape, target, strict=True) if a not in (b, 1)
    ]
    if not fits:
        rule = f"must have the sizes of x, {tile.shape}, except where x has size 1"
        raise NkiValidationError("nl.broadcast_to", "shape", target, rule)
    if target == tile.shape and dtype in (None, tile.dtype):
        return tile
    view = tile
    for dim in range(1, tile.ndim):
        if view.shape[dim] != target[dim]:
            view = view.broadcast(dim, target[dim])
    out = ndarray(target, dtype or tile.dtype)
    if tile.shape[0] == target[0]:
        isa.tensor_copy(out, view)
        return out
    row = ndarray((1,) + target[1:], out.dtype)
    isa.tensor_copy(row, view)
    for start in range(0, target[0], 32):
        end = start + 32 if start + 32 < target[0] else target[0]
        isa.nc_stream_shuffle(out[start:end], row, [0] * 32)
    return out


def dropout(x: NkiTensor, rate: NkiTensor | float, dtype: Dtype | None = None) -> NkiTensor:
    """Replaces each element of ``x`` by zero with probability ``rate``.

    ``rate`` is a number or a (partitions, 1) tile.
    """
    tile = _tile(x, "dropout")
    out = ndarray(tile.shape, tile.dtype)
    isa.dropout(out, tile, rate)
    if dtype is None or dtypes.canonical(dtype) == tile.dtype:
        return out
    return copy(out, dtype)


def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: Dtype | None = None
) -> NkiTensor:
    """Gathers elements of each partition of ``data`` by their index in the flat free axes.

    The SDK does not say what ``axis`` means, so a value other than 0 raises NotImplementedError.
    """
    tile, places = _tile(data, "gather_flattened", "data"), _tile(indices, "gather_flattened")
    if axis != 0:
        raise NotImplementedError(
            f"nl.gather_flattened with axis={axis} is not simulated: use axis=0"
        )
    if places.dtype != "uint32":
        places = copy(places, "uint32")
    out = ndarray(places.shape, tile.dtype)
    isa.nc_n_gather(out, tile, places)
    return out if dtype is None else copy(out, dtype)


def random_seed(seed: NkiTensor) -> None:
    """Seeds the generator of ``rand`` with the 32 bits of a (1, 1) tile."""
    isa.set_rng_seed(_tile(seed, "random_seed", "seed"))


def rand(
    shape: Shape, dtype: Dtype, buffer: MemoryRegion | None = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Returns a new tile of uniform random numbers in [0, 1). A chip gives other numbers.

    NeuronCore-v4 has an instruction for them. On other cores 24 random bits are scaled.
    """
    if buffer not in ON_CHIP:
        rule = "must be nl.sbuf or nl.psum: for random numbers in HBM, store a tile"
        raise NkiValidationError("nl.rand", "buffer", repr(buffer), rule)
    out = ndarray(shape, dtype, buffer, name)
    if isa.get_nc_version() is isa.nc_version.gen4:
        isa.rand2(out, 0.0, 1.0)
        return out
    bits = ndarray(out.shape, "uint32")
    isa.rng(bits)
    isa.tensor_scalar(bits, bits, op0=right_shift, operand0=8)
    isa.tensor_scalar(out, bits, op0=multiply, operand0=2.0**-24)
    return out


__all__ = defined_in(globals())
