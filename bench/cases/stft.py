"""Short-time Fourier transforms of a signal with a Hann window, and their inverses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import trnfft
from bench.cases.case import Case, real

SAMPLES = 2**18
FRAMES = {256: 64, 1024: 256}  # length of the frames, and distance between their beginnings


def window_of(n: int) -> np.ndarray:
    """Returns the periodic Hann window of n points."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)).astype(np.float32)


def transform(n: int, hop: int, x: Any, window: Any) -> Any:
    return trnfft.stft(x, n, hop, window=window, center=False, return_complex=True)


def there_and_back(n: int, hop: int, x: Any, window: Any) -> Any:
    """Returns the signal, transformed by stft and back by istft."""
    spectra = trnfft.stft(x, n, hop, window=window, return_complex=True)
    return trnfft.istft(spectra, n, hop, window=window, length=x.shape[-1])


def reference(n: int, hop: int, x: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Returns the spectra [B, frequencies, frames]."""
    frames = np.lib.stride_tricks.sliding_window_view(x, n, axis=-1)[:, ::hop] * window
    return np.fft.rfft(frames).swapaxes(-2, -1)


def case(samples: int, n: int, hop: int) -> Case:
    """Returns a transform of a signal.

    Its price is that of the transforms of all frames, which are computed at once. It does not
    contain the steps that cut out the frames and multiply them by the window.
    """
    frames = (samples - n) // hop + 1
    return Case(
        operation="stft",
        name=f"stft {samples}, frames of {n}",
        shape=(samples,),
        batch=1,
        inputs=lambda rng: (real(rng, 1, samples), window_of(n)),
        call=partial(transform, n, hop),
        reference=partial(reference, n, hop),
        candidate=lambda: trnfft.plan(n, real=True, batch=frames).choice,
    )


def round_trip(samples: int, n: int, hop: int) -> Case:
    return replace(
        case(samples, n, hop),
        name=f"stft and istft {samples}, frames of {n}",
        call=partial(there_and_back, n, hop),
        reference=lambda x, window: x,
        candidate=None,
    )


CASES = tuple(make(SAMPLES, *item) for item in FRAMES.items() for make in (case, round_trip))
