"""The folded DFT kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for odd, even and prime lengths, any batch and chip, also in loops
and near the largest float. Rows must not mix, and every length must fit. Modelled times are
compared, too.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nki_kernels.launch
import nki_sim
from nki_kernels.fft.folded_dft import (
    MAX_LENGTH,
    MIN_LENGTH,
    folded_dft,
    folded_dft_specs,
    folded_dft_tables,
)
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, fits, large_rows, normal

TOLERANCE = 4e-7  # relative L2; 1.5e-7 to 2.2e-7 is usual
CHIPS = ("trn1", "trn2", "trn3")


# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
@pytest.fixture(params=["trn1", "trn2", sweeps.whole("trn3")])
def chip(request, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, request.param)
    return hardware.current()


def run(x, tables, cores=1):
    """Complex [B, N] by one strict launch."""
    parts = x.real.astype(np.float32), x.imag.astype(np.float32)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(folded_dft[cores])(*parts, *pack(tables))
    assert fits(timeline)
    return y_re + 1j * y_im.astype(np.float64)


def dry(n, batch, cores=1):
    spec = ((batch, n), "float32")
    with nki_sim.strict():
        specs = packed_spec(folded_dft_specs(n))
        return nki_sim.dry_run(folded_dft[cores], spec, spec, *specs)


ODD_AND_EVEN = [129, 130, 255, 256, 509, 997, 1024, 1025, 2047]


@sweeps.some(
    "n, inverse",
    itertools.product(ODD_AND_EVEN, [False, True]),
    [(n, place % 2 == 1) for place, n in enumerate(ODD_AND_EVEN)] + [(129, True), (130, False)],
)
def test_odd_even_and_prime_lengths_in_ragged_batches(chip, n, inverse):
    tables = folded_dft_tables(n, inverse, 1 / n if inverse else 1.0)
    for batch in (1, 2, 20, 130):
        x = normal(batch, n)
        exact = np.fft.ifft(x) if inverse else np.fft.fft(x)
        assert error(run(x, tables), exact) <= TOLERANCE


@pytest.mark.parametrize("step", [411, sweeps.whole(137)])
def test_every_length_fits_and_breaks_no_rule(chip, step):
    for n in range(MIN_LENGTH, MAX_LENGTH + 1, step):
        for batch in (1, 17, 300):
            assert fits(dry(n, batch))
    assert fits(dry(MAX_LENGTH, 700))


@pytest.mark.parametrize("n", [131, 383])
def test_loops_two_cores_and_spoiled_rows(monkeypatch, chip, n):
    tables = folded_dft_tables(n)
    x = normal(700, n)
    exact = np.fft.fft(x)
    for cores in range(1, chip.programs_per_launch + 1):
        with monkeypatch.context() as context:
            context.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1)
            assert error(run(x, tables, cores), exact) <= TOLERANCE
        assert error(run(x, tables, cores), exact) <= TOLERANCE
    check_rows_are_independent(lambda x: run(x, tables), x[:131], exact[:131], TOLERANCE)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", [130, 997])
def test_no_number_on_the_way_overflows(monkeypatch, n, inverse):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")  # which sets no row aside
    x = np.concatenate([large_rows(n), np.zeros((1, n))])
    x[3, n // 2] = np.float32(3e38)  # without a partner, if n is even
    found = run(x + 0j, folded_dft_tables(n, inverse))
    exact = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
    for row in range(len(x)):
        # Sums of equal numbers: their roundings add up.
        assert error(found[row], exact[row]) <= 5 * TOLERANCE


def test_rows_are_set_aside_only_near_the_largest_float():
    n = 997
    x = np.zeros((2, n))
    x[0], x[1, 3] = 5e37 / n, 1e36  # the norm times sqrt(2 N): 7.1e37 and 4.5e37
    found, exact = (
        run(x + 0j, folded_dft_tables(n)),
        np.fft.fft(x.astype(np.float32).astype(np.float64)),
    )
    for row in range(len(x)):
        assert error(found[row], exact[row]) <= 5 * TOLERANCE


@pytest.mark.parametrize(
    ("n", "most"),
    [(251, (1.8, 1.8, 2.4)), (509, (1.9, 2.3, 2.8)), (997, (2.9, 3.7, 4.6))],
)
def test_modelled_time_is_near_what_the_tensor_engine_needs(chip, n, most):
    batch = round(2**20 / n)
    timeline = dry(n, batch)
    ratio = timeline.total_ns / chip.dma_floor_ns(n * batch)
    assert ratio <= most[CHIPS.index(chip.name)]
    assert timeline.instructions <= 1100


@pytest.mark.parametrize("n", [131, sweeps.whole(383), sweeps.whole(1009), 2039])
def test_a_long_batch_is_a_loop_on_the_device(n):
    events = dry(n, 200_000).events  # of a loop's body once
    assert 2000 <= len(events) <= 12_000


def test_dry_run_is_the_real_timeline():
    n, x = 509, np.ones((300, 509), np.float32)
    with nki_sim.strict(), nki_sim.record() as timeline:
        nki_sim.simulate(folded_dft)(x, x, *pack(folded_dft_tables(n)))
    assert dry(n, 300).total_ns == timeline.total_ns


@pytest.mark.parametrize("n", [129, 256, 509, 2047])
def test_tables_are_as_specified(n):
    tables = folded_dft_tables(n, True, 0.5)
    assert tuple((table.shape, str(table.dtype)) for table in tables) == folded_dft_specs(n)
    halves = np.concatenate(tables[1:]).astype(np.float64)
    roots = 0.5 * np.fft.ifft(np.eye(n), norm="forward")[: n // 2 + 1, : n // 2 + 1]
    assert np.abs(halves[:, 0] - roots.real).max() <= 2**-25 + 1e-12
    assert np.abs(halves[:, 1] + roots.imag).max() <= 2**-25 + 1e-12


@pytest.mark.parametrize("n", [0, 128, 2048])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*129 to 2047"):
        folded_dft_tables(n)
