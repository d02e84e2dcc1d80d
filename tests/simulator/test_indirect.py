"""Addresses known at run time stay inside of the view that was indexed, or are skipped.

nki/api/nki/isa/__init__.py, dma_copy: a "dynamic address or index" is out of bounds where it
exceeds "the dimensions of the target array", an error unless ``oob_mode.skip`` skips it.
NkiTensor.select and vector_select take their index on a view's dimension, so does ``ap`` with a
``vector_offset``. A ``scalar_offset`` of ``ap`` makes an address, which stays inside of the tensor.
"""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl

from .conftest import assert_same, blocks, check_values, index, refuses, sample, to_hbm

s_, SKIP = np.s_, nisa.oob_mode.skip
DATA = sample((8, 6))


def in_register(value):
    """The value in a register."""
    return nisa.register_alloc(value)


VIEWS = {
    # What is read of an [8, 6] table, the last legal index, and the values there.
    "select of rows": (lambda t, i: t[2:6].select(0, i), 3, lambda i: DATA[2 + i]),
    "select of columns": (lambda t, i: t[:, 1:4].select(1, i), 2, lambda i: DATA[:, 1 + i]),
    "select of every other": (lambda t, i: t[0:6:2].select(0, i), 2, lambda i: DATA[2 * i]),
    "index": (lambda t, i: t[2:6][i], 3, lambda i: DATA[2 + i]),
    "ap of rows": (
        lambda t, i: t.ap([[6, 1], [1, 6]], 12, scalar_offset=i),
        5,
        lambda i: DATA[2 + i],
    ),
    "ap of columns": (
        lambda t, i: t.ap([[6, 8], [1, 1]], 1, scalar_offset=i, indirect_dim=1),
        4,
        lambda i: DATA[:, 1 + i],
    ),
}


@pytest.mark.parametrize("hold", [index, in_register])
@pytest.mark.parametrize("form", VIEWS)
def test_an_index_stays_in_its_dimension(form, hold):
    view, last, values = VIEWS[form]

    def kernel(table, place, mode):
        source = view(table, hold(place))
        tile = nl.full((1, source.size), 7.0, "float32")
        nisa.dma_copy(tile, source, oob_mode=mode)
        return to_hbm(tile)

    for place in (0, last):
        found = nki.simulate(kernel)(DATA, place, nisa.oob_mode.error)
        assert_same(found[0], values(place).reshape(-1))
    for place in (last + 1, -1):
        says = f"nisa.dma_copy: scalar_offset is {place}, but it is out of bounds"
        refuses(says, nki.simulate(kernel), DATA, place, nisa.oob_mode.error)
        assert (nki.simulate(kernel)(DATA, place, SKIP) == 7).all()


ROWS_OF = {
    # Two rows of the rows 2 to 5, and their columns.
    "vector_select": (lambda t, rows: t.vector_select(0, rows), s_[0:6]),
    "ap": (lambda t, rows: t.ap([[6, 2], [1, 6]], vector_offset=rows), s_[0:6]),
    "ap with an offset": (lambda t, rows: t.ap([[6, 2], [1, 4]], 2, vector_offset=rows), s_[2:6]),
}


@pytest.mark.parametrize("form", ROWS_OF)
@pytest.mark.parametrize("scatter", [False, True])
def test_rows_stay_in_their_view(form, scatter):
    view, columns = ROWS_OF[form]

    def kernel(table, rows, mode):
        rows_of = view(table[2:6], index(*rows))
        tile = nl.full(rows_of.shape, 7.0, "float32")
        assert rows_of.is_indirect()
        nisa.dma_copy(*((rows_of, tile) if scatter else (tile, rows_of)), oob_mode=mode)
        return to_hbm(tile)

    kernel, error = nki.simulate(kernel), nisa.oob_mode.error
    for other, mode in ((1, error), (4, SKIP), (5, SKIP), (-1, SKIP)):
        before, expected = DATA.copy(), DATA.copy()
        with nki_sim.allow("ap-of-views"):
            if mode is SKIP:  # rows 6 and 7 of the table, and row 1
                says = f"vector_offset is {other}, but it is out of bounds"
                refuses(says, kernel, before, (3, other), error)
                assert_same(before, DATA)
            tile = kernel(before, (3, other), mode)
        if scatter:
            expected[[5, 3] if mode is error else [5], columns] = 7
            assert_same(before, expected)
        else:
            second = np.full(6, 7, np.float32) if mode is SKIP else DATA[3]
            assert_same(tile, np.stack([DATA[5], second])[:, columns])


