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

import nki_kernels.launch
import nki_sim
from nki_kernels.convolution.convolution import convolution_tables, convolve_rows
from nki_kernels.packing import pack
from nki_kernels.real.real_stockham import inverse_real_stockham, real_stockham
from nki_kernels.real.real_stockham_tables import (
    inverse_real_stockham_tables,
    real_stockham_tables,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, fits, real

# Those that name no chip run on both kinds that kernels know.
BOTH = pytest.mark.usefixtures("strict_chip")
STRICT = pytest.mark.usefixtures("strict")

SMALL = [(2, 2), (2, 3), (3, 2), (3, 5), (9, 7), (8, 8), (12, 5), (5, 12), (31, 2)]
# Extremes of either radix, odd and even, up to the longest length.
LARGE = [(2, 64), (3, 64), (128, 2), (127, 3), (16, 64), (50, 60), (65, 63), (64, 64), (80, 64)]


def launch(x, spectrum, radices, programs=1, kept=None):
    """Rows and timeline of one launch with half spectra of the filters."""
    re, im = spectrum.real.astype(np.float32), spectrum.imag.astype(np.float32)
    n = math.prod(radices)
    rest = *pack(convolution_tables(n, radices)), radices, kept or n
    with nki_sim.record() as timeline:
        y = nki_sim.simulate(convolve_rows[programs])(x, re, im, *rest)
    assert timeline.launches == 1
    return y, timeline


def convolve(x, h, radices):
    """The kernel's and the exact convolution of rows x with filters h, given as rows, too."""
    spectrum = np.fft.rfft(h.astype(float)).astype(np.complex64)
    exact = np.fft.irfft(np.fft.rfft(x.astype(float)) * spectrum.astype(complex), x.shape[1])
    return launch(x, spectrum, radices)[0], exact


def dry(batch, radices, filters, programs=1, held=None, kept=None):
    """Timeline without data."""
    n = math.prod(radices)
    x, h = ((batch, held or n), "float32"), ((filters, n // 2 + 1), "float32")
    rest = *pack(convolution_tables(n, radices)), radices, kept or n
    return nki_sim.dry_run(convolve_rows[programs], x, h, h, *rest)


@pytest.fixture
def strict():
    """Warnings of the simulator are errors."""
    with nki_sim.strict():
        yield


def on_chips(cases, on_both=()):
    """Parametrization of a chip and radices: by default by turns one chip or the other."""
    chips = "trn1", "trn2"
    chosen = [(chips[place % 2], each) for place, each in enumerate(cases)]
    chosen += itertools.product(chips, on_both)
    every = list(itertools.product(chips, cases))
    return sweeps.some("strict_chip, radices", every, chosen).with_args(
        ids=str, indirect=["strict_chip"]
    )


@on_chips(SMALL + LARGE, [(2, 2), (2, 3), (3, 2), (3, 5), (8, 8), (2, 64), (3, 64)])
def test_one_filter_and_one_a_row(strict_chip, radices):
    n = math.prod(radices)
    for batch in (1, 2, 130, 300) if n < 1000 else (1, 130):
        for filters in {1, batch}:
            result, exact = convolve(real(batch, n), real(filters, n), radices)
            assert error(result, exact) <= 8e-7


@on_chips([(2, 2), (3, 5), (8, 15), (15, 8), (32, 16)], [(3, 5)])
def test_several_rows_a_partition(strict_chip, radices):
    """Also more of them in the first block than in the last."""
    n = math.prod(radices)
    for batch in (257, 1500):
        for filters in (1, batch):
            result, exact = convolve(real(batch, n), real(filters, n), radices)
            assert max(map(error, result, exact)) <= 4e-6  # no row is another one's


@BOTH
@pytest.mark.parametrize("radices", [(6, 7), (9, 5), (127, 2), (16, 64)], ids=str)
def test_a_delta_changes_nothing_and_a_shifted_one_shifts(radices):
    x = real(5, math.prod(radices))
    delta = np.zeros_like(x[:1])
    delta[0, 0] = 1
    assert error(convolve(x, delta, radices)[0], x) <= 8e-7
    assert error(convolve(x, np.roll(delta, 3), radices)[0], np.roll(x, 3, 1)) <= 8e-7


@on_chips([(2, 3), (5, 12), (16, 20), (40, 40)], [(5, 12)])
def test_rows_are_padded_and_results_cropped_by_dma(strict_chip, radices):
    n = math.prod(radices)
    for batch, held, kept in ((1, 1, n), (3, n, 1), (130, n // 2, n - n // 3), (300, n - 1, 2)):
        x, spectrum = real(batch, held), np.fft.rfft(real(1, n))
        result, timeline = launch(x, spectrum, radices, kept=kept)
        exact = np.fft.irfft(np.fft.rfft(x.astype(float), n) * spectrum.astype(np.complex64), n)
        assert error(result, exact[:, :kept]) <= 2e-6
        assert timeline.hbm_bytes <= dry(batch, radices, 1).hbm_bytes - 4 * batch * (
            2 * n - held - kept
        )


@STRICT
def test_it_is_circular():
    x, h = real(1, 12), real(1, 12)
    result, _ = convolve(x, h, (3, 4))
    exact = [sum(x[0, j] * h[0, (k - j) % 12] for j in range(12)) for k in range(12)]
    assert error(result[0], np.array(exact)) <= 8e-7


@BOTH
@pytest.mark.parametrize("radices", [(2, 5), (5, 2), (4, 6), (7, 9)], ids=str)
def test_imaginary_parts_that_real_filters_have_not_are_ignored(radices):
    n = math.prod(radices)
    x, spectrum = real(4, n), np.fft.rfft(real(1, n))
    other = spectrum.copy()
    other[:, [0, n // 2] if n % 2 == 0 else [0]] += 3j
    assert error(launch(x, other, radices)[0], launch(x, spectrum, radices)[0]) <= 8e-7


@pytest.mark.parametrize("strict_chip", ["trn1", sweeps.whole("trn2")], indirect=True)
def test_dry_run_is_the_real_timeline(strict_chip):
    for filters in (1, 300):
        spectrum = np.fft.rfft(real(filters, 320))
        timeline = launch(real(300, 320), spectrum, (16, 20))[1]
        assert dry(300, (16, 20), filters).total_ns == timeline.total_ns


@BOTH
def test_rows_are_independent_and_so_are_filters():
    for radices, batch in (((3, 5), 5), ((16, 20), 140)):
        n = math.prod(radices)
        x, h = real(batch, n), np.fft.rfft(real(batch, n))
        parts = np.stack([h.real, h.imag], 1).astype(np.float32)
        exact = np.fft.irfft(np.fft.rfft(x.astype(float)) * h.astype(np.complex64), n)
        with np.errstate(all="ignore"):
            check_rows_are_independent(lambda x, h=h, r=radices: launch(x, h, r)[0], x, exact, 4e-6)
            check_rows_are_independent(
                lambda p, x=x, r=radices: launch(x, p[:, 0] + 1j * p[:, 1], r)[0],
                parts,
                exact,
                4e-6,
            )


@BOTH
def test_a_product_that_overflows_stays_in_its_row():
    x, h = real(130, 60), np.fft.rfft(real(130, 60))
    exact = np.fft.irfft(np.fft.rfft(x.astype(float)) * h.astype(np.complex64), 60)
    x[7] *= 1e20
    h[7] *= 1e20
    with np.errstate(all="ignore"):
        result = launch(x, h, (12, 5))[0]
    others = np.arange(130) != 7
    assert not np.isfinite(result[7]).all()
    assert error(result[others], exact[others]) <= 8e-7


@STRICT
@pytest.mark.parametrize(("chip", "programs"), [("trn1", 1), ("trn2", 2), sweeps.whole("trn3", 1)])
@pytest.mark.parametrize("radices", [(16, 20), (36, 36)], ids=str)
def test_loops_on_the_device_and_shares_of_programs(monkeypatch, chip, programs, radices):
    monkeypatch.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1000)
    n = math.prod(radices)
    block = 128 * max(1, 1024 // n)
    with hardware.select(hardware.chip(chip)):
        for batch in (1, 5 * block - 1):
            for filters in {1, batch}:
                x, h = real(batch, n), np.fft.rfft(real(filters, n))
                exact = np.fft.irfft(np.fft.rfft(x.astype(float)) * h.astype(np.complex64), n)
                assert error(launch(x, h, radices, programs)[0], exact) <= 8e-7


@STRICT
@pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("radices", [(16, 64), (32, 32)], ids=str)
def test_both_transforms_together_take_less_than_one_after_the_other(chip, radices):
    """Spectra and their products do not pass HBM: its floor for them is more than is lost here."""
    n, batch = math.prod(radices), 1024
    x, z = ((batch, n), "float32"), ((batch, n // 2 + 1), "float32")
    there, back = real_stockham_tables(n, radices), inverse_real_stockham_tables(n, radices)
    with hardware.select(hardware.chip(chip)):
        alone = (
            nki_sim.dry_run(real_stockham, x, *pack(there), radices).total_ns
            + nki_sim.dry_run(inverse_real_stockham, z, z, *pack(back), radices).total_ns
            + hardware.current().dma_floor_ns(batch * (n // 2 + 1), 16)
        )
        assert dry(batch, radices, 1).total_ns <= alone


@STRICT
@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("radices", [(8, 8), (80, 64)], ids=str)
def test_a_launch_has_few_instructions(monkeypatch, chip, radices):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", nki_kernels.launch.LAUNCH_INSTRUCTIONS)
    batch = hardware.HBM_TENSOR_BYTES // 4 // math.prod(radices)
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        assert fits(dry(batch, radices, 1))


@sweeps.some(
    "strict_chip, radices",
    itertools.product(["trn1", "trn2"], [(64, 64), (128, 32), (65, 63), (80, 64), (128, 40)]),
    [("trn1", (80, 64)), ("trn2", (128, 40))],
).with_args(ids=str, indirect=["strict_chip"])
def test_the_longest_rows_fit(strict_chip, radices):
    for batch in (128, 200, 512):
        for filters in (1, batch):
            assert fits(dry(batch, radices, filters))


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (8192, (128, 64), "n = 8192: convolutions in SBUF accept lengths up to 5120"),
        (12, (3, 5), "must be two with the product n = 12"),
        (12, (12,), "must be two with the product n = 12"),
        (258, (129, 2), "the first must be 2 to 128"),
        (130, (2, 65), "the second 2 to 64"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        convolution_tables(n, radices)
