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


MANY = [(7,), (64,), (6, 10), (2, 61), (61, 2), (16, 16)]
COLUMNS = [255, 256, 512, 513, 700, 1025]
WAYS = [(1, 1, False), (5, 40, True), (2, 129, False)]  # members, columns, and the direction
SEVERAL = [(300, 1), (131, 1), (40, 5), (9, 63), (5, 65)]  # members of one product


def cases(radices, ways):
    return [(each, *way) for each, way in itertools.product(radices, ways)]


@sweeps.some(
    "radices, members, columns, inverse",
    [
        *cases(ONE + TWO, WAYS),
        *cases(MANY, [(1, columns, False) for columns in COLUMNS]),
        *cases([(5,), (3, 4)], [(*each, False) for each in SEVERAL]),
        *cases(LONG, [(1, 3, False), (2, 70, True), (1, 200, False)]),
    ],
    [
        *cases(ONE + FEW, WAYS),
        *((each, 1, columns, False) for each, columns in zip(MANY, COLUMNS, strict=True)),
        *cases([(6, 10), (16, 16)], [(1, 513, False)]),
        ((6, 10), 1, 1025, False),
        *cases([(5,), (3, 4)], [(*each, False) for each in SEVERAL]),
        ((61, 59), 1, 200, False),
        ((64, 64), 2, 70, True),
        ((64, 64), 1, 3, False),
    ],
).with_args(ids=str)
def test_radices_members_and_columns_both_ways(radices, members, columns, inverse):
    STRIDED.check(normal(members, math.prod(radices), columns), radices, inverse)


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
