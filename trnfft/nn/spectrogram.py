"""Spectrograms, with the arguments of torchaudio's layers, and signals from spectra.

Let X be `trnfft.stft` of a signal, and b a filter bank of m triangles. The layers compute

    Spectrogram:     S[f, t] = |X[f, t]|^power
    MelSpectrogram:  M[m, t] = sum_f b[f, m] S[f, t]

Triangle m rises from 0 at the frequency c[m - 1] to 1 at c[m], and falls to 0 at c[m + 1]. The
frequencies c are equally spaced on a mel scale. "htk" is the scale of the Hidden Markov Model
Toolkit:

    mel = 2595 log10(1 + f / 700)

"slaney" is the scale of Slaney's "Auditory toolbox", 1998:

    mel = 3 f / 200 below 1000 Hz,  15 + 27 ln(f / 1000) / ln(6.4) above

The layers raise a ValueError for a name that is unknown, or a number outside of its range; a
TypeError for an argument of the wrong type; and a RuntimeError where the memory is too small, or
the input does not have the frequencies. A call raises the errors of `trnfft.stft` as well.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from trnfft.base.checks import brief, finite
from trnfft.base.memory import check_memory
from trnfft.complex.parts import is_sharded
from trnfft.functions.arguments import (
    as_complex,
    check_choice,
    check_device,
    check_flags,
    check_positive,
    check_real,
    dimension,
    floating_point,
    integer,
)
from trnfft.functions.stft import framed, istft, stft
from trnfft.ops import autocast
from trnfft.ops.frames import frame_bands, has_kernel
from trnfft.ops.many_devices import of_shards
from trnfft.ops.operand import Operand, operand_of

_SCALES = ("htk", "slaney")
_NORMALIZED = (False, True, None, "window", "frame_length")
_BREAK_HZ, _BREAK_MEL = 1000.0, 15.0  # where Slaney's scale changes from linear to logarithmic
_LOG_STEP = np.log(6.4) / 27


class _Frames(nn.Module):
    """What a short-time transform and its inverse share: lengths, and the window as a buffer."""

    window: torch.Tensor

    def __init__(
        self,
        lengths: tuple[int, int | None, int | None],
        pad: int,
        window_fn: Callable[..., torch.Tensor],
        wkwargs: dict[str, object] | None,
        normalized: bool | str,
        center: bool,
        onesided: bool,
    ) -> None:
        super().__init__()
        self.center, self.onesided = center, onesided
        check_choice("normalized", normalized, _NORMALIZED, ValueError)
        by = "window" if normalized is True else normalized
        n_fft, win_length, hop_length = lengths
        self.n_fft = integer("n_fft", n_fft)
        self.win_length = self.n_fft if win_length is None else integer("win_length", win_length)
        default = self.win_length // 2
        self.hop_length = default if hop_length is None else integer("hop_length", hop_length)
        check_positive(n_fft=self.n_fft, win_length=self.win_length)
        what = f"arguments 'n_fft' and 'win_length' are {self.n_fft} and {self.win_length}"
        check_memory(what, (self.win_length,), 8, torch.get_default_device())
        self.pad = integer("pad", pad)
        if self.pad < 0:
            raise ValueError(f"argument 'pad' is {pad}, allowed is 0 or more")
        self.by_window, self.by_length = by == "window", by == "frame_length"
        self.register_buffer("window", _window(self.win_length, window_fn, wkwargs))

    def _settings(self) -> tuple[int, int, int, torch.Tensor, bool]:
        """Returns the arguments that `trnfft.stft` and `trnfft.istft` have in common."""
        return self.n_fft, self.hop_length, self.win_length, self.window, self.center

    def _norm(self) -> torch.Tensor:
        return self.window.square().sum().sqrt()


class Spectrogram(_Frames):
    """Computes the spectra of overlapping frames of a signal.

    The counterpart in torchaudio is `torchaudio.transforms.Spectrogram`. See `docs/layers.md`.

    Args:
        n_fft: length of a frame and of its transform.
        win_length: length of the window. Default: n_fft.
        hop_length: distance between the starts of two frames. Default: win_length // 2.
        pad: number of zeros to add on both sides of the signal.
        window_fn: a function of the length that returns the window, which becomes a buffer.
        power: exponent of the absolute value; None for complex spectra. On a NeuronCore absolute
            values with the exponent 1 are correct from 1e-14 to 5e17.
        normalized: False; True or "window" to divide by the root of the sum of the squared window;
            or "frame_length" to divide by sqrt(n_fft).
        wkwargs: further arguments of `window_fn`.
        center, pad_mode, onesided: as for `trnfft.stft`.

    Input: a real tensor of shape [..., L]. Output: a real tensor of shape [..., F, T], or a complex
    tensor for power None. float16 and bfloat16 give float32.

    Examples:
        >>> import torch, trnfft
        >>> x = torch.cos(torch.pi / 2 * torch.arange(1000))  # a quarter of the sampling frequency
        >>> S = trnfft.nn.Spectrogram(n_fft=64)(x)
        >>> S.shape, S.sum(-1).argmax()  # bin 16 of 64
        (torch.Size([33, 32]), tensor(16))
    """

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., torch.Tensor] = torch.hann_window,
        power: float | None = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, object] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        lengths = n_fft, win_length, hop_length
        super().__init__(lengths, pad, window_fn, wkwargs, normalized, center, onesided)
        self.power = None if power is None else finite("power", power)
        self.pad_mode = pad_mode

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        floating_point("waveform", waveform, TypeError, with_integers=False)
        dimension("dim", -1, waveform.ndim)
        given = operand_of(waveform)
        if given.is_sharded:
            return of_shards(self, waveform, (-1,))
        if self._is_fused(given):
            return self.bands(waveform, None)
        padded, signals = self._signals(waveform)
        more = self.pad_mode, self.by_length, self.onesided
        spectrum = stft(signals, *self._settings(), *more)
        spectrum = spectrum.reshape(*padded.shape[:-1], *spectrum.shape[-2:])
        if self.by_window:
            spectrum = spectrum / self._norm()
        if self.power is None:
            return spectrum
        if self.power == 2:  # unlike abs(), squares have a derivative at 0
            return spectrum.real.square() + spectrum.imag.square()
        return spectrum.abs() if self.power == 1 else spectrum.abs().pow(self.power)

    def _is_fused(self, given: Operand) -> bool:
        """Returns whether one kernel may compute the powers of a real signal."""
        if not has_kernel(given) or given.is_complex:
            return False
        is_real = given.like.dtype == torch.float32 and self.window.dtype == torch.float32
        return is_real and self.power in (1, 2) and self.onesided is True

    def bands(self, waveform: torch.Tensor, bank: torch.Tensor | None) -> torch.Tensor:
        """Returns powers of a signal [..., L], or their sums in the bands of a bank [F, m]."""
        check_flags(center=self.center)
        padded, signals = self._signals(waveform)
        lengths = self.n_fft, self.hop_length, self.win_length
        x, window, hop = framed(signals, lengths, self.window, self.center, self.pad_mode)
        if self.by_window:
            window = window / self._norm()
        scale = self.n_fft**-0.5 if self.by_length else 1.0
        y = frame_bands(operand_of(x), window, bank, hop, int(self.power or 0), scale)
        return y.reshape(*padded.shape[:-1], *y.shape[-2:])

    def _signals(self, waveform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a signal with its padding, [..., L], and the same as [B, L]."""
        padded = self._padded(waveform)
        return padded, padded.reshape(math.prod(padded.shape[:-1]), padded.shape[-1])

    def _padded(self, waveform: torch.Tensor) -> torch.Tensor:
        if not self.pad:
            return waveform
        shape = (*waveform.shape[:-1], waveform.shape[-1] + 2 * self.pad)
        what = f"argument 'pad' is {self.pad}, for a signal of shape {shape}"
        check_memory(what, shape, waveform.element_size(), waveform.device)
        return nn.functional.pad(waveform, (self.pad, self.pad))


