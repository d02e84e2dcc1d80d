"""Bloom of the article's pictures, modelled: pytest bench/test_bloom_bench.py -s.

A time is the modelled time of one `convolve_images` launch on one NeuronCore, for three channels;
it is modelled, not measured. The spectrum of the filter is ready, and the overhead of the launch is
not counted. The article's times (F. Letterio, "FFT Bloom Optimized to the Bone in Nabla") were
measured on an RTX 4060.

"Columns first" is the same kernel on pictures that are stored with height and width exchanged.
Where a picture is stored in the usual order, the transposition is not counted.

The project's own way pads with zeros to H + h/2 and W + w/2 or a little more, to the cheapest of a
few even lengths. The "naive" way pads both axes to powers of two of at least H + h and W + w, and
transforms every row.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import pytest

import nki_sim
from nki_kernels.convolution.image_convolution import column_tables, convolve_images
from nki_kernels.fft.stockham import stockham_tables
from nki_kernels.nd import axes
from nki_kernels.nd.strided_stockham import slabs_together, strided_stockham_tables
from nki_kernels.packing import pack
from nki_kernels.real.real_stockham_tables import (
    inverse_real_stockham_tables,
    real_stockham_tables,
)
from nki_sim import hardware
from trnfft.convolution.bloom import axis_order

CHIPS = ("trn1", "trn2")
CHANNELS = 3
NUMBERS = "float32"
LENGTHS = 3  # tried for each axis
ORDERS = ("rows", "columns")


@dataclass(frozen=True)
class Case:
    """A picture, the side of the point spread function, and the article's milliseconds."""

    size: tuple[int, int]
    side: int
    article_ms: float

    @property
    def least(self) -> tuple[int, int]:
        """The padded lengths that just avoid wraparound."""
        return self.size[0] + self.side // 2, self.size[1] + self.side // 2

    @property
    def powers(self) -> tuple[int, int]:
        """The padded lengths of the naive way."""
        high, wide = (1 << (points + self.side - 1).bit_length() for points in self.size)
        return high, wide

    def __str__(self) -> str:
        return f"{self.size[1]}x{self.size[0]}, PSF {self.side}x{self.side}"


CASES = (
    Case((720, 1280), 256, 0.57),
    Case((720, 1280), 512, 1.04),
    Case((1080, 1920), 256, 4.4),
)
each_case = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(params=CHIPS, autouse=True)
def strict_chip(request):
    with hardware.select(hardware.chip(request.param)), nki_sim.strict():
        yield request.param


def candidates(least, fits):
    """Returns radices (r, q') of the shortest even lengths for which some radices fit."""
    found = []
    for n in range(least + least % 2, 2 * least, 2):
        found += [(n // q, q) for q in range(64, 31, -1) if n % q == 0 and fits(n // q, q)][:1]
        if len(found) == LENGTHS:
            break
    return found


def fits_rows(radix, left):
    return 2 <= radix <= 64 and left >= 48 and left % 2 == 0


def fits_columns(radix, left):
    """Returns whether slabs fill 7/8 of the array and of the partitions that DMA moves."""
    return 2 <= radix <= 64 and 2 * radix * slabs_together(radix, left) >= 112


@functools.lru_cache
def convolution_ns(chip, held, rows, columns):
    """Returns the nanoseconds of three images [h, w] with these radices of rows and columns."""
    n, m = math.prod(rows), math.prod(columns)
    tables = (
        real_stockham_tables(n, rows),
        column_tables(m, columns),
        inverse_real_stockham_tables(n, rows, scale=1 / n),
    )
    passes = (axes.REAL_STOCKHAM, n, rows, m, columns, *held)
    x, h = ((CHANNELS, *held), NUMBERS), ((1, n // 2 + 1, m), NUMBERS)
    with hardware.select(hardware.chip(chip)):
        timeline = nki_sim.dry_run(convolve_images, x, h, h, *pack(tables), passes)
    return timeline.total_ns


def turned(pair, order):
    return pair if order == "rows" else pair[::-1]


@functools.lru_cache
def ours(chip, case, order):
    """Returns (ns, (radices of columns, radices of rows)) of the cheapest choice.

    Rows and columns are those of the kernel, which sees the picture in the given order.
    """
    held = turned(case.size, order)
    height, width = turned(case.least, order)
    choices = itertools.product(candidates(height, fits_columns), candidates(width, fits_rows))
    return min((convolution_ns(chip, held, r, c), (c, r)) for c, r in choices)


@functools.lru_cache
def naive(chip, case):
    """Returns the nanoseconds with powers of two, where all padded rows are transformed."""
    columns, rows = ((n // 64, 64) for n in case.powers)
    return convolution_ns(chip, case.powers, rows, columns)


def padded(radices, order):
    """Returns the padded (H, W)."""
    return turned(tuple(map(math.prod, radices)), order)


@each_case
def test_the_first_axis_that_the_filter_chooses_is_the_faster_one(strict_chip, case):
    """The choice compares work, so that it may be as fast instead of faster.

    At 1920x1080 with the small point spread function both orders need 1.4 ms.
    """
    found = {order: ours(strict_chip, case, order) for order in ORDERS}
    fastest = min(found.values())[0]
    for order in ORDERS:
        chosen = axis_order(case.size, padded(found[order][1], order))
        assert found[chosen][0] <= 1.03 * fastest


def test_it_is_faster_than_powers_of_two(strict_chip):
    case = CASES[0]
    assert naive(strict_chip, case) >= 1.5 * min(ours(strict_chip, case, o)[0] for o in ORDERS)


def plane_ns(chip):
    """Returns the nanoseconds of a complex transform of 1024 x 1024 points."""
    radices = (16, 64)
    last = stockham_tables(1024, radices)
    tables = pack((last, strided_stockham_tables(1024, radices)))
    passes = (
        (axes.STOCKHAM, 2, 1024, 1024, radices),
        (axes.STRIDED_STOCKHAM, 1, 1024, 1024, radices),
    )
    x = (1, 1024, 1024), NUMBERS
    with hardware.select(hardware.chip(chip)):
        return nki_sim.dry_run(axes.transform_axes, x, x, *tables, passes).total_ns


def test_table(strict_chip):
    """Prints the comparison."""
    print(f"\n{strict_chip}, LNC=1, modelled milliseconds; the article's, measured on an RTX 4060")
    chip = hardware.chip(strict_chip)
    print(f"Not counted in ours: {chip.launches.note(chip.name)}")
    print(f"{'':<25} {'article':>7} {'naive':>7} {'rows':>7} {'columns':>7} first; padded to")
    for case in CASES:
        found = {order: ours(strict_chip, case, order) for order in ORDERS}
        cells = [case.article_ms * 1e6, naive(strict_chip, case)] + [found[o][0] for o in ORDERS]
        line = " ".join(f"{ns / 1e6:7.2f}" for ns in cells)
        sizes = [case.powers] + [padded(found[order][1], order) for order in ORDERS]
        print(f"{case!s:<25} {line}       ", ", ".join(f"{w}x{h}" for h, w in sizes))
    ns, floor = plane_ns(strict_chip), hardware.current().dma_floor_ns(2**20)
    print(f"complex 1024x1024: {ns / 1e3:.0f} us = {ns / floor:.2f} of the DMA floor")
