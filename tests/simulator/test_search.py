"""nc_find_index8, nc_match_replace8, nonzero_with_count and topk: NumPy's results, and refusals."""

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

from .conftest import blocks, check_values, new, refuses, run, to_hbm, written


def find(data, vals, dtype="uint32", shape=None):
    shape = shape or (data.shape[0], 8)
    return written(nisa.nc_find_index8, data, vals, shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_find_index8_finds_the_largest(dtype):
    data = np.random.default_rng(0).permutation(5 * 40).reshape(5, 2, 20).astype(np.float32)
    flat = data.reshape(5, -1)
    vals = -np.sort(-flat, axis=1)[:, :8]
    found = find(data, vals, dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.argsort(-flat, axis=1)[:, :8])


def test_find_index8_of_repeated_and_missing_values():
    data = np.array([[3, 8, 1, 8, 8, 2, 9, 7, 0, 8]], np.float32)
    vals = np.array([[8, 5, 8, 3, np.nan, 8, 8, 8]], np.float32)
    missing = 0xFFFFFFFF
    assert find(data, vals).tolist() == [[1, missing, 3, 0, missing, 4, 9, missing]]


def zeros(*shape):
    return np.zeros(shape, np.float32)


def top(rows, columns, n, k):
    return topk(np.ones((rows, columns), ml_dtypes.bfloat16), n, k)


KERNELS = blocks("""
nc_match_replace8 gives repeated values their places in descending order: the reference's example
    data = nl.load(nl.shared_constant(np.array([[1, 2, 3, 4] + [8] * 7], np.float32)))
    values = nl.load(nl.shared_constant(np.array([[3] + [8] * 7], np.float32)))
    dst, indices = new((1, 11)), new((1, 8), "uint32")
    nisa.nc_match_replace8(dst, data, values, -1.0, indices)
    return dst, indices
  np.array([[1, 2, -1, 4] + [-1] * 7], np.float32)
  np.array([[2, 10, 9, 8, 7, 6, 5, 4]], np.uint32)
nc_match_replace8 replaces first occurrences only
    data = nl.load(nl.shared_constant(np.array([[5, 5, 6, 7, 5, 0, 1, 2]], np.float32)))
    values = nl.load(nl.shared_constant(np.array([[5, 7, 40, 41, 42, 43, 44, 45]], np.float32)))
    dst, indices = new((1, 8)), new((1, 8), "uint32")
    nisa.nc_match_replace8(dst, data, values, 0.5, indices)
    return dst, indices[:, :3]
  np.array([[0.5, 5, 6, 0.5, 5, 0, 1, 2]], np.float32)
  np.array([[0, 3, 0xFFFFFFFF]], np.uint32)
nc_match_replace8 sorts with max8 [x 2x32]
    found, rest = new((2, 32)), x
    for start in range(0, 32, 8):
        largest, left = found[:, start : start + 8], new((2, 32))
        nisa.max8(largest, rest)
        nisa.nc_match_replace8(left, rest, largest, -100.0)
        rest = left
    return found
  -np.sort(-x, axis=1)
nonzero_with_count reads the partitions that it needs only [trn2]
    src, dst = new((128, 4), "int32"), new((128, 5), "int32")
    for partition in range(0, 128, 32):
        nisa.memset(src[partition : partition + 17], 1)
        nisa.memset(dst[partition : partition + 32], 0)
    nisa.nonzero_with_count(dst, src)
    return dst[:, 4:5]
  np.where(np.arange(128)[:, None] % 16, 0, 4).astype(np.int32)
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_values(heading, KERNELS[heading], globals())


def counted(data, chip="trn2", **settings):
    @nki.jit
    def kernel(x):
        src, dst = new(x.shape, x.dtype), new((x.shape[0], x.shape[1] + 1), "int32")
        nisa.dma_copy(src, x)
        nisa.memset(dst, 7)
        nisa.nonzero_with_count(dst, src, **settings)
        return to_hbm(dst)

    with hardware.select(hardware.chip(chip)):
        return nki.simulate(kernel)(data)


def test_nonzero_with_count_of_the_reference():
    data = np.zeros((17, 8), np.float32)
    data[0] = [0, 1, 1, 0, 0, 1, 0, 0]
    data[1], data[16] = 1, 2
    found = counted(data, index_offset=16, padding_val=-1)
    assert found[0].tolist() == [17, 18, 21, -1, -1, -1, -1, -1, 3]
    assert (found[1:16] == 7).all()
    assert found[16].tolist() == [*range(16, 24), 8]


def topk(data, n, k):
    def body(t):
        values, indices = new((len(data), k), "bfloat16"), new((len(data), k), "uint32")
        nisa.topk(values, indices, t, n)
        return values, indices

    return run(body, data)


def test_topk_of_a_snake():
    n, k = 42, 5
    flat = np.random.default_rng(2).permutation(64)[:48].astype(ml_dtypes.bfloat16)
    values, indices = topk(flat.reshape(3, 16).T.copy(), n, k)
    order = np.argsort(flat[:n].astype(np.float32))[-k:]
    assert (indices == order).all()
    assert (values == flat[order]).all()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: find(zeros(4, 7), zeros(4, 8)), "8 to 16384"),
        (lambda: find(zeros(4, 9), zeros(4, 9)), "must have 8"),
        (
            lambda: find(zeros(4, 9), zeros(4, 8), shape=(4, 2, 4)),
            "must have the shape .partitions, 8.",
        ),
        (lambda: find(zeros(4, 9), zeros(4, 8), "int32"), "uint16, uint32"),
        (lambda: find(zeros(4, 3, 2, 2), zeros(4, 8)), "at most 3"),
        (lambda: find(zeros(4, 9), zeros(3, 8)), "same number"),
        (lambda: counted(zeros(4, 8), chip="trn1"), "NeuronCore-v3"),
        (lambda: counted(np.zeros((4, 8), np.int16)), "float32, int32"),
        (lambda: counted(zeros(4, 8), padding_val=1 << 31), "padding_val"),
        (lambda: top(16, 3, 49, 5), "must have 4 elements"),
        (lambda: top(16, 3, 7, 5), "8 <= n"),
        (lambda: top(16, 3, 40, 41), "k <= n"),
        (lambda: top(24, 3, 40, 5), "multiple of 16"),
    ],
)
def test_refused_operands(call, match):
    refuses(match, call)


def test_topk_takes_the_documented_cycles():
    def kernel(x):
        src = nl.load(x)
        values, indices = new((16, 8), "bfloat16"), new((16, 8), "uint32")
        nisa.topk(values, indices, src, 4096)
        return to_hbm(values), to_hbm(indices)

    chip = hardware.chip("trn2")
    with hardware.select(chip):
        timeline = nki_sim.dry_run(kernel, ((16, 256), nl.bfloat16))
    cycles = 4 * 4096 + 8 + chip.gpsimd_start_cycles
    busy = max(e.end_ns - e.start_ns for e in timeline.events if e.instruction == "nisa.topk")
    assert busy == pytest.approx(cycles / chip.gpsimd_ghz, rel=0.01)
