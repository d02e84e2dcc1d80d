"""The operators of frames: one launch or a transform, with all derivatives.

The tests protect what layers and `stft` get from the operators: values and derivatives of first and
second order as torch.fft gives them in float64, in compiled code and under vmap, too.
"""

from __future__ import annotations

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from trnfft.nn import MelSpectrogram, Spectrogram
from trnfft.ops.frames import frame_bands, frame_spectra
from trnfft.planner import planner
from trnfft.planner.separate import SEPARATE

LAYERS = {
    "mel bands": lambda: MelSpectrogram(16000, 400, hop_length=160, n_mels=40),
    "absolute values": lambda: Spectrogram(64, hop_length=20, power=1.0, normalized=True),
    "frames apart": lambda: Spectrogram(
        100, hop_length=130, normalized="frame_length", center=False
    ),
    "bands of absolute values": lambda: MelSpectrogram(
        8000, 128, hop_length=50, n_mels=16, power=1.0, norm="slaney", pad=3
    ),
}


@pytest.fixture(autouse=True)
def _chip(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)


@pytest.fixture(params=LAYERS)
def layer(request):
    return LAYERS[request.param]()


def weights_of(y):
    """Weights of a sum of a result, of which no frequency is much larger than others."""
    return torch.cos(torch.arange(y.numel()).double().square()).to(y.dtype).reshape(y.shape)


def close(found, expected, tolerance=1e-5):
    assert found.shape == expected.shape
    assert (found.double() - expected.double()).norm() <= tolerance * expected.double().norm()


def derivatives(function, x):
    """A result, its derivative, and the derivative of the sum of that one's squares."""
    x = x.clone().requires_grad_()
    y = function(x)
    (first,) = torch.autograd.grad((y * weights_of(y)).sum(), x, create_graph=True)
    if not first.requires_grad:
        return [y.detach(), first]
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return [y.detach(), first.detach(), second]


def exact(function, x):
    with trnfft.backend("torch"):
        return derivatives(function, x.double())


def stft(x, n=128, hop=40, **options):
    window = torch.hann_window(n, dtype=x.dtype)
    return trnfft.stft(x, n, hop, window=window, return_complex=True, **options)


def parts(z):
    return torch.stack([z.real, z.imag])


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
def test_values_and_derivatives_of_layers(layer, backend):
    x = torch.randn(2, 3, 1000)
    expected = exact(in_double(layer), x)
    with trnfft.backend(backend):
        found = derivatives(layer, x)
    # The curvature of absolute values is large where they are small.
    for one, other, tolerance in zip(found, expected, (1e-5, 1e-5, 1e-4), strict=True):
        close(one, other, tolerance)


def in_double(layer):
    """The layer in float64, with copies of its buffers."""

    def computed(x):
        buffers = {name: b.double() for name, b in layer.named_buffers()}
        return torch.func.functional_call(layer, buffers, (x,))

    return computed


def test_one_launch_reads_samples_and_writes_bands(layer):
    x = torch.randn(2, 3, 1000)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        y = layer(x)
    assert timeline.launches == 1
    frames = x.shape[0] * x.shape[1] * 1100 // 20 * 130
    assert timeline.hbm_bytes < 4 * (y.numel() + frames + 400 * 1000)


@pytest.mark.parametrize("options", [{}, {"center": False, "normalized": True}])
@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
def test_values_and_derivatives_of_stft(options, backend):
    x = torch.randn(3, 700)
    with trnfft.backend("torch"):
        expected = derivatives(lambda x: parts(stft(x, **options)), x.double())
    with trnfft.backend(backend), nki_sim.record() as timeline:
        y = stft(x, **options)
        assert timeline.launches == (backend == "nki-sim")
        assert y.is_complex() and y.shape == expected[0].shape[1:]
        found = derivatives(lambda x: parts(stft(x, **options)), x)
        one = stft(x[0], **options)
    close(parts(one), expected[0][:, 0])
    for one, other in zip(found, expected, strict=True):
        close(one, other)


