"""Instructions of nki.isa compared with NumPy, and launches of kernels."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from allpairspy import AllPairs

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
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
    refuses,
    run,
    sample,
    to_hbm,
    wide,
    written,
)

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int32", "uint8", "int8", "uint16")
COMMON = (*FLOATS[:3], *INTEGERS[:2])
SKIP = nisa.oob_mode.skip
REDUCE, RESET_REDUCE = nisa.reduce_cmd.reduce, nisa.reduce_cmd.reset_reduce


class Pair(NamedTuple):
    first: Any
    second: Any


def op(name):
    return getattr(nl, name)


def memory(name):
    return {"sbuf": nl.sbuf, "psum": nl.psum}[name]


def trn(monkeypatch, generation):
    monkeypatch.setenv(TARGET, f"gen{generation}")


# Casts and copies.


@sweeps.pairs(
    source=[*FLOATS, *INTEGERS, "bool"],
    target=[*FLOATS, *INTEGERS, "bool", "int16", "uint32", "float8_e4m3fn"],
    engine=["vector", "gpsimd", "scalar", "dma"],
)
def test_copies_cast(source, target, engine, monkeypatch):
    trn(monkeypatch, 3 if engine == "scalar" else 2)
    values = sample((4, 6, 5), source) if source in INTEGERS else sample((4, 6, 5)) * 100
    data = values.astype(NUMPY[source])
    settings = {} if engine == "dma" else {"engine": nisa.engine[engine]}
    copy = nisa.dma_copy if engine == "dma" else nisa.tensor_copy
    assert_same(written(copy, data, dtype=target, **settings), cast(wide(data), target))


EDGES = [0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 254.5, 255.5, 300, -300, 3e9, -3e9, 1e30]
EDGES += [np.inf, -np.inf, 65504, 65519, 65520, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1e-45]


@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, "int16", "uint32"])
def test_casts_at_the_edges(target):
    data = np.array([EDGES], np.float32)
    assert_same(written(nisa.tensor_copy, data, dtype=target), cast(data, target))


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (1 + 2**-11, "tfloat32", 1.0),
        (1 + 3 * 2**-11, "tfloat32", 1 + 2**-9),
        (np.nan, "int32", 0),
        (np.nan, "float32", np.nan),
        (np.nan, "bfloat16", np.nan),
        (np.nan, "tfloat32", np.nan),
        (-0.0, "float16", -0.0),
    ],
)
def test_casts_by_hand(value, target, expected):
    data = np.full((2, 2), value, np.float32)
    found = wide(written(nisa.tensor_scalar, data, nl.add, -0.0, dtype=target))
    np.testing.assert_array_equal(found, np.full((2, 2), expected))
    assert (np.signbit(found) == np.signbit(expected)).all() or np.isnan(expected)


def test_same_dtype_copies_are_exact_and_casts_go_through_fp32():
    data = np.array([[2**24 + 1, 2**31 - 1, -(2**31) + 1]], np.int32)
    for copy in (nisa.tensor_copy, nisa.dma_copy):
        assert_same(written(copy, data), data)
    other = written(nisa.tensor_copy, data, dtype="uint32")
    assert_same(other, np.array([[2**24, 2**31, 0]], np.uint32))


KERNELS = blocks("""
overlapping copies read before they write [x 4x8]
    nisa.tensor_copy(x[:, 1:], x[:, :-1])
    return x
  np.concatenate([x[:, :1], x[:, :-1]], axis=1)
a DMA between tensors in HBM changes shape and dtype [x 6x8 in HBM]
    out = new((4, 6), "bfloat16", nl.shared_hbm)
    nisa.dma_copy(out, x[:, ::2])
    return out
  cast(x[:, ::2].reshape(4, 6), "bfloat16")
rows that a gather between tensors in HBM skips stay [x 8x6 in HBM]
    out = nl.full((4, 6), 9.0, "float32", nl.shared_hbm)
    nisa.dma_copy(out.reshape((24,)), x.vector_select(0, index(1, 0, 77, 3)), oob_mode=SKIP)
    return out
  np.concatenate([x[[1, 0]], np.full((1, 6), 9, np.float32), x[3:4]])
a scatter to one row keeps the last [x 2x6]
    out = nl.zeros((3, 6), "float32", nl.shared_hbm)
    nisa.dma_copy(out.vector_select(0, index(1, 1)), x)
    return out
  np.stack([0 * x[0], x[1], 0 * x[0]])
indirect views slice their other dimensions [x 8x6 in HBM]
    gathered, picked = new((4, 3)), new((1, 3))
    nisa.dma_copy(gathered, x.vector_select(0, index(3, 0, 7, 3))[:, 1:6:2])
    nisa.dma_copy(picked, x.reshape((2, 4, 6)).select(1, index(3))[1:2, 3:6])
    return gathered, picked
  x[[3, 0, 7, 3], 1:6:2]
  x[7:8, 3:6]
a store at an address out of bounds is skipped [x 4x6 in HBM]
    indirect = x.ap([[6, 2], [1, 6]], scalar_offset=index(3))
    nisa.dma_copy(indirect, nl.full((2, 6), 7.0, "float32"), oob_mode=SKIP)
    return x
  x
operands with strides leave the gaps alone [x 32x4x6] [y 32x4x6]
    row = y[:, 0:1, 0:3].reshape((32, 3)).expand_dim(1).broadcast(1, 3)
    nisa.tensor_tensor(x[:, 1:4, ::2], x.permute((0, 2, 1))[:, ::2, 0:3], row, nl.add)
    return x
  before = x.copy()
  x[:, 1:4, ::2] = before.transpose(0, 2, 1)[:, ::2, 0:3] + y[:, 0:1, 0:3]
  x
