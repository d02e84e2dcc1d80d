"""The Stockham kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any radices, precision, batch and chip, also with streamed
tables, with slabs that share row tiles, and with batches as loops. Rows must not mix, and
instructions must be few.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_kernels.fft.stockham
import nki_kernels.launch
import nki_sim
from nki_kernels.fft.stage import MAX_LENGTH
from nki_kernels.fft.stockham import stockham, stockham_tables
from nki_kernels.packing import pack
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, normal

# The seed's plans, wide plans, odd radices, radices above 64, and one stage alone.
PLANS = [
    (2, 2),
    (4, 4, 4, 4),
    (8, 8, 8),
    (8, 8, 4, 4),
    (8, 8, 8, 4),
    (4,) * 6,
    (8,) * 4,
    (64, 64),
    (32, 125),
    (27, 81),
    (3, 5, 7, 11),
    (2, 127),
    (128, 2),
    (13, 64),
    (100,),
    (2,),
    (5, 5, 5, 5, 5),
]

# Whose tables do not all stay in SBUF; beyond N = 4096 the input comes in two parts.
STREAMED = [
    (2,) * 12,
    (32, 128),
    (70, 70),
    (8, 8, 8, 4, 4),
    (32, 16, 16),
    (64, 128),
    (128, 64),
    (80, 128),
]

# Table options, and bounds of the relative L2 error up to N = 4096.
BF16 = ({"dtype": "bfloat16"}, 1e-3, 1e-2)
REFINED = ({"dtype": "bfloat16", "refined": True}, 1e-6, 1.5e-5)
PRECISIONS = pytest.mark.parametrize(
    ("options", "least", "most"), [BF16, REFINED], ids=["bf16", "refined"]
)


def transform(x, radices, inverse=False, cores=1, **options):
    """Result, timeline and exact input of one launch on the rows of complex ``x``."""
    n = x.shape[-1]
    tables = stockham_tables(n, radices, inverse, 1 / n if inverse else 1.0, **options)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(stockham[cores])(re, im, *pack(tables), radices)
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


LONG = [(8, 8, 8, 4), (4,) * 6, (8,) * 4]  # not by default


def is_quick(radices):
    """Few stages or few points."""
    return len(radices) < 4 or math.prod(radices) < 300


@pytest.mark.parametrize(
    ("radices", "batches"),
    [
        *((each, (1, 2, 130) if is_quick(each) else (1, 3)) for each in PLANS if each not in LONG),
        *(sweeps.whole(each, (1, 2, 130)) for each in PLANS if not is_quick(each)),
    ],
    ids=str,
)
def test_radices_and_batches_both_ways(radices, batches):
    n = math.prod(radices)
    for batch in batches:
        forward, timeline, x = transform(normal(batch, n), radices)
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 6e-7
    backward, _, x = transform(normal(3, n), radices, inverse=True)
    assert error(backward, np.fft.ifft(x)) <= 6e-7


@sweeps.some("radices", STREAMED, [each for each in STREAMED if len(each) < 3]).with_args(ids=str)
def test_streamed_tables_both_ways(radices):
    n = math.prod(radices)
    for batch, inverse in ((2, True), (130 if len(radices) < 4 else 3, False)):
        result, timeline, x = transform(normal(batch, n), radices, inverse)
        assert timeline.launches == 1
        assert error(result, np.fft.ifft(x) if inverse else np.fft.fft(x)) <= 6e-7


@pytest.mark.parametrize(("radices", "batch"), [((4, 8, 16), 300), ((3, 90), 260), ((2, 65), 2)])
@pytest.mark.parametrize("options", [{}, BF16[0], REFINED[0]], ids=["fp32", "bf16", "refined"])
def test_streamed_tables_give_the_same_as_resident_ones(monkeypatch, radices, batch, options):
    x = normal(batch, math.prod(radices))
    resident, before, _ = transform(x, radices, **options)
    monkeypatch.setattr(nki_kernels.fft.row_transforms, "SMALLEST_SBUF", 0)
    streamed, after, _ = transform(x, radices, **options)
    assert after.sbuf_peak_bytes != before.sbuf_peak_bytes
    np.testing.assert_array_equal(streamed, resident)


@pytest.mark.parametrize("n", [n for n in range(4, 130) if n % 2 == 0])
def test_every_even_length_in_two_stages(n):
    result, _, x = transform(normal(5, n), (2, n // 2))
    assert error(result, np.fft.fft(x)) <= 6e-7


@pytest.mark.parametrize(("radices", "batch"), [((16, 16), 1500), ((5, 6, 7), 700)])
def test_several_transforms_a_partition(radices, batch):
    result, _, x = transform(normal(batch, math.prod(radices)), radices)
    assert error(result, np.fft.fft(x)) <= 6e-7


# Halves of exactly 64 rows, others with zeros behind them, in the first, a middle and the last
# stage; radices up to 32 whose stages have an odd number of K, so that they take the whole array.
ROW_TILES = [(32, 32), (8, 30), (24, 16), (16, 25), (64, 12), (4, 8, 28), (2, 25, 4), (3, 32, 5)]


# By turns on one chip or the other.
@sweeps.some(
    "radices, chip",
    itertools.product(ROW_TILES, hardware.NAMES),
    [(each, hardware.NAMES[place % 2]) for place, each in enumerate(ROW_TILES)]
    + [((32, 32), "trn2"), ((16, 25), "trn1")],
).with_args(ids=str, indirect=["chip"])
def test_row_tiles(chip, radices):
    """Of an even and an odd number of rows a partition, and of a few partitions."""
    n = math.prod(radices)
    for batch, inverse in ((300, False), (258, True), (3, True), (1, False)):
        result, _, x = transform(normal(batch, n), radices, inverse)
        assert error(result, np.fft.ifft(x) if inverse else np.fft.fft(x)) <= 6e-7


@pytest.mark.parametrize("options", [BF16[0], REFINED[0]], ids=["bf16", "refined"])
def test_row_tiles_of_bfloat16(chip, options):
    result, _, x = transform(normal(258, 600), (24, 25), **options)
    assert error(result, np.fft.fft(x)) <= (1e-2 if options == BF16[0] else 1.5e-5)


def test_row_tiles_spare_the_tensor_engine(chip):
    """Two full stages in row tiles against two of radix 64, whose tables have no zeros."""
    busy = []
    for radices in ((32, 32), (64, 64)):
        n = math.prod(radices)
        spec, tables = ((2**20 // n, n), "float32"), stockham_tables(n, radices)
        found = nki_sim.dry_run(stockham, spec, spec, *pack(tables), radices)
        busy.append(found.engine_busy_ns["tensor"])
    assert busy[0] <= 0.73 * busy[1]


# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_other_chips_compute_the_same(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    result, _, x = transform(normal(130, 480), (20, 24))
    assert error(result, np.fft.fft(x)) <= 6e-7


@pytest.fixture(params=["trn1", "trn2", sweeps.whole("trn3")])
def chip(request, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, request.param)
    return hardware.current()


@sweeps.some(
    "radices", [(4, 4), (16, 16), (8, 4, 16), (128, 2), (2, 37)], [(4, 4), (16, 16), (2, 37)]
).with_args(ids=str)
def test_loops_and_two_cores(monkeypatch, chip, radices):
    """Whatever is left of a batch when loops of blocks and shares of programs are done."""
    n = math.prod(radices)
    for batch in (1, 3, 1500, 3001):
        if batch * n > 2**19:
            continue
        x = normal(batch, n)
        for cores in range(1, chip.programs_per_launch + 1):
            with monkeypatch.context() as context:
                context.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1)
                result, _, exact = transform(x, radices, cores=cores)
            assert error(result, np.fft.fft(exact)) <= 6e-7


@sweeps.some(
    "chip, options",
    itertools.product(hardware.NAMES, [{}, BF16[0], REFINED[0]]),
    [*itertools.product(["trn1"], [{}, BF16[0], REFINED[0]]), ("trn2", {}), ("trn2", BF16[0])],
).with_args(indirect=["chip"])
def test_rows_are_independent(chip, options):
    limit = {0: 6e-7, 1: 1e-2, 2: 2e-5}[len(options)]
    for radices, batch in (((16, 16), 260), ((3, 90), 5), ((8, 8, 8), 2), ((64, 66), 3)):
        x = normal(batch, math.prod(radices)).astype(np.complex64)
        check_rows_are_independent(
            lambda z, r=radices: transform(z, r, **options)[0],
            x,
            np.fft.fft(x),
            limit,
            rows=(0, batch - 1) if batch > 2 else None,
        )


def test_a_large_batch_is_few_instructions_and_little_slower(monkeypatch, chip):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", nki_kernels.launch.LAUNCH_INSTRUCTIONS)
    for radices in ((32, 32), (64, 64)):
        n = math.prod(radices)
        tables, times = stockham_tables(n, radices), []
        for batch in (2**29 // n, 2**22 // n):
            spec = ((batch, n), "float32")
            with nki_sim.strict():
                found = nki_sim.dry_run(stockham, spec, spec, *pack(tables), radices)
            times.append(found.total_ns / batch)
        assert times[0] <= 1.1 * times[1]


@pytest.mark.parametrize("name", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("radices", [(16, 16), (32, 32), (64, 64)], ids=str)
def test_two_cores_take_half_the_time(monkeypatch, name, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, name)
    n = math.prod(radices)
    spec, tables = ((2**21 // n, n), "float32"), stockham_tables(n, radices)
    one, two = (
        nki_sim.dry_run(stockham[cores], spec, spec, *pack(tables), radices).total_ns
        for cores in (1, 2)
    )
    # Of 1024 points and more each core has few blocks: the first load and the last store overlap
    # nothing.
    assert two <= (0.55 if n < 1024 else 0.62) * one


@PRECISIONS
@sweeps.some(
    "radices",
    PLANS,
    [(2, 2), (64, 64), (32, 125), (3, 5, 7, 11), (2, 127), (128, 2), (100,), (2,), (8, 8, 4, 4)],
).with_args(ids=str)
def test_bfloat16_radices_and_batches_both_ways(radices, options, least, most):
    n = math.prod(radices)
    for batch, inverse in ((2, True), (130 if n < 1000 else 5, False)):
        result, timeline, x = transform(normal(batch, n), radices, inverse, **options)
        assert timeline.launches == 1
        found = error(result, np.fft.ifft(x) if inverse else np.fft.fft(x))
        assert found <= most
        assert found >= least or n * batch < 1000  # coarse, or it was not bfloat16


@PRECISIONS
@sweeps.some("radices", [(4,) * 6, (32, 16, 16), (128, 64), (80, 128)], [(128, 64)]).with_args(
    ids=str
)
def test_bfloat16_streamed_tables(radices, options, least, most):
    result, _, x = transform(normal(2, math.prod(radices)), radices, **options)
    assert least <= error(result, np.fft.fft(x)) <= most


@PRECISIONS
@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("radices", [(20, 24), (2, 127), (4, 4, 4)], ids=str)
def test_bfloat16_on_other_chips(monkeypatch, chip, radices, options, least, most):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    result, _, x = transform(normal(300, math.prod(radices)), radices, **options)
    assert least <= error(result, np.fft.fft(x)) <= most


def test_dry_run_is_the_real_timeline():
    radices = (16, 32)
    _, timeline, x = transform(normal(300, 512), radices)
    spec = (x.shape, "float32")
    tables = stockham_tables(512, radices)
    assert (
        nki_sim.dry_run(stockham, spec, spec, *pack(tables), radices).total_ns == timeline.total_ns
    )


def modelled(radices, **options):
    """Modelled time of 256 transforms on trn1, over the DMA floor of 16 bytes a point."""
    n = math.prod(radices)
    spec = ((256, n), "float32")
    tables = stockham_tables(n, radices, **options)
    timeline = nki_sim.dry_run(stockham, spec, spec, *pack(tables), radices)
    return timeline.total_ns / hardware.chip("trn1").dma_floor_ns(256 * n)


def test_wide_radices_beat_the_seeds():
    assert modelled((64, 64)) < 0.8 * modelled((8, 8, 8, 8)) < modelled((4,) * 6)


@pytest.mark.filterwarnings("error")  # of more SBUF than DMA should fill
def test_modelled_time_of_long_transforms():
    # On trn1 up to a fifth of it is for setting bad rows aside.
    assert modelled((64, 64)) <= 2.6
    assert modelled((64, 64), **BF16[0]) <= 2.1
    assert modelled((64, 64), **REFINED[0]) <= 3.2
    assert modelled((128, 64)) <= 3.5
    assert modelled((128, 64), **BF16[0]) <= 2.5


@pytest.mark.filterwarnings("error")
@sweeps.some("radices", [(4,) * 5 + (10,), (8, 8, 8, 20), (128, 80)], [(128, 80)]).with_args(
    ids=str
)
def test_the_longest_transforms_fit(radices):
    assert math.prod(radices) == MAX_LENGTH
    for options in ({}, BF16[0], REFINED[0]):
        assert modelled(radices, **options) <= 9


def test_refined_tables_add_up():
    exact, refined = stockham_tables(60, (3, 20)), stockham_tables(60, (3, 20), **REFINED[0])
    for table, (high, low) in zip(exact, refined, strict=True):
        added = high.astype(np.float64) + low.astype(np.float64)
        np.testing.assert_allclose(added, table, atol=2.0**-17)


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (12, (3, 5), "product must be n = 12"),
        (12, (), "product must be n = 12"),
        (12, (1, 12), "each must be 2 to 128"),
        (258, (2, 129), "each must be 2 to 128"),
        (16384, (128, 128), "lengths up to 10240"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        stockham_tables(n, radices)
