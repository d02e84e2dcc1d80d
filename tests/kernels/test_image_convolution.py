"""The convolution of real images, run in the simulator and compared with NumPy in float64.

The tests protect right images for any radices, batch, filters, padding, cropping and chip, also in
loops and with many or long columns. Images must not mix, and large images must fit.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from nki_kernels.convolution import image_convolution as module
from nki_kernels.convolution.image_convolution import stage_order
from nki_sim import hardware
from tests import sweeps
from tests.registry import REGISTRY
from tests.tolerances import near, sums, together, transforms
from trnfft.planner.kinds import Convolution
from trnfft.planner.plan import Pass, Recipe

from .independence import check_rows_are_independent
from .launched import dry, launch, parts
from .samples import real
from .turns import on_chips, on_first_chip

CHIPS = "trn1", "trn2"
pytestmark = pytest.mark.usefixtures("strict_chip")


def solution(rows, columns, held, kept):
    """The planner's algorithm, and its recipe; one radix of rows is for DFT-GEMM."""
    m, n = math.prod(columns), math.prod(rows)
    name, radices = ("real_stockham", rows) if len(rows) > 1 else ("real_dft_gemm", ())
    forward, back = (REGISTRY[f"{way}{name}"].recipe(n, radices) for way in ("", "inverse_"))
    middle = REGISTRY["strided_stockham"].recipe(m, columns)
    passes = Pass(1, forward, n // 2 + 1), Pass(0, middle, held[0]), Pass(1, back, held[1])
    algorithm = REGISTRY["convolve_images"]
    return algorithm, Recipe(algorithm.name, Convolution((m, n), held, kept), passes=passes)


def run(x, filters, rows, columns, kept=None, degree=1):
    """Images of one launch on x [B, h, w] with filters [F, M, N]."""
    m, n = filters.shape[1:]
    spectra = np.fft.rfft2(filters.astype(float)).transpose(0, 2, 1)
    inputs = [x, *parts(spectra[:, :, stage_order(m, columns)])]
    found = solution(rows, columns, x.shape[1:], kept or (m, n))
    return launch(*found, inputs, cores=degree)[0]


def tolerance(m, n):
    """Returns that of transforms, products, inverse transforms, and filters that are rounded."""
    return together(transforms((m, n), 2), sums(2), sums(1))


def check(batch, count, rows, columns, held, kept, degree=1):
    """Fails unless random images and filters are near their exact convolution."""
    m, n = math.prod(columns), math.prod(rows)
    x, filters = real(batch, *held), real(count, m, n)
    spectrum = np.fft.rfft2(x.astype(float), (m, n))
    spectrum *= np.fft.rfft2(filters.astype(float))[np.arange(batch) % count]
    exact = np.fft.irfft2(spectrum, (m, n))
    result = run(x, filters, rows, columns, kept, degree)
    near(result, exact[:, : kept[0], : kept[1]], tolerance(m, n), scale=exact)


def modelled(batch, held, rows, columns, filters=1):
    """Timeline without data."""
    h = filters, math.prod(rows) // 2 + 1, math.prod(columns)
    return dry(*solution(rows, columns, held, held), (batch, *held), h, h)


# Radices of rows and columns, what the images hold and what is kept of them: all, whole and
# partial rows of a partition, less than one, one number.
IMAGES = [
    ((16,), (4, 4), (16, 16), (16, 16)),
    ((16,), (4, 4), (10, 12), (10, 12)),
    ((21,), (3, 5), (11, 20), (13, 21)),
    ((129,), (9, 7), (50, 100), (63, 3)),
    ((2,), (2, 2), (1, 1), (4, 2)),
    ((1,), (2, 3), (5, 1), (6, 1)),
    ((2, 2), (2, 2), (4, 4), (4, 4)),
    ((2, 3), (2, 3), (1, 1), (1, 1)),
    ((3, 5), (3, 3), (7, 13), (9, 15)),
    ((6, 10), (5, 6), (13, 40), (20, 51)),
    ((10, 32), (6, 8), (30, 300), (30, 300)),
    ((9, 7), (5, 13), (64, 63), (65, 1)),
    ((12, 20), (2, 61), (121, 33), (60, 240)),
    ((8, 9), (61, 2), (119, 72), (1, 70)),
    ((4, 8), (20, 30), (599, 30), (598, 31)),
    ((5, 4), (33, 31), (1000, 20), (1023, 20)),  # one slab a product
]


COUNTS = [
    *((1, 1, *case) for case in IMAGES),
    *((6, 3, *case) if math.prod(case[2]) < 4000 else (4, 2, *case) for case in IMAGES),
    *((3, filters, *case) for case in IMAGES[:10:3] for filters in (1, 3)),
    # Several groups of columns and several blocks of them, of two images.
    (2, 2, (20, 62), (4, 4), (11, 1200), (16, 1240)),
    # More images than the partitions of a product hold, with more filters than that, too.
    *((70, filters, (6,), (3, 4), (9, 5), (12, 6)) for filters in (1, 3, 70)),
    # One length with all the rest of SBUF for three groups of columns, and a longer one.
    (1, 1, (20, 13), (32, 64), (1031, 200), (2043, 260)),
    (1, 1, (20, 13), (36, 64), (1159, 200), (2299, 260)),
]
LONG = [
    (1, 1, (20, 13), columns, (math.prod(columns) // 2 + 7, 200), (math.prod(columns) - 5, 260))
    for columns in ((33, 62), (50, 60), (64, 64))
]


@pytest.mark.weekly
@on_chips(
    "batch, filters, rows, columns, held, kept",
    COUNTS,
    CHIPS,
    also=[("trn2", *COUNTS[2]), ("trn1", *COUNTS[9]), ("trn2", *COUNTS[18]), ("trn1", *COUNTS[25])],
    whole=LONG,
)
def test_images_and_filters(batch, filters, rows, columns, held, kept):
    check(batch, filters, rows, columns, held, kept)


# Images, filters and sizes of loops along images with one filter, several, one each; along columns.
LOOPS = [
    (7, 1, ((12,), (3, 4), (10, 12), (11, 9))),
    (13, 3, ((12,), (3, 4), (10, 12), (11, 9))),
    (6, 6, ((12,), (3, 4), (12, 7), (5, 12))),
    (2, 2, ((20, 13), (3, 5), (15, 200), (13, 260))),
]


@on_chips("batch, filters, sizes", LOOPS, ("trn1", "trn2", "trn3"))
def test_loops_and_two_programs(monkeypatch, batch, filters, sizes):
    degree = hardware.current().programs_per_launch
    for instructions in (module._INSTRUCTIONS, 1):
        monkeypatch.setattr(module, "_INSTRUCTIONS", instructions)
        check(batch, filters, *sizes, degree)
        monkeypatch.setattr(module, "_TOGETHER", 1)
        monkeypatch.setattr(module, "_POINTS", 1)


@on_chips("rows, columns", [((12,), (3, 4)), ((4, 5), (3, 4))], CHIPS)
def test_images_are_independent(rows, columns):
    m, n = math.prod(columns), math.prod(rows)
    x, filters = real(5, m, n - 3), real(1, m, n)
    spectrum = np.fft.rfft2(x.astype(float), (m, n)) * np.fft.rfft2(filters.astype(float))
    exact = np.fft.irfft2(spectrum, (m, n))

    def convolved(x):
        return run(x, filters, rows, columns, None, hardware.current().programs_per_launch)

    with np.errstate(all="ignore"):
        check_rows_are_independent(convolved, x, exact, tolerance(m, n), [0, 3])


# Images, rows and columns of pictures, and the extremes of what a block of columns takes.
FIT = [
    (3, (720, 1280), (22, 64), (14, 64)),
    (3, (1280, 720), (14, 64), (22, 64)),
    (3, (1080, 1920), (32, 64), (19, 64)),
    (3, (1920, 1080), (19, 64), (32, 64)),
    (1, (2160, 1000), (16, 64), (36, 64)),
    (1, (2000, 1000), (16, 64), (64, 64)),
    (1, (1, 1000), (16, 64), (64, 64)),
    (5, (2000, 60), (60,), (64, 64)),
    (1, (700, 1000), (73, 14), (17, 59)),  # groups of 128 columns from here on
    (1, (900, 1000), (73, 14), (16, 61)),
    (1, (2000, 1000), (73, 14), (33, 62)),
    (1, (2000, 1000), (73, 14), (61, 61)),
    (1, (183, 1000), (73, 14), (3, 61)),
]


@pytest.mark.weekly
@sweeps.some(
    "strict_chip, batch, held, rows, columns",
    [(chip, *case) for chip in ("trn1", "trn2") for case in FIT],
    [
        *(("trn1", *FIT[place]) for place in (8, 12)),
        ("trn2", *FIT[7]),
    ],
).with_args(ids=str, indirect=["strict_chip"])
def test_large_images_fit(strict_chip, batch, held, rows, columns):
    assert modelled(batch, held, rows, columns, filters=batch).launches == 1


@on_first_chip(*CHIPS)
def test_less_data_takes_less_time(strict_chip):
    whole = modelled(3, (896, 704), (11, 64), (14, 64)).total_ns
    assert modelled(3, (720, 640), (11, 64), (14, 64)).total_ns < 0.93 * whole
