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

from .conftest import (
    RULE,
    assert_same,
    blocks,
    broken,
    index,
    kernel_of,
    legal,
    new,
    refuses,
    sample,
    to_hbm,
)

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


def test_an_access_ends_inside_of_the_tensor():
    """The pattern of ``ap`` may leave the view, since it addresses the storage (nki-aps.rst)."""

    def kernel(table, start):
        tile = nl.load(table[0:6].ap([[6, 4], [1, 6]], scalar_offset=index(start)))
        return to_hbm(tile)

    assert_same(nki.simulate(kernel)(DATA, 4), DATA[4:8])
    refuses("end inside of the tensor", nki.simulate(kernel), DATA, 5)


def test_on_chip_an_index_keeps_its_partition():
    def kernel(table, place, part):
        tile = nl.load(table)
        view = tile.ap(
            [[6, 4], [1, 2]], 4 if part else 0, scalar_offset=index(place), indirect_dim=1
        )
        dst = new((4, 2))
        nisa.tensor_copy(dst, view)
        return to_hbm(dst)

    assert_same(nki.simulate(kernel)(DATA, 4, False), DATA[:4, 4:6])
    assert_same(nki.simulate(kernel)(DATA, 0, True), DATA[:4, 4:6])
    for place, part in ((5, False), (1, True), (2, True), (5, True)):
        refuses("out of bounds", nki.simulate(kernel), DATA, place, part)


def test_on_chip_an_index_stays_in_a_tile_of_fewer_partitions():
    def kernel(place):
        tile, dst = nl.full((4, 5, 6), 1.0, "float32"), new((2, 6))
        nisa.tensor_copy(dst, tile[0:2].select(1, index(place)))
        return to_hbm(dst)

    nki.simulate(kernel)(4)
    refuses("scalar_offset is 5, but it is out of bounds", nki.simulate(kernel), 5)


def test_indirect_operands_of_a_matmul():
    x, y = sample((16, 3, 8)), sample((16, 2, 4), seed=1)

    def kernel(x, y):
        bank = new((8, 2, 4), "float32", nl.psum)
        i, stationary, moving = in_register(1), nl.load(x), nl.load(y)
        nisa.nc_matmul(bank.select(1, i), stationary.select(1, i), moving.select(1, i))
        nisa.nc_matmul(bank.select(1, i), stationary[:, 2], moving[:, 0], accumulate=True)
        with pytest.raises(RULE, match="nothing has initialised"):
            nisa.nc_matmul(
                bank.select(1, in_register(0)), stationary[:, 2], moving[:, 0], accumulate=True
            )
        return to_hbm(bank[:, 1])

    expected = x[:, 1].T @ y[:, 1] + x[:, 2].T @ y[:, 0]
    np.testing.assert_allclose(nki.simulate(kernel)(x, y), expected, rtol=1e-5, atol=1e-5)


def test_the_index_is_no_operand():
    """A predicated copy of a number to an indirect tile has no source but the number."""

    def kernel():
        tile, predicate = nl.zeros((4, 2, 3), "float32"), nl.ones((4, 3), "uint8")
        nisa.tensor_copy_predicated(tile.select(1, index(1)), 5.0, predicate)
        return to_hbm(tile)

    assert nki.simulate(kernel)()[:, :, 0].tolist() == [[0, 5]] * 4


@pytest.mark.parametrize("on_chip", [False, True])
def test_registers_load_and_store_at_indirect_addresses(on_chip):
    def kernel(table):
        out = nl.zeros((1, 4), "int32") if on_chip else nl.zeros((1, 4), "int32", nl.shared_hbm)
        source, held = nl.load(table) if on_chip else table, nisa.register_alloc()
        nisa.register_load(held, source.select(1, in_register(2)))
        nisa.register_store(out.select(1, in_register(3)), held)
        refuses("out of bounds", nisa.register_load, held, source.select(1, in_register(4)))
        return to_hbm(out) if on_chip else out

    table = np.array([[10, 20, 30, 40]], np.int32)
    assert nki.simulate(kernel)(table).tolist() == [[0, 0, 0, 30]]


# Views of an HBM table and an SBUF tile, by the message of the broken one: ``{broken | legal}``.
REFUSED = blocks("""
reinterpreted
    # release-notes/components/nki.rst, NKI 0.5.0, "Known Issues"
    t.view({"int32" | "float32"}).vector_select(0, index(0, 1))
a tensor that is not reinterpreted
    t.ap([[6, 2], [1, 6]], {vector_offset=index(0, 1) | scalar_offset=index(0)}, dtype="int32")
cannot select a partition
    # NkiTensor.select: on-chip not the partition dimension
    s.ap([[6, 2], [1, 6]], scalar_offset=index(0), indirect_dim={0 | 1})
dimension 0 is .* cannot select a partition
    s[{nl.ds(in_register(0), 2) | :, nl.ds(in_register(0), 2)}]
only one dynamic index
    # NkiTensor.select: only one dynamic index per tensor
    t[in_register(0), nl.ds({in_register(0) | 0}, 2)]
must be int32 or uint32
    # the indices of nki-aps.rst and dma_copy are int32 and uint32
    t.select(0, nl.zeros((1, 1), {"float32" | "uint32"}))
address known at compile time
    t.select(0, nl.zeros((1, 2), "int32"){.select(1, in_register(0)) | [:, 0:1]})
must be a tensor in SBUF or a register
    # NkiTensor | VirtualRegister (nki-aps.rst)
    t.ap([[6, 2], [1, 6]], scalar_offset={1 | in_register(1)})
must be a tile of indices
    t.ap([[6, 2], [1, 6]], {vector_offset | scalar_offset}=in_register(1))
must be a tensor of indices in SBUF
    t.vector_select(0, {[0, 1] | index(0, 1)})
""")


@pytest.mark.parametrize("message", REFUSED)
def test_refused_views(message):
    code, names = "s = nl.load(t)[0:4]\n" + REFUSED[message], globals() | {"index": index}
    nki.simulate(kernel_of(legal(code), names, "t"))(DATA)
    refuses(message, nki.simulate(kernel_of(broken(code), names, "t")), DATA)


def test_an_indirect_tile_starts_at_a_quadrant():
    """As every tile of an engine does: an index does not move the partition."""

    def kernel(start):
        tile = nl.zeros((128, 2, 4), "float32")
        nisa.memset(tile[start : start + 8].select(1, index(1)), 0)

    nki.simulate(kernel)(32)
    refuses("8 partitions must start at one of", nki.simulate(kernel), 16)


def test_an_output_is_no_indirect_view():
    """Where the result lies must be known before the launch."""

    def kernel(broken):
        out = nl.zeros((4, 6), "float32", nl.shared_hbm)
        return out.select(0, in_register(1)) if broken else out

    nki.simulate(kernel)(False)
    refuses("copy the view into a tensor", nki.simulate(kernel), True)
