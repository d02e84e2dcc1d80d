"""Views with the same layout share data that must show neither in other views nor in refusals."""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl

from .conftest import assert_same, new, refuses, run, sample, to_hbm


def views(tile):
    """Indices that are equal as Python compares keys, or look alike; each is used twice."""
    return {
        "int": lambda: tile[0:4, 1],
        "numpy": lambda: tile[0:4, np.int64(1)],
        "bool": lambda: tile[0:4, True],
        "negative": lambda: tile[0:4, -7],
        "step": lambda: tile[0:4, 1:2:1],
        "slice": lambda: tile[slice(0, 4), slice(1, 2)],
        "ellipsis": lambda: tile[0:4, ..., 1],
        "ds": lambda: tile[nl.ds(0, 4), nl.ds(1, 1)],
    }


def test_indices_of_one_place_are_one_view():
    def body(tile):
        copies = []
        for _ in range(2):
            for name, view in views(tile).items():
                assert view().shape in ((4, 1), (4,)), name
                copies.append(new((4, 1)))
                nisa.tensor_copy(copies[-1], view())
        return tuple(copies)

    data = sample((4, 8))
    for copy in run(body, data):
        assert_same(copy, data[:, 1:2])


REFUSED = {
    "float": lambda t: t[0:4, 1.0],
    "float bound": lambda t: t[0:4, 0.0:8.0],
    "out of range": lambda t: t[0:4, 0:9],
    "empty": lambda t: t[0:4, 3:3],
    "too many": lambda t: t[0:4, 0:8, 0],
    "the type slice": lambda t: t[slice, 0, 4, None],
    "None": lambda t: t[None],
    "a list": lambda t: t[0:4, [1]],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_indexed_before_makes_no_index_legal(name):
    def body(tile):
        for _ in range(2):
            assert tile[0:4].shape == tile[0:4, 0:8].shape == (4, 8)
            assert tile[0:4, 1].shape == (4, 1)
            refuses("index", REFUSED[name], tile)
        return tile

    run(body, sample((4, 8)))


def test_tiles_of_one_shape_keep_their_own_dtype_and_memory():
    def body():
        tiles = [new((4, 8), dtype) for dtype in ("float32", "bfloat16", "int32")]
        for value, tile in enumerate(tiles):
            nisa.memset(tile, value)
            nisa.memset(tile[:, 2:4], value + 3)
        assert [tile[:, 2:4].dtype for tile in tiles] == ["float32", "bfloat16", "int32"]
        return tuple(tiles)

    for value, result in enumerate(run(body)):
        expected = np.full((4, 8), value, np.float32)
        expected[:, 2:4] = value + 3
        assert_same(result.astype(np.float32), expected)


@pytest.mark.lenient
@pytest.mark.parametrize(
    ("dtype", "fresh"),
    [(name, np.nan) for name in ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")]
    + [(name, 4) for name in ("int32", "uint8", "int8", "uint16")],
)
def test_what_nothing_wrote_reads_as_documented(dtype, fresh):
    def kernel():
        part, other = new((4, 8), dtype), new((4, 8), dtype)
        untouched = [new((4, 8), dtype, where) for where in (nl.sbuf, nl.psum, nl.private_hbm)]
        nisa.memset(other, 1)
        nisa.memset(part[:, 0:2], 1)
        nisa.tensor_copy(other[:, 4:8], part[:, 0:4])
        return tuple(map(to_hbm, (part, other, *untouched)))

    with pytest.warns(nki_sim.NkiSimulationWarning, match="nothing has written"):
        part, other, *untouched = [a.astype(np.float64) for a in nki.simulate(kernel)()]
    ones, rest = np.ones((4, 2)), np.full((4, 8), fresh)
    np.testing.assert_array_equal(part, np.hstack([ones, rest[:, 2:]]))
    np.testing.assert_array_equal(other, np.hstack([ones, ones, ones, rest[:, 6:]]))
    np.testing.assert_array_equal(untouched, [rest] * 3)


@pytest.mark.lenient
def test_an_instruction_that_fails_writes_nothing():
    def kernel(x):
        identity, moving = new((4, 4)), new((4, 4))
        bank = new((4, 4), buffer=nl.psum)
        nisa.dma_copy(identity, x)
        nisa.memset(moving, 2.0)
        refuses("zeros and ones", nisa.nc_matmul, bank, identity, moving, is_moving_onezero=True)
        return to_hbm(bank)

    with pytest.warns(nki_sim.NkiSimulationWarning, match="nothing has written"):
        result = nki.simulate(kernel)(np.eye(4, dtype=np.float32))
    assert np.isnan(result).all()
