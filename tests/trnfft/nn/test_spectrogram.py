"""Spectrograms, compared with torch.stft and with triangles that NumPy computes one by one."""

import numpy as np
import pytest
import torch

import trnfft
from tests.definitions import triangles
from tests.fuzz.layers import LAYERS
from tests.refusals import called, refused
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.samples import BACKENDS, native, random, single
from trnfft.nn import InverseSpectrogram, MelScale, MelSpectrogram, Spectrogram

# Squares of transforms of 64 points, which double errors, and sums of up to 33 of them.
MEL = together(2 * transforms(64), sums(33))


@pytest.mark.parametrize("scale", ["htk", "slaney"])
@pytest.mark.parametrize("norm", [None, "slaney"])
@pytest.mark.parametrize("least, most", [(0.0, 4000.0), (300.0, 3000.0)])
def test_filter_bank(scale, norm, least, most):
    expected = triangles(10, 8000, least, most, 65, norm, scale)
    actual = MelScale(10, 8000, least, most, 65, norm, scale).fb
    # Corners of triangles cancel: numbers near 1 less numbers near 1.
    near(actual, expected, sums(16))


def test_the_last_triangle_ends_at_half_the_rate_by_default():
    assert torch.equal(MelScale(8, 8000).fb, MelScale(8, 8000, f_max=4000.0).fb)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mel_spectrogram(backend):
    x = single(2, 3, 300)
    layer = MelSpectrogram(8000, 64, hop_length=20, n_mels=10)
    window = torch.hann_window(64, dtype=torch.float64)
    spectrum = torch.stft(x.double().flatten(0, 1), 64, 20, window=window, return_complex=True)
    bank = triangles(10, 8000, 0, 4000, 33, None, "htk")
    expected = (bank.T @ spectrum.abs().square()).unflatten(0, (2, 3))
    with trnfft.backend(backend):
        actual = layer(x)
    assert actual.dtype == torch.float32
    near(actual, expected, MEL)


SPECTROGRAMS = [
    *[dict(power=power) for power in (1, 2, 3, None)],
    dict(win_length=24, hop_length=6, pad=7),
    dict(normalized=True),
    dict(normalized="window", pad_mode="constant"),
    dict(normalized="frame_length", power=None),
    dict(power=0.5, onesided=False, center=False),
    dict(window_fn=torch.kaiser_window),
]


@pytest.mark.parametrize("options", SPECTROGRAMS)
def test_arguments_of_a_spectrogram(options):
    x = single(3, 100)
    expected = LAYERS["nn.Spectrogram"].reference(x.double(), 32, **options)
    # Powers multiply errors by at most 3.
    near(Spectrogram(32, **options)(x), expected, 3 * transforms(32, 2))


@pytest.mark.parametrize("normalized", [False, True, "window", "frame_length"])
@pytest.mark.parametrize("pad", [0, 5])
def test_inverse_gives_the_signal_back(normalized, pad):
    x = random(2, 3, 100)
    settings = dict(n_fft=32, win_length=24, hop_length=6, pad=pad, normalized=normalized)
    spectra = Spectrogram(power=None, **settings)(x)
    # A window of float32 times its square, over the sum of these.
    tolerance = together(transforms(32, 2), sums(8))
    near(InverseSpectrogram(**settings)(spectra, 100), x, tolerance)
    signal = InverseSpectrogram(**settings)(native(spectra))
    near(signal[..., pad : pad + 90], x[..., :90], tolerance)


def test_silence_has_a_gradient():
    x = torch.zeros(64, requires_grad=True)
    Spectrogram(32)(x).sum().backward()
    assert torch.equal(x.grad, torch.zeros(64))