class InverseSpectrogram(_Frames):
    """Computes signals from complex spectra.

    The counterpart in torchaudio is `torchaudio.transforms.InverseSpectrogram`. See
    `docs/layers.md`.

    Args:
        n_fft, win_length, hop_length, pad, window_fn, normalized: as given to `Spectrogram`.
        wkwargs, center, pad_mode, onesided: as given to `Spectrogram`. `pad_mode` has no meaning
            here.

    Input: a native complex tensor or a ComplexTensor of shape [..., F, T]; and the length L of the
    signal, whose default is the length of the frames. Output: a real tensor of shape [..., L].

    Examples:
        >>> import torch, trnfft
        >>> x = torch.arange(256.0)
        >>> X = trnfft.nn.Spectrogram(n_fft=64, power=None)(x)
        >>> y = trnfft.nn.InverseSpectrogram(n_fft=64)(X, length=256)
        >>> torch.allclose(x, y, atol=1e-3)
        True
    """

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., torch.Tensor] = torch.hann_window,
        normalized: bool | str = False,
        wkwargs: dict[str, object] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        lengths = n_fft, win_length, hop_length
        super().__init__(lengths, pad, window_fn, wkwargs, normalized, center, onesided)

    def forward(self, spectrogram: torch.Tensor, length: int | None = None) -> torch.Tensor:
        spectra: torch.Tensor = as_complex("spectrogram", spectrogram)
        if spectra.ndim < 2:
            raise RuntimeError(
                f"argument 'spectrogram' has shape {tuple(spectra.shape)}, allowed is [..., F, T]"
            )
        if is_sharded(spectra):
            return of_shards(self, spectra, (-2, -1), length)
        if self.by_window:
            spectra = spectra * self._norm()
        batch = spectra.reshape(math.prod(spectra.shape[:-2]), *spectra.shape[-2:])
        whole = None if length is None else integer("length", length) + 2 * self.pad
        signal = istft(batch, *self._settings(), self.by_length, self.onesided, whole)
        if length is not None and self.pad:
            signal = signal[:, self.pad : -self.pad]
        return signal.reshape(*spectra.shape[:-2], signal.shape[-1])


