"""Operators of fused launches beside torch: fake kernels, forward mode, torch.func, patch_torch."""

from __future__ import annotations

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from trnfft.nn import MelSpectrogram, SpectralConv1d, Spectrogram
from trnfft.ops import frames, spectral_convolution

from .derivatives import double, in_double

# Layers that one launch computes.
LAYERS = {
    "spectral convolution": (lambda: SpectralConv1d(4, 6, 9), (5, 4, 32)),
    "powers": (lambda: Spectrogram(64, hop_length=20), (3, 300)),
    "bands": (lambda: MelSpectrogram(n_fft=128, hop_length=50, n_mels=8), (3, 300)),
}
WEIGHT = [(4, 6, 9)] * 2
OPERATORS = {
    "convolution": (spectral_convolution._convolution, [(5, 4, 32), *WEIGHT], (True, False)),
    "adjoint": (spectral_convolution._convolution, [(5, 6, 32), *WEIGHT], (False, True)),
    "kept": (spectral_convolution._kept, [(5, 4, 32), *WEIGHT], (True,)),
    "gradients": (
        spectral_convolution._gradients,
        [(5, 6, 32), (5, 9, 2, 4), *WEIGHT],
        (False,),
    ),
    "powers": (frames._frame_bands, [(3, 300), (64,)], (None, 20, 2, 1.0)),
    "bands": (frames._frame_bands, [(3, 300), (64,), (33, 9)], (20, 1, 0.3)),
}
TOLERANCE = together(transforms(128, 4), sums(16))  # of derivatives of all layers above


@pytest.fixture(autouse=True)
def on_a_chip(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)


def layer_and_input(name):
    make, shape = LAYERS[name]
    return make().requires_grad_(False), torch.randn(shape)


def exact(layer, x):
    with trnfft.backend("torch"):
        return double(layer)(x.double())


@pytest.mark.parametrize("backend", ["", "nki-sim"])
@pytest.mark.parametrize("name", OPERATORS)
def test_schemas_and_fake_kernels(name, backend):
    """For both kinds of calls: of a backend, as in eager mode, and of that of the context."""
    operator, shapes, settings = OPERATORS[name]
    arguments = (*map(torch.randn, shapes), *settings, backend)
    with trnfft.backend("nki-sim"):
        torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("name", LAYERS)
def test_forward_mode(name):
    layer, x = layer_and_input(name)
    dx = torch.randn(x.shape)

    def tangent(function, x, dx):
        return torch.func.jvp(function, (x,), (dx,))[1]

    with trnfft.backend("nki-sim"):
        found = tangent(layer, x, dx)
    near(found, in_double(tangent, double(layer), x, dx), TOLERANCE)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_by_torch_func(name):
    layer, x = layer_and_input(name)

    def gradients(function, both):
        return torch.func.vmap(torch.func.grad(lambda x: function(x).square().sum()))(both)

    both = torch.stack([x, 2 * x])
    with trnfft.backend("nki-sim"):
        found = gradients(layer, both)
    near(found, in_double(gradients, double(layer), both), TOLERANCE)


@sweeps.some("name", LAYERS, ["spectral convolution", "bands"])
def test_compiled_vmap_and_dynamic_shapes(name):
    layer, x = layer_and_input(name)
    expected = exact(layer, x)
    torch.compiler.reset()
    with trnfft.backend("nki-sim"):
        many = torch.func.vmap(layer)
        many = torch.compile(many, fullgraph=True, dynamic=True, backend="aot_eager")
        near(many(torch.stack([2 * x, x]))[1], expected, TOLERANCE)


@sweeps.some("name", LAYERS, ["spectral convolution"])
def test_patched_torch_leaves_them_working(name):
    layer, x = layer_and_input(name)
    expected = exact(layer, x)
    torch.compiler.reset()
    with trnfft.backend("nki-sim"), trnfft.patch_torch():
        with nki_sim.record() as timeline:
            near(layer(x), expected, TOLERANCE)
        assert timeline.launches == 1
        run = torch.compile(layer, fullgraph=True, backend="aot_eager")
        near(run(x), expected, TOLERANCE)