def test_a_window_has_a_derivative():
    x, window = torch.randn(2, 300), torch.randn(96)

    def of_window(spectra, window, x):
        y = parts(spectra(x, window, 30, 0.5))
        return (y * weights_of(y)).sum() + y.pow(4).sum()

    def second(dtype):
        values = [t.to(dtype).clone().requires_grad_() for t in (window, x)]
        first = torch.autograd.grad(of_window(frame_spectra, *values), values, create_graph=True)
        return *first, *torch.autograd.grad(sum(g.square().sum() for g in first), values)

    with trnfft.backend("nki-sim"):
        found = second(torch.float32)
    with trnfft.backend("torch"):
        expected = second(torch.float64)
    for one, other in zip(found, expected, strict=True):
        close(one, other)


def test_absolute_values_have_the_derivative_0_at_silence():
    x = torch.zeros(1, 512, requires_grad=True)
    with trnfft.backend("nki-sim"):
        y = frame_bands(x, torch.ones(64), None, 64, 1)
        y.sum().backward()
    assert not y.any() and not x.grad.any()


@pytest.mark.parametrize("backend", ["torch", "nki-sim"])
def test_compiled(layer, backend):
    torch.compiler.reset()
    x = torch.randn(2, 1000, requires_grad=True)
    with trnfft.backend(backend):
        y = torch.compile(layer, fullgraph=True)(x)
        (gradient,) = torch.autograd.grad((y * weights_of(y)).sum(), x)
        close(y.detach(), layer(x.detach()))
        close(gradient, exact(in_double(layer), x.detach())[1])


@pytest.mark.parametrize("backend", ["torch", "nki-sim"])
def test_compiled_stft(backend):
    torch.compiler.reset()
    x = torch.randn(2, 700, requires_grad=True)
    with trnfft.backend(backend):
        y = torch.compile(lambda x: parts(stft(x)), fullgraph=True)(x)
        (gradient,) = torch.autograd.grad((y * weights_of(y)).sum(), x)
    expected = exact(lambda x: parts(stft(x)), x.detach())
    close(y.detach(), expected[0])
    close(gradient, expected[1])


@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_functional_transforms(layer, backend):
    x = torch.randn(3, 2, 1000)
    with trnfft.backend(backend):
        close(torch.func.vmap(layer)(x), layer(x))
        mapped = torch.func.vmap(lambda x: parts(stft(x)))(x)
        close(mapped.transpose(0, 1), torch.stack([parts(stft(one)) for one in x], 1))
        gradients = torch.func.vmap(torch.func.grad(lambda x: stft(x).abs().square().sum()))(x)
        leaf = x.clone().requires_grad_()
        sum(stft(one).abs().square().sum() for one in leaf).backward()
        close(gradients, leaf.grad)
        windows = torch.randn(4, 64)
        signal = x[0].contiguous()
        many = torch.func.vmap(lambda w: parts(frame_spectra(signal, w, 20)))(windows)
        close(many[2], parts(frame_spectra(signal, windows[2], 20)))


def test_results_may_be_written_into():
    x = torch.randn(2, 1000)
    with trnfft.backend("nki-sim"):
        y = Spectrogram(64)(x)
        expected = y + 1
        y.add_(1)
    assert torch.equal(y, expected)


def test_a_bad_signal_does_not_spoil_others(layer):
    x = torch.randn(3, 1000)
    x[1, 450] = float("nan")
    with trnfft.backend("nki-sim"):
        y, z = layer(x), parts(stft(x))
    assert torch.isfinite(y[[0, 2]]).all() and torch.isnan(y[1]).any()
    assert torch.isfinite(z[:, [0, 2]]).all() and torch.isnan(z[:, 1]).any()


def test_long_frames_are_transforms():
    plan = planner.plan_frames(1 << 14, 1 << 12, batch=20, power=None, target="trn2")
    assert plan.algorithm == SEPARATE
    x = torch.randn(1, 1 << 15)
    with trnfft.backend("nki-sim"):
        y = stft(x, 1 << 14, 1 << 12)
    with trnfft.backend("torch"):
        close(parts(y), parts(stft(x.double(), 1 << 14, 1 << 12)))


def test_bad_arguments_of_a_plan():
    with pytest.raises(ValueError, match="argument 'power' is 3, allowed are None, 1 and 2"):
        planner.plan_frames(64, 16, power=3)
    with pytest.raises(ValueError, match="argument 'bands' is 8, allowed is None"):
        planner.plan_frames(64, 16, power=None, bands=8)
    with pytest.raises(ValueError, match="argument 'hop' is 0"):
        planner.plan_frames(64, 0)