class MelScale(nn.Module):
    """Computes a mel spectrogram from a spectrogram, as the second part of `MelSpectrogram`.

    The filter bank `fb`, of shape [F, n_mels], is a buffer. The counterpart in torchaudio is
    `torchaudio.transforms.MelScale`. See `docs/layers.md`.

    Args:
        n_mels, sample_rate, f_min, f_max, norm, mel_scale: as for `MelSpectrogram`.
        n_stft: the number F of frequencies, from 0 to sample_rate // 2.

    Input: a real tensor of shape [..., F, T]. Output: a real tensor of shape [..., n_mels, T] and
    of the same dtype.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.nn.MelScale(n_mels=40, n_stft=201)(torch.ones(201, 11)).shape
        torch.Size([40, 11])
    """

    fb: torch.Tensor

    def __init__(
        self,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_stft: int = 201,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        check_positive(n_mels=n_mels, n_stft=n_stft)
        check_choice("norm", norm, (None, "slaney"), ValueError)
        check_choice("mel_scale", mel_scale, _SCALES, ValueError)
        half = finite("sample_rate", sample_rate) // 2
        f_min, f_max = finite("f_min", f_min), half if f_max is None else finite("f_max", f_max)
        if not 0 <= f_min < f_max:
            raise ValueError(
                f"argument 'f_min' is {f_min}, allowed is 0 or more and less than argument "
                f"'f_max', {f_max}; frequencies are in Hz"
            )
        what = f"arguments 'n_mels' and 'n_stft' are {n_mels} and {n_stft}"
        check_memory(what, (n_mels, n_stft), 8, "cpu")
        mels = np.linspace(_to_mel(f_min, mel_scale), _to_mel(f_max, mel_scale), n_mels + 2)
        bank = _triangles(np.linspace(0, half, n_stft), _to_hz(mels, mel_scale), norm)
        self.register_buffer("fb", torch.from_numpy(bank).to(torch.get_default_dtype()))

    def forward(self, specgram: torch.Tensor) -> torch.Tensor:
        check_real("specgram", specgram)
        if specgram.ndim < 2 or specgram.shape[-2] != len(self.fb):
            raise RuntimeError(
                f"argument 'specgram' has shape {tuple(specgram.shape)}, allowed is "
                f"[..., {len(self.fb)}, T]; pass its number of frequencies as argument 'n_stft'"
            )
        check_device("specgram", specgram.device, "the filter bank", self.fb.device)
        if is_sharded(specgram):
            return of_shards(self, specgram, (-2,))
        with autocast.switched_off(specgram.device):
            return torch.matmul(self.fb.to(specgram.dtype).mT, specgram)


class MelSpectrogram(nn.Module):
    """Computes a spectrogram in bands of equal width on a mel scale.

    The counterpart in torchaudio is `torchaudio.transforms.MelSpectrogram`. See `docs/layers.md`.

    Args:
        sample_rate: sampling frequency of the signal, in Hz.
        n_fft, win_length, hop_length, pad, window_fn, power: as for `Spectrogram`.
        normalized, wkwargs, center, pad_mode: as for `Spectrogram`.
        f_min, f_max: where the first triangle begins and the last one ends, in Hz. Default: 0 and
            sample_rate // 2.
        n_mels: number of triangles.
        norm: None, or "slaney" for triangles of area 1.
        mel_scale: "htk" or "slaney".

    Input: a real tensor of shape [..., L]. Output: a real tensor of shape [..., n_mels, T].

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.MelSpectrogram(sample_rate=16000, n_fft=400, n_mels=40)
        >>> layer(torch.ones(2, 16000)).shape
        torch.Size([2, 40, 81])
    """

    def __init__(
        self,
        sample_rate: int = 16000,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        f_min: float = 0.0,
        f_max: float | None = None,
        pad: int = 0,
        n_mels: int = 128,
        window_fn: Callable[..., torch.Tensor] = torch.hann_window,
        power: float = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, object] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        if power is None:
            raise ValueError(
                "argument 'power' is None, allowed are numbers, because bands of complex spectra "
                "have no meaning; use Spectrogram"
            )
        self.spectrogram = Spectrogram(
            n_fft,
            win_length,
            hop_length,
            pad,
            window_fn,
            power,
            normalized,
            wkwargs,
            center,
            pad_mode,
        )
        n_stft = self.spectrogram.n_fft // 2 + 1
        self.mel_scale = MelScale(n_mels, sample_rate, f_min, f_max, n_stft, norm, mel_scale)

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        check_real("waveform", waveform)
        if not self._is_fused(operand_of(waveform)):
            return self.mel_scale(self.spectrogram(waveform))
        spectrogram, bank = self.spectrogram, self.mel_scale.fb
        check_device("waveform", waveform.device, "the filter bank", bank.device)
        return spectrogram.bands(waveform, bank)

    def _is_fused(self, given: Operand) -> bool:
        """Returns whether one kernel may compute both parts: not where one has been replaced."""
        if not has_kernel(given) or given.is_sharded:
            return False
        if type(self.spectrogram) is not Spectrogram or type(self.mel_scale) is not MelScale:
            return False
        bank = self.mel_scale.fb
        is_whole = given.like.ndim > 0 and not is_sharded(bank)
        fits = bank.dtype == torch.float32 and len(bank) == self.spectrogram.n_fft // 2 + 1
        return is_whole and fits and self.spectrogram._is_fused(given)


def _window(size: int, window_fn: object, wkwargs: object) -> torch.Tensor:
    """Returns the window that `window_fn` makes, checked."""
    if not callable(window_fn):
        raise TypeError(f"argument 'window_fn' is {brief(window_fn)}, allowed are functions")
    if not isinstance(wkwargs, (dict, type(None))):
        raise TypeError(f"argument 'wkwargs' is {brief(wkwargs)}, allowed are None and a dict")
    window = window_fn(size, **(wkwargs or {}))
    if not isinstance(window, torch.Tensor) or window.shape != (size,):
        made = f"shape {tuple(window.shape)}" if isinstance(window, torch.Tensor) else type(window)
        raise TypeError(
            f"argument 'window_fn' makes a window of {made}, allowed is a torch.Tensor of shape "
            f"({size},), the length that it is given"
        )
    return window


def _triangles(frequencies: np.ndarray, corners: np.ndarray, norm: str | None) -> np.ndarray:
    """Returns the filter bank [F, n_mels] of triangles, each between three corners in Hz."""
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    rising = (frequencies[:, None] - left) / (middle - left)
    falling = (right - frequencies[:, None]) / (right - middle)
    bank = np.maximum(0, np.minimum(rising, falling))
    return bank * 2 / (right - left) if norm == "slaney" else bank


def _to_mel(hz: float, scale: str) -> float:
    if scale == "htk":
        return 2595 * np.log10(1 + hz / 700)
    linear = 3 * hz / 200
    return linear if hz < _BREAK_HZ else _BREAK_MEL + np.log(hz / _BREAK_HZ) / _LOG_STEP


def _to_hz(mels: np.ndarray, scale: str) -> np.ndarray:
    if scale == "htk":
        return 700 * (10 ** (mels / 2595) - 1)
    logarithmic = _BREAK_HZ * np.exp(_LOG_STEP * (mels - _BREAK_MEL))
    return np.where(mels < _BREAK_MEL, 200 * mels / 3, logarithmic)
