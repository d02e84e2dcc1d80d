"""The operators of spectral convolutions: one launch or transforms, with all derivatives."""

from __future__ import annotations

import math

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from tests import sweeps
from tests.operands import of_tensors
from tests.tolerances import near, relative_error, sums, together, transforms
from trnfft.complex.dispatch import Parts
from trnfft.nn import SpectralConv, SpectralConv1d, SpectralConv2d, SpectralConv3d
from trnfft.ops import spectral_convolution as ops_spectral_convolution
from trnfft.planner import planner
from trnfft.planner.accuracy import MAX_ERRORS
from trnfft.planner.kinds import SpectralLayer
from trnfft.planner.separate import SEPARATE

from .derivatives import (
    BACKENDS,
    all_near,
    double,
    gradients,
    in_double,
    layer_gradients,
)

by_transforms = of_tensors(ops_spectral_convolution.by_transforms)
spectral_convolution = of_tensors(ops_spectral_convolution.spectral_convolution)

# Layers that one launch computes, of which the last has negative frequencies first.
LAYERS = {
    "one axis": (lambda: SpectralConv1d(4, 6, 9), (5, 4, 32)),
    "two axes": (lambda: SpectralConv2d(4, 3, 3, 4), (3, 4, 8, 12)),
    "three axes": (lambda: SpectralConv3d(2, 3, 2, 2, 3), (2, 2, 8, 4, 6)),
    "neural operator": (lambda: SpectralConv(4, 5, (7, 6)), (3, 4, 12, 12)),
}


def layer_and_input_of(name):
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    return make(), torch.randn(shape)


@pytest.fixture(autouse=True)
def on_a_chip(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")


@pytest.fixture(params=LAYERS)
def layer_and_input(request):
    return layer_and_input_of(request.param)


def exact(layer, x):
    """Returns the same in float64, by torch.fft."""
    return layer_gradients(layer, x, lambda *arguments: in_double(gradients, *arguments))


def tolerance(x, count=2):
    """Returns that of `count` transforms, and of sums over channels and samples."""
    return together(transforms(math.prod(x.shape[2:]), count), sums(2 * x.shape[1] * x.shape[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_and_gradients(layer_and_input, backend):
    """In one launch, and with gradients in at most three: where these are no kernel, transforms."""
    layer, x = layer_and_input
    expected = exact(layer, x)
    with trnfft.backend(backend):
        with torch.no_grad(), nki_sim.record() as timeline:
            y = layer(x)
        assert timeline.launches == (backend == "nki-sim")
        with nki_sim.record() as timeline:
            found = layer_gradients(layer, x)
        assert timeline.launches <= 3
    near(y, expected[0], tolerance(x))
    all_near(found, expected, tolerance(x))


def test_second_derivatives(layer_and_input):
    layer, x = layer_and_input
    weight, other = (p.detach() for p in list(layer.parameters())[:2])
    is_centered = isinstance(layer, SpectralConv)

    def second(function, x, weight):
        leaves = [leaf.clone().requires_grad_() for leaf in (x, weight)]
        y = function(leaves[0], Parts(leaves[1], other.to(weight.dtype)), is_centered)
        first = torch.autograd.grad(y.pow(3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    with trnfft.backend("nki-sim"):
        found = second(spectral_convolution, x, weight)
    with trnfft.backend("torch"):
        expected = second(lambda *a: by_transforms(*a)[0], x.double(), weight.double())
    all_near(found, expected, tolerance(x, 8))


def test_what_no_kernel_takes_are_transforms(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn1")
    plan = planner.plan_for(SpectralLayer(64, 64, (1024,), (513,)), batch=4, target="trn1")
    assert plan.algorithm == SEPARATE and plan.launches == 2
    assert plan.candidates[1].rejected.startswith("takes ")
    for lengths, reason in (
        ((4, 4, 4, 4), "takes one to three axes, not 4"),
        ((4, 130, 4), "takes up to 128 points along three axes"),
    ):
        counts = (2,) * len(lengths)
        plan = planner.plan_for(SpectralLayer(2, 2, lengths, counts), target="trn1")
        assert plan.algorithm == SEPARATE
        assert plan.candidates[1].rejected == reason
    layer, x = SpectralConv3d(2, 2, 1, 1, 2), torch.randn(1, 2, 4, 130, 4)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        found = layer_gradients(layer, x)
    assert timeline.launches == 4
    all_near(found, exact(layer, x), tolerance(x))


@pytest.mark.parametrize("precision", ["kahan", "double"])
def test_other_precisions_are_transforms(precision):
    layer, x = SpectralConv1d(2, 3, 5), torch.randn(2, 2, 32)
    with trnfft.backend("nki-sim"), trnfft.precision(precision), torch.no_grad():
        y = layer(x)
    with trnfft.backend("torch"), torch.no_grad():
        near(y, double(layer)(x.double()), tolerance(x))
    with pytest.raises(NotImplementedError, match=f"precision '{precision}'"):
        planner.plan_for(SpectralLayer(2, 3, (32,), (5,)), precision=precision)


@sweeps.some(
    "name, precision",
    [(name, precision) for name in LAYERS for precision in ("bf16", "bf16_refined")],
    [("one axis", "bf16"), ("three axes", "bf16"), ("two axes", "bf16_refined")],
)
def test_bfloat16_modes(name, precision):
    """One launch for the layer, of which every result has an error that the mode allows."""
    layer, x = layer_and_input_of(name)
    with trnfft.backend("nki-sim"), trnfft.precision(precision):
        with torch.no_grad(), nki_sim.record() as timeline:
            layer(x)
        found = layer_gradients(layer, x)
    assert timeline.launches == 1
    expected = exact(layer, x)
    all_near(found, expected, MAX_ERRORS[precision])
    if precision == "bf16" and x.ndim < 5:  # along three axes, the kernel of "fast" is used
        assert relative_error(found[0], expected[0]) >= 1e-4
