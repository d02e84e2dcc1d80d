"""FFT of lengths that one transform's SBUF cannot hold: radix 2 or 4 through HBM scratch.

Mathematics.  N = P Q with P = 2 or 4, n = p Q + q, k = k_p + P k_q:

    y[k_p + P k_q] = sum_q W_Q^(q k_q) W_N^(q k_p) sum_p W_P^(p k_p) x[p Q + q]

Layout on the NeuronCore.  Three passes over HBM in one launch: VectorE's butterflies and twiddles
on pieces of [L, Q/L] in natural order, L the largest divisor of Q up to 128; the P transforms of
length Q by four_step.py; and an interleaving of their results, [C, Q/C, P], so that stores are
contiguous again. Tables pass through SBUF in pieces, so nothing grows with N but HBM. With a chirp
before and a filter after, a pass serves Bluestein's transforms, too.

A batch is a loop on the device, a transform an iteration, so that scratch is that of one transform.
Two cores each take a half of the batch. They share the last transform of an odd one: each takes a
half of the columns of the first and the last pass, and of the P transforms, and before a pass reads
what the other core wrote, they meet.

Why it is fast.  It is not: three passes cost three times the DMA floor. It makes every length up
to 2^21 one launch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import LAUNCH_INSTRUCTIONS, Share, share_rows
from ..tiles import PARTITIONS, factor_views, multiply_complex
from .dft_gemm import table_spec
from .four_step import (
    MAX_LENGTH,
    RING,
    Inputs,
    Lines,
    Place,
    Results,
    Spread,
    four_step_specs,
    four_step_tables,
    input_tiles,
    length_of,
    load_factors,
    load_lines,
    load_plan,
    loads_of,
    spread_of,
    start_loads,
    store_lines,
    transform_rows,
)

MAX_SPLIT_LENGTH = 4 * MAX_LENGTH
_PIECE = 512  # columns of a pass at a time
_FACTORS = 3  # tiles for factors


class Shared(nl.NKIObject):
    """What all transforms of a launch share."""

    spread: Spread  # of the transforms of length Q
    tables: Any  # in HBM: twiddles [P - 1, L, 2, Q/L], and four_step's tables
    held: Any  # [Tables] in SBUF, or nothing until they are needed
    inputs: Inputs  # tiles that DMA fills


class Split(nl.NKIObject):
    """How a transform is split, and what its passes share."""

    count: int  # P
    size: int  # Q
    inverse: bool
    shared: Shared
    scratch: Any  # Lines in HBM, of Q numbers: what the first pass leaves, and the second one
    tensors: Any  # the HBM tensors behind them
    is_shared: bool  # whether two programs share the passes


class Ring(nl.NKIObject):
    """Parts of tiles that DMA fills in turn."""

    tiles: Any
    turn: int  # how often one was filled


def split_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables, float32: (twiddle [P - 1, L, 2, Q/L], *four_step's tables).

    radices: P (2 or 4), then those of a four-step plan for Q = n / P. Raises ValueError where it
    is no such plan.
    """
    if math.prod(radices) != n or len(radices) < 3 or radices[0] not in (2, 4):
        raise ValueError(f"radices {radices}: 2 or 4, then two or more, with product n = {n}")
    split, size = radices[0], n // radices[0]
    plan = four_step_tables(size, radices[1:], inverse, scale)
    k, q = np.arange(1, split)[:, None], np.arange(size)[None, :]
    angle = 2 * np.pi / n * (k * q)  # k q < n: no reduction needed
    sign = 1.0 if inverse else -1.0
    twiddle = np.stack([np.cos(angle), sign * np.sin(angle)], 1).astype(np.float32)
    by_lane = twiddle.reshape(split - 1, 2, lanes_of(size), -1)
    return by_lane.swapaxes(1, 2).copy(), *plan


