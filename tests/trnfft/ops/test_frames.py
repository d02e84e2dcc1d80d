"""The operators of frames: one launch or a transform, with all derivatives.

The tests protect what layers and `stft` get from the operators: values and derivatives of first and
second order as torch.fft gives them in float64, in compiled code and under vmap, too.
"""

import itertools

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from tests import sweeps
from tests.operands import of_tensors
from tests.tolerances import near, sums, together, transforms
from trnfft.nn import MelSpectrogram, Spectrogram
from trnfft.ops import frames as ops_frames
from trnfft.planner import planner
from trnfft.planner.kinds import Frames
from trnfft.planner.separate import SEPARATE

from .derivatives import (
    BACKENDS,
    all_near,
    double,
    in_double,
    parts,
    second_derivatives,
    weights_of,
)

frame_bands = of_tensors(ops_frames.frame_bands)
frame_spectra = of_tensors(ops_frames.frame_spectra)

# Each is one launch. The first has frames longer than a tile of a tensor engine.
LAYERS = {
    "mel bands": lambda: MelSpectrogram(16000, 160, hop_length=64, n_mels=12),
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


def derivatives(function, x):
    """Returns a result, its derivative, and the derivative of the sum of that one's squares."""
    x = x.clone().requires_grad_()
    y = function(x)
    (first,) = torch.autograd.grad((y * weights_of(y)).sum(), x, create_graph=True)
    if not first.requires_grad:
        return [y.detach(), first]
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return [y.detach(), first.detach(), second]


def tolerances(layer, x):
    """Returns those of a layer's `derivatives`.

    The error of the phase of a number is relative to that number: it is that of the transform times
    a factor where the number is small. The first derivative contains all phases, and the second one
    is divided by absolute values.
    """
    frames = getattr(layer, "spectrogram", layer)
    n, hop = frames.n_fft, frames.hop_length
    first = second = 1.0
    if frames.power == 1:
        with trnfft.backend("torch"):
            padded = torch.nn.functional.pad(x.flatten(0, -2).double(), (frames.pad,) * 2)
            spectra = stft(padded, n, hop)
        if layer is not frames:
            spectra = spectra[:, layer.mel_scale.fb.any(1)]
        factors = spectra.abs().square().mean().sqrt() / spectra.abs()
        first = factors.square().mean().sqrt().item()
        second = (factors.pow(4).mean() / factors.square().mean()).sqrt().item()
    bands = sums(n // 2 + 1)
    return [
        together(transforms(n, 2), bands),
        together(transforms(n, 1 + first**2), bands),
        together(transforms(n, 3 + second**2), bands),
    ]


def stft(x, n=128, hop=40, **options):
    window = torch.hann_window(n, dtype=x.dtype)
    return trnfft.stft(x, n, hop, window=window, return_complex=True, **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_and_derivatives_of_layers(layer, backend):
    x = torch.randn(2, 3, 300)
    expected = in_double(derivatives, double(layer), x)
    allowed = tolerances(layer, x)
    with trnfft.backend(backend):
        with nki_sim.record() as timeline:
            y = layer(x)
        found = derivatives(layer, x)
    assert timeline.launches == (backend == "nki-sim")
    near(y, expected[0], allowed[0])
    all_near(found, expected, allowed[: len(found)])


@sweeps.some(
    "options, backend",
    itertools.product([{}, {"center": False, "normalized": True}], BACKENDS),
    [({}, "nki-sim"), ({}, "matmul"), ({"center": False, "normalized": True}, "torch")],
)
def test_values_and_derivatives_of_stft(options, backend):
    x = torch.randn(3, 300)
    expected = in_double(derivatives, lambda x: parts(stft(x, **options)), x)
    with trnfft.backend(backend), nki_sim.record() as timeline:
        y = stft(x, **options)
        assert timeline.launches == (backend == "nki-sim")
        assert y.is_complex() and y.shape == expected[0].shape[1:]
        found = derivatives(lambda x: parts(stft(x, **options)), x)
        one = stft(x[0], **options)
    near(parts(one), expected[0][:, 0], transforms(128))
    all_near(found, expected, [transforms(128)] * len(found))


def test_a_window_has_a_derivative():
    x, window = torch.randn(2, 200), torch.randn(96)

    def of_window(window, x):
        y = parts(frame_spectra(x, window, 30, 0.5))
        return y * weights_of(y) + y.pow(4)

    with trnfft.backend("nki-sim"):
        found = second_derivatives(of_window, window, x)
    first = together(transforms(96, 3), sums(10))
    second = together(transforms(96, 6), sums(10))
    expected = in_double(second_derivatives, of_window, window, x)
    all_near(found, expected, [first, first, second, second])


def test_absolute_values_have_the_derivative_0_at_silence():
    x = torch.zeros(1, 512, requires_grad=True)
    with trnfft.backend("nki-sim"):
        y = frame_bands(x, torch.ones(64), None, 64, 1)
        y.sum().backward()
    assert not y.any() and not x.grad.any()


@sweeps.some("backend", ["torch", "nki-sim"], ["nki-sim"])
def test_compiled_stft(backend):
    torch.compiler.reset()
    x = torch.randn(2, 300, requires_grad=True)
    run = torch.compile(lambda x: parts(stft(x)), fullgraph=True, backend="aot_eager")
    with trnfft.backend(backend):
        y = run(x)
        (gradient,) = torch.autograd.grad((y * weights_of(y)).sum(), x)
    expected = in_double(derivatives, lambda x: parts(stft(x)), x)
    all_near([y, gradient], expected[:2], transforms(128))


@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_functional_transforms(backend):
    x, windows = torch.randn(3, 2, 300), torch.randn(4, 64)

    def energy(x):
        return stft(x).abs().square().sum()

    with trnfft.backend(backend):
        mapped = torch.func.vmap(lambda x: parts(stft(x)))(x)
        gradients = torch.func.vmap(torch.func.grad(energy))(x)
        many = torch.func.vmap(lambda w: parts(frame_spectra(x[0], w, 20)))(windows)
    wide, leaf = x.double(), x.double().requires_grad_()
    with trnfft.backend("torch"):
        near(mapped, torch.stack([parts(stft(one)) for one in wide]), transforms(128))
        sum(map(energy, leaf)).backward()
        near(gradients, leaf.grad, transforms(128, 2))
        each = [parts(frame_spectra(wide[0], window, 20)) for window in windows.double()]
        near(many, torch.stack(each), transforms(64))


def test_results_may_be_written_into():
    x = torch.randn(2, 300)
    with trnfft.backend("nki-sim"):
        y = Spectrogram(64)(x)
        expected = y + 1
        y.add_(1)
    assert torch.equal(y, expected)


@pytest.mark.parametrize(
    "layer",
    [name if name in ("mel bands", "frames apart") else sweeps.whole(name) for name in LAYERS],
    indirect=True,
)
def test_a_bad_signal_does_not_spoil_others(layer):
    x = torch.randn(3, 300)
    x[1, 150] = float("nan")
    with trnfft.backend("nki-sim"):
        y, z = layer(x), parts(stft(x))
    assert torch.isfinite(y[[0, 2]]).all() and torch.isnan(y[1]).any()
    assert torch.isfinite(z[:, [0, 2]]).all() and torch.isnan(z[:, 1]).any()


def test_long_frames_are_transforms():
    plan = planner.plan_for(Frames(1 << 14, 1 << 12, power=None), batch=20, target="trn2")
    assert plan.algorithm == SEPARATE
    x = torch.randn(1, 1 << 15)
    with trnfft.backend("nki-sim"):
        y = stft(x, 1 << 14, 1 << 12)
    with trnfft.backend("torch"):
        near(parts(y), parts(stft(x.double(), 1 << 14, 1 << 12)), transforms(1 << 14))


@pytest.mark.parametrize(
    "hop, options, message",
    [
        (16, {"power": 3}, "'power' is 3, allowed are None, 1 and 2"),
        (16, {"power": None, "bands": 8}, "'bands' is 8, allowed is None"),
        (0, {}, "'hop' is 0"),
    ],
)
def test_bad_arguments_of_a_plan(hop, options, message):
    with pytest.raises(ValueError, match=f"argument {message}"):
        Frames(64, hop, **options)
