"""Real parts of planes in the simulator, compared with NumPy in float64.

The tests protect right numbers for any shape that the kernel takes, also in loops and on two cores,
and planes that do not mix.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki_kernels.base.launch
import nki_sim
from nki_kernels.base.engines import cuts
from nki_kernels.base.packing import pack
from nki_kernels.spectral.real_planes import (
    real_planes,
    real_planes_tables,
)
from nki_sim import hardware
from tests.tolerances import near, transforms

from .independence import check_rows_are_independent
from .samples import real
from .turns import on_chips

OF_CHIP = pytest.mark.usefixtures("strict_chip")
# Axes that are folded or not, with one chunk and several, and the limits of both axes.
SHAPES = [
    (66, 66),
    (131, 67),
    (132, 132),
    (133, 130),
    (134, 258),
    (67, 511),
    (511, 66),
    (254, 386),
    (200, 498),
    (1022, 66),
    (66, 1024),
    (257, 509),
    (512, 768),
    (384, 1000),
]


def launch(x, scale=1.0, programs=1):
    tables = pack(real_planes_tables(*x.shape[1:], scale))
    return nki_sim.simulate(real_planes).with_programs(programs)(x, *tables)


def check(batch, shape, scale=1.0, programs=1):
    x = real(batch, *shape)
    y = launch(x, scale, programs)
    near(y, scale * np.fft.fft2(x.astype(float)).real, transforms(shape))


@OF_CHIP
@on_chips("shape", SHAPES, also=[("trn2", (66, 66)), ("trn1", (131, 67))])
def test_real_parts(shape):
    check(1, shape, 0.7)


@OF_CHIP
@on_chips("shape", [(132, 67), (67, 134)], ("trn1", "trn2", "trn3"))
def test_loops_and_two_cores(monkeypatch, shape):
    for instructions in (1, 4000):
        monkeypatch.setattr(nki_kernels.base.launch, "BODY_INSTRUCTIONS", instructions)
        for programs in range(1, hardware.current().programs_per_launch + 1):
            check(1, shape, programs=programs)
            check(5, shape, programs=programs)


@OF_CHIP
def test_planes_are_independent():
    x = real(4, 132, 67)
    exact = np.fft.fft2(x.astype(float)).real
    check_rows_are_independent(launch, x, exact, transforms(x.shape[1:]), [1])


def test_cuts_are_of_about_equal_size():
    for low, end in ((0, 1), (0, 128), (1, 130), (3, 400)):
        found = cuts(low, end)
        sizes = [last - first for first, last in found]
        assert found[0][0] == low and found[-1][1] == end
        assert max(sizes) <= 128 and max(sizes) - min(sizes) <= 1
