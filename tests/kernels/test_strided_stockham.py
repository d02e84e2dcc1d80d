"""The strided Stockham kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers along a middle axis for one radix and for two, any members and
columns, also in loops. Every shape must fit.
"""

from __future__ import annotations

import itertools
import math

import pytest

from nki_kernels.nd import strided_stockham as module
from nki_sim import hardware
from tests import sweeps

from .launched import Launched
from .samples import fits, normal

STRIDED = Launched("strided_stockham")
ONE = [(2,), (3,), (5,), (8,), (31,), (32,), (63,), (64,)]
SMALL = list(itertools.product((2, 3, 4, 5, 9), repeat=2))
TWO = [*SMALL, (2, 64), (64, 2), (3, 61), (61, 3), (22, 21)]
FEW = [*itertools.product((2, 3, 9), repeat=2), (4, 5), (5, 4), (2, 64), (64, 2), (61, 3), (22, 21)]
LONG = [(40, 50), (61, 59), (64, 64)]


def modelled(radices, members, columns, *where):
    """Timeline of a launch without data."""
    shape = members, math.prod(radices), columns
    return Launched("strided_stockham", *where).dry_run(shape, radices)


@sweeps.some("radices", ONE + TWO, ONE + FEW).with_args(ids=str)
def test_radices_members_and_columns_both_ways(radices):
    n = math.prod(radices)
    for members, columns, inverse in ((1, 1, False), (5, 40, True), (2, 129, False)):
        STRIDED.check(normal(members, n, columns), radices, inverse)


MANY = [(7,), (64,), (6, 10), (2, 61), (61, 2), (16, 16)]
COLUMNS = [255, 256, 512, 513, 700, 1025]


@sweeps.some(
    "radices, columns",
    itertools.product(MANY, COLUMNS),
    [*zip(MANY, COLUMNS, strict=True), ((6, 10), 513), ((16, 16), 513), ((6, 10), 1025)],
).with_args(ids=str)
def test_many_columns(radices, columns):
    STRIDED.check(normal(1, math.prod(radices), columns), radices)


@pytest.mark.parametrize("radices", [(5,), (3, 4)], ids=str)
@pytest.mark.parametrize(("members", "columns"), [(300, 1), (131, 1), (40, 5), (9, 63), (5, 65)])
def test_several_members_in_one_product(radices, members, columns):
    STRIDED.check(normal(members, math.prod(radices), columns), radices)


@sweeps.some(
    "radices, shape, inverse",
    [
        (radices, *case)
        for radices in LONG
        for case in (((1, 3), False), ((2, 70), True), ((1, 200), False))
    ],
    [((61, 59), (1, 200), False), ((64, 64), (2, 70), True), ((64, 64), (1, 3), False)],
).with_args(ids=str)
def test_long_transforms(radices, shape, inverse):
    STRIDED.check(normal(shape[0], math.prod(radices), shape[1]), radices, inverse)


# Members and columns of loops over members, over columns, with and without a rest.
LOOPS = [(9, 200), (40, 33), (300, 3), (1, 2600), (2, 1301), (3, 1030)]


@pytest.mark.parametrize(
    ("chip", "cores"),
    [("trn1", 1), sweeps.whole("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)],
)
@pytest.mark.parametrize("radices", [(3,), (3, 5)], ids=str)
def test_loops_on_the_device(monkeypatch, chip, cores, radices):
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
        Launched("strided_stockham", chip, cores).check(x, radices)
    assert len(loops) == len(LOOPS) * cores


SHAPES = [(64,), (2, 64), (64, 2), (2, 61), (7, 53), (64, 16), (32, 61), (61, 61), (64, 64)]


@sweeps.some(
    "radices, chip, columns",
    itertools.product(SHAPES, hardware.NAMES, [1, 128, 600, 1025]),
    [
        ((64,), "trn2", 600),
        ((7, 53), "trn1", 1025),
        ((64, 16), "trn2", 1025),
        ((61, 61), "trn1", 128),
        ((64, 64), "trn1", 1025),
    ],
).with_args(ids=str)
def test_every_shape_fits(chip, radices, columns):
    with hardware.select(hardware.chip(chip)):
        assert fits(modelled(radices, 2, columns, chip))


@pytest.mark.slow
def test_every_pair_of_radices_fits():
    for radices in itertools.product(range(2, 65, 2), range(3, 65, 2)):
        assert fits(modelled(radices, 1, 512))
        assert fits(modelled(radices[::-1], 1, 512))
