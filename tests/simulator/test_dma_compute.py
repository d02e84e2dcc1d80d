"""dma_compute: sums of tensors, gathers and scatters that add, and refused arguments."""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from tests.tolerances import near, sums

from .conftest import new, refuses, sample, to_hbm, wide


def total(*arrays, dtype="float32", **settings):
    def kernel(*tensors):
        out = new(tensors[0].shape, dtype, nl.shared_hbm)
        given = {"srcs": list(tensors), "reduce_op": nl.add} | settings
        if callable(given["srcs"]):
            given["srcs"] = given["srcs"](tensors[0])
        nisa.dma_compute(out, **given)
        return out

    return nki.simulate(kernel)(*arrays)


@pytest.mark.parametrize("count", [1, 2, 16])
def test_sums(count):
    arrays = [sample((8, 12), ("float32", "bfloat16")[i % 2], seed=i) for i in range(count)]
    expected = sum(wide(a) for a in arrays)
    near(total(*arrays), expected, sums(count))
    rounded = total(*arrays, dtype="bfloat16", scales=(1.0,) * count)
    near(wide(rounded), expected, sums(1, "bfloat16"))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"reduce_op": nl.maximum}, "must be nl.add"),
        ({"scales": (1.0, 0.5)}, "1.0 for each"),
        ({"scales": (1.0,)}, "1.0 for each"),
        ({"unique_indices": False}, "must be True"),
        ({"srcs": []}, "1 to 16"),
        ({"oob_mode": nisa.oob_mode.skip}, "dynamic address"),
        ({"srcs": lambda x: [x, new((4, 5), buffer=nl.hbm)]}, "same number of elements"),
        ({"srcs": lambda x: [x, new((4, 4), buffer=nl.psum)]}, "PSUM"),
    ],
)
def test_refuses(settings, match):
    refuses(match, total, sample((4, 4)), sample((4, 4)), **settings)


def test_gather_adds_rows_to_a_tile():
    table, start = sample((20, 6)), sample((4, 6), seed=1)
    rows = np.array([[3], [0], [19], [7]], np.uint32)

    def kernel(table, start, rows):
        dst, indices = nl.load(start), nl.load(rows)
        chosen = table.ap([[6, 4], [1, 6]], vector_offset=indices)
        nisa.dma_compute(dst, [chosen, dst], nl.add)
        return to_hbm(dst)

    found = nki.simulate(kernel)(table, start, rows)
    np.testing.assert_array_equal(found, table[rows[:, 0]] + start)


@pytest.mark.parametrize("skip", [False, True])
def test_scatter_adds_a_tile_to_rows(skip):
    table, added = sample((20, 6)), sample((4, 6), seed=1)
    rows = np.array([[3], [0], [40 if skip else 19], [7]], np.int32)

    def kernel(table, added, rows):
        tile, indices = nl.load(added), nl.load(rows)
        chosen = table.ap([[6, 4], [1, 6]], vector_offset=indices)
        mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
        nisa.dma_compute(chosen, [chosen, tile], nl.add, oob_mode=mode)
        return table

    expected = table.copy()
    inside = rows[:, 0] < 20
    expected[rows[inside, 0]] += added[inside]
    np.testing.assert_array_equal(nki.simulate(kernel)(table.copy(), added, rows), expected)


def test_indirect_sums_have_two_sources_one_of_them_the_target():
    def kernel(table, rows, kind):
        dst, other = nl.zeros((4, 6), "float32"), nl.zeros((4, 6), "float32")
        indices = nl.load(rows)
        chosen = table.ap([[6, 4], [1, 6]], vector_offset=indices)
        target, sources = [
            (dst, [chosen, other]),
            (dst, [chosen, dst, other]),
            (chosen, [dst, other]),
        ][kind]
        nisa.dma_compute(target, sources, nl.add)
        return table

    rows = np.zeros((4, 1), np.int32)
    for kind, match in (
        (0, "the same view as dst"),
        (1, "a gather or scatter needs two sources"),
        (2, "a gather or scatter needs two sources"),
    ):
        refuses(match, nki.simulate(kernel), sample((20, 6)), rows, kind)


def test_a_sum_takes_as_long_as_copies_of_its_sources():
    def kernel(a, b):
        dst, other = new((128, 2048)), new((128, 2048))
        nisa.dma_compute(dst, [a, b], nl.add)
        nisa.dma_copy(other, a)
        nisa.tensor_tensor(dst, dst, other, nl.add)
        return to_hbm(dst)

    spec = ((128, 2048), "float32")
    moves = {e.instruction: e.moves_ns for e in nki_sim.dry_run(kernel, spec, spec).events[:2]}
    assert moves["nisa.dma_compute"] == pytest.approx(2 * moves["nisa.dma_copy"])
