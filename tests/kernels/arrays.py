"""Arrays of several axes, random ones and their transforms by NumPy in float64."""

from __future__ import annotations

import numpy as np

from .samples import normal, real


def half_of(lengths):
    return (*lengths[:-1], lengths[-1] // 2 + 1)


def data_of(batch, lengths, part, data=()):
    """Random arrays: complex, real, or half spectra, which no real array need have."""
    if part == "c2r":
        return normal(batch, *half_of(lengths))
    return (real if part == "r2c" else normal)(batch, *(data or lengths))


def exact_of(x, lengths, part, data=(), inverse=False):
    """The transform by NumPy, without a factor."""
    places = tuple(range(1, x.ndim))
    if part == "c2c":
        if inverse:
            return np.fft.ifftn(x, lengths, places, "forward")
        return np.fft.fftn(x, lengths, places)
    if part == "r2c":
        spectrum = np.fft.rfftn(x.astype(float), lengths, places)
        return spectrum.conj() if inverse else spectrum
    whole = np.fft.irfftn(x if inverse else x.conj(), lengths, places, "forward")
    return whole[(slice(None), *map(slice, data or lengths))]
