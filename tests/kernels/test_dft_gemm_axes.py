"""One product over all axes of small arrays, in the simulator, compared with NumPy in float64.

The tests protect right numbers of complex and real arrays in both directions, padded and cropped,
for every shape of up to 256 points, in loops and on every chip. Arrays must not mix, and data must
travel over HBM once.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_sim
from nki_kernels.fft.dft_gemm import dft_gemm_matrix
from nki_kernels.real.real_dft_gemm import inverse_real_dft_gemm_matrix, real_dft_gemm_matrix
from nki_sim import hardware
from tests.registry import REGISTRY
from tests.tolerances import near, operands, pairs, relative_error, transforms
from trnfft.planner.kinds import Transform

from .arrays import data_of, exact_of, half_of
from .independence import check_rows_are_independent
from .launched import dry, launch, parts
from .samples import fits
from .turns import on_chips

pytestmark = pytest.mark.usefixtures("strict_chip")

BY_PART = {
    "c2c": "dft_gemm_axes",
    "r2c": "real_dft_gemm_axes",
    "c2r": "inverse_real_dft_gemm_axes",
}
PRECISIONS = ("", "_bf16", "_bf16_refined")  # endings of the names of algorithms on complex data


def solution(lengths, part, data=(), ending=""):
    """The planner's algorithm, and its recipe."""
    algorithm = REGISTRY[BY_PART[part] + ending]
    return algorithm, algorithm.recipes_for(Transform(lengths, data, part))[0]


def tolerance_of(lengths, ending=""):
    return {"": transforms(lengths), "_bf16": operands(1), "_bf16_refined": pairs(1)}[ending]


def check(batch, lengths, part, data=(), inverse=False, degree=1, ending=""):
    """Fails unless one launch fits and is near the exact result."""
    x, scale = data_of(batch, lengths, part, data), 0.5
    found = solution(lengths, part, data, ending)
    result, timeline = launch(*found, parts(x), inverse, scale, cores=degree)
    exact = scale * exact_of(x, lengths, part, data, inverse)
    near(result, exact, tolerance_of(lengths, ending), message=f"{batch} {found[1]} {inverse}")
    assert fits(timeline)


# Shapes with and without a Nyquist number: several arrays a product, one, and one in pieces.
SHAPES = [
    *((8, 8), (14, 14), (6, 6, 6), (16, 16), (4, 4, 4), (2, 3, 2, 3), (3, 5), (9, 15), (5, 4, 3)),
    *((1, 1), (1, 7), (7, 1), (1, 256), (256, 1), (128, 2), (2, 127), (1, 2, 1, 2)),
]


@on_chips("lengths", SHAPES)
@pytest.mark.parametrize("part", BY_PART)
def test_arrays_in_both_directions(strict_chip, lengths, part):
    for inverse, batch in ((False, 3), (True, 131)):
        check(batch, lengths, part, (), inverse)


@on_chips("lengths", [(8, 8), (14, 14), (3, 5, 2)])
@pytest.mark.parametrize("ending", PRECISIONS[1:])
def test_products_of_bfloat16(strict_chip, lengths, ending):
    check(130, lengths, "c2c", (), True, ending=ending)
    check(3, lengths, "c2c", lengths[:-1] + (1,), ending=ending)


# Lengths, and what is data of each axis, or kept of a result: rows that are cut short, other axes
# that are, both, and data that leaves little to contract.
PADDED = [
    ((8, 8), (5, 8)),
    ((12, 9), (12, 4)),
    ((14, 14), (7, 9)),
    ((4, 5, 6), (3, 5, 4)),
    ((256, 1), (3, 1)),
    ((16, 16), (1, 1)),
    ((4, 4, 16), (2, 1, 2)),
]


@on_chips("lengths, data", PADDED)
@pytest.mark.parametrize("part", BY_PART)
def test_padded_data_and_cropped_results(strict_chip, lengths, data, part):
    for inverse, batch in ((False, 130), (True, 1)):
        check(batch, lengths, part, data, inverse)


def test_a_padded_line():
    for part in BY_PART:
        check(5, (100,), part, (60,))


@on_chips("lengths", [(2, 3), (8, 8), (14, 14)], ("trn2", "trn1"))
@pytest.mark.parametrize("part", BY_PART)
def test_loops_and_two_programs(short_loops, strict_chip, lengths, part):
    degree = hardware.current().programs_per_launch
    for batch in (1, 2, 2000):
        check(batch, lengths, part, degree=degree)


@st.composite
def shapes(draw):
    """Two to four lengths with a product up to 256."""
    lengths, left = [], 256
    for _ in range(draw(st.integers(2, 4))):
        lengths.append(draw(st.integers(1, left)))
        left //= lengths[-1]
    return tuple(draw(st.permutations(lengths)))


@pytest.mark.weekly
@pytest.mark.sweep
@given(shapes(), st.data())
@settings(deadline=None, max_examples=100)
def test_any_shape(lengths, choice):
    chip = hardware.chip(choice.draw(st.sampled_from(hardware.NAMES)))
    part, inverse = choice.draw(st.sampled_from(list(BY_PART))), choice.draw(st.booleans())
    data = tuple(choice.draw(st.integers(1, n)) for n in lengths)
    degree = choice.draw(st.integers(1, chip.programs_per_launch))
    batch = choice.draw(st.sampled_from((1, 2, 127, 300)))
    with hardware.select(chip), nki_sim.strict():
        for held in ((), data):
            check(batch, lengths, part, held, inverse, degree)