an operand's column inside of the output [x 8x6]
    nisa.tensor_scalar(x, x, nl.multiply, x[:, 0:1], op1=nl.add, operand1=x[:, 1:2])
    return x
  cast(single(wide(x) * wide(x)[:, 0:1]) + wide(x)[:, 1:2], "float32")
an activation adds a number, from v3 on [trn2] [x 8x6]
    nisa.activation(x, nl.copy, x, bias=2.0, scale=3.0)
    return x
  Near(wide(x) * 3 + 2, sums(2))
activations accumulate in registers [x 8x6] [y 8x3x2]
    junk, first, second, third, after = new((8, 6)), *(new((8, 1)) for _ in range(4))
    add = {"op": nl.square, "reduce_op": nl.add}
    nisa.activation(junk, data=x, **add, reduce_cmd=RESET_REDUCE, reduce_res=first)
    nisa.activation(junk, data=y, **add, reduce_cmd=REDUCE)
    nisa.activation(junk, nl.square, y)  # idle: the registers keep their value
    nisa.activation(junk, data=x, **add, reduce_cmd=REDUCE, reduce_res=second)
    nisa.activation(junk, nl.copy, x, reduce_cmd=nisa.reduce_cmd.reset, reduce_res=third)
    nisa.activation_reduce(junk, nl.copy, x, nl.add, after, scale=2.0)
    return first, second, third, after
  one = (wide(x) ** 2).sum(axis=1, keepdims=True)
  two = (wide(y) ** 2).sum(axis=(1, 2)).reshape(8, 1)
  Near(one, sums(18))
  Near(2 * one + two, sums(18))
  Near(0 * one, sums(18))
  Near(2 * wide(x).sum(axis=1, keepdims=True), sums(18))
registers of sums belong to lanes [x 128x6]
    junk, total = new((128, 6)), new((128, 1))
    add = {"op": nl.copy, "reduce_op": nl.add}
    for rows in (slice(0, 64), slice(64, 128)):
        nisa.activation(junk[rows], data=x[rows], **add, reduce_cmd=RESET_REDUCE)
    nisa.activation(junk, data=x, **add, reduce_cmd=REDUCE, reduce_res=total)
    return total
  Near(2 * wide(x).sum(axis=1, keepdims=True), sums(12))
registers of maxima belong to lanes [x 128x6]
    junk, top, ones = new((128, 6)), new((128, 1)), nl.ones((128, 6), "uint8")
    for rows in (slice(64, 128), slice(0, 64)):
        nisa.select_reduce(junk[rows], ones[rows], x[rows], 0.0, None, RESET_REDUCE)
    nisa.select_reduce(junk, ones, x, 0.0, top, nisa.reduce_cmd.idle)
    return top
  x.max(axis=1, keepdims=True)
the sum of an activation over its own output [x 8x6]
    nisa.activation_reduce(x, nl.copy, x, nl.add, x[:, 2:3])
    return x
  total = x.sum(axis=1)
  x[:, 2] = total
  Near(x, sums(6))
PSUM accumulates in fp32
    dst, ones = new((4, 4), "float32", nl.psum), nl.ones((1, 4), "bfloat16")
    tiny = nl.full((1, 4), 2**-10, "bfloat16")
    for operand in (ones, tiny, tiny, tiny):
        nisa.nc_matmul(dst, ones, operand)
    return dst
  np.full((4, 4), 1 + 3 * 2**-10, np.float32)
a matmul of double rows [trn2] [x 128x2x16 float8_e4m3] [y 128x2x24 float8_e5m2]
    dst = new((16, 24), "float32", nl.psum)
    nisa.nc_matmul(dst, x, y, perf_mode=nisa.matmul_perf_mode.double_row)
    return dst
  Near(np.einsum("kdm,kdn->mn", wide(x), wide(y)), sums(256))
a matmul to bfloat16 of 1024 columns on v4 [trn3] [x 32x16 bfloat16] [y 32x1024 bfloat16]
    dst = new((16, 1024), "bfloat16", nl.psum)
    nisa.nc_matmul(dst, x, y)
    return dst
  Near(wide(x).T @ wide(y), sums(1, "bfloat16"))
registers are loaded, moved and stored
    first, second, third = nisa.register_alloc(7), nisa.register_alloc(), nisa.register_alloc()
    nisa.register_load(second, nl.full((1, 1), -5, "int32"))
    nisa.register_move(third, second)
    nisa.register_move(second, 11)
    out, hbm = new((1, 3), "int32"), new((1,), "int32", nl.shared_hbm)
    for i, register in enumerate((first, second, third)):
        nisa.register_store(out[:, i : i + 1], register)
    nisa.register_store(hbm, third)
    return out, hbm
  np.array([[7, 11, -5]], np.int32)
  np.array([-5], np.int32)
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_values(heading, KERNELS[heading], globals())


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("where", ["sbuf", "psum"])
def test_memset(dtype, where):
    def kernel():
        t = new((4, 2, 8), dtype, memory(where))
        nisa.memset(t, 1)
        nisa.memset(t[:, 1, ::2], 0)
        return to_hbm(t)

    expected = np.ones((4, 2, 8), NUMPY[dtype])
    expected[:, 1, ::2] = 0
    assert_same(nki.simulate(kernel)(), expected)


