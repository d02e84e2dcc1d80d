"""The four-step kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for two or more radices, any batch and chip, also with streamed
tables and in loops. Transforms must not mix, and data must travel over HBM once. Modelled times are
compared, too.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.fft import four_step as kernel_file
from nki_kernels.fft.four_step import four_step
from nki_kernels.fft.four_step_tables import four_step_specs, four_step_tables
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, normal

PLANS = [
    (2, 2),
    (3, 5),
    (64, 64),
    (128, 128),
    (128, 2),
    (2, 127),
    (5, 6, 7, 8),
    (7, 11, 13),
    (100, 3, 9),
    (80, 125),
    (64, 2, 128),
    (32, 4, 4, 32),
    (2, 2, 2),
    (16, 16, 16),
    (32, 32, 40),
    (3, 4, 5, 6, 7),
    (2, 3, 3, 8, 2),  # of which two products of a stage share a matrix
    (12, 100, 3),
]


# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CORES = [("trn1", 1), sweeps.whole("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]
OTHERS = [("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]


def transform(x, radices, inverse=False, programs=1):
    """Result, timeline and exact input of one launch on the rows of complex ``x``."""
    n = x.shape[-1]
    tables = four_step_tables(n, radices, inverse, 1 / n if inverse else 1.0)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(four_step[programs])(re, im, *pack(tables), radices)
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


def dry_run(radices, batch, programs=1):
    """The timeline of a batch, without its arithmetic."""
    spec = ((batch, math.prod(radices)), "float32")
    with nki_sim.strict():
        return nki_sim.dry_run(
            four_step[programs], spec, spec, *packed_spec(four_step_specs(radices)), radices
        )


def modelled(radices, batch, programs=1):
    """Modelled nanoseconds, and the DMA floor."""
    floor = hardware.current().dma_floor_ns(batch * math.prod(radices))
    return dry_run(radices, batch, programs).total_ns, floor


@sweeps.some("radices", PLANS, [each for each in PLANS if each != (32, 4, 4, 32)]).with_args(
    ids=str
)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    for batch in (1, 2, 5):
        forward, timeline, x = transform(normal(batch, n), radices)
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 6e-7
    backward, _, x = transform(normal(3, n), radices, inverse=True)
    assert error(backward, np.fft.ifft(x)) <= 6e-7


@pytest.mark.parametrize(
    ("radices", "batch"),
    [
        *itertools.product([(8, 4, 8), (16, 2, 16), (10, 6, 30), (64, 30)], [7, 33]),
        ((8, 4, 8), 130),
        *(sweeps.whole(each, 130) for each in ((16, 2, 16), (10, 6, 30), (64, 30))),
    ],
    ids=str,
)
def test_blocks_of_several_transforms(radices, batch):
    forward, timeline, x = transform(normal(batch, math.prod(radices)), radices)
    assert timeline.launches == 1
    reference = np.fft.fft(x)
    assert max(map(error, forward, reference)) <= 6e-7


@pytest.mark.parametrize(
    "radices", [(64, 8, 128), (64, 64, 128), (90, 100, 20), (31, 55, 5, 30)], ids=str
)
def test_long_transforms(radices):
    result, timeline, x = transform(normal(1, math.prod(radices)), radices)
    assert timeline.launches == 1
    assert error(result, np.fft.fft(x)) <= 8e-7


def test_the_longest_transform_reads_and_writes_once():
    radices, chip = (128, 64, 128), hardware.current()
    result, timeline, x = transform(normal(1, 2**20), radices)
    assert error(result, np.fft.fft(x)) <= 8e-7
    assert timeline.hbm_bytes <= 2.05 * 16 * 2**20  # its tables are streamed, as much as its data
    assert timeline.total_ns <= 3.8 * chip.dma_floor_ns(2**20)


@sweeps.some(
    "radices, chip, programs",
    [
        (radices, *launch)
        for radices in ((16, 8, 20), (20, 25, 3, 11), (10, 70, 12))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [
        ((16, 8, 20), "trn1", 1),
        ((16, 8, 20), "trn2", 2),
        ((20, 25, 3, 11), "trn1", 1),
        ((10, 70, 12), "trn2", 1),
        ((10, 70, 12), "trn2", 2),
    ],
).with_args(ids=str)
def test_streamed_tables_in_a_loop(monkeypatch, chip, programs, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 100)
    resident = dry_run(radices, 21, programs).hbm_bytes
    monkeypatch.setattr(kernel_file, "SMALLEST_SBUF", 0)
    result, timeline, x = transform(normal(21, math.prod(radices)), radices, programs=programs)
    assert max(map(error, result, np.fft.fft(x))) <= 6e-7
    assert timeline.hbm_bytes > resident


def test_the_longest_state_fits_every_chip(monkeypatch):
    for chip in hardware.NAMES:
        monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
        assert dry_run((100, 92, 111), 3).sbuf_peak_bytes <= 192 << 10


@pytest.mark.parametrize(("chip", "programs"), OTHERS)
@pytest.mark.parametrize("radices", [(64, 3, 50), (7, 16), (70, 20), (5, 4, 3, 40)], ids=str)
def test_other_chips_and_two_cores_compute_the_same(monkeypatch, chip, programs, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for batch in (1, 5):
        result, _, x = transform(normal(batch, math.prod(radices)), radices, programs=programs)
        assert error(result, np.fft.fft(x)) <= 6e-7


@pytest.mark.parametrize(("chip", "programs"), CORES)
@pytest.mark.parametrize("batch", [40, 67])
@pytest.mark.parametrize("radices", [(16, 8, 20), (70, 12)], ids=str)
def test_loops_on_the_device_and_what_they_leave(monkeypatch, chip, programs, batch, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 100)
    result, timeline, x = transform(normal(batch, math.prod(radices)), radices, programs=programs)
    assert max(map(error, result, np.fft.fft(x))) <= 6e-7
    assert timeline.instructions > len(timeline.events)


@sweeps.some(
    "radices, chip, programs",
    [
        (radices, *launch)
        for radices in ((16, 3, 20), (32, 40), (70, 3, 9), (32, 4, 33))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [
        ((16, 3, 20), "trn1", 1),
        ((16, 3, 20), "trn2", 2),
        ((32, 40), "trn1", 1),
        ((32, 40), "trn2", 2),
        ((70, 3, 9), "trn1", 1),
        ((32, 4, 33), "trn2", 1),
    ],
).with_args(ids=str)
def test_transforms_are_independent(monkeypatch, chip, programs, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    x = normal(9, math.prod(radices)).astype(np.complex64)

    def run(spoiled):
        with np.errstate(all="ignore"):
            return transform(spoiled, radices, programs=programs)[0]

    check_rows_are_independent(run, x, np.fft.fft(x.astype(np.complex128)), 6e-7)


@sweeps.some(
    "radices", [(128, 128), (32, 16, 128), (64, 64, 128)], [(128, 128), (32, 16, 128)]
).with_args(ids=str)
def test_instructions_of_the_batch_that_fills_hbm(radices):
    batch = 2**29 // math.prod(radices)
    if batch > 2**12:
        batch = 2**12  # as many instructions, in fewer iterations
    assert len(dry_run(radices, batch).events) <= launch.LAUNCH_INSTRUCTIONS


def test_modelled_times():
    limits = {
        (64, 128): 2.9,  # a copy for each row, which costs the DMA engines more than its bytes
        (128, 128): 2.1,
        (32, 8, 128): 1.9,
        (32, 16, 128): 2.0,
        (50, 8, 100): 3.2,
    }
    for radices, limit in limits.items():
        time, floor = modelled(radices, 2**20 // math.prod(radices))
        assert time <= limit * floor
    assert modelled((16, 64), 1)[0] <= 8_000
    assert modelled((64, 64), 1)[0] <= 9_000
    assert modelled((64, 8, 128), 1)[0] <= 28_000


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_two_cores_halve_the_time_of_a_batch(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    # Filling the pipeline takes as long on each: the longer a transform, the more of the time.
    for radices, limit in (((128, 128), 0.55), ((64, 8, 128), 0.55), ((64, 32, 128), 0.6)):
        batch = 2**21 // math.prod(radices)
        assert modelled(radices, batch, 2)[0] <= limit * modelled(radices, batch)[0]


def test_dry_run_is_the_real_timeline():
    radices = (16, 4, 16)
    _, timeline, _ = transform(normal(3, 1024), radices)
    assert modelled(radices, 3)[0] == timeline.total_ns


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (12, (3, 5), "product n = 12"),
        (12, (12,), "two or more"),
        (258, (2, 129), "each must be 2 to 128"),
        (2**21, (128, 128, 128), "lengths up to 1048576"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        four_step_tables(n, radices)
