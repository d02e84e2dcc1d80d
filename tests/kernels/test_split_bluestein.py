"""The split Bluestein kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices, batch and chip, also near the largest
float. Transforms must not mix, and long batches must need few instructions. Modelled times are
compared, too.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.fft.split_bluestein import (
    split_bluestein,
    split_bluestein_specs,
    split_bluestein_tables,
)
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, large_rows, normal

# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CORES = [("trn1", 1), sweeps.whole("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]
OTHERS = [("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]


def transform(x, radices, inverse=False, programs=1):
    """Result, timeline and exact input of one launch on the rows of complex ``x``."""
    n = x.shape[-1]
    tables = split_bluestein_tables(n, radices, inverse, 1 / n if inverse else 1.0)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    kernel = split_bluestein[programs]
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(kernel)(re, im, *pack(tables), radices)
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


@pytest.mark.parametrize(
    ("n", "radices"),
    [
        (1, (65, 3, 20)),
        (37, (65, 6, 12)),
        (1009, (66, 6, 12)),
        (2304, (128, 4, 9)),  # the data fill exactly 64 rows
        (4099, (128, 5, 13)),  # one piece
        (4099, (67, 4, 70)),
    ],
    ids=str,
)
def test_lengths_and_batches_both_ways(n, radices):
    for batch in (1, 3) if n < 2000 else (2,):
        forward, timeline, x = transform(normal(batch, n), radices)
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 2e-6
    backward, _, x = transform(normal(2 if n < 2000 else 1, n), radices, inverse=True)
    assert error(backward, np.fft.ifft(x)) <= 2e-6


@pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])
def test_pieces_in_pairs_and_one_alone(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for n, radices in ((65537, (66, 24, 84)), (98299, (72, 32, 96))):  # two pieces, and three
        result, _, x = transform(normal(1, n), radices)
        assert error(result, np.fft.fft(x)) <= 2e-6


@pytest.mark.parametrize("inverse", [False, True])
def test_no_number_on_the_way_overflows(inverse):
    for row in large_rows(1009):
        result, _, x = transform(row[None], (66, 6, 12), inverse)
        assert error(result, (np.fft.ifft if inverse else np.fft.fft)(x)) <= 2e-6


@pytest.mark.parametrize(("chip", "programs"), OTHERS)
def test_other_chips_and_two_cores_compute_the_same(monkeypatch, chip, programs):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for batch in (1, 3):  # two cores share the last of an odd batch
        result, _, x = transform(normal(batch, 2003), (66, 4, 32), programs=programs)
        assert error(result, np.fft.fft(x)) <= 2e-6


@pytest.mark.parametrize(("chip", "programs"), [("trn1", 1), sweeps.whole("trn2", 2)])
def test_transforms_are_independent(monkeypatch, chip, programs):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    x = normal(3, 601).astype(np.complex64)

    def run(spoiled):
        with np.errstate(all="ignore"):
            return transform(spoiled, (65, 3, 14), programs=programs)[0]

    check_rows_are_independent(run, x, np.fft.fft(x.astype(np.complex128)), 2e-6, rows=[1])


@pytest.mark.slow  # 2^21 numbers in the simulator, twice
def test_the_longest_prime_below_2_to_the_20():
    result, timeline, x = transform(normal(1, 1048573), (128, 128, 128))
    assert timeline.launches == 1
    assert error(result, np.fft.fft(x)) <= 2e-6


def dry_run(n, radices, batch, programs=1):
    """The timeline of a batch, without its arithmetic."""
    spec, tables = ((batch, n), "float32"), packed_spec(split_bluestein_specs(n, radices))
    with nki_sim.strict():
        return nki_sim.dry_run(split_bluestein[programs], spec, spec, *tables, radices)


@pytest.mark.parametrize(
    ("n", "radices"),
    [(1048573, (128, 128, 128)), sweeps.whole(2**22 - 3, (128, 64, 8, 128))],
    ids=str,
)
def test_long_batches_keep_the_rules_and_are_a_loop(n, radices):
    timeline = dry_run(n, radices, 2**29 // n)
    assert len(timeline.events) <= launch.LAUNCH_INSTRUCTIONS
    assert timeline.instructions > 10 * len(timeline.events)


@pytest.mark.parametrize(("chip", "floors"), [("trn1", 17.5), ("trn2", 22.5), ("trn3", 28.0)])
def test_a_long_prime_is_near_what_its_products_take(monkeypatch, chip, floors):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    n = 1048573
    found = dry_run(n, (128, 128, 128), 1)
    assert found.total_ns <= floors * hardware.chip(chip).dma_floor_ns(n)


def test_dry_run_is_the_real_timeline():
    _, timeline, x = transform(normal(2, 601), (65, 3, 14))
    assert dry_run(601, (65, 3, 14), 2).total_ns == timeline.total_ns


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (0, (65, 3, 14), "n >= 1"),
        (1366, (65, 3, 14), "M = 2730 >= 2 n - 1"),
        (10, (64, 3, 14), "the first must be 65 to 128"),
        (10, (65, 3, 10), "use another first radix"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        split_bluestein_tables(n, radices)
