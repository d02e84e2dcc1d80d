"""Circular convolution of real rows with a filter, by its spectrum: one launch.

Mathematics.  y = F^-1 (F x . H), where H is the half spectrum of the filter, N/2 + 1 numbers.

Layout on the NeuronCore.  real_stockham's forward stages leave half spectra [128, 2, R, N/2 + 1] in
SBUF, where VectorE multiplies them by H, which is repeated on all partitions or has a row for each
of x; real_stockham's inverse stages take them from there. Only x, H and y pass through HBM.

    HBM [B, N] -> SBUF -> stages -> half spectra, times H -> stages -> SBUF -> HBM [B, N]

Three blocks are on their way: forward stages of one, the product of the one before, inverse stages
of the one before that, so that none waits for its own results. VectorE only multiplies, and all
results leave PSUM by ScalarE.

Why it is fast.  DMA moves 8 bytes a point instead of the 28 of three launches; what is left is the
Tensor engine, for two real transforms.
"""

from __future__ import annotations

from typing import Any

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import PARTITIONS
from .dft_gemm import load_rows
from .old_stages import load_identity
from .real_stockham import (
    advance_forward,
    advance_inverse,
    finish_forward,
    finish_inverse,
    forward_work,
    inverse_real_stockham_specs,
    inverse_real_stockham_tables,
    inverse_work,
    load_stages,
    real_stockham_specs,
    real_stockham_tables,
    rows_of_block,
    run_length,
    slot_count,
)

MAX_LENGTH = 5120
_CHUNK = 512  # numbers of each part that are multiplied at a time


def convolution_tables(n: int, radices: tuple[int, int]) -> tuple[Any, ...]:
    """The tables of ``convolve_rows``, float32: real_stockham's, then its inverse's, with 1/N.

    Raises ValueError where the radices do not multiply to n, or one or n is too large.
    """
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: convolutions in SBUF take lengths up to {MAX_LENGTH}")
    forward = real_stockham_tables(n, radices)
    return *forward, *inverse_real_stockham_tables(n, radices, True, 1.0 / n)


def convolution_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``convolution_tables(n, radices)``."""
    return *real_stockham_specs(radices), *inverse_real_stockham_specs(radices)


@nki.jit
def convolve_rows(x, h_re, h_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Circular convolution of every row of real ``x`` with a filter.

    x: float32 HBM [B, N]. h_re, h_im: its half spectrum, [1, N // 2 + 1] for all rows or [B, ...].
    tables, places: ``pack(convolution_tables(N, radices))``. Returns y, float32 HBM [B, N].
    """
    batch, n = x.shape
    filters = h_re.shape[0]
    assert n == radices[0] * radices[1], f"radices {radices} for N = {n}"
    assert filters in (1, batch), f"{filters} filters for {batch} rows"
    y = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    identity = load_identity(nl.float32)
    spectrum: Any = []
    resident: Any = []
    waiting: Any = []
    multiplied: Any = []
    start = 0
    while start < batch:
        rows = rows_of_block(batch - start, n)
        partitions = min(PARTITIONS, (batch - start) // rows)
        stop = start + rows * partitions
        data = nl.ndarray((partitions, rows, n), dtype=nl.float32, buffer=nl.sbuf)
        load_rows(data, x, start, stop)
        if start == 0:
            found = unpack(tables, places)
            half = len(places) // 2
            resident = [load_stages(found[0:half]), load_stages(found[half:])]
            if filters == 1:
                spectrum = load_filter(h_re, h_im, 0, 1, 1, partitions)
        if filters > 1:
            spectrum = load_filter(h_re, h_im, start, stop, rows, partitions)
        block = forward_block(data, radices)
        transform_both(block, waiting, resident, radices, identity)
        waiting = multiplied
        multiply_spectra(block[2], spectrum)
        multiplied = inverse_block(block[2], y, start, stop, radices)
        start = stop
    transform_both([], waiting, resident, radices, identity)
    transform_both([], multiplied, resident, radices, identity)
    return y


def load_filter(h_re: Any, h_im: Any, start: int, stop: int, rows: int, partitions: int) -> Any:
    """SBUF [partitions, 2, rows, N/2 + 1] of rows start..stop; of one row, on all partitions."""
    length = h_re.shape[1]
    tile = nl.ndarray((partitions, 2, rows, length), dtype=nl.float32, buffer=nl.sbuf)
    for part in range(2):
        source = h_re if part == 0 else h_im
        if source.shape[0] == 1:
            repeated = source.ap([[0, partitions], [1, length]]).expand_dim(1)
            nisa.dma_copy(dst=tile[:, part], src=repeated)
        else:
            load_rows(tile[:, part], source, start, stop)
    if h_re.shape[0] > 1:
        return tile
    # What DMA writes may not stay.
    kept = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=kept, src=tile, engine=nisa.engine.gpsimd)
    return kept


