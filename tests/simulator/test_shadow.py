"""Reads of memory that nothing has written are detected to the byte.

Source: nki/guides/nki_simulator.rst, "Uninitialized Memory Detection". On the chip such memory
contains data of earlier kernels, whatever has written the bytes beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.base.enums import MemoryRegion
from nki_sim.views import shadow
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .conftest import RULE, index, new, refuses, to_hbm

UNWRITTEN = "nothing has written"


def tensor(shape: tuple[int, ...], dtype: str, buffer: MemoryRegion = MemoryRegion.sbuf) -> Any:
    """A tensor outside of a launch."""
    return NkiTensor(shape, dtype, Storage(shape, dtype, buffer, ""), buffer)


def reads_after(write: Any, read: Any, shape: tuple[int, ...] = (4, 8), dtype: Any = "float32"):
    """Copy ``read(tile)`` after ``write(tile)`` filled its parts."""

    def kernel() -> None:
        tile = new(shape, dtype)
        for part in write(tile):
            nisa.memset(part, 0)
        source = read(tile)
        nisa.tensor_copy(new(source.shape, source.dtype), source)

    nki.simulate(kernel)()


def whole(tile: Any) -> Any:
    """The tile itself."""
    return tile


@pytest.mark.parametrize(
    ("dtype", "other", "stop"),
    [("bfloat16", "uint8", 16), ("float32", "uint8", 32), ("float32", "bfloat16", 16)],
)
def test_bytes_are_counted_not_elements(dtype: str, other: str, stop: int) -> None:
    reads_after(lambda t: [t.view(other)[:, 0:stop]], whole, dtype=dtype)
    for short in (stop - 1, stop // 2, 8):
        with pytest.raises(RULE, match=UNWRITTEN):
            reads_after(lambda t, n=short: [t.view(other)[:, 0:n]], whole, dtype=dtype)


def test_half_of_each_element_is_not_the_element() -> None:
    def even(tile: Any) -> Any:
        return [tile.view("bfloat16")[:, 0:16:2]]

    def both(tile: Any) -> Any:
        return even(tile) + [tile.view("bfloat16")[:, 1:16:2]]

    reads_after(both, whole)
    reads_after(even, lambda t: t.view("bfloat16")[:, 0:16:2])
    refuses(UNWRITTEN, reads_after, even, whole)
    refuses(UNWRITTEN, reads_after, even, lambda t: t.view("bfloat16")[:, 2:4])


def test_a_narrow_tile_is_written_through_a_wide_view() -> None:
    def write(tile: Any) -> Any:
        return [tile.view("float32")[:, 0:4]]

    reads_after(write, whole, dtype="bfloat16")
    reads_after(write, lambda t: t[:, 0:8], (4, 12), "bfloat16")
    refuses(UNWRITTEN, reads_after, write, lambda t: t[:, 0:9], (4, 12), "bfloat16")


def test_a_pattern_as_large_as_its_tile_may_leave_gaps() -> None:
    """As many elements as the tile has, of which some overlap (``.ap`` in nki-aps.rst)."""
    tile = tensor((4, 8), "float32")
    overlapping = tile.ap([[8, 4], [1, 4], [1, 2]])
    assert overlapping.size == tile.size
    assert not shadow.is_whole(overlapping)
    assert shadow.is_whole(tile.reshape((4, 2, 4)).permute((0, 2, 1)))
    state = shadow.marked(False, overlapping)
    assert shadow.marks(state, tile).tolist() == [[True] * 5 + [False] * 3] * 4


def test_flags_become_finer_and_are_cleared() -> None:
    tile = tensor((2, 4), "float32")
    state = shadow.marked(False, tile[:, 0:2])
    assert state.size == 8
    state = shadow.marked(state, tile.view("uint8")[:, 4:5], False)
    assert state.size == 32
    assert shadow.marks(state, tile).tolist() == [[True, False, False, False]] * 2
    assert shadow.marks(state, tile.view("bfloat16")).tolist() == [[1, 1, 0, 1, 0, 0, 0, 0]] * 2
    assert shadow.marked(state, tile) is True
    assert shadow.marked(state, tile, False) is False


def test_a_mask_marks_its_elements() -> None:
    tile = tensor((2, 3), "float32")
    where = np.array([[True, False, True], [False, False, True]])
    state = shadow.marked(False, tile, where=where)
    assert (shadow.marks(state, tile) == where).all()
    state = shadow.marked(shadow.fitting(state, tile.view("int8")), tile, False, where[::-1])
    assert shadow.marks(state, tile).tolist() == [[True, False, False], [False] * 3]


@pytest.mark.parametrize("register", [False, True])
def test_a_dynamic_write_marks_what_it_wrote(register: bool) -> None:
    def kernel(read: Any) -> Any:
        tile = new((4, 5, 6))
        where = nisa.register_alloc(2) if register else index(2)
        nisa.memset(tile.select(1, where), 1.0)
        return to_hbm(read(tile))

    assert (nki.simulate(kernel)(lambda t: t[:, 2]) == 1).all()
    for read in (whole, lambda t: t[:, 1], lambda t: t[:, 2:4]):
        refuses(UNWRITTEN, nki.simulate(kernel), read)


@pytest.mark.parametrize("register", [False, True])
def test_a_dynamic_read_needs_what_it_reads(register: bool) -> None:
    def kernel(place: int) -> Any:
        tile, dst = new((4, 5, 6)), new((4, 6))
        nisa.memset(tile[:, 3], 1.0)
        where = nisa.register_alloc(place) if register else index(place)
        nisa.tensor_copy(dst, tile.select(1, where))
        return to_hbm(dst)

    assert (nki.simulate(kernel)(3) == 1).all()
    refuses(UNWRITTEN, nki.simulate(kernel), 2)


def test_a_loop_on_the_device_may_write_tile_by_tile() -> None:
    def kernel(stop: int) -> Any:
        tile = new((4, 5, 6))

        def body(i: Any) -> None:
            nisa.memset(tile.select(1, i), 1.0)

        nl.fori_loop(0, stop, body)
        return to_hbm(tile)

    assert (nki.simulate(kernel)(5) == 1).all()
    refuses(UNWRITTEN, nki.simulate(kernel), 4)


def test_an_index_must_be_written() -> None:
    def kernel() -> None:
        tile = new((4, 5, 6))
        nisa.memset(tile, 0)
        nisa.tensor_copy(new((4, 6)), tile.select(1, new((1, 1), "int32")))

    refuses("1x1 int32, .*reads memory that nothing has written", nki.simulate(kernel))


def test_a_scatter_marks_its_rows() -> None:
    def kernel(*rows: int) -> Any:
        out, tile = new((4, 6), buffer=nl.shared_hbm), new((len(rows), 6))
        nisa.memset(tile, 1.0)
        nisa.dma_copy(out.vector_select(0, index(*rows)), tile)
        return out

    assert (nki.simulate(kernel)(2, 0, 3, 1) == 1).all()
    refuses(UNWRITTEN, nki.simulate(kernel), 2, 0, 3, 2)


def test_skipped_rows_are_not_written() -> None:
    """oob_mode.skip: "silently skips any operations involving out-of-bounds indices"."""

    def kernel(clear: bool, *rows: int) -> Any:
        table, tile = nl.ones((4, 6), "float32", nl.shared_hbm), new((2, 6))
        if clear:
            nisa.memset(tile, 0)
        source = table.vector_select(0, index(*rows))
        nisa.dma_copy(tile, source, oob_mode=nisa.oob_mode.skip)
        return to_hbm(tile)

    assert nki.simulate(kernel)(True, 3, 4)[:, 0].tolist() == [1, 0]
    assert (nki.simulate(kernel)(False, 3, 0) == 1).all()
    refuses(UNWRITTEN, nki.simulate(kernel), False, 3, 4)


def test_a_skipped_address_writes_nothing() -> None:
    def kernel(row: int) -> Any:
        table, tile = nl.ones((4, 6), "float32", nl.shared_hbm), new((1, 6))
        source = table[nl.ds(nisa.register_alloc(row), 1)]
        nisa.dma_copy(tile, source, oob_mode=nisa.oob_mode.skip)
        return to_hbm(tile)

    assert (nki.simulate(kernel)(3) == 1).all()
    refuses(UNWRITTEN, nki.simulate(kernel), 4)


def test_skipped_rows_are_not_read() -> None:
    def kernel(*rows: int) -> Any:
        out, tile = nl.zeros((4, 6), "float32", nl.shared_hbm), new((2, 6))
        nisa.memset(tile[0:1], 1.0)
        target = out.vector_select(0, index(*rows))
        nisa.dma_copy(target, tile, oob_mode=nisa.oob_mode.skip)
        return out

    assert nki.simulate(kernel)(3, 4)[:, 0].tolist() == [0, 0, 0, 1]
    refuses(UNWRITTEN, nki.simulate(kernel), 3, 0)


@pytest.mark.parametrize("source", ["number", "tile"])
def test_a_predicated_copy_writes_where_its_predicate_holds(source: str) -> None:
    """nisa.tensor_copy_predicated: other elements of ``dst`` keep what they held."""

    def kernel(columns: int, reverse: bool) -> Any:
        tile, predicate = new((4, 6)), nl.zeros((4, 6), "uint8")
        nisa.memset(predicate[:, 0:4], 1)
        value = 2.0 if source == "number" else nl.full((4, 6), 2.0, "float32")
        nisa.tensor_copy_predicated(tile, value, predicate, reverse_pred=reverse)
        return to_hbm(tile[:, 4:columns] if reverse else tile[:, 0:columns])

    assert (nki.simulate(kernel)(4, False) == 2).all()
    assert (nki.simulate(kernel)(6, True) == 2).all()
    refuses(UNWRITTEN, nki.simulate(kernel), 5, False)


def test_a_shuffle_keeps_the_partitions_of_255() -> None:
    """nisa.nc_stream_shuffle: 255 in the mask leaves that partition of ``dst`` as it is."""

    def kernel(keep: int, clear: bool) -> Any:
        tile, dst = nl.ones((32, 4), "float32"), new((32, 4))
        if clear:
            nisa.memset(dst, 0)
        nisa.nc_stream_shuffle(dst, tile, [255 if p >= 32 - keep else p for p in range(32)])
        return to_hbm(dst)

    assert nki.simulate(kernel)(2, True)[:, 0].tolist() == [1] * 30 + [0] * 2
    assert (nki.simulate(kernel)(0, False) == 1).all()
    refuses(UNWRITTEN, nki.simulate(kernel), 2, False)


def test_matmuls_accumulate_on_bytes_that_matmuls_wrote() -> None:
    """nisa.nc_matmul: accumulation onto other PSUM is undefined; bf16 PSUM needs v4."""

    def kernel(accumulate: bool) -> None:
        ones, bank = new((32, 32), "bfloat16"), new((32, 32), "float32", nl.psum)
        nisa.memset(ones, 1.0)
        nisa.nc_matmul(bank.view("bfloat16")[:, 0:32], ones, ones, accumulate=False)
        moving = new((32, 32), "bfloat16")
        nisa.memset(moving, 1.0)
        nisa.nc_matmul(bank, ones, moving, accumulate=accumulate)

    with hardware.select(hardware.chip("trn3")):
        nki.simulate(kernel)(False)
        refuses("nothing has initialised", nki.simulate(kernel), True)
