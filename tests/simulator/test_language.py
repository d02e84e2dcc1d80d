"""The wrappers of nki.language compared with NumPy and SciPy."""

import numpy as np
import pytest
from scipy import special, stats

from nki_kernels.base.isa import nki, nl
from tests import sweeps
from tests.tolerances import elementary, near, sums

from .conftest import (
    ARITHMETIC,
    BITVEC,
    NUMPY,
    TARGET,
    assert_same,
    blocks,
    cast,
    check_values,
    new,
    run,
    sample,
    to_hbm,
    wide,
)

DTYPES = ("float32", "bfloat16", "float16", "int32")


def sigmoid_gelu_slope(x):
    s = special.expit(1.702 * x)
    return s + 1.702 * x * s * (1 - s)


ACTIVATIONS = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * stats.norm.cdf(x),
    "gelu_dx": lambda x: stats.norm.cdf(x) + x * stats.norm.pdf(x),
    "gelu_apprx_sigmoid": lambda x: x * special.expit(1.702 * x),
    "gelu_apprx_sigmoid_dx": sigmoid_gelu_slope,
    "gelu_apprx_tanh": lambda x: (
        0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x * special.expit(x),
    "silu_dx": lambda x: special.expit(x) * (1 + x * special.expit(-x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "erf": special.erf,
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-(x**2)),
    "arctan": np.arctan,
    "sign": np.sign,
    "abs": np.abs,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "negative": np.negative,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "copy": lambda x: x,
}
POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal")
NARROW = ("arctan", "tan")


def check(found, exact, dtype, tolerance):
    """``found`` has the dtype, and is within its rounding and a tolerance of the exact values."""
    assert found.dtype == NUMPY[dtype]
    if NUMPY[dtype].kind in "iu":
        np.testing.assert_allclose(wide(found), exact, rtol=0, atol=0.51)
    else:
        near(wide(found), exact, tolerance + sums(1, dtype))


@sweeps.pairs(
    name=ACTIVATIONS,
    dtype=["float32", "bfloat16", "float16"],
    out=[None, "float32", "bfloat16"],
)
def test_unary(name, dtype, out):
    values = np.linspace(-3.9, 3.9, 120).reshape(4, 5, 6)
    values = np.abs(values) + 0.1 if name in POSITIVE else values
    data = (values / 3 if name in NARROW else values).astype(np.float32).astype(NUMPY[dtype])
    found = run(lambda t: getattr(nl, name)(t, dtype=out), data)
    check(found, ACTIVATIONS[name](wide(data)), out or dtype, elementary())


@pytest.mark.parametrize("name", ["relu", "abs", "square", "sign", "negative", "copy"])
def test_unary_integers(name):
    data = sample((4, 6), "int32")
    expected = ACTIVATIONS[name](wide(data))
    assert_same(run(getattr(nl, name), data), expected.astype(np.int32))


@pytest.mark.parametrize(("name", "function"), [("sin", np.sin), ("cos", np.cos)])
def test_trigonometry_reduces_its_range(name, function):
    data = np.linspace(-1000, 1000, 2048, dtype=np.float32).reshape(4, 512)
    # An error of the argument after its reduction is one of the result.
    near(run(getattr(nl, name), data), function(wide(data)), elementary(), scale=[1000.0])
    nine = np.full((1, 1), 9.0, np.float32)
    near(run(getattr(nl, name), nine), function(wide(nine)), elementary(), scale=nine)


@pytest.mark.parametrize(("name", "turns"), [("sin", 0.5), ("cos", 0.25)])
def test_trigonometry_at_the_ends_of_its_range(name, turns):
    """The reduced argument may round to more than pi, which ScalarE refuses."""
    data = (2 * np.pi * (np.arange(-1000, 1000) + turns)).astype(np.float32)
    data = np.stack([np.nextafter(data, np.float32(end)) for end in (-np.inf, np.inf)])
    expected = getattr(np, name)(wide(data))
    near(run(getattr(nl, name), data), expected, elementary(), scale=[float(data.max())])


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding(name, dtype):
    values = [-2.5, -2.0, -1.5, -0.5, -0.25, 0.0, 0.25, 0.5, 1.5, 2.0, 2.5, 1e6, -1e6, 3e9, -3e9]
    data = np.array([values], np.float32).astype(NUMPY[dtype])
    expected = getattr(np, name)(wide(data)) + 0.0
    assert_same(run(getattr(nl, name), data), cast(expected, dtype))


@sweeps.pairs(name=ARITHMETIC, dtype=DTYPES, out=[None, "float32", "uint8"])
def test_binary(name, dtype, out):
    a, b = sample((4, 3, 5), dtype), sample((4, 3, 5), dtype, 1)
    b[:, 0] = a[:, 0]
    function = getattr(nl, name)
    tiles, right, left = run(
        lambda x, y: (function(x, y, out), function(x, 2, out), function(2.0, y, dtype=out)), a, b
    )
    target = out or dtype
    for found, pair in ((tiles, (a, b)), (right, (a, 2)), (left, (2, b))):
        assert_same(found, cast(wide(ARITHMETIC[name](*map(wide, pair))), target))


@pytest.mark.parametrize(
    ("first", "second"),
    [((40, 1), (1, 40)), ((40, 3), (1, 3)), ((40, 1), (40, 3)), ((1, 3, 5), (40, 1, 5))],
)
def test_binary_broadcasts(first, second):
    a, b = sample(first, "float32"), sample(second, "float32", 1)
    assert_same(run(nl.subtract, a, b), a - b)
    assert_same(run(nl.multiply, b, a), b * a)


@pytest.mark.parametrize(
    ("first", "second", "out"),
    [
        ("float32", "bfloat16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("int32", "bfloat16", "bfloat16"),
        ("float16", "int8", "float16"),
        ("int32", "uint8", "int32"),
    ],
)
def test_binary_promotes(first, second, out):
    a, b = sample((4, 6), first), sample((4, 6), second, 1)
    assert_same(run(nl.add, a, b), cast(wide(a) + wide(b), out))


@pytest.mark.parametrize("name", [*BITVEC, "left_shift", "right_shift"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint32"])
def test_bitwise(name, dtype):
    """A shift is one of bit patterns: to the right, it fills with zeros."""
    kind, rng = NUMPY[dtype], np.random.default_rng(2)
    pattern, limits = f"u{kind.itemsize}", np.iinfo(kind)
    a, b = (rng.integers(limits.min, limits.max, (4, 6), kind, True) for _ in range(2))
    b = rng.integers(0, 8, (4, 6)).astype(kind) if "shift" in name else b
    wrapper, function = getattr(nl, name), getattr(np, name)
    tiles, number = run(lambda x, y: (wrapper(x, y), wrapper(x, 3)), a, b)
    for found, other in ((tiles, b), (number, np.full_like(a, 3))):
        assert_same(found, function(a.view(pattern), other.view(pattern)).view(kind))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint32"])
def test_invert(dtype):
    data = sample((4, 6), dtype)
    assert_same(run(nl.invert, data), ~data)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_logical_not(dtype):
    data = sample((4, 6), "bool").astype(dtype)
    assert_same(run(nl.logical_not, data), (1 - data).astype(dtype))


KERNELS = blocks("""
power [x 4x6] [y 4x6]
    base = nl.add(nl.abs(x), 0.5)
    return nl.power(base, y)
  Near(wide(np.abs(x) + np.float32(0.5)) ** wide(y), elementary(), each=True)
all [x 8x3 int32]
    return nl.all(nl.less(x, 40, nl.float32), axis=1)
  (x < 40).all(axis=1, keepdims=True).astype(np.float32)
transpose and matmul [x 32x16] [y 32x24]
    turned, product = nl.transpose(x), nl.matmul(x, y, transpose_x=True)
    assert turned.buffer is product.buffer is nl.psum
    return turned, product, nl.transpose(x, "bfloat16")
  x.T
  Near(wide(x).T @ wide(y), sums(32))
  cast(x.T, "bfloat16")
load, store and copy [x 6x8 in HBM]
    out = new((4, 4), "float16", nl.shared_hbm)
    tile, row = nl.load(x[1:5, ::2]), nl.load(x[2])
    held = new((4, 4), "float32", nl.psum)
    nisa.tensor_copy(held, tile)
    copied = nl.copy(held, "float16")
    assert tile.buffer is copied.buffer is nl.sbuf
    nl.store(out, copied)
    return out, nl.load(x, "bfloat16"), row
  x[1:5, ::2].astype(np.float16)
  x.astype(ml_dtypes.bfloat16)
  x[2][:, None]
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_values(heading, KERNELS[heading], globals())


@pytest.mark.parametrize(("name", "larger"), [("abs_max", True), ("abs_min", False)])
def test_compare_by_magnitude(name, larger, monkeypatch):
    a, b = sample((4, 6)), sample((4, 6), seed=1)
    monkeypatch.setenv(TARGET, "trn3")
    chosen = np.abs(a) > np.abs(b) if larger else np.abs(a) < np.abs(b)
    assert_same(run(getattr(nl, name), a, b), np.where(chosen, a, b))


REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "mean": np.mean}


@sweeps.pairs(
    name=REDUCTIONS,
    axis=[-1, 3, (2, 3), (1, 2, 3), [3]],
    keepdims=[False, True],
    dtype=["float32", "bfloat16", "int32"],
)
def test_reductions(name, axis, keepdims, dtype):
    data = (sample((4, 2, 3, 4), "int32") % 4).astype(NUMPY[dtype])
    axes = axis if isinstance(axis, int) else tuple(axis)
    reduce = getattr(nl, name)
    default, single = run(
        lambda t: (reduce(t, axis, keepdims=keepdims), reduce(t, axis, "float32", keepdims)), data
    )
    exact = REDUCTIONS[name](wide(data), axis=axes, keepdims=keepdims)
    shape = exact.shape if exact.ndim > 1 else (4, 1)
    if name == "mean":
        check(default.reshape(exact.shape), exact, dtype, sums(exact.size))
        check(single.reshape(exact.shape), exact, "float32", sums(exact.size))
    else:
        assert_same(default, cast(exact, dtype).reshape(shape))
        assert_same(single, cast(exact, "float32").reshape(shape))


@pytest.mark.parametrize("shape", [(4, 10), (4, 3, 7), (4, 513), (4, 1025)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_var(shape, dtype):
    data = (sample(shape) * 2 + 1).astype(NUMPY[dtype])
    axes = tuple(range(1, len(shape)))
    found = run(lambda t: nl.var(t, axes, "float32"), data)
    exact = wide(data).var(axis=axes, keepdims=True)
    near(found, exact, 2 * sums(data[0].size))  # of numbers and of their squares


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("shape", "axis"), [((4, 10), -1), ((4, 3, 7), (1, 2))])
def test_softmax(dtype, shape, axis):
    data = (sample(shape) * 30).astype(NUMPY[dtype])
    exact = special.softmax(wide(data), axis=axis)
    check(
        run(lambda t: nl.softmax(t, axis), data), exact, dtype, elementary() + sums(exact[0].size)
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rms_norm(dtype):
    data, weight = sample((4, 32), dtype), sample((4, 32), dtype, 1)
    found = run(lambda x, w: nl.rms_norm(x, w, axis=1, n=32, epsilon=1e-3), data, weight)
    scale = np.sqrt((wide(data) ** 2).mean(axis=1, keepdims=True) + 1e-3)
    check(found, wide(data) / scale * wide(weight), dtype, elementary() + sums(32))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_where(dtype):
    condition = sample((4, 6), "bool").astype(np.float32)
    a, b = sample((4, 6), dtype), sample((4, 6), dtype, 1)
    found = run(
        lambda c, x, y: (nl.where(c, x, y), nl.where(c, x, 0), nl.where(c, 5, y, "float32")),
        *(condition, a, b),
    )
    chosen = condition != 0
    assert_same(found[0], np.where(chosen, a, b))
    assert_same(found[1], np.where(chosen, a, NUMPY[dtype].type(0)))
    assert_same(found[2], np.where(chosen, 5, b.astype(np.float32)).astype(np.float32))


# Tensors.


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("memory", ["sbuf", "psum", "hbm", "shared_hbm"])
def test_creation(dtype, memory):
    def kernel():
        where = getattr(nl, memory)
        full = nl.full((2, 3), 7, dtype, where, name="sevens")
        assert (full.name, full.dtype, full.buffer) == ("sevens", dtype, where)
        made = [nl.zeros((2, 3), dtype, where), nl.ones((2, 3), dtype, where), full]
        like, empty = nl.zeros_like(full), nl.empty_like(full)
        other = nl.empty_like(full, "float16", nl.sbuf)
        assert (like.shape, like.dtype, like.buffer) == ((2, 3), dtype, where)
        assert (empty.shape, empty.dtype, empty.buffer) == ((2, 3), dtype, where)
        assert (other.dtype, other.buffer) == ("float16", nl.sbuf)
        return tuple(to_hbm(t) for t in (*made, like))

    for found, value in zip(nki.simulate(kernel)(), (0, 1, 7, 0), strict=True):
        assert_same(found, np.full((2, 3), value, NUMPY[dtype]))


@pytest.mark.parametrize("out", [None, "bfloat16"])
def test_load_transpose2d(out):
    data = sample((6, 8))
    found = nki.simulate(lambda tensor: to_hbm(nl.load_transpose2d(tensor[:, 1:5], out)))(data)
    assert_same(found, cast(data[:, 1:5].T, out or "float32"))


@pytest.mark.parametrize("shape", [(4, 3, 5), (4, 3, 1), (1, 1, 5), (1, 3, 5), (4, 1, 5)])
@pytest.mark.parametrize("rows", [4, 70])
def test_broadcast_to(shape, rows):
    shape = (rows if shape[0] == 4 else 1, *shape[1:])
    data = sample(shape)
    target = (rows, 3, 5)
    found, low = run(
        lambda t: (nl.broadcast_to(t, target), nl.broadcast_to(t, target, "bfloat16")), data
    )
    assert_same(found, np.broadcast_to(data, target))
    assert_same(low, cast(np.broadcast_to(data, target), "bfloat16"))


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_expand_dims(axis):
    data = sample((4, 6))
    assert_same(run(lambda t: nl.expand_dims(t, axis), data), np.expand_dims(data, axis))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "float8_e5m2"])
def test_shared_constant_and_identity(dtype, tmp_path):
    data = sample((4, 6), dtype)

    def kernel():
        constant = nl.shared_constant(data)
        assert constant.buffer is nl.shared_hbm
        kept = new((5, 5), dtype)
        assert nl.shared_identity_matrix(5, dtype, kept) is kept
        return to_hbm(nl.load(constant)), to_hbm(nl.shared_identity_matrix(5, dtype)), to_hbm(kept)

    constant, identity, kept = nki.simulate(kernel)()
    assert_same(constant, data)
    for found in (identity, kept):
        assert_same(found, np.eye(5).astype(NUMPY[dtype]))


def test_shared_constant_of_a_file(tmp_path):
    data = sample((4, 6))
    np.save(tmp_path / "table.npy", data)
    path = str(tmp_path / "table.npy")
    assert_same(nki.simulate(lambda: to_hbm(nl.load(nl.shared_constant(path))))(), data)
