"""On simulated chips no row reaches another one, not even with NaN, infinity or overflow.

torch.fft keeps rows apart, too. The bad row itself is not finite where torch's is not.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import trnfft
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, transforms

GENERATOR = torch.Generator().manual_seed(5)
BAD = {"nan": float("nan"), "infinity": float("inf"), "overflow": 3e38}


def real(*shape):
    return torch.randn(*shape, generator=GENERATOR)


def complex_(*shape):
    return torch.complex(real(*shape), real(*shape))


CASES = {
    "fft of 16": (trnfft.fft, torch.fft.fft, complex_(9, 16)),
    "fft of 100": (trnfft.fft, torch.fft.fft, complex_(5, 100)),
    "ifft of 200": (trnfft.ifft, torch.fft.ifft, complex_(3, 200)),
    "fft of 1000": (trnfft.fft, torch.fft.fft, complex_(4, 1000)),
    "fft of 257": (trnfft.fft, torch.fft.fft, complex_(4, 257)),
    "fft of 16384": (trnfft.fft, torch.fft.fft, complex_(3, 16384)),
    "rfft of 24": (trnfft.rfft, torch.fft.rfft, real(9, 24)),
    "rfft of 1024": (trnfft.rfft, torch.fft.rfft, real(4, 1024)),
    "irfft of 64": (trnfft.irfft, torch.fft.irfft, complex_(5, 33)),
    "irfft of 512": (trnfft.irfft, torch.fft.irfft, complex_(5, 257)),
    "fft2": (trnfft.fft2, torch.fft.fft2, complex_(3, 12, 40)),
    "rfftn": (
        lambda x: trnfft.rfftn(x, dim=(1, 2, 3)),
        lambda x: torch.fft.rfftn(x, dim=(1, 2, 3)),
        real(3, 4, 6, 8),
    ),
    "irfft2": (trnfft.irfft2, torch.fft.irfft2, complex_(3, 8, 9)),
}


SIMILAR = ("fft of 100", "ifft of 200", "rfft of 1024", "irfft of 512")  # to other lengths
CHIPS = ("trn1", "trn2")


@pytest.mark.weekly
@sweeps.some(
    "name, chip",
    itertools.product(CASES, CHIPS),
    [(name, CHIPS[index % 2]) for index, name in enumerate(CASES) if name not in SIMILAR],
)
def test_neighbours_of_bad_rows(monkeypatch, name, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    function, reference, x = CASES[name]
    expected = reference(x.to(torch.complex128 if x.is_complex() else torch.float64))
    for label, value in BAD.items():
        spoiled = x.clone()
        spoiled[1].view(-1)[1 : None if label == "overflow" else 2] = value
        with trnfft.backend("nki-sim"):
            found = function(spoiled)
        found = trnfft.as_native(found)
        # Of what overflows, 1/N of an inverse may save the result.
        assert label == "overflow" or not torch.isfinite(found[1]).all(), label
        for row in (0, 2):
            tolerance = transforms(4 * expected[row].numel(), 2)
            near(found[row], expected[row], tolerance, message=f"{label} {row}")
    assert np.isfinite(expected.numpy()).all()
