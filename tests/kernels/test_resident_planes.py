"""The kernel of images that stay in SBUF, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for images of every shape, batch and chip, in both directions and in
loops. Images must not mix, data must travel over HBM once, and the largest images must fit.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki_sim
from nki_kernels.nd import resident_planes
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from tests.tolerances import near, transforms

from .independence import check_rows_are_independent
from .samples import fits, normal
from .turns import on_chips, on_first_chip

CHIPS = "trn1", "trn2"
pytestmark = pytest.mark.usefixtures("strict_chip")


def launch(x, inverse=False, scale=1.0, degree=1):
    """Result, complex in float64, and timeline."""
    tables = resident_planes.resident_planes_tables(*x.shape[1:], inverse, scale)
    kernel = resident_planes.resident_planes
    kernel = kernel if degree == 1 else kernel[degree]
    parts = [np.ascontiguousarray(part, np.float32) for part in (x.real, x.imag)]
    with nki_sim.record() as timeline:
        re, im = nki_sim.simulate(kernel)(*parts, *pack(tables))
    return re + 1j * im.astype(np.float64), timeline


def dry(batch, rows, columns):
    specs = packed_spec(resident_planes.resident_planes_specs(rows, columns))
    parts = [((batch, rows, columns), "float32")] * 2
    return nki_sim.dry_run(nki_sim.simulate(resident_planes.resident_planes), *parts, *specs)


@on_chips(
    "batch, rows, columns", [(1, 256, 128), (3, 256, 256), (1, 512, 512), (1, 4096, 128)], CHIPS
)
def test_both_directions(batch, rows, columns):
    x = normal(batch, rows, columns)
    ways = (True, 1 / x[0].size), (False, 0.5)
    for inverse, scale in ways if rows < 4096 else ways[:1]:
        result, timeline = launch(x, inverse, scale)
        exact = np.fft.fft2(x) if not inverse else np.fft.ifft2(x) * x[0].size
        near(result, exact * scale, transforms((rows, columns)))
        assert fits(timeline)


@pytest.mark.parametrize("strict_chip", ["trn3"], indirect=True)
@pytest.mark.parametrize("rows, columns", [(256, 2048), (2048, 128)])
def test_trn3_and_other_factors(rows, columns):
    x = normal(1, rows, columns)
    near(launch(x)[0], np.fft.fft2(x), transforms((rows, columns)))


def test_loops_and_two_programs(short_loops):
    degree = hardware.current().programs_per_launch
    for batch in (1, 2, 7):
        x = normal(batch, 256, 128)
        near(launch(x, degree=degree)[0], np.fft.fft2(x), transforms((256, 128)))


def test_images_are_independent():
    x, tolerance = normal(3, 256, 128), transforms((256, 128))
    check_rows_are_independent(lambda x: launch(x)[0], x, np.fft.fft2(x), tolerance, rows=(0, 1))


@on_first_chip(*CHIPS)
def test_one_trip_over_hbm():
    for shape in ((1, 1024, 1024), (16, 256, 256)):
        found = dry(*shape)
        floor = hardware.current().dma_floor_ns(2**20)
        assert found.hbm_bytes <= 1.2 * 16 * 2**20
        assert found.total_ns <= 3.4 * floor
        assert fits(found)


@on_chips("rows, columns", [(4096, 256)], CHIPS, whole=[(512, 2048)])
def test_the_largest_images_fit(rows, columns):
    assert fits(dry(2, rows, columns))


@on_first_chip(*CHIPS)
def test_a_dry_run_takes_as_long():
    _, timeline = launch(normal(2, 256, 128))
    assert dry(2, 256, 128).total_ns == pytest.approx(timeline.total_ns)


@pytest.mark.parametrize(
    "shape, reason",
    [
        ((128, 256), "powers of two from 256 to 4096 as rows"),
        ((300, 256), "powers of two from 256 to 4096 as rows"),
        ((256, 4096), "powers of two from 128 to 2048 as columns"),
        ((2048, 1024), "up to 1048576 points"),
    ],
)
def test_shapes_that_are_refused(shape, reason):
    with pytest.raises(ValueError, match=reason):
        resident_planes.resident_planes_tables(*shape)
