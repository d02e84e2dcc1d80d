"""The split four-step kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any radices, batch and chip, also in loops and shared by two
cores. Transforms must not mix. The kernel must need few instructions, and times near the floor of
three passes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.fft import split_four_step as split_kernel
from nki_kernels.fft.split_four_step import (
    split_four_step,
    split_four_step_specs,
    split_four_step_tables,
)
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, normal

# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CORES = [("trn1", 1), sweeps.whole("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]
OTHERS = [("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]


def arguments(tables):
    """The kernel's arguments for all of its tables."""
    matrices, *others = tables
    return matrices, *pack(tuple(others))


def transform(x, radices, inverse=False, programs=1):
    """Result, timeline and exact input of one launch on the rows of complex ``x``."""
    n = x.shape[-1]
    tables = split_four_step_tables(n, radices, inverse, 1 / n if inverse else 1.0)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    kernel = split_four_step[programs]
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(kernel)(re, im, *arguments(tables), radices)
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


@pytest.mark.parametrize(
    "radices",
    [(2, 64, 64), (9, 16, 27), (16, 16, 16), (64, 32, 64), (65, 6, 12), (128, 8, 16)],
    ids=str,
)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    for batch in (1, 3):
        forward, timeline, x = transform(normal(batch, n), radices)
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 8e-7
    backward, _, x = transform(normal(2, n), radices, inverse=True)
    assert error(backward, np.fft.ifft(x)) <= 8e-7


@pytest.mark.parametrize(("chip", "programs"), OTHERS)
@pytest.mark.parametrize("radices", [(2, 16, 80), (70, 3, 30)], ids=str)
def test_other_chips_and_two_cores_compute_the_same(monkeypatch, chip, programs, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for batch in (1, 2, 3):  # two cores share the last of an odd batch
        result, _, x = transform(normal(batch, math.prod(radices)), radices, programs=programs)
        assert error(result, np.fft.fft(x)) <= 8e-7


@pytest.mark.parametrize(("chip", "programs"), CORES)
@pytest.mark.parametrize("radices", [(33, 16, 65), (128, 40, 64)], ids=str)
def test_passes_that_are_loops_on_the_device(monkeypatch, chip, programs, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(split_kernel, "_UNROLLED", 0)
    monkeypatch.setattr(split_kernel, "_PIECE", 130)
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 64)
    for batch in (1, 2):
        result, timeline, x = transform(
            normal(batch, math.prod(radices)), radices, programs=programs
        )
        assert error(result, np.fft.fft(x)) <= 8e-7
        assert timeline.instructions > len(timeline.events)


@pytest.mark.parametrize(("chip", "programs"), CORES)
def test_transforms_are_independent(monkeypatch, chip, programs):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    x = normal(5, 9 * 6 * 60).astype(np.complex64)

    def run(spoiled):
        with np.errstate(all="ignore"):
            return transform(spoiled, (9, 6, 60), programs=programs)[0]

    check_rows_are_independent(run, x, np.fft.fft(x.astype(np.complex128)), 8e-7)


def dry_run(n, radices, batch, programs=1):
    """The timeline of a batch, without its arithmetic."""
    matrices, *others = split_four_step_specs(radices)
    spec, tables = ((batch, n), "float32"), packed_spec(tuple(others))
    with nki_sim.strict():
        return nki_sim.dry_run(split_four_step[programs], spec, spec, matrices, *tables, radices)


@pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])
def test_long_batches_keep_the_rules_and_are_a_loop(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for radices in ((128, 64, 128), (128, 128, 128)):
        n = math.prod(radices)
        timeline = dry_run(n, radices, 2**29 // n)
        assert len(timeline.events) <= launch.LAUNCH_INSTRUCTIONS
        assert timeline.instructions > 50 * len(timeline.events)


@pytest.mark.parametrize(
    ("batch", "radices"),
    [sweeps.whole(1, (128, 64, 64, 128)), (16, (128, 64, 32, 128))],
    ids=str,
)
def test_the_longest_keep_the_rules_and_have_few_instructions(batch, radices):
    timeline = dry_run(math.prod(radices), radices, batch)
    assert len(timeline.events) <= launch.LAUNCH_INSTRUCTIONS < timeline.instructions


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_two_cores_share_a_batch_and_one_transform(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for radices, batch, limit in (
        ((128, 64, 128), 2, 0.6),
        ((128, 64, 128), 1, 0.64),
        ((128, 128, 128), 1, 0.6),
    ):
        n = math.prod(radices)
        one, two = (dry_run(n, radices, batch, programs).total_ns for programs in (1, 2))
        assert two <= limit * one


@pytest.mark.parametrize(("chip", "floors"), [("trn1", 5.0), ("trn2", 5.4), ("trn3", 6.7)])
def test_three_passes_are_near_their_floor(monkeypatch, chip, floors):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    n, radices = 2**21, (128, 128, 128)
    assert dry_run(n, radices, 1).total_ns <= floors * hardware.chip(chip).dma_floor_ns(n)


@pytest.mark.slow  # 2^22 numbers in the simulator
def test_two_to_the_22():
    result, timeline, x = transform(normal(1, 2**22), (128, 64, 4, 128))
    assert timeline.launches == 1
    assert error(result, np.fft.fft(x)) <= 8e-7


def test_dry_run_is_the_real_timeline():
    radices = (16, 16, 16)
    _, timeline, x = transform(normal(2, 4096), radices)
    spec, tables = (x.shape, "float32"), split_four_step_tables(4096, radices)
    dry = nki_sim.dry_run(split_four_step, spec, spec, *arguments(tables), radices)
    assert dry.total_ns == timeline.total_ns


@pytest.mark.parametrize("radices", [(130, 4, 4), (40, 52), (2, 3, 7)])
def test_bad_plans_are_refused(radices):
    with pytest.raises(ValueError, match="three or more, with the product n = 2080, and the first"):
        split_four_step_tables(2080, radices)


@pytest.mark.parametrize("radices", [(2, 4, 4), (13, 13, 13), (2, 3, 31)])
def test_plans_that_do_not_fill_the_tensor_engine_are_refused(radices):
    with pytest.raises(ValueError, match="use another first radix"):
        split_four_step_tables(math.prod(radices), radices)