@pytest.mark.parametrize("value", [-3.75, 1e-3, np.inf, np.nan, 7])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_memset_rounds(value, dtype):
    found = nki.simulate(lambda: to_hbm(nl.full((2, 3), value, dtype)))()
    assert_same(found, cast(np.full((2, 3), value), dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("psum", [(), (0,), (1,)])
def test_tensor_copy_predicated(dtype, reverse, psum):
    src, predicate = sample((32, 12), dtype), sample((32, 3, 4), "bool", 1).astype(np.uint16)

    def body(s, p):
        dst = nl.full((32, 2, 6), 9, dtype)
        nisa.tensor_copy_predicated(dst, s, p, reverse_pred=reverse)  # three different ranks
        number = nl.full((32, 12), 9, dtype)
        nisa.tensor_copy_predicated(number, 4, p, reverse_pred=reverse)
        return dst, number

    chosen = (predicate.reshape(32, 12) != 0) ^ reverse
    tile, number = run(body, src, predicate, psum=psum)
    assert_same(tile, np.where(chosen, src, NUMPY[dtype].type(9)).reshape(32, 2, 6))
    assert_same(number, np.where(chosen, 4, 9).astype(NUMPY[dtype]))


# DMA.


@pytest.mark.parametrize("axes", [(1, 0), (2, 1, 0), (3, 1, 2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("explicit", [True, False])
def test_dma_transpose(axes, dtype, explicit):
    data = sample((6, 3, 5, 4)[: len(axes)], dtype)

    def kernel(tensor):
        dst = new(tuple(data.shape[a] for a in axes), dtype)
        nisa.dma_transpose(dst, tensor, axes=axes if explicit else None)
        return to_hbm(dst)

    assert_same(nki.simulate(kernel)(data), data.transpose(axes))


# VectorE, ScalarE, GpSimdE: elementwise.


def single(values):
    """Rounded to float32."""
    return wide(cast(values, "float32"))


def steps(first, second):
    """Two differences, either of them in reverse or not."""
    return (
        lambda dst, x, y, c: nisa.scalar_tensor_tensor(
            dst, x, nl.subtract, c, nl.subtract, y, first, second
        ),
        lambda x, y, c: (single((x - c) * (-1) ** first) - y) * (-1) ** second,
    )


# An instruction of two tiles and a column, and its exact result.
ELEMENTWISE = {
    "copy": (lambda dst, x, y, c: nisa.tensor_copy(dst, x), lambda x, y, c: x),
    "difference": (
        lambda dst, x, y, c: nisa.tensor_tensor(dst, x, y, nl.subtract),
        lambda x, y, c: x - y,
    ),
    "scaled and shifted": (
        lambda dst, x, y, c: nisa.tensor_scalar(dst, x, nl.multiply, c, op1=nl.add, operand1=c),
        lambda x, y, c: single(x * c) + c,
    ),
    "scaled by a number": (
        lambda dst, x, y, c: nisa.scalar_tensor_tensor(dst, x, nl.multiply, 1.5, nl.subtract, y),
        lambda x, y, c: single(x * 1.5) - y,
    ),
    **{f"{flags}": steps(*flags) for flags in itertools.product([False, True], repeat=2)},
    "reciprocal": (lambda dst, x, y, c: nisa.reciprocal(dst, x), lambda x, y, c: 1 / x),
    "square": (lambda dst, x, y, c: nisa.activation(dst, nl.square, x), lambda x, y, c: x**2),
}


MEMORIES = [(), (0,), (1,), (2,)], ["sbuf", "psum", 0, 1]
PAIRS = [tuple(row) for row in AllPairs([[*ELEMENTWISE], COMMON, *MEMORIES])]


@pytest.mark.parametrize(("name", "dtype", "psum", "target"), PAIRS)
def test_elementwise(name, dtype, psum, target):
    """Of operands in either memory, into either memory or in place."""
    instruction, function = ELEMENTWISE[name]
    x, y, c = sample((32, 4, 4), dtype), sample((32, 16), dtype, 1), sample((32, 1), seed=2)
    x[:, 0] = 1

    def body(*tiles):
        in_place = isinstance(target, int)
        dst = tiles[target] if in_place else new((32, 2, 8), "float32", memory(target))
        instruction(dst, *tiles)
        return dst

    found = run(body, x, y, c, psum=psum).reshape(32, 16)
    with np.errstate(divide="ignore"):
        exact = function(wide(x).reshape(32, 16), wide(y), wide(c))
    assert_same(found, cast(exact, dtype if isinstance(target, int) else "float32"))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "less"])
def test_int32_is_exact_on_gpsimd_and_fp32_on_vector(name):
    a = np.array([[2**24 + 1, 2**30 + 7, -5, 65535]], np.int32)
    b = np.array([[2**24, 3, 12, 3]], np.int32)
    operands = nisa.tensor_tensor, a, b, op(name)
    exact = ARITHMETIC[name](a.astype(np.int64), b.astype(np.int64)).astype(np.int64)
    wrapped = (exact & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    assert_same(written(*operands), wrapped)
    single = ARITHMETIC[name](a.astype(np.float32), b.astype(np.float32))
    assert_same(written(*operands, engine=nisa.engine.vector), cast(single, "int32"))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint32"])
def test_two_bitvec_steps(dtype):
    data = sample((4, 6), dtype)
    masked = nisa.tensor_scalar, data, nl.left_shift, 1, False, nl.bitwise_and, 0x5A
    assert_same(written(*masked), (data << 1) & NUMPY[dtype].type(0x5A))
    assert_same(written(nisa.tensor_scalar, data, nl.bitwise_xor, -1), ~data)


@sweeps.pairs(first=ARITHMETIC, second=["add", "subtract", "minimum", None], reverse=[False, True])
def test_tensor_scalar(first, second, reverse):
    data, column = sample((8, 3, 5), "bfloat16"), sample((8, 1), seed=1)
    data[:, 0] = 0.75
    rest = () if second is None else (op(second), column, reverse)

    def apply(name, x, y):
        pair = (y, x) if reverse else (x, y)
        return cast(wide(ARITHMETIC[name](*map(wide, pair))), "float32")

    expected = apply(first, data, np.float32(0.75))
    if second is not None:
        expected = apply(second, expected, column[:, :, None])
    steps = op(first), 0.75, reverse, *rest
    assert_same(written(nisa.tensor_scalar, data, *steps, dtype="float32"), expected)


@pytest.mark.parametrize(
    ("name", "function"), [("abs", np.abs), ("rsqrt", lambda x: 1 / np.sqrt(x))]
)
def test_tensor_scalar_unary(name, function):
    data = sample((8, 6)) if name == "abs" else np.abs(sample((8, 6))) + 0.1
    found = written(nisa.tensor_scalar, data, op(name), 0.0)
    near(found, function(wide(data)), elementary(), each=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("scale", [1.0, 0.5, "tile"])
@pytest.mark.parametrize("bias", [None, "tile"])
@pytest.mark.parametrize("psum", [(), (0,), (1, 2)])
def test_activation(dtype, scale, bias, psum):
    data = sample((32, 3, 4), dtype)
    data = (data % 3).astype(data.dtype) if dtype == "int32" else data
    s, b = sample((32, 1), seed=1), sample((32, 1), "float32", 2)

    def body(t, factor, offset):
        dst, bias_ = new((32, 12)), offset if bias else None
        nisa.activation(dst, nl.exp, t, bias_, factor if scale == "tile" else scale)
        return dst

    inner = wide(data) * (wide(s)[:, :, None] if scale == "tile" else scale)
    inner = inner + (wide(b)[:, :, None] if bias else 0)
    found = run(body, data, s, b, psum=psum)
    near(found.reshape(32, 3, 4), np.exp(inner), elementary() + sums(2), each=True)


@pytest.mark.lenient
def test_activation_sine_outside_its_range():
    data = np.array([[9.0, -9.0, 3.0, -1.0, 0.0]], np.float32)
    with pytest.warns(nki_sim.NkiSimulationWarning, match="sin"):
        found = written(nisa.activation, nl.sin, data)
    expected = [27.65, -27.65, np.sin(3.0), np.sin(-1.0), 0.0]
    near(found[0], expected, elementary())


# Reductions, statistics, scans.

REDUCERS = {
    "add": np.sum,
    "multiply": np.prod,
    "maximum": np.max,
    "minimum": np.min,
    "logical_and": np.all,
    "logical_or": np.any,
    "logical_xor": lambda x, axis: np.count_nonzero(x, axis) % 2,
}


@sweeps.pairs(
    name=REDUCERS,
    axis=[(3,), (2, 3), (1, 2, 3), 3, -1, [-2, -1]],
    dtype=["float32", "bfloat16", "int32"],
    negate=[False, True],
)
def test_tensor_reduce(name, axis, dtype, negate):
    data = (sample((32, 2, 3, 4), "int32") % 4 - 1).astype(NUMPY[dtype])
    axes = tuple(a % 4 for a in ([axis] if isinstance(axis, int) else axis))
    kept = tuple(n for d, n in enumerate(data.shape) if d not in axes)

    def body(t):
        dst = new(kept if len(kept) > 1 else (32, 1))
        same = new(tuple(1 if d in axes else n for d, n in enumerate(data.shape)), dtype)
        nisa.tensor_reduce(dst, op(name), t, axis, negate=negate)
        nisa.tensor_reduce(same, op(name), t, axis, negate=negate, keepdims=True)
        return dst, same

    exact = REDUCERS[name](wide(data), axis=axes) * (-1.0 if negate else 1.0)
    for psum in ((), (0,)):
        dst, same = run(body, data, psum=psum)
        assert_same(dst, cast(exact, "float32").reshape(dst.shape))
        assert_same(same, cast(exact, dtype).reshape(same.shape))


@pytest.mark.parametrize("name", BITVEC)
def test_tensor_reduce_bitvec(name):
    data = np.random.default_rng(3).integers(0, 256, (8, 3, 5)).astype(np.uint8)
    found = written(nisa.tensor_reduce, op(name), data, axis=2, shape=(8, 3))
    assert_same(found, functools.reduce(BITVEC[name], np.moveaxis(data, 2, 0)))


def test_tensor_reduce_subtracts_in_order():
    data = np.array([[10, 1, 2, 3], [0, 4, -4, 1]], np.float32)
    found = written(nisa.tensor_reduce, nl.subtract, data, axis=1, shape=(2, 1))
    assert_same(found, np.array([[4], [-1]], np.float32))


@pytest.mark.parametrize(
    ("name", "function"), [("add", np.sum), ("average", np.mean), ("maximum", np.max)]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_tensor_partition_reduce(name, function, dtype):
    data = (sample((64, 3, 4), "int32") % 16).astype(NUMPY[dtype])
    operands = nisa.tensor_partition_reduce, op(name), data
    expected = cast(function(wide(data), axis=0), "float32").reshape(1, 12)
    assert_same(written(*operands, shape=(1, 12), dtype="float32"), expected)


@pytest.mark.parametrize(("name", "function"), [("bitwise_or", np.any), ("bitwise_and", np.all)])
def test_tensor_partition_reduce_bitvec(name, function):
    bits = np.random.default_rng(4).random((16, 6, 8)) < (0.1 if name == "bitwise_or" else 0.9)
    data = np.packbits(bits, axis=-1)[..., 0]
    found = written(nisa.tensor_partition_reduce, op(name), data, shape=(1, 6))
    assert_same(found, np.packbits(function(bits, axis=0), axis=-1).reshape(1, 6))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("sizes", [(7,), (512, 512, 100), (1,)])
def test_bn_stats_and_bn_aggr(dtype, sizes):
    data = sample((8, sum(sizes)), dtype)

    def body(t):
        stats, moments, start = new((8, len(sizes), 6)), new((8, 2)), 0
        for i, n in enumerate(sizes):
            nisa.bn_stats(stats[:, i], t[:, start : start + n])
            start += n
        nisa.bn_aggr(moments, stats)
        return stats, moments

    stats, moments = run(body, data)
    last = wide(data)[:, -sizes[-1] :]
    for offset in (0, 1):
        half = last[:, offset::2]
        count, mean, spread = np.moveaxis(wide(stats)[:, -1, 3 * offset : 3 * offset + 3], -1, 0)
        np.testing.assert_array_equal(count, half.shape[1])
        if half.size:
            near(mean, half.mean(axis=1), sums(half.shape[1]), scale=half)
            exact = half.var(axis=1) * half.shape[1]
            near(spread, exact, 2 * sums(half.shape[1]))
    exact = np.stack([wide(data).mean(axis=1), wide(data).var(axis=1)], axis=1)
    near(moments, exact, 2 * sums(sum(sizes)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(8, 8), (8, 5, 9)])
def test_max8(dtype, shape):
    data = sample(shape, dtype)
    expected = np.sort(wide(data).reshape(8, -1), axis=1)[:, ::-1][:, :8]
    assert_same(written(nisa.max8, data, shape=(8, 8)), cast(expected, dtype))


@pytest.mark.parametrize("ops", [("multiply", "add"), ("subtract", "minimum"), ("add", "subtract")])
@pytest.mark.parametrize("reverse", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("psum", [(), (0,), (1, 2)])
def test_tensor_tensor_scan(ops, reverse, psum):
    a, b, start = sample((32, 10)), sample((32, 2, 5), seed=1), sample((32, 1), seed=2)

    def body(x, y, z):
        dst = new((32, 10))
        nisa.tensor_tensor_scan(dst, x, y, z, op(ops[0]), op(ops[1]), *reverse)
        nisa.tensor_tensor_scan(x, x, y, 0.5, op(ops[0]), op(ops[1]), *reverse)  # in place
        return dst, x

    def reference(state):
        columns = []
        for i in range(10):
            first = (state, a[:, i]) if reverse[0] else (a[:, i], state)
            step = ARITHMETIC[ops[0]](*first)
            second = (
                (b.reshape(32, 10)[:, i], step) if reverse[1] else (step, b.reshape(32, 10)[:, i])
            )
            state = ARITHMETIC[ops[1]](*second)
            columns.append(state)
        return np.stack(columns, axis=1)

    tile, number = run(body, a, b, start, psum=psum)
    assert_same(tile, reference(start[:, 0]))
    assert_same(number, reference(np.full(32, 0.5, np.float32)))


# Patterns and selection.


def affine(pattern, offset, multiplier, rows):
    grid = np.indices([n for _, n in pattern])
    steps = sum(step * index for (step, _), index in zip(pattern, grid, strict=True))
    return offset + multiplier * np.arange(rows)[:, None] + steps.reshape(1, -1)


PATTERNS = [
    [[1, 12]],
    [[-2, 3], [5, 4]],
    [[0, 2], [7, 3], [1, 2]],
    [[1, 2], [2, 1], [4, 2], [-1, 3]],
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["int32", "float32", "bfloat16", "uint8"])
def test_iota(pattern, dtype):
    def kernel():
        plain, shifted = new((8, 12), dtype), new((8, 3, 4), dtype)
        nisa.iota(plain, pattern)
        nisa.iota(shifted, pattern, offset=-3, channel_multiplier=11)
        return to_hbm(plain), to_hbm(shifted)

    plain, shifted = nki.simulate(kernel)()
    assert_same(plain, cast(affine(pattern, 0, 0, 8), dtype))
    assert_same(shifted, cast(affine(pattern, -3, 11, 8), dtype).reshape(8, 3, 4))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("compare", ["equal", "not_equal", "greater", "less_equal", None])
@pytest.mark.parametrize(("dtype", "out"), [("float32", "float32"), ("int32", "bfloat16")])
def test_affine_select(pattern, compare, dtype, out):
    data = sample((8, 3, 4), dtype)
    given = {} if compare is None else {"cmp_op": op(compare)}
    operands = nisa.affine_select, pattern, -2, data, -1.5
    keep = ARITHMETIC[compare or "equal"](affine(pattern, 5, -2, 8), 0)
    expected = cast(np.where(keep, wide(data).reshape(8, 12), -1.5), out)
    assert_same(written(*operands, shape=(8, 12), dtype=out, offset=5, **given), expected)


FP32_MIN = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "compare", [("greater_equal", "less"), ("less", "greater"), ("equal",) * 2]
)
def test_range_select(dtype, compare, monkeypatch):
    trn(monkeypatch, 3)
    data = sample((8, 3, 4), dtype)
    low = np.arange(8, dtype=np.float32)[:, None]
    high = low + np.float32(4.5)

    def body(t, a, b):
        dst, first, both = new((8, 12), dtype), new((8, 1)), new((8, 1))
        comparisons = [op(c) for c in compare]
        nisa.range_select(dst, t, *comparisons, a, b, reduce_res=first, range_start=2)
        nisa.range_select(
            dst, t, *comparisons, a, b, REDUCE, both, nl.maximum, on_false_value=FP32_MIN
        )
        return dst, first, both

    def reference(start):
        index = np.arange(12) + start
        keep = ARITHMETIC[compare[0]](index, low) & ARITHMETIC[compare[1]](index, high)
        return np.where(keep, wide(data).reshape(8, 12), FP32_MIN)

    dst, first, both = run(body, data, low, high)
    assert_same(dst, cast(reference(0), dtype))
    maximum = reference(2).max(axis=1, keepdims=True)
    assert_same(first, cast(maximum, "float32"))
    both_rows = np.maximum(maximum, reference(0).max(axis=1, keepdims=True))
    assert_same(both, cast(both_rows, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("number", [False, True])
@pytest.mark.parametrize("psum", [(), (0,), (1,)])
def test_select_reduce(dtype, reverse, number, psum):
    predicate = sample((32, 12), "bool", 1).astype(np.uint8)
    data, column = sample((32, 3, 4), dtype), sample((32, 1), seed=2)

    def body(p, t, c):
        dst, first, second = new((32, 2, 6)), new((32, 1)), new((32, 1))
        other = -0.5 if number else c
        settings = {"reverse_pred": reverse}
        nisa.select_reduce(dst, p, t, other, first, RESET_REDUCE, nl.maximum, **settings)
        nisa.select_reduce(dst, p, t, 2.5, None, REDUCE, nl.maximum, **settings)
        nisa.select_reduce(dst, p, t, other, second, REDUCE, **settings)
        return dst, first, second

    keep = (predicate != 0) ^ reverse
    flat, other = wide(data).reshape(32, 12), -0.5 if number else wide(column)
    expected = np.where(keep, flat, other)
    high = expected.max(axis=1, keepdims=True)
    dst, first, second = run(body, predicate, data, column, psum=psum)
    assert_same(dst, cast(expected, "float32").reshape(32, 2, 6))
    assert_same(first, cast(high, "float32"))
    again = np.maximum(high, np.where(keep, flat, 2.5).max(axis=1, keepdims=True))
    assert_same(second, cast(again, "float32"))


@pytest.mark.parametrize("rows", [32, 64, 128, 20])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
@pytest.mark.parametrize("inplace", [False, True])
def test_nc_stream_shuffle(rows, dtype, inplace):
    mask = [int(m) for m in np.random.default_rng(5).permutation(32)]
    mask = [min(m, rows - 1) for m in mask]
    mask[3] = mask[17] = 255
    data = sample((rows, 2, 3), dtype)

    def body(t):
        dst = t if inplace else nl.full((rows, 6), 9, dtype)
        nisa.nc_stream_shuffle(dst, t, mask)
        return dst.reshape((rows, 6))

    flat = data.reshape(rows, 6)
    expected = flat.copy() if inplace else np.full((rows, 6), 9, NUMPY[dtype])
    for p in range(rows):
        if mask[p % 32] != 255:
            expected[p] = flat[p // 32 * 32 + mask[p % 32]]
    assert_same(run(body, data), expected)


# TensorE.

MATMUL = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
PAIRS = [(a, b) for a in MATMUL for b in MATMUL if (a == "float32") == (b == "float32")]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_nc_matmul(left, right):
    a, b = sample((128, 4, 16), left), sample((128, 96), right, 1)
    found = written(nisa.nc_matmul, a, b, shape=(64, 8, 12), dtype="float32", buffer=nl.psum)
    near(found.reshape(64, 96), wide(a).reshape(128, 64).T @ wide(b), sums(128))


def matmul(*modes, disturb=False):
    """Products of the same operands, one a mode, into one PSUM tile."""
    a, b = sample((32, 16)), sample((32, 24), seed=1)

    def body(x, y):
        dst = new((16, 24), "float32", nl.psum)
        if disturb:
            nisa.memset(dst, 5.0)
        for mode in modes:
            nisa.nc_matmul(dst, x, y, accumulate=mode)
        return dst

    return run(body, a, b), wide(a).T @ wide(b)


@pytest.mark.parametrize(
    ("modes", "count"),
    [
        ((None,), 1),
        ((None, None, None), 3),
        ((False, True, True), 3),
        ((False, None), 2),
        ((None, True), 2),
        ((None, None, False), 1),
        ((False, True, False, True), 2),
    ],
)
def test_accumulation(modes, count):
    found, product = matmul(*modes, disturb=modes[0] is False)
    near(found, count * product, sums(32 * count))


@pytest.mark.parametrize("accumulate", [None, "explicit"])
def test_accumulation_in_overlapping_regions(accumulate):
    a, b = sample((32, 16)), sample((32, 40), seed=1)

    def body(x, y):
        dst = new((16, 48), "float32", nl.psum)
        if accumulate == "explicit":
            nisa.nc_matmul(dst[:, 0:24], x, y[:, 0:24], accumulate=False)
            nisa.nc_matmul(dst[:, 24:48], x, y[:, 16:40], accumulate=False)
            nisa.nc_matmul(dst[:, 12:36], x, y[:, 0:24], accumulate=True)
            nisa.nc_matmul(dst[:, 0:48:2], x, y[:, 0:24], accumulate=True)
        else:
            nisa.nc_matmul(dst[:, 0:24], x, y[:, 0:24])
            nisa.nc_matmul(dst[:, 12:36], x, y[:, 0:24])  # half on old, half on new columns
            nisa.nc_matmul(dst[:, 24:48], x, y[:, 16:40])
            nisa.nc_matmul(dst[:, 0:48:2], x, y[:, 0:24])
        return dst

    product, expected = wide(a).T @ wide(b), np.zeros((16, 48))
    expected[:, 0:24] += product[:, 0:24]
    expected[:, 12:36] += product[:, 0:24]
    expected[:, 24:48] += product[:, 16:40]
    expected[:, 0:48:2] += product[:, 0:24]
    near(run(body, a, b), expected, sums(32 * 3))


@pytest.mark.parametrize("tile", [(64, 0, 64, 128), (0, 64, 128, 64)])
def test_matmul_row_and_column_tiles(tile):
    """Rows 64 to 127 of the array, or its columns 64 to 127, whose partitions PSUM has."""
    row, column, height, width = tile
    a, b = sample((128, 32)), sample((128, 24), seed=1)

    def body(x, y):
        rows = slice(row, row + height)
        dst = new((column + 32, 24), "float32", nl.psum)[column:]
        settings = {"tile_position": (row, column), "tile_size": (height, width)}
        nisa.nc_matmul(dst, x[rows], y[rows], **settings)
        return dst

    near(run(body, a, b), wide(a)[row:].T @ wide(b)[row:], sums(128))


@pytest.mark.parametrize(
    ("engine", "psum"), [("tensor", ()), ("vector", ()), ("vector", (0,)), ("unknown", ())]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "int32"])
@pytest.mark.parametrize("generation", [2, 3])
def test_nc_transpose(engine, psum, dtype, generation, monkeypatch):
    trn(monkeypatch, generation)
    data = sample((32, 4, 5), dtype)
    settings = {"psum": psum, "engine": nisa.engine[engine]}
    memory = nl.psum if engine == "tensor" else nl.sbuf
    found = written(nisa.nc_transpose, data, shape=(20, 32), buffer=memory, **settings)
    assert_same(found, data.reshape(32, 20).T)


def test_transposes_of_nan_are_exact_from_v3(monkeypatch):
    data = sample((16, 16))
    data[2, 3], data[5, 6] = np.nan, np.inf

    def body(t):
        dst, product = (new((16, 16), "float32", nl.psum) for _ in range(2))
        nisa.nc_transpose(dst, t, engine=nisa.engine.tensor)
        identity = nl.shared_identity_matrix(16, "float32")
        nisa.nc_matmul(product, t, identity, is_transpose=True)
        return dst, product

    with np.errstate(invalid="ignore"):
        spread = data.T @ np.eye(16, dtype=np.float32)
    for found in run(body, data):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(spread))
    trn(monkeypatch, 3)
    for found in run(body, data):
        assert_same(found, data.T)


# Memory, precision, registers, loops.


def test_imprecise_mode_keeps_float32(monkeypatch):
    data = sample((8, 6))

    def body(t):
        low, tiny, whole = (
            new(t.shape, "bfloat16"),
            new(t.shape, "float8_e4m3"),
            new(t.shape, "int32"),
        )
        nisa.tensor_copy(low, t)
        nisa.tensor_scalar(tiny, low, nl.multiply, 3.0)
        nisa.tensor_copy(whole, tiny)
        return low, tiny, whole

    low, tiny, whole = run(body, data)
    assert_same(low, cast(data, "bfloat16"))
    assert_same(tiny, cast(wide(low) * 3, "float8_e4m3"))
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    low, tiny, whole = run(body, data)
    assert_same(low, data)
    assert_same(tiny, data * np.float32(3))
    assert_same(whole, np.rint(data * np.float32(3)).astype(np.int32))


@pytest.mark.parametrize("precise", ["1", "0"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_bfloat16_arguments_are_updated(precise, kind, monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", precise)
    array = sample((4, 6), "bfloat16")
    expected = wide(array) + 1
    if kind == "torch":
        torch = pytest.importorskip("torch")
        array = torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)

    def kernel(tensor):
        tile = nl.load(tensor)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(tensor, tile)

    nki.simulate(kernel)(array)
    found = array.float().numpy() if kind == "torch" else array.astype(np.float32)
    near(found, expected, sums(1, "bfloat16"), each=True)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((0, 4, 1), [0, 1, 2, 3]), ((1, 6, 2), [1, 3, 5]), ((3, 3, 1), []), ((5, 2, 1), [])],
)
@pytest.mark.parametrize("kind", ["fori_loop", "registers", "dynamic_range"])
def test_counted_loops(bounds, expected, kind):
    def kernel(data):
        lower, upper, step = bounds
        out = nl.zeros((1, 6), "float32", nl.shared_hbm)

        def body(i):
            is_register = isinstance(i, nisa.VirtualRegister)
            assert is_register == (kind != "fori_loop")
            tile = nl.load(data.ap([[6, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
            nisa.tensor_scalar(tile, tile, nl.multiply, 10.0)
            nisa.dma_copy(out.ap([[6, 1], [1, 1]], scalar_offset=i, indirect_dim=1), tile)
            if kind == "registers":
                nisa.register_move(i, 99)  # a copy: the loop does not see it

        if kind == "fori_loop":
            nl.fori_loop(lower, upper, body, step=step)
        elif kind == "registers":
            low, high = nisa.register_alloc(lower), nisa.register_alloc()
            bound = new((1, 1), "int32")
            nisa.memset(bound, upper)
            nisa.register_load(high, bound)
            nl.fori_loop(low, high, body, step)
        else:
            with pytest.warns(DeprecationWarning, match="fori_loop"):
                for i in nl.dynamic_range(lower, nisa.register_alloc(upper), step):
                    body(i)
                    refuses("a loop variable is read-only", nisa.register_move, i, 99)
        return out

    data = sample((1, 6))
    wanted = np.zeros((1, 6), np.float32)
    wanted[0, expected] = data[0, expected] * 10
    release = "0.6" if kind == "dynamic_range" else "0.7"
    assert_same(nki.simulate(kernel, release)(data), wanted)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("bare", [False, True])
def test_while_loops(count, bare):
    def kernel(start):
        left, rounds = nl.load(start), nl.zeros((1, 1), "int32")
        register = nisa.register_alloc()
        nisa.register_load(register, left)

        def body(r):
            nisa.tensor_scalar(rounds, rounds, nl.add, 2.0)
            nisa.tensor_scalar(left, left, nl.subtract, 1.0)
            following = nisa.register_alloc()
            nisa.register_load(following, left)
            return following

        if bare:
            while register:
                register = body(register)
        else:
            nl.while_loop(register, body)
        return to_hbm(rounds)

    simulated = nki.simulate(kernel, "0.6" if bare else "0.7")
    assert simulated(np.array([[count]], np.int32)).tolist() == [[2 * count]]


# Launching kernels.


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "int8", "int16", "bool"]
)
def test_torch_in_torch_out(dtype):
    torch = pytest.importorskip("torch")
    values = torch.arange(24).reshape(4, 6).to(getattr(torch, dtype))

    def kernel(tensor):
        assert tensor.dtype == dtype
        assert tensor.buffer is nl.shared_hbm
        return to_hbm(nl.load(tensor))

    found = nki.simulate(kernel)(values)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == values.dtype
    assert torch.equal(found, values)
    turned = nki.simulate(kernel)(values.T)
    assert torch.equal(turned, values.T)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_torch_float8(dtype):
    torch = pytest.importorskip("torch")
    values = torch.tensor([[0.5, 1.0, 2.0, 8.0]]).to(getattr(torch, dtype))
    found = nki.simulate(lambda tensor: to_hbm(nl.load(tensor)))(values)
    assert found.dtype == values.dtype
    assert torch.equal(found.float(), values.float())


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("layout", ["dense", "transposed", "strided"])
def test_arguments_are_updated_in_place(kind, layout):
    base = sample((8, 8))
    expected = base.copy()
    views = {
        "dense": lambda x: x,
        "transposed": lambda x: x.T,
        "strided": lambda x: x[::2, 1::3],
    }
    views[layout](expected)[...] *= 2
    owner = base
    if kind == "torch":
        owner = pytest.importorskip("torch").from_numpy(base.copy())

    def kernel(tensor):
        tile = nl.load(tensor)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nisa.dma_copy(tensor, tile)

    nki.simulate(kernel)(views[layout](owner))
    assert_same(np.asarray(owner), expected)


def test_results_do_not_alias_arguments():
    data = sample((4, 4))
    found = nki.simulate(lambda tensor: tensor)(data)
    assert_same(found, data)
    assert not np.may_share_memory(found, data)


def test_nested_arguments_and_results():
    a, b = sample((4, 4)), sample((4, 4), seed=1)

    def kernel(pair, *, scale, flag=None):
        assert flag is None
        first, second = (nl.load(t) for t in pair)
        nisa.tensor_scalar(first, first, nl.multiply, scale)
        return {"one": to_hbm(first), "more": (to_hbm(second), [to_hbm(first), 3, None])}

    found = nki.simulate(kernel)((a, b), scale=2.0)
    assert list(found) == ["one", "more"]
    assert_same(found["one"], a * 2)
    assert_same(found["more"][0], b)
    assert_same(found["more"][1][0], a * 2)
    assert found["more"][1][1:] == [3, None]
    torch = pytest.importorskip("torch")
    tensors = nki.simulate(kernel)((torch.from_numpy(a), torch.from_numpy(b)), scale=2.0)
    assert isinstance(tensors["one"], torch.Tensor)


def test_named_tuple_results():
    def kernel():
        return Pair(to_hbm(nl.ones((2, 2), "float32")), 5)

    found = nki.simulate(kernel)()
    assert isinstance(found, Pair)
    assert found.second == 5
    assert_same(found.first, np.ones((2, 2), np.float32))


def test_grid():
    @nki.jit
    def kernel(dimensions):
        assert (nl.program_id(0), nl.num_programs(0)) == (0, 1)
        assert nl.program_ndim() == dimensions
        return to_hbm(nl.ones((2, 2), "float32"))

    ones = np.ones((2, 2), np.float32)
    assert_same(kernel(0), ones)
    assert_same(kernel[1](1), ones)
    assert_same(kernel[1, 1](2), ones)
    assert_same(nki.simulate(kernel[(1,)])(1), ones)
    with pytest.raises(NotImplementedError, match="grid"):
        kernel[2, 1]


def test_device_print(capsys):
    def kernel(tensor):
        nl.device_print("the tile", nl.load(tensor)[:, 1:3])
        nl.device_print("the argument", tensor)

    nki.simulate(kernel)(np.array([[1, 25, 36, 4]], np.int32))
    shown = capsys.readouterr().out
    assert "the tile" in shown
    assert "[[25 36]]" in shown
    assert "[[ 1 25 36  4]]" in shown.partition("the argument")[2]


def test_names_and_dependencies():
    def kernel(tensor):
        tile = new((4, 4))
        first = nisa.dma_copy(tile, tensor, name="load")
        second = nisa.tensor_scalar(tile, tile, nl.add, 1.0, name="one more")
        assert isinstance(first, nisa.NkiInstruction)
        assert second.depends_on(first) is second
        with nl.no_reorder():
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return to_hbm(tile)

    data = sample((4, 4))
    for launched in (nki.jit(kernel), nki.jit(kernel).with_schedule([("one more", "load")])):
        assert_same(launched(data), data + np.float32(1) + np.float32(1))


@pytest.mark.parametrize("programs", [1, 2])
def test_kernels_call_kernels(programs, monkeypatch):
    """As those of nki-library do: the instructions are those of the kernel that was launched."""
    trn(monkeypatch, 3)

    @nki.jit
    def doubled(tile, factor=2.0):
        out = new(tile.shape)
        nisa.tensor_scalar(out, tile, nl.multiply, factor)
        return out

    @nki.jit
    def kernel(x):
        half = x.shape[0] // nl.num_programs()
        rows = nl.ds(half * nl.program_id(), half)
        out = new(x.shape, "float32", nl.shared_hbm)
        nisa.dma_copy(out[rows], doubled(doubled(nl.load(x[rows])), factor=3.0))
        return out

    data = sample((64, 6))
    with nki_sim.record() as timeline:
        np.testing.assert_array_equal(nki_sim.simulate(kernel[programs])(data), 6 * data)
    assert timeline.instructions == 4 * programs


@pytest.mark.parametrize("is_dry", [False, True])
def test_a_tile_of_an_earlier_launch_is_refused(is_dry):
    kept = []

    def kernel(x):
        tile = kept[0] if kept else nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
        kept.append(tile)
        nisa.dma_copy(dst=tile, src=x)

    array = np.zeros((4, 8), np.float32)
    launch = (lambda: nki_sim.dry_run(nki.jit(kernel), array)) if is_dry else None
    launch = launch or (lambda: nki.jit(kernel)(array))
    launch()
    refuses("from an earlier launch", launch)
