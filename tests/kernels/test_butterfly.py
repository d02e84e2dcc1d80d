"""The butterfly kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers, and exact ones with compensation, for every length, batch and chip,
also in loops. Rows must not mix. Modelled times and instructions are compared, too.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.fft.butterfly import butterfly
from nki_kernels.fft.butterfly_tables import (
    MAX_COMPENSATED_LENGTH,
    MAX_LENGTH,
    Geometry,
    butterfly_specs,
    butterfly_tables,
)
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, normal

CASES = [(2**k, False) for k in range(1, 15)] + [(2**k, True) for k in range(1, 13)]
ONE_ROUNDING = 2**-24  # the most that rounding the result once can do
COMPENSATED_BOUND = 3.5e-8  # and what it does to many numbers: 2.6e-8


def batches(n, compensated):
    """Batches with ragged blocks; one of several rows a partition where that is quick."""
    return (1, 3, 128, 300) if n <= (32 if compensated else 256) else (3,)


def bound(n, compensated):
    if compensated:
        return ONE_ROUNDING if n < 64 else COMPENSATED_BOUND
    return 6e-7 if n <= 4096 else 8e-7


def transform(x, inverse=False, scale=1.0, compensated=False, programs=1):
    """Result, timeline and float64 input of one launch on the rows of complex ``x``."""
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    tables = butterfly_tables(x.shape[-1], inverse, scale, compensated)
    kernel = butterfly if programs == 1 else butterfly[programs]
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(kernel)(re, im, *pack(tables), compensated)
    assert timeline.launches == 1
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


def priced(n, compensated, batch, chip="trn1", programs=1):
    """The timeline of a launch on a chip, without data, that breaks no rule."""
    spec, tables = ((batch, n), "float32"), packed_spec(butterfly_specs(n, compensated))
    kernel = butterfly if programs == 1 else butterfly[programs]
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        return nki_sim.dry_run(kernel, spec, spec, *tables, compensated)


def block_rows(n, compensated):
    return 128 * max(1, Geometry(n, compensated).points // n)


@pytest.mark.parametrize(
    ("n", "compensated", "many"),
    [
        *((*case, batches(*case)) for case in CASES),
        *(sweeps.whole(n, False, (1, 128, 300)) for n in (512, 1024)),
        *(sweeps.whole(n, True, (1, 128, 300)) for n in (64, 128, 256)),
    ],
    ids=str,
)
def test_every_length_both_ways(n, compensated, many):
    for batch in many:
        forward, _, x = transform(normal(batch, n), compensated=compensated)
        assert error(forward, np.fft.fft(x)) <= bound(n, compensated)
        backward, _, x = transform(normal(batch, n), True, 1 / n, compensated)
        assert error(backward, np.fft.ifft(x)) <= bound(n, compensated)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "compensated"), CASES)
def test_more_rows_than_a_block(n, compensated):
    batch = block_rows(n, compensated) + 131 if n <= 4096 else 131
    result, _, x = transform(normal(batch, n), compensated=compensated)
    assert error(result, np.fft.fft(x)) <= bound(n, compensated)


@pytest.mark.parametrize(
    ("n", "compensated", "chip", "programs"),
    [
        sweeps.whole(1024, False, "trn1", 1),
        (1024, False, "trn2", 2),
        (8192, False, "trn3", 1),
        (256, True, "trn2", 1),
        pytest.param(4, False, "trn1", 1, marks=pytest.mark.slow),
        pytest.param(64, False, "trn3", 2, marks=pytest.mark.slow),
        pytest.param(16384, False, "trn1", 1, marks=pytest.mark.slow),
        pytest.param(16384, False, "trn2", 2, marks=pytest.mark.slow),
        pytest.param(4096, True, "trn3", 2, marks=pytest.mark.slow),
    ],
)
def test_loops_on_the_device(monkeypatch, n, compensated, chip, programs):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 1)
    batch = programs * 2 * block_rows(n, compensated) + 3  # two iterations and a ragged rest
    with hardware.select(hardware.chip(chip)):
        result, _, x = transform(normal(batch, n), compensated=compensated, programs=programs)
    assert error(result, np.fft.fft(x)) <= bound(n, compensated)


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize(
    ("n", "compensated"), [(2, False), (128, False), (8192, False), (64, True)]
)
def test_two_cores_share_the_rows(chip, n, compensated):
    with hardware.select(hardware.chip(chip)):
        # Of one row the first core has none.
        for batch in (1, 2, 131 if compensated else 301) if n <= 128 else (1, 2):
            result, _, x = transform(normal(batch, n), compensated=compensated, programs=2)
            assert error(result, np.fft.fft(x)) <= bound(n, compensated)


@sweeps.some(
    "n, compensated, batch, chip",
    [
        (*case, chip)
        for case in ((8, False, 300), (512, False, 131), (64, True, 300), (8192, False, 2))
        for chip in hardware.NAMES
    ],
    [
        (8, False, 300, "trn1"),
        (8, False, 300, "trn2"),
        (512, False, 131, "trn2"),
        (64, True, 300, "trn1"),
        (8192, False, 2, "trn2"),
    ],
)
def test_rows_are_independent(chip, n, compensated, batch):
    x = normal(batch, n).astype(np.complex64)
    rows = None if n == 8 else (batch // 2,)

    def run(rows):
        with np.errstate(all="ignore"):
            return transform(rows, compensated=compensated)[0]

    with hardware.select(hardware.chip(chip)):
        exact = np.fft.fft(x.astype(complex))
        check_rows_are_independent(run, x, exact, 2 * bound(n, compensated), rows)


@pytest.mark.parametrize("compensated", [False, True])
@pytest.mark.parametrize("n", [2, 32, 1024, sweeps.whole(4096)])
def test_inverse_of_forward_is_the_input(n, compensated):
    forward, _, x = transform(normal(3, n), compensated=compensated)
    back, _, _ = transform(forward, True, 1 / n, compensated)
    # The spectrum is rounded to float32 between the two, whatever the mode.
    assert error(back, x) <= (6e-8 if compensated else 6e-7)


@pytest.mark.parametrize("compensated", [False, True])
def test_scale_is_part_of_the_tables(compensated):
    result, _, x = transform(normal(5, 64), scale=1 / 8, compensated=compensated)
    assert error(result, np.fft.fft(x, norm="ortho")) <= bound(64, compensated)


def test_compensated_transform_of_a_small_signal_on_a_large_constant():
    x = 1e4 + normal(4, 1024)
    result, _, x = transform(x, compensated=True)
    reference = np.fft.fft(x)
    signal = slice(1, None)  # everything but the constant, a 3e5th of the norm
    assert error(result[:, signal], reference[:, signal]) <= COMPENSATED_BOUND
    fast, _, _ = transform(x)
    assert error(fast[:, signal], reference[:, signal]) > 1e-5


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize(("n", "compensated"), [(128, False), (8192, False), (512, True)])
def test_other_chips_compute_the_same(monkeypatch, chip, n, compensated):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    result, _, x = transform(normal(3, n), compensated=compensated)
    assert error(result, np.fft.fft(x)) <= bound(n, compensated)


@pytest.mark.parametrize(("n", "compensated", "batch"), [(64, False, 500), (4096, True, 3)])
def test_dry_run_is_the_real_timeline(n, compensated, batch):
    _, timeline, _ = transform(normal(batch, n), compensated=compensated)
    spec, tables = ((batch, n), "float32"), butterfly_tables(n, compensated=compensated)
    dry = nki_sim.dry_run(butterfly, spec, spec, *pack(tables), compensated)
    assert dry.total_ns == timeline.total_ns


@pytest.mark.parametrize(
    ("n", "compensated", "ratio"),
    [(64, False, 4.6), (4096, False, 9.8), (16384, False, 13.2), (64, True, 29), (4096, True, 67)],
)
def test_modelled_time_is_bound_by_the_vector_engine(n, compensated, ratio):
    batch = max(128, 2**20 // n)
    timeline = priced(n, compensated, batch)
    assert timeline.total_ns <= ratio * hardware.chip("trn1").dma_floor_ns(batch * n)
    assert timeline.engine_busy_ns["vector"] >= 0.75 * timeline.total_ns


@pytest.mark.parametrize(("n", "compensated"), [(64, False), (4096, False)])
def test_two_cores_take_half_the_time(n, compensated):
    alone, both = (priced(n, compensated, 2**21 // n, "trn2", programs) for programs in (1, 2))
    assert both.total_ns <= 0.55 * alone.total_ns


@pytest.mark.parametrize("chip", ["trn1", sweeps.whole("trn2"), sweeps.whole("trn3")])
@pytest.mark.parametrize(
    ("n", "compensated"),
    [(2, False), (8, False), (128, False), (4096, False), (8192, False), (2048, True)],
)
def test_loads_do_not_run_too_far_ahead(chip, n, compensated):
    timeline = priced(n, compensated, 4 * block_rows(n, compensated), chip)
    assert not timeline.waived_rules


@pytest.mark.parametrize(
    ("n", "compensated", "batch"),
    [
        (64, False, hardware.HBM_TENSOR_BYTES // 4 // 64 - 1),
        (4096, True, 6 * 128 - 1),  # a row less than the shortest loop
    ],
)
def test_no_batch_takes_many_instructions(monkeypatch, n, compensated, batch):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    timeline = priced(n, compensated, batch)
    block = priced(n, compensated, block_rows(n, compensated)).instructions
    assert timeline.instructions >= 5 * block
    assert not timeline.waived_rules


def test_a_loop_takes_no_longer_than_its_blocks(monkeypatch):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 3000)
    looped = priced(1024, False, 40 * 512)
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 10**9)
    assert looped.total_ns <= 1.03 * priced(1024, False, 40 * 512).total_ns


@pytest.mark.parametrize("n", [0, 1, 3, 96, -2, 2 * MAX_LENGTH])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}: the butterfly accepts powers .* 2 to 16384"):
        butterfly_tables(n)


@pytest.mark.parametrize("n", [1, 12, 2 * MAX_COMPENSATED_LENGTH])
def test_compensated_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}: the compensated .* 2 to 4096"):
        butterfly_tables(n, compensated=True)


@pytest.mark.parametrize("compensated", [False, True])
@pytest.mark.parametrize("n", [2, 8, 64, 2048, 4096])
def test_specs_are_those_of_the_tables(n, compensated):
    tables = butterfly_tables(n, compensated=compensated)
    specs = [(table.shape, str(table.dtype)) for table in tables]
    assert specs == [*butterfly_specs(n, compensated)]