test_errors = refused(
    called,
    [
        (lambda: Spectrogram(normalized="area"), ValueError, "argument 'normalized' is 'area'"),
        (lambda: MelSpectrogram(power=None), ValueError, "argument 'power' is None"),
        (lambda: MelSpectrogram(mel_scale="bark"), ValueError, "argument 'mel_scale' is 'bark'"),
        (lambda: MelSpectrogram(norm="l2"), ValueError, "argument 'norm' is 'l2'"),
        (lambda: MelSpectrogram(n_mels=0), ValueError, "argument 'n_mels' is 0"),
        (lambda: MelSpectrogram(f_min=9000.0), ValueError, "argument 'f_min' is 9000.0"),
        (lambda: Spectrogram("8"), TypeError, "'n_fft'"),
        (lambda: Spectrogram(0), ValueError, "'n_fft' is 0"),
        (lambda: Spectrogram(2**45), RuntimeError, "'n_fft' and 'win_length' are 35184372088832"),
        (lambda: Spectrogram(8, hop_length=2.5), TypeError, "'hop_length'"),
        (lambda: Spectrogram(8, pad=-1), ValueError, "'pad' is -1"),
        (lambda: Spectrogram(8, power="2"), TypeError, "'power'"),
        (lambda: Spectrogram(8, normalized=torch.ones(2)), ValueError, "'normalized'"),
        (lambda: Spectrogram(8, window_fn=None), TypeError, "'window_fn' is None"),
        (lambda: Spectrogram(8, window_fn=np.ones), TypeError, "'window_fn' makes .*ndarray"),
        (lambda: Spectrogram(8, window_fn=lambda n: torch.ones(9)), TypeError, r"shape \(9,\)"),
        (lambda: Spectrogram(8, wkwargs=3), TypeError, "'wkwargs' is 3"),
        (lambda: MelScale(8, None), TypeError, "'sample_rate'"),
        (lambda: MelScale(8, f_max=1j), TypeError, "'f_max'"),
        (lambda: MelScale(8, f_min=-800), ValueError, "'f_min' is -800"),
        (lambda: MelScale(2**40), RuntimeError, "'n_mels' and 'n_stft' are 1099511627776"),
    ],
)


test_errors_of_inputs = refused(
    lambda layer, input: layer(input),
    [
        (Spectrogram(8), None, TypeError, "'waveform'"),
        (Spectrogram(8), torch.tensor(1.0), IndexError, "no dimensions"),
        (Spectrogram(8), torch.ones(0, 20), RuntimeError, "'input'|'n_fft'"),
        (Spectrogram(8, pad=2**45), torch.ones(20), RuntimeError, "'pad' is 35184372088832"),
        (MelSpectrogram(n_fft=8, n_mels=2), torch.ones(20) * 1j, TypeError, "'waveform'"),
        (MelScale(2, n_stft=5), torch.ones(4, 3), RuntimeError, r"'specgram' .*\[..., 5, T\]"),
        (InverseSpectrogram(8), torch.ones(3), RuntimeError, "'spectrogram'"),
        (InverseSpectrogram(8), torch.ones(5, 3, dtype=torch.int8), TypeError, "'spectrogram'"),
    ],
)


def test_numbers_of_numpy_are_computed_with_in_double_precision():
    assert torch.equal(MelScale(8, f_min=np.float16(0.5)).fb, MelScale(8, f_min=0.5).fb)


@pytest.mark.parametrize("backend", ["torch", "nki-sim"])
def test_parts_of_a_mel_spectrogram_may_be_replaced(backend):
    x, layer = single(100), MelSpectrogram(8000, 32, n_mels=6)
    with trnfft.backend(backend):
        expected = layer(x)
        layer.spectrogram = torch.nn.Sequential(layer.spectrogram)
        near(layer(x), expected, MEL)
        layer.mel_scale = torch.nn.Identity()
        assert layer(x).shape == (17, 7)


@pytest.mark.parametrize("name", ["center", "onesided"])
def test_flags_are_checked_where_a_kernel_computes(name):
    with trnfft.backend("nki-sim"), pytest.raises(TypeError, match=f"argument '{name}' is 'x'"):
        Spectrogram(32, **{name: "x"})(torch.randn(100))


@pytest.mark.parametrize("center", [True, False])
def test_exported_layers_take_any_batch(center):
    layer = MelSpectrogram(8000, 32, n_mels=6, center=center)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(layer, (torch.randn(2, 100),), dynamic_shapes=({0: batch},))
    x = single(5, 100)
    near(program.module()(x), layer(x), MEL)
