"""The kernels of volumes that stay in SBUF, run in the simulator and compared with NumPy.

The tests protect right numbers, against float64, for real and complex volumes of every shape, batch
and chip, in both directions and in loops. Volumes must not mix, data must travel over HBM once, and
the largest volumes must fit.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nki_sim
from nki_kernels.nd import resident_volumes
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, transforms

from .independence import check_rows_are_independent
from .samples import fits, normal, real
from .turns import on_first_chip

CHIPS = "trn1", "trn2"
pytestmark = pytest.mark.usefixtures("strict_chip")

AXES = (1, 2, 3)
CUBE = (64, 64, 64)


def kernel_of(is_real, degree=1):
    kernel = resident_volumes.resident_volumes
    if is_real:
        kernel = resident_volumes.resident_real_volumes
    return kernel if degree == 1 else kernel[degree]


def launch(x, inverse=False, scale=1.0, degree=1):
    """Result, complex in float64, and timeline."""
    is_real = not np.iscomplexobj(x)
    tables = resident_volumes.resident_volumes_tables(x.shape[1:], is_real, inverse, scale)
    parts = [x] if is_real else [x.real, x.imag]
    parts = [np.ascontiguousarray(part, np.float32) for part in parts]
    with nki_sim.record() as timeline:
        re, im = nki_sim.simulate(kernel_of(is_real, degree))(*parts, *pack(tables))
    return re + 1j * im.astype(np.float64), timeline


def exact_of(x, inverse=False):
    """The transform without a factor; half of it where x is real."""
    if np.iscomplexobj(x):
        return np.fft.ifftn(x, axes=AXES, norm="forward") if inverse else np.fft.fftn(x, axes=AXES)
    half = np.fft.rfftn(x.astype(np.float64), axes=AXES)
    return half.conj() if inverse else half


def dry(batch, shape, is_real):
    specs = packed_spec(resident_volumes.resident_volumes_specs(shape, is_real))
    parts = [((batch, *shape), "float32")] * (1 if is_real else 2)
    return nki_sim.dry_run(nki_sim.simulate(kernel_of(is_real)), *parts, *specs)


@pytest.mark.weekly
@sweeps.some(
    "strict_chip, make, batch",
    itertools.product(["trn1", "trn2"], [real, normal], [1, 2, 3]),
    [("trn1", real, 2), ("trn2", normal, 1)],
).with_args(indirect=["strict_chip"])
def test_both_directions(strict_chip, make, batch):
    x = make(batch, *CUBE)
    for inverse, scale in ((False, 1.0), (True, 0.5)):
        result, timeline = launch(x, inverse, scale)
        near(result, scale * exact_of(x, inverse), transforms(CUBE))
        assert fits(timeline)


OBLONG = [(128, 64, 64), (64, 128, 64), (64, 64, 128)]


@sweeps.some(
    "strict_chip, make, shape",
    itertools.product(["trn1", "trn3"], [real, normal], OBLONG),
    [*(("trn1", real, shape) for shape in OBLONG), ("trn3", normal, OBLONG[1])],
).with_args(indirect=["strict_chip"])
def test_axes_of_128(strict_chip, make, shape):
    x = make(1, *shape)
    near(launch(x)[0], exact_of(x), transforms(shape))


@on_first_chip(*CHIPS)
def test_the_largest_volume():
    x = real(1, 128, 128, 128)
    result, timeline = launch(x)
    near(result, exact_of(x), transforms(x.shape[1:]))
    assert fits(timeline)


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
    assert fits(dry(3, shape, is_real))


@on_first_chip("trn2", "trn1")
def test_loops_and_two_programs(short_loops):
    degree = hardware.current().programs_per_launch
    for batch in (1, 9):
        x = real(batch, *CUBE)
        near(launch(x, degree=degree)[0], exact_of(x), transforms(CUBE))


@sweeps.some(
    "strict_chip, make",
    itertools.product(["trn1", "trn2"], [real, normal]),
    [("trn2", real), ("trn1", normal)],
).with_args(indirect=["strict_chip"])
def test_volumes_are_independent(strict_chip, make):
    x, tolerance = make(2, *CUBE), transforms(CUBE)
    check_rows_are_independent(lambda x: launch(x)[0], x, exact_of(x), tolerance)


@on_first_chip(*CHIPS)
def test_one_trip_over_hbm():
    for batch, shape in ((4, CUBE), (2, (128, 128, 128))):
        found = dry(batch, shape, True)
        points = batch * np.prod(shape)
        assert found.hbm_bytes <= 1.1 * 8 * points
        assert found.total_ns <= 3.6 * hardware.current().dma_floor_ns(points, 8)
        assert fits(found)


@on_first_chip(*CHIPS)
def test_a_dry_run_takes_as_long():
    _, timeline = launch(real(2, *CUBE))
    assert dry(2, CUBE, True).total_ns == pytest.approx(timeline.total_ns)


@pytest.mark.parametrize(
    "shape, is_real, reason",
    [
        ((64, 64), True, "takes 3 axes, not 2"),
        ((64, 32, 64), True, "takes axes of 64 or 128"),
        ((64, 128, 128), False, "takes up to 8320 outputs"),
    ],
)
def test_shapes_that_are_refused(shape, is_real, reason):
    with pytest.raises(ValueError, match=reason):
        resident_volumes.resident_volumes_tables(shape, is_real)
