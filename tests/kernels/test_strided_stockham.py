"""The strided Stockham kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers along a middle axis for one radix and for two, any members, columns
and chip, also in loops. Members must not mix, every shape must fit, and instructions must be few.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_sim
from nki_kernels.nd import strided_stockham as module
from nki_kernels.nd.strided_stockham import strided_stockham, strided_stockham_tables
from nki_kernels.packing import pack
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, fits, normal

ONE = [(2,), (3,), (5,), (8,), (31,), (32,), (63,), (64,)]
SMALL = list(itertools.product((2, 3, 4, 5, 9), repeat=2))
TWO = [*SMALL, (2, 64), (64, 2), (3, 61), (61, 3), (22, 21)]
FEW = [*itertools.product((2, 3, 9), repeat=2), (4, 5), (5, 4), (2, 64), (64, 2), (61, 3), (22, 21)]
LONG = [(40, 50), (61, 59), (64, 64)]
# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
LAUNCHES = pytest.mark.parametrize(
    ("chip", "degree"), [("trn1", 1), ("trn2", 2), sweeps.whole("trn3", 1)]
)


def launch(degree):
    """The kernel on so many cores."""
    return strided_stockham if degree == 1 else strided_stockham[degree]


def transform(x, radices, inverse=False, scale=1.0, degree=1):
    """Result, timeline and exact result of one launch along the middle axis of ``x``."""
    n = math.prod(radices)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    tables = strided_stockham_tables(n, radices, inverse, scale)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(launch(degree))(re, im, *pack(tables), radices)
    x = re + 1j * im.astype(np.float64)
    exact = scale * (n * np.fft.ifft(x, axis=1) if inverse else np.fft.fft(x, axis=1))
    return y_re + 1j * y_im.astype(np.float64), timeline, exact


def modelled(radices, members, columns, degree=1):
    """Timeline of a launch without data."""
    n = math.prod(radices)
    spec = ((members, n, columns), "float32")
    tables = strided_stockham_tables(n, radices)
    return nki_sim.dry_run(launch(degree), spec, spec, *pack(tables), radices)


@sweeps.some("radices", ONE + TWO, ONE + FEW).with_args(ids=str)
def test_radices_members_and_columns_both_ways(radices):
    n = math.prod(radices)
    for members, columns in ((1, 1), (3, 1), (2, 7), (5, 40), (2, 128), (2, 129)):
        result, timeline, exact = transform(normal(members, n, columns), radices)
        assert timeline.launches == 1
        assert error(result, exact) <= 6e-7
    result, _, exact = transform(normal(2, n, 9), radices, inverse=True, scale=1 / n)
    assert error(result, exact) <= 6e-7


MANY = [(7,), (64,), (6, 10), (2, 61), (61, 2), (16, 16)]
COLUMNS = [255, 256, 512, 513, 700, 1025]


@sweeps.some(
    "radices, columns",
    itertools.product(MANY, COLUMNS),
    [*zip(MANY, COLUMNS, strict=True), *itertools.product(MANY, [513]), ((6, 10), 1025)],
).with_args(ids=str)
def test_many_columns(radices, columns):
    result, _, exact = transform(normal(1, math.prod(radices), columns), radices)
    assert error(result, exact) <= 6e-7
    assert error(result[:, :, -1], exact[:, :, -1]) <= 2e-6


@pytest.mark.parametrize("radices", [(5,), (3, 4)], ids=str)
@pytest.mark.parametrize(("members", "columns"), [(300, 1), (131, 1), (40, 5), (9, 63), (5, 65)])
def test_several_members_in_one_product(radices, members, columns):
    result, _, exact = transform(normal(members, math.prod(radices), columns), radices)
    assert max(map(error, result, exact)) <= 2e-6  # no member is another one's


@sweeps.some("radices", LONG, LONG[1:]).with_args(ids=str)
def test_long_transforms(radices):
    for shape, inverse in (((1, 3), False), ((2, 70), True), ((1, 200), False)):
        x = normal(shape[0], math.prod(radices), shape[1])
        result, _, exact = transform(x, radices, inverse)
        assert error(result, exact) <= 6e-7


@LAUNCHES
@pytest.mark.parametrize("radices", [(3,), (20,), (2, 61), (5, 13), (10, 12), (64, 2)], ids=str)
def test_every_chip_and_both_programs_compute_the_same(monkeypatch, chip, degree, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    n = math.prod(radices)
    for members, columns in ((2, 150), (1, 201), (5, 70), (3, 1), (1, 31)):
        result, _, exact = transform(normal(members, n, columns), radices, degree=degree)
        assert max(map(error, result, exact)) <= 2e-6
        assert error(result, exact) <= 6e-7


# Members and columns of loops over members, over columns, with and without a rest.
LOOPS = [(9, 200), (40, 33), (300, 3), (1, 2600), (2, 1301), (3, 1030)]


@LAUNCHES
@pytest.mark.parametrize("radices", [(3,), (3, 5)], ids=str)
def test_loops_on_the_device(monkeypatch, chip, degree, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(module, "_INSTRUCTIONS", 1)
    monkeypatch.setattr(module, "_TOGETHER", 1)
    monkeypatch.setattr(module, "_COLUMNS", 256)
    loops = []
    run = module.nl.fori_loop

    def counted(*args, **options):
        loops.append(args)
        return run(*args, **options)

    monkeypatch.setattr(module.nl, "fori_loop", counted)
    for members, columns in LOOPS:
        x = normal(members, math.prod(radices), columns)
        result, _, exact = transform(x, radices, degree=degree)
        assert max(map(error, result, exact)) <= 2e-6
    assert len(loops) == len(LOOPS) * degree


@LAUNCHES
@pytest.mark.parametrize("radices", [(7,), (4, 6)], ids=str)
@pytest.mark.parametrize("columns", [1, 5, 60, 150])
def test_members_are_independent(monkeypatch, chip, degree, radices, columns):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    n = math.prod(radices)
    x = normal(7, n, columns).astype(np.complex64)

    def run(x):
        return transform(x, radices, degree=degree)[0]

    exact = np.fft.fft(x.astype(complex), axis=1)
    with np.errstate(all="ignore"):
        check_rows_are_independent(run, x, exact, 2e-6, [0, 4])


@pytest.mark.parametrize(
    ("radices", "members", "columns"),
    [((4, 64), 8192, 256), ((64, 64), 31, 4096), sweeps.whole((5, 61), 3, 2**19)],
    ids=str,
)
def test_instructions_of_a_batch_that_just_fits(monkeypatch, radices, members, columns):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", 30_000)
    with nki_sim.strict():
        assert modelled(radices, members, columns).launches == 1


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_two_programs_take_little_more_than_half_the_time(chip):
    """Of HBM, two cores get less than twice what one gets."""
    with hardware.select(hardware.chip(chip)):
        core = hardware.current()
        share = core.dma_core_bytes_per_ns / core.hbm_stack_bytes_per_ns
        for radices, members, columns, bound in (
            ((16, 64), 2, 1024, 0.58),
            ((64,), 32, 1024, 1.02 * share),
        ):
            one = modelled(radices, members, columns).total_ns
            assert modelled(radices, members, columns, 2).total_ns <= bound * one


def test_dry_run_is_the_real_timeline():
    _, timeline, _ = transform(normal(2, 96, 150), (8, 12))
    assert modelled((8, 12), 2, 150).total_ns == timeline.total_ns


SHAPES = [(64,), (2, 64), (64, 2), (2, 61), (7, 53), (64, 16), (32, 61), (61, 61), (64, 64)]


@sweeps.some(
    "radices, chip",
    itertools.product(SHAPES, hardware.NAMES),
    [(each, hardware.NAMES[place % 3]) for place, each in enumerate(SHAPES)],
).with_args(ids=str)
def test_every_shape_fits(chip, radices):
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        for columns in (1, 128, 600, 1025):
            assert fits(modelled(radices, 2, columns))


@pytest.mark.slow
def test_every_pair_of_radices_fits():
    with nki_sim.strict():
        for radices in itertools.product(range(2, 65, 2), range(3, 65, 2)):
            assert fits(modelled(radices, 1, 512))
            assert fits(modelled(radices[::-1], 1, 512))


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (12, (3, 5), r"radices \(3, 5\): must be one or two with the product n = 12"),
        (12, (), "must be one or two with the product n = 12"),
        (12, (2, 2, 3), "must be one or two with the product n = 12"),
        (12, (12, 1), r"radices \(12, 1\): each must be 2 to 64"),
        (65, (65,), "each must be 2 to 64"),
        (130, (2, 65), "each must be 2 to 64"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        strided_stockham_tables(n, radices)
