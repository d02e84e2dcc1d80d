"""nl.tiles, nl.blocks, nl.alloc_tiles and nl.alloc_blocks of NKI 0.7."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_sim

nki_sim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

from .conftest import RULE, refuses  # noqa: E402


def inside(function, *arguments):
    """What a function of tensors returns, inside of a kernel."""
    found = []
    kernel = nki.jit(lambda *tensors: found.append(function(*tensors)))
    kernel(*arguments)
    return found[0]


def array(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def copied(x, tile_shape):
    """A copy by the tiles of both tensors, as the documentation shows it."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    sources, targets = nl.tiles(x, tile_shape=tile_shape), nl.tiles(out, tile_shape=tile_shape)
    for i in range(sources.shape[0]):
        for j in range(sources.shape[1]):
            source = sources[i, j]
            tile = nl.ndarray(source.element_shape, x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile.data, src=source.data)
            nisa.dma_copy(dst=targets[i, j].data, src=tile.data)
    return out


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 300), st.integers(1, 70), st.integers(1, 128), st.integers(1, 80))
def test_tiles_cover_a_tensor_once(rows, columns, height, width):
    x = array(rows, columns)
    np.testing.assert_array_equal(nki.jit(copied)(x, (height, width)), x)


def test_the_example_of_the_documentation():
    def kernel(x):
        grid = nl.tiles(x, tile_shape=(128, 256))
        blocks = nl.blocks(x, tile_shape=(128, 256), block_shape=(2, 2))
        inner = nl.tiles(blocks[1, 0])
        assert isinstance(grid, nl.NkiGrid) and isinstance(blocks, nl.NkiBlockGrid)
        assert isinstance(grid[1, 2], nl.NkiTileGrid)
        assert (grid.shape, blocks.shape) == ((4, 4), (2, 2))
        assert blocks.element_shape == (512, 1024) and blocks[1, 0].element_shape == (256, 512)
        assert (blocks.block_shape, blocks.tile_shape) == ((2, 2), (128, 256))
        assert blocks.index_step_elements == (256, 512) and grid.index_step_elements == (128, 256)
        assert inner.shape == (2, 2) and (grid.dtype, grid.buffer) == (x.dtype, x.buffer)
        return inner[1, 1].data

    result = nki.jit(kernel)(array(512, 1024))
    np.testing.assert_array_equal(result, array(512, 1024)[384:512, 256:512])


