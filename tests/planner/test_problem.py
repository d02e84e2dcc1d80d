"""Problems: the planner's input, and the least time of any solution."""

import pytest

import trnfft
from nki_sim import hardware
from trnfft.planner import planner
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import (
    C2R,
    R2C,
    BlockCirculant,
    Convolution,
    Frames,
    RealPlanes,
    SpectralGradients,
    SpectralLayer,
    Transform,
)
from trnfft.planner.problem import Problem

# A kind, and the float32 numbers read and written for one of a batch.
NUMBERS = [
    (Transform((60,)), 2 * 60 + 2 * 60),
    (Transform((60,), part=R2C), 60 + 2 * 31),
    (Transform((60,), part=C2R), 60 + 2 * 31),
    (Transform((4, 15)), 2 * 60 + 2 * 60),
    (Transform((4, 15), (3, 10)), 2 * 30 + 2 * 60),
    (Transform((4, 15), part=R2C), 60 + 2 * 4 * 8),
    (Transform((5, 2, 6), (5, 1, 3), R2C), 15 + 2 * 5 * 2 * 4),
    (Transform((6, 10), (5, 7), C2R), 35 + 2 * 6 * 6),
    (Convolution((60,)), 60 + 60),
    (Convolution((6, 10)), 60 + 60),
    (Convolution((6, 10), (4, 7)), 28 + 28),
    (Convolution((6, 10), (4, 7), (2, 3)), 28 + 6),
    (Frames(16, 4, None), 4 + 2 * 9),
    (Frames(16, 4), 4 + 9),
    (Frames(16, 4, bands=5), 4 + 5),
    (Frames(16, 40), 16 + 9),
    (RealPlanes(6, 10), 60 + 60),
]
# The weight, which is read once, and the numbers for one of a batch.
WITH_WEIGHT = [
    (BlockCirculant(3, 4, 5), 60, (3 + 4) * 5),
    (BlockCirculant(3, 4, 5, gradients=True), 2 * 60, (3 + 4) * 5 + 4 * 5),
    (SpectralLayer(2, 3, (8, 10), (4, 6)), 2 * 6 * 24, 5 * 80),
    (SpectralLayer(2, 3, (8,), (5,), keeps_spectra=True), 2 * 6 * 5, 5 * 8 + 2 * 2 * 5),
    (SpectralGradients(2, 3, (8,), (5,)), 4 * 6 * 5, 5 * 8 + 2 * 2 * 5),
]


def numbers_of(kind, batch):
    """The numbers of the floor, by the time that it takes."""
    problem = Problem(kind=kind, batch=batch, precision="fast", target="trn1", max_error=1e-6)
    return problem.dma_floor_ns * hardware.TRN1.dma_total_bytes_per_ns / 4


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(
    "kind, weight, numbers", [*((kind, 0, numbers) for kind, numbers in NUMBERS), *WITH_WEIGHT]
)
def test_floors_are_the_numbers_read_and_written(kind, weight, numbers, batch):
    assert numbers_of(kind, batch) == pytest.approx(weight + batch * numbers)


WRONG_KINDS = [
    (lambda: Transform(()), "'lengths' is ()"),
    (lambda: Transform((4, 0)), "'lengths' is 0"),
    (lambda: Transform(4), "'lengths' must be a tuple"),
    (lambda: Transform((4,), (5,)), "'data' is (5,), allowed are 1 sizes up to (4,)"),
    (lambda: Convolution((4, 4), (4,)), "'data' is (4,), allowed are 2 sizes"),
    (lambda: Convolution((4,), kept=(0,)), "'kept' is 0"),
    (lambda: BlockCirculant(2, 2.0, 8), "'q' must be an int"),
    (lambda: BlockCirculant(2, 2, 8, gradients=1), "'gradients' is 1"),
    (lambda: SpectralLayer(2, 0, (8,), (5,)), "'outputs' is 0"),
    (lambda: SpectralLayer(2, 2, (8,), (6,)), "'kept' is (6,), allowed are 1 numbers up to (5,)"),
    (lambda: SpectralGradients(2, 2, (8, 8), (5,)), "'kept' is (5,), allowed are 2 numbers"),
    (lambda: SpectralLayer(2, 2, (8,), (5,), keeps_spectra="no"), "'keeps_spectra' is 'no'"),
    (lambda: Transform((4,), part="dct"), "'part' is 'dct', allowed are c2c, r2c, c2r"),
    (lambda: Frames(16, 0), "'hop' is 0"),
    (lambda: Frames(None, 4), "'n' must be an int, not NoneType"),
    (lambda: Frames(16, 4, 2.0), "'power' is 2.0, allowed are None, 1 and 2"),
    (lambda: BlockCirculant(2, 2, None), "'k' must be an int, not NoneType"),
    (lambda: Frames(16, 4, 3), "'power' is 3, allowed are None, 1 and 2"),
    (lambda: Frames(16, 4, True), "'power' is True, allowed are None, 1 and 2"),
    (lambda: Frames(16, 4, None, 5), "'bands' is 5, allowed is None with argument 'power' None"),
    (lambda: RealPlanes(4, -1), "'columns' is -1"),
]


