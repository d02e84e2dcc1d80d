"""The kernels of planes and of volumes that stay in SBUF, simulated and compared with NumPy.

The tests protect right numbers, against float64, for real and complex data of every shape, batch
and chip, in both directions and in loops. Planes and volumes must not mix, data must travel over
HBM once, and the largest ones must fit.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nki_sim import hardware
from tests import sweeps
from tests.registry import REGISTRY
from tests.tolerances import near, transforms
from trnfft.planner.kinds import Transform

from .independence import check_rows_are_independent
from .launched import dry, launch, parts
from .samples import fits, normal, real
from .turns import on_chips, on_first_chip

CHIPS = "trn1", "trn2"
CUBE = (64, 64, 64)
pytestmark = pytest.mark.usefixtures("strict_chip")


def name_of(value):
    """Returns the id of a parameter; that of a function has no address, which a run changes."""
    return getattr(value, "__name__", str(value))


def solution(shape, is_real):
    """The planner's algorithm for planes or volumes of this shape, and its recipe."""
    name = "resident_planes"
    if len(shape) == 3:
        name = "resident_real_volumes" if is_real else "resident_volumes"
    kind = Transform(tuple(shape), part="r2c" if is_real else "c2c")
    return REGISTRY[name], REGISTRY[name].recipes_for(kind)[0]


def run(x, inverse=False, scale=1.0, degree=1):
    """Result, complex in float64, and timeline, of planes [B, S, H] or volumes [B, D, S, H]."""
    found = solution(x.shape[1:], not np.iscomplexobj(x))
    return launch(*found, parts(x), inverse, scale, cores=degree)


def exact_of(x, inverse=False):
    """The transform without a factor; half of it where x is real."""
    axes = tuple(range(1, x.ndim))
    if np.iscomplexobj(x):
        return np.fft.ifftn(x, axes=axes, norm="forward") if inverse else np.fft.fftn(x, axes=axes)
    half = np.fft.rfftn(x.astype(np.float64), axes=axes)
    return half.conj() if inverse else half


def modelled(batch, shape, is_real=False):
    return dry(*solution(shape, is_real), *[(batch, *shape)] * (1 if is_real else 2))


def check(x, inverse=False, scale=1.0, degree=1):
    """Fails unless one launch fits and is near the exact result."""
    result, timeline = run(x, inverse, scale, degree)
    near(result, scale * exact_of(x, inverse), transforms(x.shape[1:]))
    assert fits(timeline)


OBLONG = [(1, 128, 64, 64), (1, 64, 128, 64), (1, 64, 64, 128)]
PLANES = [(1, 256, 128), (3, 256, 256), (1, 512, 512), (1, 4096, 128)]
CASES = [
    *((chip, normal, shape) for chip, shape in zip(2 * CHIPS, PLANES, strict=True)),
    *(("trn3", normal, shape) for shape in ((1, 256, 2048), (1, 2048, 128))),
    ("trn1", real, (2, *CUBE)),
    ("trn2", normal, (1, *CUBE)),
    *(("trn1", real, shape) for shape in OBLONG),
    ("trn3", normal, OBLONG[1]),
    ("trn1", real, (1, 128, 128, 128)),
]
MORE = [
    *itertools.product(CHIPS, [normal], PLANES),
    *itertools.product(CHIPS, [real, normal], [(batch, *CUBE) for batch in (1, 2, 3)]),
    *itertools.product(["trn1", "trn3"], [real, normal], OBLONG),
    ("trn2", real, (1, 128, 128, 128)),
]


@pytest.mark.weekly
@sweeps.some(
    "strict_chip, make, shape", [*CASES, *(case for case in MORE if case not in CASES)], CASES
).with_args(ids=name_of, indirect=["strict_chip"])
def test_planes_and_volumes_in_both_directions(strict_chip, make, shape):
    x = make(*shape)
    ways = (True, 1 / x[0].size), (False, 0.5)
    for inverse, scale in ways if x.size <= 2**18 else ways[:1]:
        check(x, inverse, scale)


@on_chips("shape", [(4096, 256)], CHIPS, whole=[(512, 2048)])
def test_the_largest_planes_fit(shape):
    assert fits(modelled(2, shape))


@on_first_chip("trn1", "trn2", "trn3")
@pytest.mark.parametrize(
    "shape, is_real",
    [
        sweeps.whole((128, 128, 128), True),
        ((64, 128, 128), True),
        ((128, 64, 128), False),
    ],
)
def test_volumes_one_after_the_other_fit(shape, is_real):
    assert fits(modelled(3, shape, is_real))


@pytest.mark.parametrize(
    ("strict_chip", "shape", "batches"),
    [
        ("trn1", (256, 128), (1, 2, 7)),
        ("trn2", (256, 128), (1, 2, 7)),
        ("trn2", CUBE, (1, 9)),
        sweeps.whole("trn1", CUBE, (1, 9)),
    ],
    indirect=["strict_chip"],
)
def test_loops_and_two_programs(short_loops, strict_chip, shape, batches):
    degree = hardware.current().programs_per_launch
    for batch in batches:
        check((normal if len(shape) == 2 else real)(batch, *shape), degree=degree)


@sweeps.some(
    "strict_chip, make, shape, rows",
    [
        (chip, *case)
        for chip in CHIPS
        for case in (
            (normal, (3, 256, 128), (0, 1)),
            (real, (2, *CUBE), None),
            (normal, (2, *CUBE), None),
        )
    ],
    [
        *((chip, normal, (3, 256, 128), (0, 1)) for chip in CHIPS),
        ("trn2", real, (2, *CUBE), None),
        ("trn1", normal, (2, *CUBE), None),
    ],
).with_args(indirect=["strict_chip"])
def test_planes_and_volumes_are_independent(strict_chip, make, shape, rows):
    x, tolerance = make(*shape), transforms(shape[1:])
    check_rows_are_independent(lambda x: run(x)[0], x, exact_of(x), tolerance, rows)


@on_first_chip(*CHIPS)
@pytest.mark.parametrize(
    ("batch", "shape", "traffic", "floors"),
    [
        (1, (1024, 1024), 1.2, 3.4),
        (16, (256, 256), 1.2, 3.4),
        (4, CUBE, 1.1, 3.6),
        (2, (128, 128, 128), 1.1, 3.6),
    ],
)
def test_one_trip_over_hbm(batch, shape, traffic, floors):
    is_real = len(shape) == 3
    found, points, each = (
        modelled(batch, shape, is_real),
        batch * np.prod(shape),
        8 if is_real else 16,
    )
    assert found.hbm_bytes <= traffic * each * points
    assert found.total_ns <= floors * hardware.current().dma_floor_ns(points, each)
    assert fits(found)
