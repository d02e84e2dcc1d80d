"""torchaudio's layers compared with those of this library, and its Griffin-Lim, unchanged.

torchaudio 2.11.0 needs no compiled code here, but its wheel contains some for CUDA. Where
torchaudio cannot be imported, delete torchaudio/lib/*.so.
"""

import pytest
import torch

import trnfft
from tests.tolerances import near, sums, together
from tests.tolerances import transforms as of_transforms

from ..trnfft.samples import native, random
from .comparison import BACKENDS, assert_exact

try:
    from torchaudio import transforms
except (ImportError, OSError) as error:
    pytest.skip(f"torchaudio is not installed: {error}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filterbank")

# Of squares of spectra, which have twice their errors, here and in torchaudio.
POWERS = 2 * together(of_transforms(512, 2), sums(1))
KAISER = dict(window_fn=torch.kaiser_window, wkwargs=dict(periodic=True, beta=5.0))
SPECTROGRAMS = [
    {},
    dict(n_fft=64, win_length=50, hop_length=10, pad=7),
    dict(n_fft=63, power=1.0),
    dict(n_fft=64, power=None, normalized=True),
    dict(n_fft=64, power=None, normalized="frame_length"),
    dict(n_fft=64, power=0.5, onesided=False, center=False),
    dict(n_fft=64, pad_mode="constant", normalized="window", **KAISER),
]
MEL_SPECTROGRAMS = [
    {},
    dict(n_fft=512, n_mels=40, sample_rate=8000, f_min=100.0, f_max=3000.0),
    dict(n_fft=512, n_mels=40, norm="slaney", mel_scale="slaney", sample_rate=22050),
    dict(n_fft=256, n_mels=20, power=1.0, normalized=True, hop_length=32, norm="slaney"),
]
INVERSES = [
    dict(n_fft=64),
    dict(n_fft=64, win_length=50, hop_length=10, pad=7),
    dict(n_fft=64, normalized=True),
    dict(n_fft=64, normalized="frame_length", onesided=False),
]


def waveform():
    return random(2, 3, 1000, dtype=torch.float32)


@pytest.mark.parametrize("arguments", SPECTROGRAMS)
def test_spectrogram(arguments):
    actual = trnfft.nn.Spectrogram(**arguments)(waveform())
    near(native(actual), transforms.Spectrogram(**arguments)(waveform()), POWERS)


@pytest.mark.parametrize("arguments", MEL_SPECTROGRAMS)
def test_mel_spectrogram(arguments):
    ours, theirs = trnfft.nn.MelSpectrogram(**arguments), transforms.MelSpectrogram(**arguments)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # in which torchaudio then computes its bands
    try:
        exact = transforms.MelSpectrogram(**arguments).mel_scale.fb
    finally:
        torch.set_default_dtype(before)
    near(ours.mel_scale.fb, exact, sums(1))
    ours.load_state_dict(theirs.state_dict())
    near(ours(waveform()), theirs(waveform()), together(POWERS, sums(257)))


@pytest.mark.parametrize("length", [None, 1000])
@pytest.mark.parametrize("arguments", INVERSES)
def test_inverse_spectrogram(arguments, length):
    spectrum = transforms.Spectrogram(power=None, **arguments)(waveform())
    actual = trnfft.nn.InverseSpectrogram(**arguments)(spectrum, length)
    expected = transforms.InverseSpectrogram(**arguments)(spectrum, length)
    near(actual, expected, together(of_transforms(64, 2), sums(8)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_griffin_lim_unchanged(backend):
    magnitudes = transforms.Spectrogram(n_fft=64, power=1)(waveform()[0, 0])

    def results(x):
        x = x.clone().requires_grad_()
        layer = transforms.GriffinLim(64, n_iter=4, power=1, rand_init=False).to(x.dtype)
        y = layer(x)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), x)]

    with trnfft.patch_torch(), trnfft.backend(backend):
        actual = results(magnitudes)
    by_torch, exact = results(magnitudes), results(magnitudes.double())
    # Each step divides by magnitudes, of which some are small: errors grow as those of its input.
    noise = 1e-9 * random(*magnitudes.shape, seed=2)
    moved = results(magnitudes.double() * (1 + noise))
    for a, t, e, m in zip(actual, by_torch, exact, moved, strict=True):
        growth = float((m - e).norm() / e.norm()) / 1e-9
        assert_exact([a], [t], [e], growth * together(of_transforms(64, 2 * 5 * 2), sums(8)))