def test_remainders_end_with_the_tensor():
    def kernel(x):
        blocks = nl.blocks(x, tile_shape=(128, 32), block_shape=(2, 2))
        last = nl.tiles(blocks[1, 1])
        assert blocks.shape == (2, 2) and blocks[1, 1].element_shape == (44, 36)
        assert last.shape == (1, 2) and last[0, 1].element_shape == (44, 4)
        assert last[0, 1].is_data_representable
        return last[0][1].data

    np.testing.assert_array_equal(nki.jit(kernel)(array(300, 100)), array(300, 100)[256:, 96:])


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 256), st.integers(1, 40), st.integers(1, 128), st.integers(1, 24))
def test_allocated_tiles_hold_what_was_written(rows, columns, height, width):
    """On the chip each tile is memory of its own, whatever the others hold."""

    def kernel(x):
        sources = nl.tiles(x, tile_shape=(height, width))
        held = nl.alloc_tiles(
            tile_shape=(height, width), element_shape=x.shape, buffer=nl.sbuf, dtype=x.dtype
        )
        out = nl.alloc_tiles(
            tile_shape=(height, width), element_shape=x.shape, buffer=nl.shared_hbm, dtype=x.dtype
        )
        assert held.shape == out.shape == sources.shape
        for i in range(sources.shape[0]):
            for j in range(sources.shape[1]):
                nisa.dma_copy(dst=held[i, j].data, src=sources[i, j].data)
        results = []
        for i in range(sources.shape[0]):
            for j in range(sources.shape[1]):
                nisa.dma_copy(dst=out[i, j].data, src=held[i, j].data)
                results.append(out[i, j].data)
        return results

    x = array(rows, columns)
    for number, result in enumerate(nki.jit(kernel)(x)):
        i, j = divmod(number, -(-columns // width))
        expected = x[i * height : (i + 1) * height, j * width : (j + 1) * width]
        np.testing.assert_array_equal(result, expected)


def test_allocated_blocks():
    def kernel():
        blocks = nl.alloc_blocks(
            tile_shape=(64, 8), block_shape=(2, 1), element_shape=(128, 24), buffer=nl.sbuf,
            dtype=nl.bfloat16,
        )  # fmt: skip
        return blocks.shape, blocks[0, 2].element_shape, blocks.dtype, nl.tiles(blocks[0, 2]).shape

    assert inside(kernel) == ((1, 3), (128, 8), "bfloat16", (2, 1))


def test_a_tile_is_all_that_a_grid_allocates():
    def kernel(x):
        nl.tiles(x, tile_shape=(128, 64))
        nl.alloc_tiles(
            tile_shape=(128, 64), element_shape=(256, 128), buffer=nl.sbuf, dtype=nl.float32
        )

    timeline = nki_sim.dry_run(kernel, ((256, 128), "float32"))
    assert timeline.events == []


UNREAD = "the documentation of NKI 0.7 could be read only in part"


def tiled(x, *shape):
    return nl.tiles(x, tile_shape=shape or (4, 4))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: nl.tiles(x),
        lambda x: tiled(tiled(x), 2, 2),
        lambda x: nl.blocks(tiled(x), block_shape=(2, 2)),
        lambda x: tiled(x).data,
        lambda x: tiled(x)[0].data,
        lambda x: tiled(x)[0, :].is_data_representable,
        lambda x: tiled(x)[0].shape,
        lambda x: tiled(x)[0, 0].index_step_elements,
        lambda x: tiled(x).is_remainder,
        lambda x: tiled(x, 4)[0, 0].data,
        lambda x: tiled(x)[-1, 0],
        lambda x: tiled(x)[0:1, 0],
        lambda x: tiled(x)[..., 0],
        lambda x: tiled(nl.ndarray((8, 4, 4), "float32", buffer=nl.sbuf)),
        lambda x: alloc(element_shape=(4, 4, 4))(x),
    ],
)
def test_what_was_not_read_is_refused(use):
    refuses(UNREAD, inside, use, array(8, 8))


def alloc(**changes):
    given_ = {"tile_shape": (4, 4), "element_shape": (8, 8), "buffer": nl.sbuf}
    return lambda x: nl.alloc_tiles(**{**given_, "dtype": "float32", **changes})


@pytest.mark.parametrize(
    ("use", "error", "said"),
    [
        (alloc(tile_shape=[4, 4]), TypeError, "'tile_shape' of nl.alloc_tiles is"),
        (alloc(tile_shape=(4, 4.0)), TypeError, "allowed is a tuple of ints"),
        (alloc(buffer="sbuf"), TypeError, "'buffer' of nl.alloc_tiles is 'sbuf'"),
        (alloc(element_shape=(8, 0)), ValueError, "allowed are sizes of at least 1"),
        (alloc(tile_shape=(4,)), ValueError, "allowed are at least 2 dimensions"),
        (alloc(tile_shape=(4, 4, 4)), ValueError, "the 2 of element_shape"),
        (lambda x: nl.blocks(x, tile_shape=(4, 4), block_shape=(2,)), ValueError, "one size for"),
        (lambda x: tiled(3), RULE, "must be a tensor"),
        (lambda x: tiled(x, 2, 2, 2), RULE, "at most the 2"),
        (lambda x: tiled(x)[2, 0], RULE, "must be from 0 to 1"),
        (lambda x: tiled(x)[0, 0, 0], RULE, "at most 2 coordinates"),
        (
            lambda x: nl.NkiTileGrid(),
            TypeError,
            r"NkiTileGrid\(\.\.\.\) cannot be called: use nl.t",
        ),
        (lambda x: list(tiled(x)), TypeError, "not iterable"),
    ],
)
def test_what_is_wrong_is_said(use, error, said):
    with pytest.raises(error, match=said):
        inside(use, array(8, 8))
