"""Bloom of the pictures of an article, modelled: python -m bench.tables bloom

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import nki_sim
from bench.tables.planned import markdown
from nki_kernels.base.packing import pack
from nki_kernels.convolution.image_convolution import column_tables, convolve_images
from nki_kernels.nd import axes
from nki_kernels.nd.strided_stockham import slabs_together
from nki_kernels.real.real_stockham_tables import (
    inverse_real_stockham_tables,
    real_stockham_tables,
)
from nki_sim import hardware

Pair = tuple[int, int]
CHIPS = ("trn1", "trn2")
CHANNELS = 3
NUMBERS = "float32"
LENGTHS = 3  # tried for each axis
ORDERS = ("rows", "columns")


@dataclass(frozen=True)
class Case:
    """A picture, the side of the point spread function, and the article's milliseconds."""

    size: Pair
    side: int
    article_ms: float

    @property
    def least(self) -> Pair:
        """The padded lengths that just avoid wraparound."""
        return self.size[0] + self.side // 2, self.size[1] + self.side // 2

    @property
    def powers(self) -> Pair:
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


def candidates(least: int, fits: Callable[[int, int], bool]) -> list[Pair]:
    """Returns radices (r, q') of the shortest even lengths for which some radices fit."""
    found: list[Pair] = []
    for n in range(least + least % 2, 2 * least, 2):
        found += [(n // q, q) for q in range(64, 31, -1) if n % q == 0 and fits(n // q, q)][:1]
        if len(found) == LENGTHS:
            break
    return found


def fits_rows(radix: int, left: int) -> bool:
    return 2 <= radix <= 64 and left >= 48 and left % 2 == 0


def fits_columns(radix: int, left: int) -> bool:
    """Returns whether slabs fill 7/8 of the array and of the partitions that DMA moves."""
    return 2 <= radix <= 64 and 2 * radix * slabs_together(radix, left) >= 112


@functools.lru_cache
def convolution_ns(chip: str, held: Pair, rows: Pair, columns: Pair) -> float:
    """Returns the nanoseconds of three images [h, w] with these radices of rows and columns."""
    n, m = math.prod(rows), math.prod(columns)
    tables = (
        real_stockham_tables(n, rows),
        column_tables(m, columns),
        inverse_real_stockham_tables(n, rows, scale=1 / n),
    )
    passes = (axes.REAL_STOCKHAM, n, rows, m, columns, *held)
    x, h = ((CHANNELS, *held), NUMBERS), ((1, n // 2 + 1, m), NUMBERS)
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        timeline = nki_sim.dry_run(convolve_images, x, h, h, *pack(tables), passes)
    return timeline.total_ns


def turned(pair: Pair, order: str) -> Pair:
    return pair if order == "rows" else pair[::-1]


@functools.lru_cache
def ours(chip: str, case: Case, order: str) -> tuple[float, tuple[Pair, Pair]]:
    """Returns (ns, (radices of columns, radices of rows)) of the cheapest choice.

    Rows and columns are those of the kernel, which sees the picture in the given order.
    """
    held = turned(case.size, order)
    height, width = turned(case.least, order)
    choices = itertools.product(candidates(height, fits_columns), candidates(width, fits_rows))
    return min((convolution_ns(chip, held, r, c), (c, r)) for c, r in choices)


@functools.lru_cache
def naive(chip: str, case: Case) -> float:
    """Returns the nanoseconds with powers of two, where all padded rows are transformed."""
    columns, rows = ((n // 64, 64) for n in case.powers)
    return convolution_ns(chip, case.powers, rows, columns)


def padded(radices: tuple[Pair, Pair], order: str) -> Pair:
    """Returns the padded (H, W)."""
    height, width = map(math.prod, radices)
    return turned((height, width), order)


def tables() -> Iterator[str]:
    """Yields a table for each chip: milliseconds, and the lengths to which pictures are padded."""
    for name in CHIPS:
        chip = hardware.chip(name)
        rows = []
        for case in CASES:
            found = {order: ours(name, case, order) for order in ORDERS}
            times = [naive(name, case), *(found[order][0] for order in ORDERS)]
            sizes = [case.powers, *(padded(found[order][1], order) for order in ORDERS)]
            cells = [f"{ns / 1e6:.2f}, {w}x{h}" for ns, (h, w) in zip(times, sizes, strict=True)]
            rows.append([str(case), f"{case.article_ms:.2f}", *cells])
        headings = (
            "picture",
            "the article's, measured on an RTX 4060",
            f"naive on {name}, LNC=1, modelled ms and padded size",
            "rows first",
            "columns first",
        )
        note = f"Not counted in ours: {chip.launches.note(chip.name)}"
        yield f"{markdown(headings, rows)}\n\n{note}"