@pytest.mark.parametrize("name", [name for name in REGISTRY if "dft_gemm_axes" in name])
def test_predicted_errors_are_within_a_factor_of_three(name):
    for kind in REGISTRY[name].samples:
        (recipe,) = REGISTRY[name].recipes_for(kind)
        x = data_of(32, kind.lengths, kind.part, kind.data)
        exact = exact_of(x, kind.lengths, kind.part, kind.data)
        result, _ = launch(REGISTRY[name], recipe, parts(x), False, 1.0)
        predicted = REGISTRY[name].error(recipe)
        near(result, exact, 3 * predicted, message=str(recipe))
        # Products with one number have no sums.
        assert kind.data == (1, 1) or predicted <= 3 * relative_error(result, exact)


# Tables


@pytest.mark.parametrize("lengths", [(8, 8), (6, 6, 6), (3, 5), (1, 12), (2, 2, 2)], ids=str)
def test_numbers_that_are_their_own_mirrors_are_real_in_tables(lengths):
    """Real data has a spectrum that is real there, whatever is rounded elsewhere."""
    points, half = math.prod(lengths), half_of(lengths)
    own = [np.flatnonzero(2 * np.arange(k) % n == 0) for n, k in zip(lengths, half, strict=True)]
    own = [np.ravel_multi_index(place, half) for place in itertools.product(*own)]
    forward = real_dft_gemm_matrix(lengths)[:points, : 2 * math.prod(half)]
    imaginary = forward.reshape(points, 2, -1)[:, 1]
    assert (imaginary[:, own] == 0).all() and not np.signbit(imaginary[:, own]).any()
    back = inverse_real_dft_gemm_matrix(lengths)[: 2 * math.prod(half), :points]
    assert (back.reshape(2, -1, points)[1, own] == 0).all()


def test_tables_are_rounded_once():
    places = np.indices((6, 10)).reshape(2, -1)
    phases = np.outer(places[0], places[0]) * 10 + np.outer(places[1], places[1]) * 6
    exact = np.exp(-2j * np.pi / 60 * (phases % 60)) / 3
    table = dft_gemm_matrix((6, 10), scale=1 / 3)[:60, :120]
    rounded = np.concatenate([exact.real, exact.imag], 1).astype(np.float32)
    np.testing.assert_allclose(table, rounded, rtol=2**-23, atol=2**-54)
    high, low = dft_gemm_matrix((6, 10), False, 1 / 3, "bfloat16", True)[:, :60, :120].astype(float)
    np.testing.assert_allclose(high + low, rounded, rtol=2**-16, atol=2**-54)


def test_one_axis_has_the_table_of_rows():
    for n in (1, 2, 12, 100, 255):
        np.testing.assert_array_equal(dft_gemm_matrix((n,), True), dft_gemm_matrix(n, True))
        for lengths in ((n, 1), (1, n)):
            np.testing.assert_array_equal(dft_gemm_matrix(lengths), dft_gemm_matrix(n))


# Arrays alone, and once over HBM


@on_chips("lengths, data, part, ending", [
    ((2, 3), (), "c2c", ""),
    ((5, 12), (), "c2c", ""),
    ((14, 14), (), "c2c", ""),
    ((4, 6), (), "c2c", "_bf16"),
    ((5, 12), (), "c2c", "_bf16_refined"),
    ((16, 16), (2, 16), "c2c", ""),
    ((3, 2), (), "r2c", ""),
    ((8, 12), (), "r2c", ""),
    ((14, 14), (3, 2), "r2c", ""),
    ((3, 2), (), "c2r", ""),
    ((4, 4), (), "c2r", ""),
    ((14, 14), (), "c2r", ""),
], ("trn1", "trn2"))  # fmt: skip
def test_arrays_are_independent(strict_chip, lengths, data, part, ending):
    found, degree = solution(lengths, part, data, ending), hardware.current().programs_per_launch
    x = data_of(140, lengths, part, data)
    x = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)

    def run(spoiled):
        return launch(*found, parts(spoiled), True, cores=degree)[0]

    with np.errstate(all="ignore"):
        exact = exact_of(
            x.astype(complex if np.iscomplexobj(x) else float), lengths, part, data, True
        )
        check_rows_are_independent(run, x, exact, tolerance_of(lengths, ending))


@on_chips("lengths", [(8, 8), (14, 14), (6, 6, 6), (4, 4, 4)])
def test_one_trip_over_hbm_and_the_time_of_rows(strict_chip, lengths):
    n, times = math.prod(lengths), {}
    for part in BY_PART:
        kind = Transform(lengths, part=part)
        batch = 2**20 // n
        found = dry(*solution(lengths, part), *kind.input_shapes(batch))
        assert kind.least_bytes(batch) <= found.hbm_bytes <= 1.2 * kind.least_bytes(batch)
        assert fits(found)
        times[part] = found.total_ns
    rows = REGISTRY["dft_gemm"]
    assert times["c2c"] == dry(rows, rows.recipe(n), *[(batch, n)] * 2).total_ns
    assert max(times["r2c"], times["c2r"]) <= 0.75 * times["c2c"]
