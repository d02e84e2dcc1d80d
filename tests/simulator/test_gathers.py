"""local_gather, nc_n_gather and sequence_bounds: comparison with NumPy, and refused arguments."""

import numpy as np
import pytest

from nki_kernels.base.isa import nisa, nl

from .conftest import refuses, run, sample, written


@pytest.mark.parametrize(("run_length", "valid"), [(1, None), (4, 40), (8, 64)])
def test_local_gather(run_length, valid):
    data = sample((32, 8, 32))
    index = np.random.default_rng(1).integers(0, 256 - run_length, (32, 4)).astype(np.uint16)
    count = valid or 64
    shape = (32, count, run_length)
    found = written(nisa.local_gather, data, index, run_length, valid, shape=shape)
    for partition in range(32):
        group = partition // 16 * 16
        places = index[group : group + 16].T.reshape(-1)[:count].astype(int)
        line = data[partition].reshape(-1)
        expected = line[places[:, None] + np.arange(run_length)]
        np.testing.assert_array_equal(found[partition], expected)


def local(rows=16, dtype="uint16", columns=64, **settings):
    operands = sample((rows, 32)), np.zeros((rows, 4), dtype)
    return written(nisa.local_gather, *operands, shape=(rows, columns), **settings)


def gathered(data, indices):
    return written(nisa.nc_n_gather, data, indices, shape=indices.shape)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_nc_n_gather(dtype):
    data = sample((5, 4, 8), dtype)
    indices = np.random.default_rng(1).integers(0, 32, (5, 3, 7)).astype(np.uint32)
    expected = np.take_along_axis(data.reshape(5, -1), indices.reshape(5, -1).astype(int), 1)
    np.testing.assert_array_equal(gathered(data, indices), expected.reshape(5, 3, 7))


def test_gather_flattened():
    data, indices = sample((4, 16)), np.arange(64, dtype=np.int32).reshape(4, 16) % 16
    found = run(lambda t, i: nl.gather_flattened(t, i), data, indices[:, ::-1].copy())
    np.testing.assert_array_equal(found, data[:, ::-1])
    with pytest.raises(NotImplementedError, match="use axis=0"):
        run(lambda t, i: nl.gather_flattened(t, i, axis=1), data, indices)


def bounds(ids):
    return written(nisa.sequence_bounds, ids, shape=(1, 2, ids.shape[1]))


def test_sequence_bounds():
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.int32)
    starts, ends = [9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]
    assert bounds(ids).tolist() == bounds(ids.astype(np.float32)).tolist() == [[starts, ends]]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: local(rows=24), "multiple of 16"),
        (lambda: local(dtype="uint32"), "uint16"),
        (lambda: local(num_elem_per_idx=3), "must be one of"),
        (lambda: local(num_valid_indices=65), "must be from 1 to 64"),
        (lambda: local(columns=60), "must have 64"),
        (lambda: gathered(sample((2, 32)), np.full((2, 3), 32, np.uint32)), "0 to 31"),
        (lambda: gathered(sample((2, 32)), np.zeros((2, 3), np.int32)), "uint32"),
        (lambda: bounds(np.zeros((2, 4), np.int32)), "must have 1"),
        (lambda: bounds(np.zeros((1, 4), np.int16)), "float32, int32"),
        (lambda: bounds(np.array([[-1, 2]], np.int32)), "must be an integer of at least 0"),
    ],
)
def test_refused_operands(call, match):
    refuses(match, call)
