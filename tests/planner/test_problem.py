"""Problems: the planner's input, and the least time of any solution."""

from typing import get_args

import numpy as np
import pytest
import torch

import trnfft
from nki_sim import hardware
from trnfft.planner import planner, problem, schema
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.problem import Problem

# Kind, shape, shape of the data, and the float32 numbers read and written for one of a batch.
NUMBERS = [
    ("c2c", (), (), 2 * 60 + 2 * 60),
    ("r2c", (), (), 60 + 2 * 31),
    ("c2r", (), (), 60 + 2 * 31),
    ("c2c", (4, 15), (4, 15), 2 * 60 + 2 * 60),
    ("c2c", (4, 15), (3, 10), 2 * 30 + 2 * 60),
    ("r2c", (4, 15), (4, 15), 60 + 2 * 4 * 8),
    ("r2c", (5, 2, 6), (5, 1, 3), 15 + 2 * 5 * 2 * 4),
    ("c2r", (6, 10), (5, 7), 35 + 2 * 6 * 6),
    ("convolution", (), (), 60 + 60),
    ("convolution", (6, 10), (6, 10), 60 + 60),
    ("convolution", (6, 10), (4, 7), 28 + 28),
]


def floor(kind, shape, data, batch):
    common = dict(precision="fast", target="trn1", max_error=1e-6)
    problem = Problem(n=60, kind=kind, shape=shape, padded_from=data, batch=batch, **common)
    return problem.dma_floor_ns * hardware.TRN1.dma_total_bytes_per_ns / 4


@pytest.mark.parametrize("kind, shape, data, numbers", NUMBERS)
def test_floors_are_the_numbers_read_and_written(kind, shape, data, numbers):
    assert floor(kind, shape, data, 1) == pytest.approx(numbers)
    assert floor(kind, shape, data, 8) == pytest.approx(8 * numbers)


@pytest.mark.parametrize("batch", [1, 8])
def test_floors_of_block_circulant_products_read_the_weight_once(batch):
    p, q, k = 3, 4, 5
    both = batch * (p + q) * k + p * q * k
    assert floor("block_circulant", (p, q, k), (p, q, k), batch) == pytest.approx(both)
    more = batch * q * k + p * q * k
    actual = floor("block_circulant_gradients", (p, q, k), (p, q, k), batch)
    assert actual == pytest.approx(both + more)


def test_convolutions_of_other_data_have_plans_of_their_own():
    images = [(48, 64), (20, 64), (30, 40)]
    for _ in range(2):  # found, and remembered
        plans = [planner.plan_convolution((48, 64), padded_from=image) for image in images]
        assert [plan.padded_from for plan in plans] == images
        assert len({plan.recipe for plan in plans}) == 3
        planner.forget()


def test_titles_name_the_shape_and_the_data_in_it():
    whole, padded = (
        trnfft.plan(shape=(4, 6), padded_from=held, real=True, batch=3, target="trn1")
        for held in ((4, 6), (3, 6))
    )
    assert whole.title == "FFT of real data, 4 x 6, batch 3, fast, trn1, LNC=1"
    assert padded.title == "FFT of real data, 4 x 6 for 3 x 6, batch 3, fast, trn1, LNC=1"


@pytest.mark.parametrize("size", [{"n": 1000}, {"shape": (4, 6)}])
@pytest.mark.parametrize("real", [False, True])
def test_plans_of_the_host_have_the_direction_that_was_asked_for(size, real):
    for inverse in (True, False, True):
        plan = trnfft.plan(**size, real=real, precision="double", inverse=inverse)
        assert (plan.inverse, plan.algorithm) == (inverse, "host")
        assert plan.title.startswith("inverse FFT" if inverse else "FFT")


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("n", torch.ones(3), TypeError),
        ("n", -(10**5000), ValueError),
        ("batch", torch.empty((), dtype=torch.int64, device="meta"), TypeError),
        ("shape", torch.tensor(4), TypeError),
        ("padded_from", np.array(4), TypeError),
        ("real", torch.tensor(True), TypeError),
        ("inverse", "no", TypeError),
        ("precision", np.array(["fast", "kahan"]), ValueError),
        ("precision", "x" * 10**6, ValueError),
        ("target", [], ValueError),
        ("target", "trn9", ValueError),
        ("algorithms", 3, TypeError),
        ("algorithms", [torch.ones(2)], ValueError),
        ("dtype", torch.ones(10**4), TypeError),
        ("max_error", 1j, TypeError),
        ("max_error", 10**5000, ValueError),
    ],
    ids=range(16),
)
def test_errors_name_the_argument(name, value, error):
    size = {} if name in ("n", "shape") else {"n": 8}
    with pytest.raises(error, match=f"argument '{name}' ") as caught:
        trnfft.plan(**size, **{name: value})
    assert len(str(caught.value)) < 800 and "\n" not in str(caught.value)


def test_files_may_have_every_kind():
    """The schema of remembered plans has the kinds of all algorithms."""
    kinds = {algorithm.kind for algorithm in ALGORITHMS.values()}
    assert kinds == set(get_args(schema.Kind)) == set(problem._TITLES)