@pytest.mark.parametrize("make, message", WRONG_KINDS, ids=[message for _, message in WRONG_KINDS])
def test_kinds_check_their_fields(make, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert f"argument {message}" in str(caught.value)


SAME_PRICE = [
    (Frames(64, 16, 1), Frames(64, 16, 2)),
    (SpectralLayer(2, 3, (24,), (5,), negative_first=True), SpectralLayer(2, 3, (24,), (5,))),
    (Convolution((64,), (60,), (50,)), Convolution((64,))),
    (Convolution((12, 12), (8, 9), (4, 5)), Convolution((12, 12), (8, 9))),
]


@pytest.mark.parametrize("kind, priced", SAME_PRICE, ids=str)
def test_kinds_of_the_same_price_have_the_same_plan(kind, priced):
    """Their recipes differ in the kind, which the kernel's tables and settings come from."""
    found, known = (planner.plan_for(each, batch=5, target="trn1") for each in (kind, priced))
    assert (found.kind, known.kind) == (kind, priced) and kind.priced == priced.priced == priced
    assert {each.recipe.kind for each in found.candidates} == {kind}
    assert found.solving(priced, False) == known and found.predicted_ns == known.predicted_ns
    assert planner.plan_for(kind, batch=5, target="trn1") == found  # remembered


def test_convolutions_of_other_data_have_plans_of_their_own():
    images = [(48, 64), (20, 64), (30, 40)]
    for _ in range(2):  # found, and remembered
        plans = [planner.plan_for(Convolution((48, 64), image)) for image in images]
        assert [plan.kind.held for plan in plans] == images
        assert len({plan.recipe for plan in plans}) == 3
        planner.forget()


def test_titles_name_the_shape_and_the_data_in_it():
    whole, padded = (
        trnfft.plan(shape=(4, 6), padded_from=held, real=True, batch=3, target="trn1")
        for held in ((4, 6), (3, 6))
    )
    assert whole.title == "FFT of real data, 4 x 6, batch 3, fast, trn1, LNC=1"
    assert padded.title == "FFT of real data, 4 x 6 for 3 x 6, batch 3, fast, trn1, LNC=1"
    rows = planner.plan_for(Convolution((256,)), target="trn2", cores=1)
    assert rows.title == "convolution of real data, N = 256, batch 1, fast, trn2, LNC=1"


@pytest.mark.parametrize("size", [{"n": 1000}, {"shape": (4, 6)}])
@pytest.mark.parametrize("real", [False, True])
def test_plans_of_the_host_have_the_direction_that_was_asked_for(size, real):
    for inverse in (True, False, True):
        plan = trnfft.plan(**size, real=real, precision="double", inverse=inverse)
        assert (plan.inverse, plan.algorithm) == (inverse, "host")
        assert plan.title.startswith("inverse FFT" if inverse else "FFT")


def test_every_kind_has_an_algorithm():
    kinds = [kind for kind, _ in NUMBERS] + [kind for kind, *_ in WITH_WEIGHT]
    assert {kind.name for kind in kinds} == {each.kind for each in ALGORITHMS.values()}
