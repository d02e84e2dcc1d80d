"""Reads of memory that nothing has written are detected to the byte.

Source: nki/guides/nki_simulator.rst, "Uninitialized Memory Detection". On the chip such memory
contains data of earlier kernels, whatever has written the bytes beside it.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.base.enums import MemoryRegion
from nki_sim.views import shadow
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .conftest import blocks, broken, index, kernel_of, legal, new, refuses, to_hbm

UNWRITTEN = "nothing has written"
SIZES = {"float32": 4, "bfloat16": 2, "uint8": 1}


@st.composite
def parts(draw):
    """A dtype, and some columns of 24 bytes in it."""
    dtype = draw(st.sampled_from(list(SIZES)))
    first = draw(st.integers(0, 24 // SIZES[dtype] - 1))
    stop = draw(st.integers(first + 1, 24 // SIZES[dtype]))
    return dtype, slice(first, stop, draw(st.integers(1, 3)))


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(list(SIZES)), st.lists(parts(), max_size=6), parts())
def test_bytes_are_counted_not_elements(made, writes, read):
    written = np.zeros(24, bool)

    def bytes_of(part):
        dtype, columns = part
        return written.reshape(-1, SIZES[dtype])[columns]

    def kernel():
        tile = new((4, 24 // SIZES[made]), made)
        for dtype, columns in writes:
            nisa.memset(tile.view(dtype)[:, columns], 0)
        source = tile.view(read[0])[:, read[1]]
        nisa.tensor_copy(new(source.shape, source.dtype), source)

    for part in writes:
        bytes_of(part)[...] = True
    if bytes_of(read).all():
        nki.simulate(kernel)()
    else:
        refuses(UNWRITTEN, nki.simulate(kernel))


def tensor(shape, dtype):
    """A tensor outside of a launch."""
    buffer = MemoryRegion.sbuf
    return NkiTensor(shape, dtype, Storage(shape, dtype, buffer, ""), buffer)


def test_a_pattern_as_large_as_its_tile_may_leave_gaps():
    """As many elements as the tile has, of which some overlap (``.ap`` in nki-aps.rst)."""
    tile = tensor((4, 8), "float32")
    overlapping = tile.ap([[8, 4], [1, 4], [1, 2]])
    assert overlapping.size == tile.size
    assert not shadow.is_whole(overlapping)
    assert shadow.is_whole(tile.reshape((4, 2, 4)).permute((0, 2, 1)))
    state = shadow.marked(False, overlapping)
    assert shadow.marks(state, tile).tolist() == [[True] * 5 + [False] * 3] * 4


def test_flags_become_finer_and_are_cleared():
    tile = tensor((2, 4), "float32")
    state = shadow.marked(False, tile[:, 0:2])
    assert state.size == 8
    state = shadow.marked(state, tile.view("uint8")[:, 4:5], False)
    assert state.size == 32
    assert shadow.marks(state, tile).tolist() == [[True, False, False, False]] * 2
    assert shadow.marks(state, tile.view("bfloat16")).tolist() == [[1, 1, 0, 1, 0, 0, 0, 0]] * 2
    assert shadow.marked(state, tile) is True
    assert shadow.marked(state, tile, False) is False


def test_a_mask_marks_its_elements():
    tile = tensor((2, 3), "float32")
    where = np.array([[True, False, True], [False, False, True]])
    state = shadow.marked(False, tile, where=where)
    assert (shadow.marks(state, tile) == where).all()
    state = shadow.marked(shadow.fitting(state, tile.view("int8")), tile, False, where[::-1])
    assert shadow.marks(state, tile).tolist() == [[True, False, False], [False] * 3]


# Kernels that read what nothing has written, or only what was: ``{broken | legal}``. The legal one
# returns the last line's numbers in its first column, or anything.
# oob_mode.skip "silently skips any operations involving out-of-bounds indices"; other elements of
# the target of nisa.tensor_copy_predicated keep what they held, and 255 in the mask of
# nisa.nc_stream_shuffle leaves that partition as it is.
KERNELS = blocks("""
an index in a tile, a write there
    tile = new((4, 5, 6))
    nisa.memset(tile.select(1, index(2)), 1.0)
    return to_hbm(tile[:, {2:4 | 2:3}])  # [1] * 4
an index in a register, a write there
    tile = new((4, 5, 6))
    nisa.memset(tile.select(1, nisa.register_alloc(2)), 1.0)
    return to_hbm({tile | tile[:, 2]})  # [1] * 4
an index in a tile, a read there
    tile, dst = new((4, 5, 6)), new((4, 6))
    nisa.memset(tile[:, 3], 1.0)
    nisa.tensor_copy(dst, tile.select(1, index({2 | 3})))
    return to_hbm(dst)  # [1] * 4
an index in a register, a read there
    tile, dst = new((4, 5, 6)), new((4, 6))
    nisa.memset(tile[:, 3], 1.0)
    nisa.tensor_copy(dst, tile.select(1, nisa.register_alloc({2 | 3})))
    return to_hbm(dst)  # [1] * 4
