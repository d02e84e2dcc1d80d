"""What a message says about memory that nothing has written: the tensor, its line and its rows."""

import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

from .conftest import RULE, index, line_of, new, to_hbm

FILE = "test_unwritten.py"


def refused(kernel, *args):
    with pytest.raises(RULE) as raised:
        nki.simulate(kernel)(*args)
    return str(raised.value)


def test_the_rows_and_the_lines_of_a_tile():
    def kernel(rows, columns):
        tile = nl.ndarray((128, 64), nl.float32)  # the tile
        nisa.memset(tile[0:rows, 0:columns], 1.0)
        out = nl.ndarray((128, 64), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, tile)  # the read
        return out

    made, read = line_of(__file__, "the tile"), line_of(__file__, "the read")
    where = f"operand is sbuf tile 128x64 float32 (tile of {FILE}:{made}), but the instruction "
    where += f"at {FILE}:{read} reads memory that nothing has written, "
    for (rows, columns), part in {
        (100, 64): "partitions 100 to 127 (tile[100:128])",
        (127, 64): "partition 127 (tile[127:128])",
        (128, 60): "partitions 0 to 127 (tile[0:128, 60:64])",
        (100, 60): "partitions 0 to 127 (2192 elements of tile[0:128])",
    }.items():
        assert refused(kernel, rows, columns) == f"nisa.dma_copy: {where}{part}: write it first"


def test_only_what_is_read_counts():
    def kernel():
        tile = new((128, 2, 64))
        nisa.memset(tile[0:8], 1.0)
        nisa.memset(tile[32:36, 1], 1.0)
        nisa.memset(tile[64:68, 0], 1.0)
        return to_hbm(tile[0:40, 1, 8:16])

    assert "partitions 8 to 31 and 36 to 39 (" in refused(kernel)
    assert "224 elements of tile[8:40, 1:2, 8:16])" in refused(kernel)


def test_many_runs_of_rows_are_not_all_listed():
    def kernel():
        rows = new((20, 8), buffer=nl.private_hbm)
        nisa.dma_copy(rows[1::2], nl.ones((10, 8), nl.float32))
        return to_hbm(nl.load(rows))

    assert "rows 0, 2, 4, 6 and others (80 elements of rows[0:19])" in refused(kernel)


def test_a_narrow_view_of_a_wide_tile():
    def kernel():
        tile = new((4, 8))
        nisa.memset(tile.view("bfloat16")[:, 0:9], 1.0)
        return to_hbm(tile.view("bfloat16"))

    assert "partitions 0 to 3 (tile[0:4, 4:8])" in refused(kernel)


@pytest.mark.parametrize("held", ["list", "helper", "nothing", "name"])
def test_a_tile_is_called_as_the_kernel_calls_it(held):
    def helper(part):
        return to_hbm(part)

    def kernel():
        if held == "list":
            tiles = [new((4, 8)) for _ in range(3)]
            return to_hbm(tiles[2])
        if held == "helper":
            return helper(new((4, 8)))
        if held == "nothing":
            return nisa.tensor_copy(new((4, 8)), new((4, 8)))
        return helper(nl.ndarray((4, 8), nl.float32, name="acc"))

    shown = {
        "list": "sbuf tile 4x8 float32 (tile)",
        "helper": "sbuf tile 4x8 float32 (tile)",
        "nothing": "sbuf tile 4x8 float32",
        "name": "sbuf tile 'acc' 4x8 float32 (tile)",
    }
    assert f"operand is {shown[held]}, but the instruction at " in refused(kernel)


def test_names_in_the_kernel_itself():
    def kernel(held):
        out = new((4, 8), buffer=nl.shared_hbm)
        tiles = [new((4, 8)) for _ in range(3)]
        if held == "list":
            nisa.dma_copy(out, tiles[2])
        if held == "twice":
            twice = new((4, 8))
            nisa.dma_copy(out, twice)
            twice = new((8, 8))
        if held == "nothing":
            nisa.dma_copy(out, new((4, 8)))
        return out

    assert "sbuf tile 4x8 float32 (tiles[2]), but" in refused(kernel, "list")
    assert "all 4 partitions" in refused(kernel, "list")
    assert "sbuf tile 4x8 float32 (twice), but" in refused(kernel, "twice")
    assert "sbuf tile 4x8 float32, but" in refused(kernel, "nothing")


def test_rows_of_tensors_in_hbm():
    def kernel(is_returned):
        buffer = nl.shared_hbm if is_returned else nl.private_hbm
        rows = nl.ndarray((300, 8), nl.float32, buffer)  # in HBM
        tile = nl.ones((100, 8), nl.float32)
        nisa.dma_copy(rows[100:200], tile)
        if is_returned:
            return rows
        nisa.dma_copy(tile, rows[150:250])
        return to_hbm(tile)

    told = f"tile 300x8 float32 (rows of {FILE}:{line_of(__file__, 'in HBM')}), but the "
    text = refused(kernel, True)
    assert text.startswith(f"return: operand is shared_hbm {told}kernel returns memory that ")
    assert "rows 0 to 99 and 200 to 299 (1600 elements of rows[0:300]): write all of it" in text
    text = refused(kernel, False)
    assert f"private_hbm {told}instruction at" in text and "rows 200 to 249 (rows[200:250])" in text


def test_rows_of_a_gather():
    def kernel(*rows):
        table, tile = new((9, 6), buffer=nl.private_hbm), nl.ones((3, 6), nl.float32)
        nisa.dma_copy(table[1:4], tile)
        nisa.dma_copy(tile, table.vector_select(0, index(*rows)))
        return to_hbm(tile)

    assert nki.simulate(kernel)(3, 1, 2).shape == (3, 6)
    assert "rows 5 and 8 (12 elements of table[5:9])" in refused(kernel, 5, 2, 8)


@pytest.mark.lenient
def test_a_loop_is_told_once():
    def kernel():
        rows, out = new((512, 8), buffer=nl.private_hbm), new((512, 8), buffer=nl.shared_hbm)
        for start in range(0, 512, 128):
            nisa.dma_copy(out[start : start + 128], rows[start : start + 128])
        return out

    with pytest.warns(nki_sim.NkiSimulationWarning) as told, nki_sim.record() as timeline:
        nki.simulate(kernel)()
    assert len(told) == len(timeline.warnings) == 1
    assert "reads memory that nothing has written, rows 0 to 127 (rows[0:128])" in str(
        told[0].message
    )


def test_two_cores():
    def kernel():
        out = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)
        tile = nl.ones((1, 8), nl.float32)
        nisa.dma_copy(out[nl.program_id(0) : nl.program_id(0) + 1], tile)
        return out

    with hardware.select(hardware.chip("trn2")), pytest.raises(RULE) as raised:
        nki.simulate(kernel).with_programs(2)()
    assert "(out of test_unwritten.py:" in str(raised.value)
    assert "rows 2 to 3 (out[2:4])" in str(raised.value)
