"""The circular convolution of real rows, run in the simulator and compared with NumPy in float64.

The tests protect right rows for any two radices, batch, filters, padding, cropping and chip, also
in loops. Rows and filters must not mix. The kernel must need less time than two transforms, and few
instructions.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_kernels.base.launch
import nki_sim
from nki_sim import hardware
from tests import sweeps
from tests.registry import REGISTRY
from tests.tolerances import near, sums, together, transforms
from trnfft.planner.kinds import Convolution
from trnfft.planner.plan import Recipe

from .independence import check_rows_are_independent
from .launched import Launched, both_ways, dry, launch, parts
from .samples import fits, real
from .turns import on_chips

CHIPS = "trn1", "trn2"
STRICT = pytest.mark.usefixtures("strict")

SMALL = [(2, 2), (2, 3), (3, 2), (3, 5), (9, 7), (8, 8), (12, 5), (5, 12), (31, 2)]
# Extremes of either radix, odd and even, up to the longest length.
LARGE = [(2, 64), (3, 64), (128, 2), (127, 3), (16, 64), (65, 63)]
LONGEST = [(80, 64), (50, 60), (64, 64)]


def solution(radices, held=None, kept=None):
    """The planner's algorithm, and its recipe for rows of so many numbers."""
    n = math.prod(radices)
    kind = Convolution((n,), (held or n,), (kept or n,))
    return REGISTRY["convolve_rows"], Recipe("convolve_rows", kind, radices)


def run(x, spectrum, radices, programs=1, kept=None):
    """Rows and timeline of one launch with half spectra of the filters."""
    return launch(*solution(radices, x.shape[1], kept), [x, *parts(spectrum)], cores=programs)


def modelled(batch, radices, filters):
    """Timeline without data."""
    n = math.prod(radices)
    return dry(*solution(radices), (batch, n), *[(filters, n // 2 + 1)] * 2)


@pytest.fixture
def strict():
    """Warnings of the simulator are errors."""
    with nki_sim.strict():
        yield


def tolerance(n):
    """Returns that of a transform, a product and an inverse transform."""
    return together(transforms(n, 2), sums(2))


def exact_of(x, spectrum, n):
    """Returns the convolution of rows, padded to n, with half spectra of filters."""
    return np.fft.irfft(np.fft.rfft(x.astype(float), n) * spectrum.astype(np.complex64), n)


def check(batch, filters, radices, programs=1):
    """Fails unless random rows and filters are near their exact convolution."""
    n = math.prod(radices)
    x, spectrum = real(batch, n), np.fft.rfft(real(filters, n))
    result, _ = run(x, spectrum, radices, programs)
    near(result, exact_of(x, spectrum, n), tolerance(n), message=f"{batch}, {filters}")


@pytest.mark.weekly
@on_chips(
    "radices, counts",
    [
        *((each, ((2, 1), (2, 2), (200, 1), (200, 200))) for each in SMALL),
        *((each, ((130, 1), (130, 130))) for each in LARGE),
        # Several rows a partition, also more of them in the first block than in the last.
        ((2, 2), ((257, 1), (1500, 1500))),
        ((3, 5), ((257, 1), (1500, 1500))),
        ((32, 16), ((257, 1), (600, 600))),
        # The longest lengths.
        *((each, ((3, 1), (3, 3))) for each in LONGEST[:1]),
    ],
    CHIPS,
    also=[("trn2", (2, 2), ((2, 1), (2, 2), (200, 1), (200, 200)))],
    whole=[(each, ((3, 1), (3, 3))) for each in LONGEST[1:]],
)
def test_one_filter_and_one_a_row(strict_chip, radices, counts):
    for batch, filters in counts:
        check(batch, filters, radices)


@on_chips("radices", [(2, 3), (5, 12), (16, 20), (40, 40)], CHIPS)
def test_rows_are_padded_and_results_cropped_by_dma(strict_chip, radices):
    n = math.prod(radices)
    for batch, held, kept in ((1, 1, n), (3, n, 1), (130, n // 2, n - n // 3), (300, n - 1, 2)):
        x, spectrum = real(batch, held), np.fft.rfft(real(1, n))
        result, timeline = run(x, spectrum, radices, kept=kept)
        exact = exact_of(x, spectrum, n)
        near(result, exact[:, :kept], tolerance(n), scale=exact)
        assert timeline.hbm_bytes <= modelled(batch, radices, 1).hbm_bytes - 4 * batch * (
            2 * n - held - kept
        )


@on_chips("radices", [(2, 5), (5, 2), (4, 6), (7, 9)], CHIPS)
def test_imaginary_parts_that_real_filters_have_not_are_ignored(strict_chip, radices):
    n = math.prod(radices)
    x, spectrum = real(4, n), np.fft.rfft(real(1, n))
    spectrum[:, [0, n // 2] if n % 2 == 0 else [0]] += 3j
    near(run(x, spectrum, radices)[0], exact_of(x, spectrum.astype(complex), n), tolerance(n))


@on_chips("radices, batch", [((16, 20), 140), ((3, 5), 5)], CHIPS)
def test_rows_are_independent_and_so_are_filters(strict_chip, radices, batch):
    n = math.prod(radices)
    x, h = real(batch, n), np.fft.rfft(real(batch, n))
    exact, both = exact_of(x, h, n), np.stack([h.real, h.imag], 1).astype(np.float32)

    def by_filters(both):
        return run(x, both[:, 0] + 1j * both[:, 1], radices)[0]

    with np.errstate(all="ignore"):
        check_rows_are_independent(lambda x: run(x, h, radices)[0], x, exact, tolerance(n))
        check_rows_are_independent(by_filters, both, exact, tolerance(n))


@pytest.mark.weekly
@STRICT
@sweeps.some(
    "chip, programs, radices",
    [
        (*of_chip, radices)
        for of_chip in (("trn1", 1), ("trn2", 2), ("trn3", 1))
        for radices in ((16, 20), (36, 36))
    ],
    [("trn1", 1, (36, 36)), ("trn2", 2, (16, 20))],
).with_args(ids=str)
def test_loops_on_the_device_and_shares_of_programs(monkeypatch, chip, programs, radices):
    monkeypatch.setattr(nki_kernels.base.launch, "BODY_INSTRUCTIONS", 1000)
    batch = 5 * 128 * max(1, 1024 // math.prod(radices)) - 1
    with hardware.select(hardware.chip(chip)):
        for rows, filters in ((1, 1), (batch, 1), (batch, batch)):
            check(rows, filters, radices, programs)


@on_chips("radices", [(16, 64), (32, 32)])
def test_both_transforms_together_take_less_than_one_after_the_other(strict_chip, radices):
    """Spectra and their products do not pass HBM: its floor for them is more than is lost here."""
    n, batch = math.prod(radices), 1024
    both = [Launched(name, strict_chip) for name in both_ways("real_stockham")]
    alone = sum(each.dry_run((batch, n), radices).total_ns for each in both)
    alone += hardware.current().dma_floor_ns(batch * (n // 2 + 1), 16)
    assert modelled(batch, radices, 1).total_ns <= alone


@pytest.mark.weekly
@sweeps.some(
    "strict_chip, radices",
    itertools.product(["trn1", "trn2"], [(64, 64), (128, 32), (65, 63), (80, 64), (128, 40)]),
    [("trn1", (80, 64)), ("trn2", (128, 40))],
).with_args(ids=str, indirect=["strict_chip"])
def test_the_longest_rows_fit(strict_chip, radices):
    for batch, filters in ((200, 200), (300, 1), (300, 300)):
        assert fits(modelled(batch, radices, filters))