a loop on the device, tile by tile
    tile = new((4, 5, 6))
    nl.fori_loop(0, {4 | 5}, lambda i: nisa.memset(tile.select(1, i), 1.0) and None)
    return to_hbm(tile)
the index itself
    tile, place = new((4, 5, 6)), new((1, 1), "int32")
    nisa.memset(tile, 0)
    {None | nisa.memset(place, 1)}
    nisa.tensor_copy(new((4, 6)), tile.select(1, place))
a scatter
    out, tile = new((4, 6), buffer=nl.shared_hbm), nl.ones((4, 6), "float32")
    nisa.dma_copy(out.vector_select(0, index(2, 0, 3, {2 | 1})), tile)
    return out  # [1] * 4
rows that a gather skips
    table, tile = nl.ones((4, 6), "float32", nl.shared_hbm), new((2, 6))
    {None | nisa.memset(tile, 0)}
    nisa.dma_copy(tile, table.vector_select(0, index(3, 4)), oob_mode=SKIP)
    return to_hbm(tile)  # [1, 0]
rows that a gather does not skip
    table, tile = nl.ones((4, 6), "float32", nl.shared_hbm), new((2, 6))
    nisa.dma_copy(tile, table.vector_select(0, index(3, {4 | 0})), oob_mode=SKIP)
    return to_hbm(tile)  # [1, 1]
an address that is skipped
    table, tile = nl.ones((4, 6), "float32", nl.shared_hbm), new((1, 6))
    nisa.dma_copy(tile, table[nl.ds(nisa.register_alloc({4 | 3}), 1)], oob_mode=SKIP)
    return to_hbm(tile)  # [1]
rows that a scatter skips are not read
    out, tile = nl.zeros((4, 6), "float32", nl.shared_hbm), new((2, 6))
    nisa.memset(tile[0:1], 1.0)
    nisa.dma_copy(out.vector_select(0, index(3, {0 | 4})), tile, oob_mode=SKIP)
    return out  # [0, 0, 0, 1]
a predicated copy of a number
    tile, predicate = new((4, 6)), nl.zeros((4, 6), "uint8")
    nisa.memset(predicate[:, 0:4], 1)
    nisa.tensor_copy_predicated(tile, 2.0, predicate)
    return to_hbm(tile[:, 0 : {5 | 4}])  # [2] * 4
a predicated copy of a tile
    tile, predicate = new((4, 6)), nl.zeros((4, 6), "uint8")
    nisa.memset(predicate[:, 0:4], 1)
    nisa.tensor_copy_predicated(tile, nl.full((4, 6), 2.0, "float32"), predicate)
    return to_hbm(tile[:, 0 : {5 | 4}])  # [2] * 4
a predicated copy in reverse
    tile, predicate = new((4, 6)), nl.zeros((4, 6), "uint8")
    nisa.memset(predicate[:, 0:4], 1)
    nisa.tensor_copy_predicated(tile, 2.0, predicate, reverse_pred=True)
    return to_hbm(tile[:, {3 | 4}:])  # [2] * 4
partitions that a shuffle keeps
    tile, dst = nl.ones((32, 4), "float32"), new((32, 4))
    {None | nisa.memset(dst, 0)}
    nisa.nc_stream_shuffle(dst, tile, [0] * 30 + [255] * 2)
    return to_hbm(dst)  # [1] * 30 + [0] * 2
partitions that a shuffle writes
    tile, dst = nl.ones((32, 4), "float32"), new((32, 4))
    nisa.nc_stream_shuffle(dst, tile, [0] * 31 + [{255 | 0}])
    return to_hbm(dst)  # [1] * 32
""")
NAMES = globals() | {"SKIP": nisa.oob_mode.skip, "index": index, "to_hbm": to_hbm}


@pytest.mark.parametrize("name", KERNELS)
def test_what_instructions_write_and_read(name):
    code = KERNELS[name]
    refuses(UNWRITTEN, nki.simulate(kernel_of(broken(code), NAMES)))
    found = nki.simulate(kernel_of(legal(code), NAMES))()
    if expected := code.partition("  # ")[2]:
        assert found.reshape(len(found), -1)[:, 0].tolist() == eval(expected)


def test_matmuls_accumulate_on_bytes_that_matmuls_wrote():
    """nisa.nc_matmul: accumulation onto other PSUM is undefined; bf16 PSUM needs v4."""

    def kernel(accumulate):
        ones, bank = nl.ones((32, 32), "bfloat16"), new((32, 32), "float32", nl.psum)
        nisa.nc_matmul(bank.view("bfloat16")[:, 0:32], ones, ones, accumulate=False)
        nisa.nc_matmul(bank, ones, ones, accumulate=accumulate)

    with hardware.select(hardware.chip("trn3")):
        nki.simulate(kernel)(False)
        refuses("nothing has initialised", nki.simulate(kernel), True)
