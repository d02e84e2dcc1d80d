"""The Bluestein kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices, batch and chip, also with streamed tables,
in loops and near the largest float. Rows must not mix. Modelled times are compared, too.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_kernels.fft.stockham
import nki_kernels.launch
import nki_sim
from nki_kernels.fft.bluestein import (
    MAX_CONVOLVED,
    bluestein,
    bluestein_tables,
    convolution_lengths,
)
from nki_kernels.packing import pack
from nki_sim import hardware
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import large_rows

RNG = np.random.default_rng(997)
TOLERANCE = 1e-6  # relative L2; 2e-7 to 4e-7 is usual


def split(m):
    """Radices with product ``m``: two as equal as can be, the larger first, or one."""
    pairs = [(m // r, r) for r in range(2, 102) if m % r == 0 and r <= m // r <= 128]
    return min(pairs, default=(m,))


def relative_error(batch, n, inverse=False, m=None, radices=None):
    """Error of one strict launch on random rows, as norm(result - exact) / norm(exact)."""
    m = m or convolution_lengths(n)[0]
    radices = radices or split(m)
    re, im = RNG.standard_normal((2, batch, n)).astype(np.float32)
    tables = bluestein_tables(n, m, radices, inverse, 1 / n if inverse else 1.0)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(bluestein)(re, im, *pack(tables), radices)
    assert timeline.launches == 1
    assert y_re.shape == y_im.shape == (batch, n)
    x = re + 1j * im.astype(np.float64)
    exact = np.fft.ifft(x) if inverse else np.fft.fft(x)
    return np.linalg.norm(y_re + 1j * y_im.astype(np.float64) - exact) / np.linalg.norm(exact)


@sweeps.some(
    "n, inverse",
    itertools.product(range(1, 41), [False, True]),
    [(n, n % 2 == 0) for n in (*range(1, 10), 16, 17, 19, 31, 32, 33, 40)],
)
def test_every_short_length(n, inverse):
    for batch in (1, 2, 130):
        assert relative_error(batch, n, inverse) <= TOLERANCE


@sweeps.some(
    "n, inverse",
    itertools.product([127, 131, 257, 509, 997, 998, 1009, 2039, 2048], [False, True]),
    [
        (127, True),
        (131, False),
        (257, True),
        (509, False),
        (997, True),
        (998, False),
        (2048, False),
    ],
)
def test_primes_and_long_lengths(n, inverse):
    for batch in (2, 130) if n > 512 else (1, 2, 130):
        assert relative_error(batch, n, inverse) <= TOLERANCE


@sweeps.some(
    "n, inverse, batches",
    [
        *itertools.product([2053, 2999, 4096, 4099, 5119, 5120], [False, True], [(1, 2, 130)]),
        (4099, True, (2,)),
        (5119, True, (1,)),
        (5120, False, (2,)),
    ],
    [(2053, False, (1, 2, 130)), (4099, True, (2,)), (5119, True, (1,)), (5120, False, (2,))],
).with_args(ids=str)
def test_lengths_whose_tables_are_streamed(n, inverse, batches):
    for batch in batches:
        assert relative_error(batch, n, inverse, m=convolution_lengths(n)[-1]) <= TOLERANCE


@pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize(("n", "radices"), [(17, (36,)), (67, (15, 9)), (509, (32, 32))])
def test_loops_two_cores_and_spoiled_rows(monkeypatch, chip, n, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    tables = pack(bluestein_tables(n, math.prod(radices), radices))

    def run(x, cores=1):
        with nki_sim.strict():
            parts = np.ascontiguousarray(x.real), np.ascontiguousarray(x.imag)
            y_re, y_im = nki_sim.simulate(bluestein[cores])(*parts, *tables, radices)
        return y_re + 1j * y_im.astype(np.float64)

    x = RNG.standard_normal((700, n, 2)).astype(np.float32).view(np.complex64)[..., 0]
    exact = np.fft.fft(x)
    for cores in range(1, hardware.current().programs_per_launch + 1):
        with monkeypatch.context() as context:
            context.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1)
            assert np.linalg.norm(run(x, cores) - exact) <= TOLERANCE * np.linalg.norm(exact)
        # Of two programs, the one with 253 rows has a block more than the one with 254.
        assert np.linalg.norm(run(x[:507], cores) - exact[:507]) <= TOLERANCE * np.linalg.norm(
            exact
        )
    check_rows_are_independent(run, x[:131], exact[:131], TOLERANCE, rows=(130,))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("n", "radices"), [(17, (36,)), (67, (3, 45)), (997, (42, 48)), (4099, (64, 13, 10))]
)
def test_no_number_on_the_way_overflows(monkeypatch, n, radices, inverse):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")  # which sets no row aside
    x = large_rows(n)
    parts = x.astype(np.float32), np.zeros(x.shape, np.float32)
    tables = pack(bluestein_tables(n, math.prod(radices), radices, inverse))
    y_re, y_im = nki_sim.simulate(bluestein)(*parts, *tables, radices)
    exact = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
    for row in range(len(x)):
        found = y_re[row] + 1j * y_im[row].astype(np.float64)
        assert np.linalg.norm(found - exact[row]) <= TOLERANCE * np.linalg.norm(exact[row])


def test_rows_are_set_aside_only_near_the_largest_float():
    n, radices = 997, (32, 64)
    x = np.zeros((2, n), np.float32)
    x[0], x[1, 3] = 3e37 / n, 1e36  # times sqrt(M): 4.5e37
    tables = pack(bluestein_tables(n, math.prod(radices), radices))
    y_re, y_im = nki_sim.simulate(bluestein)(x, np.zeros_like(x), *tables, radices)
    found, exact = y_re + 1j * y_im.astype(np.float64), np.fft.fft(x.astype(np.float64))
    assert (np.linalg.norm(found - exact, axis=1) <= 1e-6 * np.linalg.norm(exact, axis=1)).all()


def test_prime_of_three_radices_and_two_blocks():
    assert relative_error(130, 4099, m=8320, radices=(64, 13, 10)) <= TOLERANCE


@pytest.mark.parametrize(
    ("n", "m", "radices", "batch"), [(131, 264, (66, 4), 600), (7, 16, (16,), 2)]
)
def test_streamed_tables_give_the_same_as_resident_ones(monkeypatch, n, m, radices, batch):
    x = RNG.standard_normal((2, batch, n)).astype(np.float32)
    tables = bluestein_tables(n, m, radices)
    resident = nki_sim.simulate(bluestein)(x[0], x[1], *pack(tables), radices)
    monkeypatch.setattr(nki_kernels.fft.row_transforms, "SMALLEST_SBUF", 0)
    with nki_sim.strict(), nki_sim.record() as timeline:
        streamed = nki_sim.simulate(bluestein)(x[0], x[1], *pack(tables), radices)
    copies = [event.name for event in timeline.events if event.engine == "gpsimd"]
    assert copies == ["tensor_copy"]  # of the identity; those of tables are what is to stay
    np.testing.assert_array_equal(streamed, resident)


@pytest.mark.parametrize("n", [1, 50, 307, 997])
def test_every_convolution_length_gives_the_same(n):
    for m in convolution_lengths(n):
        assert relative_error(3, n, m=m) <= TOLERANCE


@sweeps.some(
    "radices",
    [(64, 64), (128, 16), (16, 128), (125, 16), (16, 125), (8, 16, 16), (4, 8, 8, 8)],
    [(128, 16), (16, 125), (4, 8, 8, 8)],
).with_args(ids=str)
def test_any_radices(radices):
    assert relative_error(130, 997, m=math.prod(radices), radices=radices) <= TOLERANCE


@pytest.mark.parametrize(("n", "m"), [(2, 4096), (64, 128), (63, 125), (20, 40)])
def test_much_padding_and_single_stages(n, m):
    radices = (m,) if m <= 128 else split(m)
    assert relative_error(5, n, m=m, radices=radices) <= TOLERANCE


@pytest.mark.parametrize(
    ("chip", "n", "batch"),
    # Rows of the third are stored 5 at a time, because 4 KiB do not hold all 10 of a partition.
    [("trn1", 31, 4500), ("trn1", 131, 1500), ("trn2", 101, 1200), ("trn2", 499, 700)],
)
def test_batches_of_several_rows_a_partition(monkeypatch, chip, n, batch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    assert relative_error(batch, n) <= TOLERANCE


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("n", [1, 17, 257, 997])
def test_other_chips_compute_the_same(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    assert relative_error(130, n) <= TOLERANCE


def test_modelled_time_is_near_what_the_tensor_engine_needs():
    batch, n, radices = 2**20 // 997, 997, (32, 64)
    spec = ((batch, n), "float32")
    tables = bluestein_tables(n, 2048, radices)
    timeline = nki_sim.dry_run(bluestein, spec, spec, *pack(tables), radices)
    # Setting rows aside is part of it on trn1, in the limits below, too.
    assert timeline.total_ns <= 6.3 * hardware.chip("trn1").dma_floor_ns(n * batch)
    assert timeline.total_ns <= 1.25 * timeline.engine_busy_ns["tensor"]


@pytest.mark.filterwarnings("error")  # of more SBUF than DMA should fill
@pytest.mark.parametrize(
    ("n", "radices", "most"),
    [
        (3001, (96, 63), 7.5),
        (4099, (98, 84), 9.4),
        (4099, (64, 13, 10), 13.8),
        (5120, (128, 80), 9.2),
    ],
)
def test_modelled_time_with_streamed_tables(n, radices, most):
    spec = ((255, n), "float32")
    tables = bluestein_tables(n, math.prod(radices), radices)
    timeline = nki_sim.dry_run(bluestein, spec, spec, *pack(tables), radices)
    assert timeline.total_ns <= most * hardware.chip("trn1").dma_floor_ns(n * 255)


@pytest.mark.parametrize(("n", "m", "radices"), [(131, 264, (24, 11)), (40, 80, (80,))])
def test_dry_run_is_the_real_timeline(n, m, radices):
    tables, x = bluestein_tables(n, m, radices), np.ones((300, n), np.float32)
    with nki_sim.record() as timeline:
        nki_sim.simulate(bluestein)(x, x, *pack(tables), radices)
    spec = (x.shape, "float32")
    dry = nki_sim.dry_run(bluestein, spec, spec, *pack(tables), radices)
    assert dry.total_ns == timeline.total_ns


@pytest.mark.parametrize("step", [29, sweeps.whole(1)])
def test_convolution_lengths_are_long_enough_smooth_and_sorted(step):
    assert convolution_lengths(997) == [2000, 2016, 2048]
    assert convolution_lengths(2048) == [4095, 4096]
    for n in (*range(1, 300), *range(300, MAX_CONVOLVED, step), MAX_CONVOLVED):
        lengths = convolution_lengths(n)
        assert lengths == sorted(set(lengths))
        assert 2 * n - 1 <= lengths[0] and lengths[0] >= 2 and lengths[-1] <= 10240


@pytest.mark.parametrize("n", [0, -3, 5121])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 5120"):
        convolution_lengths(n)


@pytest.mark.parametrize(
    ("n", "m", "radices", "message"),
    [
        (0, 4, (4,), "n >= 1"),
        (3, 4, (4,), "m >= 2 n - 1"),
        (3, 8, (4,), "product must be"),
        (3, 8, (8, 1), "each must be 2 to 128"),
        (997, 2049, (3, 683), "each must be 2 to 128"),
        (2049, 16384, (128, 128), "up to 10240"),
    ],
)
def test_tables_that_make_no_sense_are_refused(n, m, radices, message):
    with pytest.raises(ValueError, match=message):
        bluestein_tables(n, m, radices)