# Kernels by the message of the broken one, and what the legal one gives.
KERNELS = blocks("""
end inside of the tensor [x 8x6 in HBM]
    # The pattern of ``ap`` may leave the view, since it addresses the storage (nki-aps.rst).
    return nl.load(x[0:6].ap([[6, 4], [1, 6]], scalar_offset=index({5 | 4})))
  x[4:8]
scalar_offset is 5, but it is out of bounds [x 4x6]
    dst = new((4, 2))
    view = x.ap([[6, 4], [1, 2]], scalar_offset=index({5 | 4}), indirect_dim=1)
    nisa.tensor_copy(dst, view)
    return dst
  x[:, 4:6]
scalar_offset is 1, but it is out of bounds [x 4x6]
    dst = new((4, 2))
    view = x.ap([[6, 4], [1, 2]], 4, scalar_offset=index({1 | 0}), indirect_dim=1)
    nisa.tensor_copy(dst, view)
    return dst
  x[:, 4:6]
scalar_offset is 2, but it is out of bounds [x 4x6]
    # The first element would be one of the next partition.
    dst = new((4, 2))
    view = x.ap([[6, 4], [1, 2]], 4, scalar_offset=index({2 | 0}), indirect_dim=1)
    nisa.tensor_copy(dst, view)
    return dst
  x[:, 4:6]
scalar_offset is 5, .* out of bounds [x 4x5x6]
    # Of a tile of fewer partitions.
    dst = new((2, 6))
    nisa.tensor_copy(dst, x[0:2].select(1, index({5 | 4})))
    return dst
  x[0:2, 4]
nothing has initialised [x 16x3x8] [y 16x2x4]
    bank = new((8, 2, 4), "float32", nl.psum)
    i = in_register(1)
    nisa.nc_matmul(bank.select(1, i), x.select(1, i), y.select(1, i))
    nisa.nc_matmul(bank.select(1, in_register({0 | 1})), x[:, 2], y[:, 0], accumulate=True)
    return bank[:, 1]
  Near(wide(x[:, 1]).T @ wide(y[:, 1]) + wide(x[:, 2]).T @ wide(y[:, 0]), sums(32))
the index is no operand
    # A predicated copy of a number to an indirect tile has no source but the number.
    tile, predicate = nl.zeros((4, 2, 3), "float32"), nl.ones((4, 3), "uint8")
    nisa.tensor_copy_predicated(tile.select(1, index(1)), 5.0, predicate)
    return tile[:, :, 0]
  np.array([[0, 5]] * 4, np.float32)
scalar_offset is 4, but it is out of bounds [x 1x4 int32]
    out, held = nl.zeros((1, 4), "int32"), nisa.register_alloc()
    nisa.register_load(held, x.select(1, in_register({4 | 2})))
    nisa.register_store(out.select(1, in_register(3)), held)
    return out
  np.array([[0, 0, 0, x[0, 2]]], np.int32)
scalar_offset is 4, .* out of bounds [x 1x4 int32 in HBM]
    out, held = nl.zeros((1, 4), "int32", nl.shared_hbm), nisa.register_alloc()
    nisa.register_load(held, x.select(1, in_register({4 | 2})))
    nisa.register_store(out.select(1, in_register(3)), held)
    return out
  np.array([[0, 0, 0, x[0, 2]]], np.int32)
8 partitions must start at one of
    # As every tile of an engine does: an index does not move the partition.
    tile = nl.zeros((128, 2, 4), "float32")
    nisa.memset(tile[{16 | 32} : {24 | 40}].select(1, index(1)), 1)
    return tile[32:40, 1]
  np.ones((8, 4), np.float32)
reinterpreted [t 8x6 in HBM]
    # release-notes/components/nki.rst, NKI 0.5.0, "Known Issues"
    return nl.load(t.view({"int32" | "float32"}).vector_select(0, index(0, 1)))
  t[0:2]
a tensor that is not reinterpreted [t 8x6 in HBM]
    where = {"vector_offset": index(0, 1)}, {"scalar_offset": index(1)}
    view = t.ap([[6, 2], [1, 6]], **where[{0 | 1}], dtype="int32")
    return nl.load(view)
  t[1:3].view(np.int32)
cannot select a partition [s 4x6]
    # NkiTensor.select: on-chip not the partition dimension
    return s.ap([[6, 4], [1, 3]], scalar_offset=index(1), indirect_dim={0 | 1})
  s[:, 1:4]
dimension 0 is .* cannot select a partition [s 4x6]
    rows = nl.ds(in_register(1), 2)
    return s[{rows | :, rows}]
  s[:, 1:3]
only one dynamic index [t 8x6 in HBM]
    # NkiTensor.select: only one dynamic index per tensor
    return nl.load(t[in_register(1), nl.ds({in_register(0) | 0}, 2)])
  t[1, 0:2, None]
must be int32 or uint32 [t 8x6 in HBM]
    # The indices of nki-aps.rst and dma_copy are int32 and uint32.
    return nl.load(t.select(0, nl.zeros((1, 1), {"float32" | "uint32"})))
  t[0, :, None]
address known at compile time [t 8x6 in HBM]
    zeros = nl.zeros((1, 2), "int32")
    return nl.load(t.select(0, {zeros.select(1, in_register(0)) | zeros[:, 0:1]}))
  t[0, :, None]
must be a tensor in SBUF or a register [t 8x6 in HBM]
    # NkiTensor | VirtualRegister (nki-aps.rst)
    return nl.load(t.ap([[6, 2], [1, 6]], scalar_offset={1 | in_register(1)}))
  t[1:3]
must be a tile of indices [t 8x6 in HBM]
    return nl.load(t.ap([[6, 2], [1, 6]], {vector_offset | scalar_offset}=in_register(1)))
  t[1:3]
must be a tensor of indices in SBUF [t 8x6 in HBM]
    return nl.load(t.vector_select(0, {[0, 1] | index(0, 1)}))
  t[0:2]
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_values(heading, KERNELS[heading], globals())


def test_an_output_is_no_indirect_view():
    """Where the result lies must be known before the launch."""

    def kernel(broken):
        out = nl.zeros((4, 6), "float32", nl.shared_hbm)
        return out.select(0, in_register(1)) if broken else out

    nki.simulate(kernel)(False)
    refuses("copy the view into a tensor", nki.simulate(kernel), True)