def split_four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``split_four_step_tables(n, radices, ...)``."""
    split, size = radices[0], math.prod(radices[1:])
    lanes = lanes_of(size)
    twiddle = table_spec((split - 1, lanes, 2, size // lanes))
    return twiddle, *four_step_specs(radices[1:])


def lanes_of(size: int) -> int:
    """Partitions that the first pass spreads Q numbers over: the largest divisor up to 128."""
    lanes = PARTITIONS
    while size % lanes > 0:
        lanes -= 1
    return lanes


@nki.jit
def split_four_step(x_re, x_im, tables, places, radices, inverse=False):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(split_four_step_tables(N, radices,
    inverse, ...))``. Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = [x_re, x_im], [y_re, y_im]
    tables = unpack(tables, places)
    share = share_whole(batch)
    shared = shared_of(radices, tables, share)
    if share.trips + share.rest > 0:
        alone = split_of(radices, inverse, shared, False)
        if share.trips > 0:

            def body(row: Any) -> None:
                split_row(Lines(x, row, 0, n), Lines(y, row, 0, n), alone, [], [])

            nl.fori_loop(share.first, share.first + share.trips, body)
        else:
            at = share.first * n
            split_row(Lines(x, None, at, n), Lines(y, None, at, n), alone, [], [])
    if batch % nl.num_programs() > 0:
        split = split_of(radices, inverse, shared, True)
        at = (batch - 1) * n
        split_row(Lines(x, None, at, n), Lines(y, None, at, n), split, [], [])
    return y_re, y_im


def share_whole(batch: int) -> Share:
    """Transforms that this program does alone, one an iteration; at most one if not in a loop."""
    return share_rows(batch - batch % nl.num_programs(), 1, LAUNCH_INSTRUCTIONS)


def shared_of(radices: Any, tables: Any, share: Share) -> Shared:
    """What all transforms of a launch share; the tables are loaded first only if a loop follows."""
    spread = spread_of(radices[1:], radices[0])
    inputs = Inputs(input_tiles(spread, RING), [], [])
    shared = Shared(spread, tables, [], inputs)
    if share.trips > 0:
        shared.held.append(load_plan(tables[1:], spread))
    return shared


def split_of(radices: Any, inverse: bool, shared: Shared, is_shared: bool) -> Split:
    """How the kernel splits a transform, whose passes two programs share or one does alone."""
    count, size = radices[0], length_of(radices[1:])
    scratch, tensors = [], []
    for _ in range(2):
        tensor = scratch_of(2 * count, size, is_shared)
        tensors.append(tensor)
        scratch.append(Lines([tensor[0:count], tensor[count : 2 * count]], None, 0, size))
    return Split(count, size, inverse, shared, scratch, tensors, is_shared)


def scratch_of(rows: int, columns: int, is_shared: bool) -> Any:
    """HBM that all programs write and read, or this one alone."""
    buffer = nl.shared_hbm if is_shared else nl.private_hbm
    return nl.ndarray((rows, columns), dtype=nl.float32, buffer=buffer)


def meet(tensor: Any, is_shared: bool) -> None:
    """Wait until both programs have written their share of an HBM tensor."""
    if is_shared:
        nisa.core_barrier(tensor, (0, 1))


def share_of(count: int, is_shared: bool) -> Any:
    """[first, end] of what this program does of ``count`` equal things."""
    if not is_shared:
        return [0, count]
    programs, program = nl.num_programs(), nl.program_id(0)
    return [count * program // programs, count * (program + 1) // programs]


def split_row(source: Lines, target: Lines, split: Split, before: Any, after: Any) -> None:
    """Transform one line into one; either may be shorter than N.

    before, after: the HBM table of factors of the inputs [P, L, 2, Q/L] and of the outputs
    [C, 2, N/C] in a list, or nothing.
    """
    shared = split.shared
    part_row(source, split, before)
    if len(shared.held) == 0:
        # Behind the first pass, which does not need them.
        shared.held.append(load_plan(shared.tables[1:], shared.spread))
    meet(split.tensors[0], split.is_shared)
    first, end = share_of(split.count, split.is_shared)
    loads = loads_of(split.scratch[0], shared.inputs, shared.spread, first, end - first)
    start_loads(loads, RING)
    transform_rows(loads, Results(split.scratch[1], [], [], 0), shared.held[0])
    meet(split.tensors[1], split.is_shared)
    merge_row(target, split, after)


def part_row(source: Lines, split: Split, before: Any) -> None:
    """The first pass: DFTs over p and twiddles, into the scratch."""
    factors, halves = factor_ring(), Ring(halves_of(split.shared.inputs.tiles), 0)
    first, end = share_of(twiddle_of(split).shape[3], split.is_shared)
    for start in range(first, end, _PIECE):
        size = min(_PIECE, end - start)
        pieces = load_pieces(source, split, start, size, halves, factors, before)
        part_piece(pieces, split, start, factors)


def merge_row(target: Lines, split: Split, after: Any) -> None:
    """The last pass: the P results of the scratch, interleaved."""
    factors, halves = factor_ring(), Ring(halves_of(split.shared.inputs.tiles), 0)
    length = split.shared.spread.length
    first, end = share_of(length, split.is_shared)
    for start in range(first, end, _PIECE):
        result = merge_piece(split, start, min(_PIECE, end - start), halves)
        if len(after) > 0:
            weigh_outputs(result, after[0], start * split.count, factors)
        place = Place(0, start * split.count, length * split.count)
        for part in range(2):
            store_lines(result[:, part].expand_dim(1), target, part, place)


def twiddle_of(split: Split) -> Any:
    """The twiddles of the first pass in HBM, [P - 1, L, 2, Q/L]."""
    return split.shared.tables[0]


def halves_of(tiles: Any) -> Any:
    """Halves of the input tiles, each for a piece [128, 2, 512]."""
    halves = []
    for tile in tiles:
        for low in range(0, 4 * _PIECE, 2 * _PIECE):
            halves.append(tile[:, low : low + 2 * _PIECE].reshape_dim(1, (2, _PIECE)))
    return halves


def factor_ring() -> Ring:
    """Tiles for factors, of which a pass has its own."""
    tiles = []
    for _ in range(_FACTORS):
        tiles.append(nl.ndarray((PARTITIONS, 2, _PIECE), dtype=nl.float32, buffer=nl.sbuf))
    return Ring(tiles, 0)


def next_of(ring: Ring) -> Any:
    """The tile whose turn it is."""
    tile = ring.tiles[ring.turn % len(ring.tiles)]
    ring.turn += 1
    return tile


def load_pieces(
    source: Lines,
    split: Split,
    start: int,
    size: int,
    halves: Ring,
    factors: Ring,
    before: Any,
) -> Any:
    """SBUF [L, 2, size], one a p, of columns from start on; zeros beyond the data."""
    lanes, pitch = twiddle_of(split).shape[1], twiddle_of(split).shape[3]
    pieces = []
    for p in range(split.count):
        held = max(0, min(split.size, source.held - p * split.size))
        part_of_line = Lines(source.parts, source.base, source.skip + p * split.size, held)
        piece = next_of(halves)[0:lanes, :, 0:size]
        for part in range(2):
            load_lines(piece[:, part].expand_dim(1), part_of_line, part, Place(0, start, pitch))
        if len(before) > 0 and held > 0:
            tile = next_of(factors)
            load_factors(tile, before[0][p], start, size)
            weighted = nl.ndarray(piece.shape, dtype=nl.float32, buffer=nl.sbuf)
            multiply_complex(weighted, piece, factor_views(tile, 0, piece.shape))
            piece = weighted
        pieces.append(piece)
    return pieces


def part_piece(pieces: Any, split: Split, start: int, factors: Ring) -> None:
    """DFT over p, twiddles, and stores to row k_p of the scratch."""
    if len(pieces) == 2:
        outputs = [
            combine(pieces[0], pieces[1], nl.add),
            combine(pieces[0], pieces[1], nl.subtract),
        ]
    else:
        even = combine(pieces[0], pieces[2], nl.add)
        odd = combine(pieces[1], pieces[3], nl.add)
        cross = combine(pieces[0], pieces[2], nl.subtract)
        other = combine(pieces[1], pieces[3], nl.subtract)
        outputs = [
            combine(even, odd, nl.add),
            rotate_and_add(cross, other, split.inverse),
            combine(even, odd, nl.subtract),
            rotate_and_add(cross, other, not split.inverse),
        ]
    for k in range(split.count):
        result = outputs[k]
        if k > 0:
            tile = next_of(factors)
            load_factors(tile, twiddle_of(split)[k - 1], start, result.shape[2])
            multiply_complex(result, result, factor_views(tile, 0, result.shape))
        for part in range(2):
            place = Place(k, start, twiddle_of(split).shape[3])
            store_lines(result[:, part].expand_dim(1), split.scratch[0], part, place)


def combine(a: Any, b: Any, op: Any) -> Any:
    """a <op> b of two SBUF tiles."""
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=out, data1=a, data2=b, op=op)
    return out


def rotate_and_add(a: Any, b: Any, is_positive: bool) -> Any:
    """a + i b, or a - i b, of split complex SBUF tiles [P, 2, F]."""
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    real = nl.subtract if is_positive else nl.add
    imaginary = nl.add if is_positive else nl.subtract
    nisa.tensor_tensor(dst=out[:, 0], data1=a[:, 0], data2=b[:, 1], op=real)
    nisa.tensor_tensor(dst=out[:, 1], data1=a[:, 1], data2=b[:, 0], op=imaginary)
    return out


def merge_piece(split: Split, start: int, size: int, halves: Ring) -> Any:
    """Columns start.. of the P transforms, interleaved: SBUF [C, 2, P size]."""
    columns = split.shared.spread.columns
    tile = nl.ndarray((columns, 2, size, split.count), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(split.count):
        loaded = next_of(halves)[0:columns, :, 0:size]
        for part in range(2):
            place = Place(k, start, split.size // columns)
            load_lines(loaded[:, part].expand_dim(1), split.scratch[1], part, place)
        nisa.activation(dst=tile[:, :, :, k], op=nl.copy, data=loaded)
    return tile.flatten_dims(2, 3)


def weigh_outputs(result: Any, after: Any, start: int, factors: Ring) -> None:
    """Multiply SBUF [C, 2, n] by factors start.. of HBM [C, 2, N/C]."""
    for low in range(0, result.shape[2], _PIECE):
        x = result[:, :, low : min(low + _PIECE, result.shape[2])]
        tile = next_of(factors)
        load_factors(tile, after, start + low, x.shape[2])
        multiply_complex(x, x, factor_views(tile, 0, x.shape))
