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
from typing import Any

from ..isa import nki, nl
from ..packing import unpack
from ..row_blocks import share_rows
from ..table_terms import table_spec
from ..tiles import PARTITIONS
from .bluestein import chirp_factors, parts_by_row
from .four_step import instructions_of, transform_rows
from .four_step_passage import Results
from .four_step_shared import STORED, Tables, hold_tables, spread_of
from .four_step_tables import MAX_LENGTH, four_step_specs, four_step_tables
from .spread_lines import Inputs, Lines, Spread, input_tiles, loads_of, start_loads

MAX_CONVOLVED = MAX_LENGTH // 2  # longest N
_TILES = 2  # tiles for inputs, and tiles for their factors


class Convolution(nl.NKIObject):
    """What both transforms of a convolution share."""

    spread: Spread
    tables: Tables
    opening: Any  # the chirp in HBM, [r1, 2, M/r1]
    spectrum: Any  # the spectrum of the filter in HBM, [r1, 2, M/r1]
    closing: Any  # the chirp of results in HBM, [C, 2, M/C]
    scratch: Any  # two tensors in HBM, [rows, M]
    tiles: Any  # tiles for inputs
    factors: Any  # tiles for factors of inputs
    weights: Any  # a tile for factors of outputs; SBUF has no room for two beside 2^19 numbers


def long_bluestein_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``long_bluestein`` for a convolution of length M.

    They are (chirp [r1, 2, M/r1], spectrum [r1, 2, M/r1], chirp [C, 2, M/C], *four_step's tables),
    computed in float64.

    Args:
        n: length of the transform, at least 1.
        radices: r1, ..., C with product M >= 2 n - 1; r1 is 65 to 128.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: M is too short, or r1 is out of range.
    """
    m = math.prod(radices)
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, radices {radices}: n >= 1 and M = {m} >= 2 n - 1 must hold")
    if 2 * radices[0] <= PARTITIONS:
        raise ValueError(f"radices {radices}: the first must be 65 to 128")
    opening, spectrum, closing = chirp_factors(n, m, inverse, scale)
    first, last = radices[0], radices[-1]
    # The second transform works on swapped parts, which means on i times the conjugate.
    return (
        parts_by_row(opening.reshape(first, -1)),
        parts_by_row(spectrum.conj().reshape(first, -1)),
        parts_by_row(closing.conj().reshape(last, -1)),
        *four_step_tables(m, radices),
    )


def long_bluestein_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``long_bluestein_tables(n, radices, ...)``."""
    m, first, last = math.prod(radices), radices[0], radices[-1]
    opening = table_spec((first, 2, m // first))
    return opening, opening, table_spec((last, 2, m // last)), *four_step_specs(radices)


@nki.jit
def long_bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, of any length up to 2^18.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N].
        tables, places: the two results of ``pack(long_bluestein_tables(N, radices, ...))``.
        radices: r1, ..., C with product M.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = [x_re, x_im], [y_im, y_re]  # the second transform works on swapped parts
    spread = spread_of(radices, batch)
    share = share_rows(batch, spread.rows, 2 * instructions_of(spread))
    job = convolution_of(spread, unpack(tables, places), max(1, min(batch, share.step), share.rest))
    end = share.first + share.trips * share.step
    if share.trips > 0:

        def body(row: Any) -> None:
            convolve(Lines(x, row, 0, n), Lines(y, row, 0, n), share.step, job)

        nl.fori_loop(share.first, end, body, share.step)
    convolve(Lines(x, None, end * n, n), Lines(y, None, end * n, n), share.rest, job)
    return y_re, y_im


def convolution_of(spread: Spread, tables: Any, rows: int) -> Convolution:
    """Return what the transforms share, with scratch for ``rows`` transforms."""
    m = spread.length * spread.columns
    scratch, factors = [], []
    for _ in range(2):
        scratch.append(nl.ndarray((rows, m), dtype=nl.float32, buffer=nl.private_hbm))
    for _ in range(_TILES):
        factors.append(nl.ndarray((PARTITIONS, 2, STORED), dtype=nl.float32, buffer=nl.sbuf))
    weights = [nl.ndarray((PARTITIONS, 2, STORED), dtype=nl.float32, buffer=nl.sbuf)]
    held = hold_tables(tables[3:], spread, None)
    tiles = input_tiles(spread, _TILES)
    return Convolution(
        spread, held, tables[0], tables[1], tables[2], scratch, tiles, factors, weights
    )


def convolve(source: Lines, target: Lines, count: int, job: Convolution) -> None:
    """Transform ``count`` lines; the target has real and imaginary part swapped."""
    m = job.spread.length * job.spread.columns
    inputs = Inputs(job.tiles, [job.opening], job.factors)
    loads = loads_of(source, inputs, job.spread, 0, count)
    start_loads(loads, _TILES)
    spectrum = Lines(job.scratch, None, 0, m)
    transform_rows(loads, Results(spectrum, [], [], 0), job.tables)
    swapped = Lines([job.scratch[1], job.scratch[0]], None, 0, m)
    inputs = Inputs(job.tiles, [job.spectrum], job.factors)
    loads = loads_of(swapped, inputs, job.spread, 0, count)
    start_loads(loads, _TILES)
    transform_rows(loads, Results(target, [job.closing], job.weights, 0), job.tables)
