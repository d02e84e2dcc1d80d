"""Operators of fused launches beside torch: fake kernels, forward mode, torch.func, patch_torch."""

from __future__ import annotations

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from trnfft.nn import MelSpectrogram, SpectralConv1d, Spectrogram
from trnfft.ops import frames, spectral_convolution

# Layers that one launch computes.
LAYERS = {
    "spectral convolution": (lambda: SpectralConv1d(8, 6, 9), (5, 8, 64)),
    "powers": (lambda: Spectrogram(400, hop_length=160), (3, 20000)),
    "bands": (lambda: MelSpectrogram(n_fft=512, hop_length=128, n_mels=16), (3, 20000)),
}
OPERATORS = {
    "convolution": (
        spectral_convolution._convolution,
        [(5, 8, 64), *[(8, 6, 9)] * 2],
        (True, False),
    ),
    "adjoint": (spectral_convolution._convolution, [(5, 6, 64), *[(8, 6, 9)] * 2], (False, True)),
    "kept": (spectral_convolution._kept, [(5, 8, 64), *[(8, 6, 9)] * 2], (True,)),
    "gradients": (
        spectral_convolution._gradients,
        [(5, 6, 64), (5, 9, 2, 8), *[(8, 6, 9)] * 2],
        (False,),
    ),
    "powers": (frames._frame_bands, [(3, 20000), (400,)], (None, 160, 2, 1.0)),
    "bands": (frames._frame_bands, [(3, 20000), (400,), (201, 9)], (160, 1, 0.3)),
}


@pytest.fixture(autouse=True)
def on_a_chip(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)


@pytest.fixture(params=LAYERS)
def layer_and_input(request):
    make, shape = LAYERS[request.param]
    return make().requires_grad_(False), torch.randn(shape)


def check(found, expected, tolerance=1e-6):
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("backend", ["", "nki-sim"])
@pytest.mark.parametrize("name", OPERATORS)
def test_schemas_and_fake_kernels(name, backend):
    """For both kinds of calls: of a backend, as in eager mode, and of that of the context."""
    operator, shapes, settings = OPERATORS[name]
    arguments = (*map(torch.randn, shapes), *settings, backend)
    with trnfft.backend("nki-sim"):
        torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


def test_forward_mode(layer_and_input):
    layer, x = layer_and_input
    dx = torch.randn(x.shape)
    with trnfft.backend("torch"):
        expected = torch.func.jvp(layer, (x,), (dx,))[1]
    with trnfft.backend("nki-sim"):
        check(torch.func.jvp(layer, (x,), (dx,))[1], expected)


def test_gradients_by_torch_func(layer_and_input):
    layer, x = layer_and_input
    both = torch.stack([x, 2 * x])

    def gradients(both):
        return torch.func.vmap(torch.func.grad(lambda x: layer(x).square().sum()))(both)

    with trnfft.backend("torch"):
        expected = gradients(both)
    with trnfft.backend("nki-sim"):
        check(gradients(both), expected)


def test_compiled_vmap_and_dynamic_shapes(layer_and_input):
    layer, x = layer_and_input
    expected = layer(x)
    torch.compiler.reset()
    with trnfft.backend("nki-sim"):
        many = torch.compile(torch.func.vmap(layer), fullgraph=True, backend="aot_eager")
        check(many(torch.stack([2 * x, x]))[1], expected)
        torch.compiler.reset()
        dynamic = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
        check(dynamic(x), expected)


def test_patched_torch_leaves_them_working(layer_and_input):
    layer, x = layer_and_input
    expected = layer(x)
    torch.compiler.reset()
    with trnfft.backend("nki-sim"), trnfft.patch_torch():
        with nki_sim.record() as timeline:
            check(layer(x), expected)
        assert timeline.launches == 1
        check(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), expected)
