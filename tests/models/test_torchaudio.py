"""torchaudio's layers compared with those of this library, and its Griffin-Lim, unchanged.

torchaudio 2.11.0 needs no compiled code here, but its wheel contains some for CUDA. Where
torchaudio cannot be imported, delete torchaudio/lib/*.so.
"""

import pytest
import torch

import trnfft

from ..trnfft.samples import native, random
from .comparison import BACKENDS, assert_exact

try:
    from torchaudio import transforms
except (ImportError, OSError) as error:
    pytest.skip(f"torchaudio is not installed: {error}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filterbank")

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
    torch.testing.assert_close(native(actual), transforms.Spectrogram(**arguments)(waveform()))


@pytest.mark.parametrize("arguments", MEL_SPECTROGRAMS)
def test_mel_spectrogram(arguments):
    ours, theirs = trnfft.nn.MelSpectrogram(**arguments), transforms.MelSpectrogram(**arguments)
    bank = theirs.mel_scale.fb  # computed in float32
    torch.testing.assert_close(ours.mel_scale.fb, bank, rtol=0, atol=2e-5 * bank.max())
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(waveform()), theirs(waveform()))


@pytest.mark.parametrize("length", [None, 1000])
@pytest.mark.parametrize("arguments", INVERSES)
def test_inverse_spectrogram(arguments, length):
    spectrum = transforms.Spectrogram(power=None, **arguments)(waveform())
    actual = trnfft.nn.InverseSpectrogram(**arguments)(spectrum, length)
    expected = transforms.InverseSpectrogram(**arguments)(spectrum, length)
    torch.testing.assert_close(actual, expected)


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
    assert_exact(actual, results(magnitudes), results(magnitudes.double()))
