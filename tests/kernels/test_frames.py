"""Spectra and spectrograms of overlapping frames, simulated, compared with NumPy in float64.

The tests protect right spectra, powers and bands for any window, hop and radices, also in loops and
on two cores, and frames that do not mix.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import nki_kernels.base.launch
from nki_kernels.spectral.frames import frame_count
from nki_sim import hardware
from tests.registry import REGISTRY
from tests.tolerances import contractions, near, sums, together, transforms
from trnfft.planner.kinds import Frames
from trnfft.planner.plan import Recipe
from trnfft.planner.planner import plan_for

from .independence import BAD
from .launched import launch
from .samples import RNG, real
from .turns import on_chips

OF_CHIP = pytest.mark.usefixtures("strict_chip")
# Radices, hop and blocks: frames that overlap, touch, or leave gaps; one block and several.
CASES = [
    ((2, 2), 1, 9),
    ((3, 5), 4, 40),
    ((8, 12), 32, 300),
    ((20, 20), 160, 50),
    ((9, 7), 63, 131),
    ((16, 16), 300, 20),
    ((16, 32), 128, 290),
    ((64, 64), 1000, 12),
    ((80, 64), 512, 20),
]


def frames_of(x, n):
    """All frames of samples [blocks, hop]."""
    hop, flat = x.shape[1], x.reshape(-1)
    count = (flat.size - n) // hop + 1
    return np.stack([flat[t * hop : t * hop + n] for t in range(count)]).astype(float)


def exact(x, window, bank, exponent, scale):
    spectra = scale * np.fft.rfft(frames_of(x, window.shape[1]) * window)
    if exponent == 0:
        return spectra
    powers = np.abs(spectra) ** exponent
    return powers if bank is None else (powers @ bank).T


def tolerance(n, bank, exponent):
    """Returns that of a window, a transform, a power, and sums over a bank."""
    # A power of 2 has twice the relative error of what it is a power of.
    of_powers = max(exponent, 1) * together(sums(1), transforms(n))
    return of_powers if bank is None else together(of_powers, contractions(len(bank)))


def run(x, window, bank, radices, exponent=2, scale=1.0, programs=1):
    """The results of the frames, and what follows them. Exponent 0 is for spectra."""
    n, hop = math.prod(radices), x.shape[1]
    if bank is None:
        name, kind = (
            "frame_powers" if exponent else "frame_spectra",
            Frames(n, hop, exponent or None),
        )
    else:
        name, kind = "frame_bands", Frames(n, hop, exponent, bank.shape[1])
    inputs = [x, window] if bank is None else [x, window, bank]
    recipe = Recipe(name, kind, radices)
    y, _ = launch(REGISTRY[name], recipe, inputs, False, scale, cores=programs)
    count = frame_count(len(x), hop, n)
    return (y[:count], y[count:]) if bank is None else (y[:, :count], y[:, count:])


def check(radices, hop, blocks, bands, exponent=2, programs=1):
    n = math.prod(radices)
    x, window, scale = real(blocks, hop), real(1, n), 0.7
    bank = None if bands is None else RNG.random((n // 2 + 1, bands), np.float32)
    y, rest = run(x, window, bank, radices, exponent, scale, programs)
    near(y, exact(x, window, bank, exponent, scale), tolerance(n, bank, exponent))
    assert not rest.any()


@OF_CHIP
@on_chips("radices, hop, blocks", CASES)
def test_powers_and_bands(radices, hop, blocks):
    check(radices, hop, blocks, None, exponent=0)
    check(radices, hop, blocks, None, exponent=1)
    check(radices, hop, blocks, None)
    check(radices, hop, blocks, 5)


@OF_CHIP
@on_chips("bands, exponent", [(1, 2), (128, 2), (None, 0), (None, 2)], ("trn1", "trn2", "trn3"))
def test_loops_and_two_cores(monkeypatch, bands, exponent):
    monkeypatch.setattr(nki_kernels.base.launch, "BODY_INSTRUCTIONS", 1)
    for programs in range(1, hardware.current().programs_per_launch + 1):
        check((8, 12), 32, 700, bands, exponent, programs)


@OF_CHIP
@pytest.mark.parametrize(("bands", "exponent"), [(None, 0), (None, 2), (7, 2)])
def test_frames_are_independent(bands, exponent):
    """A bad sample, and a window with large numbers, spoil the frames that contain the sample."""
    radices, n = (8, 12), 96
    x, window = real(150, 32), 1e4 * real(1, n)
    bank = None if bands is None else RNG.random((n // 2 + 1, bands), np.float32)
    expected = exact(x, window, bank, exponent, 1.0)
    axis = 0 if bands is None else 1
    for value in BAD.values():
        spoiled = x.copy()
        spoiled[70, 5] = value
        with np.errstate(all="ignore"):
            y, _ = run(spoiled, window, bank, radices, exponent)
        bad = [68, 69, 70]
        assert not np.isfinite(np.take(y, bad, axis)).any()
        others = np.delete(y, bad, axis)
        near(others, np.delete(expected, bad, axis), tolerance(n, bank, exponent))


@OF_CHIP
@pytest.mark.parametrize("bands", [None, 7])
def test_silence_has_absolute_values(bands):
    """ScalarE has no square root of 0, which frames without sound have."""
    x, window = real(150, 32), real(1, 96)
    x[40:90] = 0.0
    x[100, 3] = np.nan
    bank = None if bands is None else RNG.random((49, bands), np.float32)
    expected = exact(x, window, bank, 1, 1.0)
    y, _ = run(x, window, bank, (8, 12), 1)
    finite = np.isfinite(expected)
    assert np.array_equal(finite, np.isfinite(y)) and not y[expected == 0].any()
    near(y[finite], expected[finite], tolerance(96, bank, 1))


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_a_mel_spectrogram_takes_less_time(chip):
    plan = plan_for(Frames(512, 128, bands=80), batch=6000, target=chip)
    separate = next(one for one in plan.candidates if one.recipe.algorithm == "separate_launches")
    assert plan.algorithm == "frame_bands"
    assert plan.predicted_ns < 0.75 * separate.predicted_ns
