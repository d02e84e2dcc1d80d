"""dma_compute: sums of tensors, gathers and scatters that add, and refused arguments."""

import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from tests.tolerances import near, sums

from .conftest import blocks, check_values, new, refuses, sample, to_hbm, wide


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


KERNELS = blocks("""
a gather adds rows to a tile [table 20x6 in HBM] [x 4x6]
    chosen = table.ap([[6, 4], [1, 6]], vector_offset=index(3, 0, 19, 7))
    nisa.dma_compute(x, [chosen, x], nl.add)
    return x
  table[[3, 0, 19, 7]] + x
out of bounds [table 20x6 in HBM] [x 4x6]
    # A scatter adds a tile to rows.
    chosen = table.ap([[6, 4], [1, 6]], vector_offset=index(3, 0, {40 | 19}, 7))
    nisa.dma_compute(chosen, [chosen, x], nl.add)
    return table
  table[[3, 0, 19, 7]] += x
  table
a scatter skips a row outside [table 20x6 in HBM] [x 4x6]
    chosen = table.ap([[6, 4], [1, 6]], vector_offset=index(3, 0, 40, 7))
    nisa.dma_compute(chosen, [chosen, x], nl.add, oob_mode=nisa.oob_mode.skip)
    return table
  table[[3, 0, 7]] += x[[0, 1, 3]]
  table
the same view as dst [table 20x6 in HBM] [x 4x6]
    chosen = table.ap([[6, 4], [1, 6]], vector_offset=index(0, 1, 2, 3))
    nisa.dma_compute({new((4, 6)) | x}, [chosen, x], nl.add)
    return x
  table[0:4] + x
a gather or scatter needs two sources.* [table 20x6 in HBM] [x 4x6]
    chosen = table.ap([[6, 4], [1, 6]], vector_offset=index(0, 1, 2, 3))
    nisa.dma_compute(x, [chosen, x, x][: {3 | 2}], nl.add)
    return x
  table[0:4] + x
a gather or scatter needs two sources [table 20x6 in HBM] [x 4x6]
    chosen = table.ap([[6, 4], [1, 6]], vector_offset=index(0, 1, 2, 3))
    nisa.dma_compute(chosen, [{x | chosen}, x], nl.add)
    return table
  table[0:4] += x
  table
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_values(heading, KERNELS[heading], globals())


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
