"""Bluestein's DFT of any length N <= 2^18 by two long transforms: one launch.

Mathematics.  As in bluestein.py, X = b* . IDFT_M(H . DFT_M(b* . x, zeros)) with the chirp b[n] =
exp(+-pi i n^2 / N), n^2 reduced modulo 2N in integers, and M >= 2N - 1. The inverse transform is a
forward transform with real and imaginary part swapped before and after.

Layout on the NeuronCore.  Both transforms run as in four_step.py. Their loads and stores are in
natural order, with [r1, M/r1] and [C, M/C] on partitions. VectorE multiplies by the chirp and by
the filter in this layout; both come in pieces together with the data. The spectrum passes through
HBM scratch, which is as large as one iteration of the loop over the batch needs. Rows beyond the
data are zeros that are made on the chip, and outputs beyond N are not stored.

    HBM [N] -> b* -> four-step -> HBM scratch [M] -> H -> four-step -> b* -> HBM [N]

Where M exceeds what four_step.py holds, split_bluestein.py does the same with transforms that are
split through HBM.

Why it is fast.  HBM is passed twice, whatever N is; the rest is the price of M >= 2N - 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..base.arguments import convolved_length, rows_and_length
from ..base.engines import PARTITIONS, factor_views, hbm, multiply_complex, sbuf
from ..base.isa import Tensor, nki, nl
from ..base.launch import Rows, for_rows, whole
from ..base.packing import unpack
from ..base.pipeline import TURN, Block, Item, in_turn
from ..base.table_terms import Array, TableSpec, table_spec
from .bluestein import check_long, chirp_factors, parts_by_row
from .four_step import FourStep, Weigh
from .four_step_tables import MAX_LENGTH, four_step_specs, four_step_tables
from .spread_lines import STORED, Factors, Inputs, Lines, Place, spread_of

MAX_CONVOLVED = MAX_LENGTH // 2  # longest N
_TILES = 2  # tiles for inputs, and tiles for their factors


def long_bluestein_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``long_bluestein`` for a convolution of length M.

    They are (chirp [r1, 2, M/r1], spectrum [r1, 2, M/r1], chirp [C, 2, M/C], *four_step's tables),
    computed in float64.

    Args:
        n: length of the transform, at least 1.
        radices: r1, ..., C with product M >= 2 n - 1; r1 is 65 to 128.
        inverse, scale: as for ``stockham_tables``.
    """
    m = check_long(n, radices)
    opening, spectrum, closing = chirp_factors(n, m, inverse, scale)
    first, last = radices[0], radices[-1]
    # The second transform works on swapped parts, which means on i times the conjugate.
    return (
        parts_by_row(opening.reshape(first, -1)),
        parts_by_row(spectrum.conj().reshape(first, -1)),
        parts_by_row(closing.conj().reshape(last, -1)),
        *four_step_tables(m, radices),
    )


def long_bluestein_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``long_bluestein_tables(n, radices, ...)``."""
    m, first, last = math.prod(radices), radices[0], radices[-1]
    opening = table_spec((first, 2, m // first))
    return opening, opening, table_spec((last, 2, m // last)), *four_step_specs(radices)


@nki.jit
def long_bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, of any length up to 2^18.

    The arguments and the results are those of ``stockham``, with ``long_bluestein_tables`` and
    radices r1, ..., C, whose product is M.
    """
    batch, n = rows_and_length(x_re, x_im)
    convolved_length(radices, n)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    spread = spread_of(radices, batch)
    opening, spectrum, closing, *others = unpack(tables, places, 3)
    kernel = FourStep(spread, others, Inputs(spread, min(_TILES, spread.tiles)))
    tiles = [sbuf((PARTITIONS, 2, STORED)) for _ in range(_TILES)]
    chirp = Factors(closing, [sbuf((PARTITIONS, 2, STORED))])  # 2^19 numbers leave room for one
    work = Convolution(
        kernel,
        Lines([x_re, x_im], n),
        Lines([y_im, y_re], n),  # the second transform works on swapped parts
        Factors(opening, tiles),
        Factors(spectrum, tiles),
        chirp,
    )
    for_rows(batch, work, spread.rows, whole, None)
    return y_re, y_im


@dataclass
class Convolution:
    """The rows of a launch: a block is both transforms of as many rows as are in progress."""

    kernel: FourStep
    source: Lines
    target: Lines  # with real and imaginary part swapped
    opening: Factors  # the chirp, [r1, 2, M/r1]
    spectrum: Factors  # of the filter, [r1, 2, M/r1]
    closing: Factors  # the chirp of results, [C, 2, M/C]

    def setup(self) -> None:
        self.kernel.setup()

    def block(self, rows: Rows, number: int) -> Block:
        """Transform rows into spectra in HBM scratch, and these into the results."""
        m = self.kernel.spread.length * self.kernel.spread.columns
        scratch = [nl.ndarray((rows.each, m), nl.float32, nl.private_hbm) for _ in range(2)]
        source, target = (
            replace(lines, base=rows.base, skip=rows.first * lines.held)
            for lines in (self.source, self.target)
        )
        yield from self._transforms(source, Lines(scratch, m), rows.each, self.opening, None)
        yield TURN
        swapped = Lines(scratch[::-1], m)
        yield from self._transforms(swapped, target, rows.each, self.spectrum, self._weigh)

    def _transforms(
        self, source: Lines, target: Lines, count: int, before: Factors, weigh: Weigh | None
    ) -> Iterator[Item]:
        kernel, rows = self.kernel, self.kernel.spread.blocks(None, 0, count)
        blocks = (kernel.block(source, target, some, before, weigh) for some in rows)
        return in_turn(blocks, replace(kernel.order, begun=2))

    def _weigh(self, results: Tensor, place: Place) -> None:
        tile = self.closing.load(place.low, results.shape[3], 0)
        multiply_complex(results, results, factor_views(tile, results.shape))