def forward_block(data: Any, radices: Any) -> Any:
    """real_stockham's block for SBUF data [partitions, rows, N]; half spectra are its third."""
    partitions, rows, n = data.shape
    radix, left = radices
    half = n // 2 + 1
    shape = (partitions, 2, rows, slot_count(radix), left)
    slots = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    length = max(half, run_length(left) * radix)
    y = nl.ndarray((partitions, 2, rows, length), dtype=nl.float32, buffer=nl.sbuf)
    if length > half:
        nisa.memset(dst=y[:, :, :, half:length], value=0.0)
    return [data, slots, y, [], half, 0, 0, True]


def inverse_block(half: Any, y: Any, start: int, stop: int, radices: Any) -> Any:
    """real_stockham's block for half spectra in SBUF, whose results are rows of HBM y."""
    partitions, _, rows, _ = half.shape
    radix, left = radices
    shape = (partitions, rows, slot_count(radix), 2, left)
    slots = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((partitions, rows, radix * left), dtype=nl.float32, buffer=nl.sbuf)
    return [half, slots, result, y, radix * left // 2 + 1, start, stop, True]


def transform_both(ahead: Any, behind: Any, resident: Any, radices: Any, identity: Any) -> None:
    """Forward stages of one block and inverse stages of another, or of one of them, by turns."""
    forward: Any = []
    inverse: Any = []
    if len(ahead) > 0:
        forward = forward_work(radices, ahead[0].shape[1])
    if len(behind) > 0:
        inverse = inverse_work(radices, behind[2].shape[1])
    made: Any = []
    taken: Any = []
    for step in range(max(len(forward), len(inverse))):
        if step < len(forward):
            item = forward[step]
            item[4] = False  # nothing is stored
            made = advance_forward(item, ahead, resident[0], radices, identity, made)
        if step < len(inverse):
            item = inverse[step]
            taken = advance_inverse(item, behind, resident[1], radices, identity, taken)
    if len(made) > 0:
        finish_forward(made, resident[0], radices)
    if len(taken) > 0:
        finish_inverse(taken, resident[1], radices)


def multiply_spectra(half: Any, spectrum: Any) -> None:
    """Half spectra times the filter's, in place, on VectorE."""
    rows, held, length = half.shape[2], spectrum.shape[2], spectrum.shape[3]
    for low in range(0, length, _CHUNK):
        high = min(low + _CHUNK, length)
        for row in range(rows):
            x = half[:, :, row, low:high]
            # The real part of the filter's row for both parts of the data, by a stride of 0.
            pattern = [[2 * held * length, half.shape[0]], [0, 2], [1, high - low]]
            first = row % held * length + low
            real = spectrum.ap(pattern, first)
            imaginary = spectrum.ap(pattern, held * length + first)
            by_real = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
            by_imaginary = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=by_real, data1=x, data2=real, op=nl.multiply)
            nisa.tensor_tensor(dst=by_imaginary, data1=x, data2=imaginary, op=nl.multiply)
            nisa.tensor_tensor(
                dst=x[:, 0], data1=by_real[:, 0], data2=by_imaginary[:, 1], op=nl.subtract
            )
            nisa.tensor_tensor(
                dst=x[:, 1], data1=by_imaginary[:, 0], data2=by_real[:, 1], op=nl.add
            )
