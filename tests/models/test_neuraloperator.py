"""neuraloperator's Fourier neural operators: unchanged, and with the layer of this library."""

import copy

import pytest
import torch

import trnfft
from tests.tolerances import near

from ..trnfft.samples import random
from .comparison import (
    BACKENDS,
    MODEL,
    TRAINING,
    assert_accurate,
    assert_exact,
    losses_of_training,
    results,
    results_in_double,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the package
pytest.importorskip("neuralop", reason="neuraloperator is not installed")

from neuralop.models import FNO  # noqa: E402

CASES = {"1d": ((6,), (12,)), "2d": ((4, 6), (8, 10)), "3d": ((2, 4, 4), (4, 6, 8))}


def operator(modes, **arguments):
    torch.manual_seed(0)
    return FNO(modes, 2, 1, hidden_channels=4, n_layers=2, **arguments)


def points(sizes):
    return random(2, 2, *sizes, dtype=torch.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("modes, sizes", CASES.values(), ids=CASES)
def test_unchanged(modes, sizes, backend):
    with trnfft.backend(backend):
        assert_accurate(operator(modes), points(sizes))


@pytest.mark.parametrize("modes, sizes", CASES.values(), ids=CASES)
def test_training_unchanged(modes, sizes):
    model, x = operator(modes), points(sizes)
    expected = losses_of_training(copy.deepcopy(model), x)
    assert expected[-1] < expected[0]
    with trnfft.patch_torch(), trnfft.backend("matmul"):
        near(losses_of_training(model, x), expected, TRAINING)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("modes, sizes", CASES.values(), ids=CASES)
def test_with_the_layer_of_this_library(modes, sizes, backend):
    model, x = operator(modes), points(sizes)
    ours = operator(modes, conv_module=trnfft.nn.SpectralConv)
    ours.load_state_dict(model.state_dict())
    by_torch, exact = results(model, x)[:2], results_in_double(model, x)[:2]
    with trnfft.backend(backend):
        assert_exact(results(ours, x)[:2], by_torch, exact)  # the output, and its gradient in x
        losses = losses_of_training(ours, x)
    near(losses, losses_of_training(model, x), TRAINING)


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("factorization", ["Tucker", "CP", "TT"])
@pytest.mark.parametrize("modes, sizes", CASES.values(), ids=CASES)
def test_weights_in_factors(modes, sizes, factorization, separable):
    given = {"factorization": factorization, "rank": 0.4, "separable": separable}
    model = operator(modes, implementation="factorized", **given)
    ours = operator(modes, conv_module=trnfft.nn.SpectralConv, **given)
    ours.load_state_dict(model.state_dict())
    x = points(sizes)
    by_torch, exact = results(model, x)[:2], results_in_double(model, x)[:2]
    with trnfft.backend("nki-sim"):
        assert_exact(results(ours, x)[:2], by_torch, exact)
        losses = losses_of_training(ours, x)
    near(losses, losses_of_training(model, x), TRAINING)


@pytest.mark.parametrize("scale", [2, 0.5])
def test_other_resolutions(scale):
    model = operator((6,), resolution_scaling_factor=[scale, 1])
    ours = operator((6,), resolution_scaling_factor=[scale, 1], conv_module=trnfft.nn.SpectralConv)
    ours.load_state_dict(model.state_dict())
    x = points((16,))
    assert ours(x).shape == (2, 1, 16 * scale)
    near(ours(x), model(x), MODEL)


@pytest.mark.parametrize("modes, sizes", [((9,), (8,)), ((5, 4), (8, 6)), ((8, 8), (6, 4))])
def test_odd_numbers_of_modes_and_more_than_there_are(modes, sizes):
    model, ours = operator(modes), operator(modes, conv_module=trnfft.nn.SpectralConv)
    ours.load_state_dict(model.state_dict())
    near(ours(points(sizes)), model(points(sizes)), MODEL)
