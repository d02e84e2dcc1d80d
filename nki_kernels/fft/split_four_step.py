"""FFT of lengths that exceed SBUF: one radix of up to 128 is split off, through scratch in HBM.

Mathematics.  N = P Q with P <= 128, n = p Q + q, k = k_p + P k_q:

    y[k_p + P k_q] = sum_q W_Q^(q k_q) W_N^(q k_p) sum_p W_P^(p k_p) x[p Q + q]

Layout on the NeuronCore.  One launch makes three passes over HBM.

1. N numbers lie on L = P G <= 128 partitions (p, g) in the order of HBM, so that G neighbouring
partitions share a p. The Tensor engine multiplies pieces of W columns, q = g N/L + s + w, by W_P^(p
k_p). The matrix has one block for each g, and zeros between different g. Each piece has a matrix of
its own, which contains the twiddles W_N^(k_p (g N/L + s)) of the piece's first columns. The
remaining twiddles W_N^(k_p w), by which VectorE multiplies while it reads PSUM, are therefore the
same for all pieces. The tables have P N / W and P W numbers.

2. The P transforms of length Q run as in four_step.py.

3. The Tensor engine transposes pieces [L, W] to [J, L], once for each of the W / J columns J apart.
ScalarE puts the results side by side: P W / J neighbouring results lie on each partition.

The first and the last pass are:

    HBM [L, N/L] -> PSUM [(k_p, g), w] -> twiddle -> HBM [P, Q] -> four-step -> HBM [P, Q]
    HBM [L, N/L] -> PSUM [j, (k_p, g)] -> SBUF [j, g, i, k_p] -> HBM

Tables pass through SBUF in pieces, so that only HBM has to grow with N. Where P > 64, the scratch
has a gap after each row: rows that are a power of two apart are moved more slowly on
NeuronCore-v2.

A batch is a loop on the device with one transform in an iteration, so that the scratch holds one
transform. Where a transform has too many instructions for the body of a loop, its passes are loops,
and the batch is unrolled. Two cores each take half of the batch. They share the last transform of
an odd batch, and all transforms whose passes are loops: each core takes half of the pieces and half
of the P transforms, and the cores wait for each other before a pass reads what the other core
wrote.

Why it is fast.  Three passes take three times the DMA floor. With P near 128 the transforms in
between are short, of two radices for N <= 2^21, and every descriptor of the other passes moves up
to 4 KiB.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import LAUNCH_INSTRUCTIONS, Share, descriptors, share_rows
from ..table_terms import table_spec
from ..tiles import (
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    SPLIT_TERMS,
    load_identity,
    load_tables,
    multiply,
    multiply_banks,
    transpose,
    transposed_dtype,
)
from .four_step import instructions_of, transform_rows
from .four_step_passage import Results
from .four_step_shared import hold_tables, spread_of
from .four_step_tables import four_step_specs, four_step_tables
from .spread_lines import (
    RING,
    Inputs,
    Lines,
    Place,
    Spread,
    input_tiles,
    load_lines,
    loads_of,
    start_loads,
    view_of,
)
from .stockham_stages import length_of

MAX_SPLIT_LENGTH = 2**26
_PIECE = 1024  # columns of a piece of the first or the last pass, at most
_GAP = 1024  # numbers of the scratch after a row
_UNROLLED = 20_000  # instructions of a transform, beyond which its passes are loops
_PIECE_INSTRUCTIONS = 32  # instructions of a piece of the first or the last pass, at most


class Geometry(nl.NKIObject):
    """How N = P Q numbers lie on the partitions in the first and the last pass."""

    count: int  # P
    size: int  # Q
    blocks: int  # G
    lanes: int  # L
    columns: int  # N / L, numbers of a lane
    piece: int  # W, which divides N / L
    rows: int  # J, which divides W
    gap: int  # numbers of the scratch after each row of Q


class Lanes(nl.NKIObject):
    """Vectors in HBM as [L, N/L], of which a piece is used at a time."""

    tensor: Any  # both parts, whole
    base: Any  # register with the column at which an iteration begins, or None
    starts: Any  # the number with which each part begins
    pitch: int  # numbers from lane to lane


class Split(nl.NKIObject):
    """How transforms are split, and what their passes share."""

    geometry: Geometry
    spread: Spread  # how transforms of length Q are spread
    tables: Any  # in HBM: matrices, twiddles [L, 2, W], and four_step's
    held: Any  # [Tables] of four_step in SBUF, or [] until they are needed
    twiddle: Any  # SBUF [L, 2, W]
    identity: Any  # SBUF [128, 128]
    tiles: Any  # tiles that DMA fills


class Job(nl.NKIObject):
    """A transform's scratch, and which programs run its passes."""

    split: Split
    scratch: Any  # two HBM tensors [2 P, Q + gap]: results of the first and of the second pass
    is_shared: bool  # whether two programs share the passes
    loops: int  # transforms of a launch whose passes are loops, or 0


def geometry_of(count: int, size: int) -> Any:
    """Return [the geometry for P and Q], or [] where no pieces fit the Tensor engine.

    The engine transposes from more than 32 partitions to more than 32 partitions.
    """
    blocks = PARTITIONS // count
    while blocks > 1 and (size % blocks > 0 or size // blocks <= NARROW):
        blocks -= 1
    columns = size // blocks
    piece = min(columns, _PIECE)
    while piece > NARROW and (columns % piece > 0 or rows_of(piece) <= NARROW):
        piece -= 1
    if piece <= NARROW or count * blocks <= NARROW:
        return []
    gap = _GAP // piece * piece if blocks == 1 else 0
    rows = rows_of(piece)
    return [Geometry(count, size, blocks, count * blocks, columns, piece, rows, gap)]


def rows_of(piece: int) -> int:
    """Return the largest divisor of ``piece`` up to 128."""
    rows = min(piece, PARTITIONS)
    while piece % rows > 0:
        rows -= 1
    return rows


def checked_geometry(n: int, radices: tuple[int, ...]) -> Geometry:
    """Return the geometry of a plan; raise ValueError where it has none."""
    if math.prod(radices) != n or len(radices) < 3 or not 2 <= radices[0] <= PARTITIONS:
        raise ValueError(
            f"radices {radices}: there must be three or more, with the product n = {n}, "
            f"and the first must be 2 to {PARTITIONS}"
        )
    found = geometry_of(radices[0], n // radices[0])
    if not found:
        raise ValueError(
            f"radices {radices}: no number from {NARROW + 1} to {PARTITIONS} divides the numbers "
            f"on a partition; use another first radix"
        )
    return found[0]  # type: ignore[no-any-return]


def split_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``split_four_step``: (matrices, twiddles, *those of four_step).

    matrices are [pieces, L, 2, L], rows (p, g), columns (k_p, g), in the layout of ``by_column``.
    twiddles are [L, 2, W].

    Args:
        n: length of the transform.
        radices: P, then the radices of a four-step plan for Q = n / P.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: the radices do not fit.
    """
    geometry = checked_geometry(n, radices)
    plan = four_step_tables(geometry.size, radices[1:], inverse, scale)
    sign = 1 if inverse else -1
    matrices = by_column(split_matrices(geometry, sign), geometry)
    return matrices, split_twiddles(geometry, sign), *plan


def by_column(matrices: np.ndarray[Any, Any], geometry: Geometry) -> np.ndarray[Any, Any]:
    """Return matrices as [pieces W, numbers]: a piece's begin in the row of its first column.

    So a register that counts columns of a vector's lanes counts the vector's matrices, too.
    """
    pieces, each = len(matrices), column_numbers(geometry)
    rows = np.zeros((pieces, geometry.piece * each), np.float32)
    rows[:, : matrices[0].size] = matrices.reshape(pieces, -1)
    return rows.reshape(pieces * geometry.piece, each)


def column_numbers(geometry: Geometry) -> int:
    """Return how many numbers of a matrix belong to each of a piece's columns."""
    return -(-2 * geometry.lanes * geometry.lanes // geometry.piece)


def split_matrices(geometry: Geometry, sign: int) -> np.ndarray[Any, Any]:
    """Return W_P^(p k) W_N^(k (g N/L + s)), [pieces, L, 2, L]: see ``split_four_step_tables``."""
    count, size, blocks = geometry.count, geometry.size, geometry.blocks
    n = count * size
    p, k = np.arange(count)[:, None], np.arange(count)[None, :]
    starts = np.arange(0, geometry.columns, geometry.piece)
    shape = (len(starts), count, blocks, 2, count, blocks)
    matrices = np.zeros(shape, np.float32)
    for index, start in enumerate(starts):
        for g in range(blocks):
            exponent = k * (p * size + g * geometry.columns + start) % n
            angle = 2 * np.pi / n * exponent
            matrices[index, :, g, 0, :, g] = np.cos(angle)
            matrices[index, :, g, 1, :, g] = sign * np.sin(angle)
    return matrices.reshape(len(starts), geometry.lanes, 2, geometry.lanes)


def split_twiddles(geometry: Geometry, sign: int) -> np.ndarray[Any, Any]:
    """Return W_N^(k w), the second of ``split_four_step_tables``."""
    k, w = np.arange(geometry.count)[:, None], np.arange(geometry.piece)[None, :]
    angle = 2 * np.pi / (geometry.count * geometry.size) * (k * w)  # k w < N: nothing to reduce
    twiddles = np.stack([np.cos(angle), sign * np.sin(angle)], 1).astype(np.float32)
    return twiddles.repeat(geometry.blocks, 0)


def split_four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``split_four_step_tables(n, radices, ...)``."""
    geometry = checked_geometry(math.prod(radices), radices)
    matrices = table_spec((geometry.columns, column_numbers(geometry)))
    twiddles = table_spec((geometry.lanes, 2, geometry.piece))
    return matrices, twiddles, *four_step_specs(radices[1:])


def pieces_of_pass(geometry: Geometry) -> int:
    """Return the number of pieces of the first and of the last pass."""
    return geometry.columns // geometry.piece


@nki.jit
def split_four_step(x_re, x_im, matrices, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, through scratch in HBM.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N].
        matrices: the first of ``split_four_step_tables(N, radices, ...)``.
        tables, places: the two results of ``pack`` for the others.
        radices: P, r1, ..., C with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    # A register counts columns of the P results; each column has P numbers here.
    shape = (batch, n // radices[0], radices[0])
    y_re = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    split = split_of(radices, [matrices] + unpack(tables, places), RING)
    transform_batch([x_re, x_im], [y_re, y_im], split)
    return y_re.reshape((batch, n)), y_im.reshape((batch, n))


def transform_batch(x: Any, y: Any, split: Split) -> None:
    """Transform all rows of x into y."""
    batch, n = x[0].shape
    if transform_instructions(split) > _UNROLLED:
        hold_plan(split)
        job = job_of(split, nl.num_programs() > 1, batch)
        for row in range(batch):
            split_row(Lines(x, None, row * n, n), Lines(y, None, row * n, n), job)
        return
    share = share_rows(batch - batch % nl.num_programs(), 1, LAUNCH_INSTRUCTIONS)
    if share.trips + share.rest > 0:
        alone = job_of(split, False, 0)
        if share.trips > 0:
            hold_plan(split)

            def body(row: Any) -> None:
                split_row(Lines(x, row, 0, n), Lines(y, row, 0, n), alone)

            nl.fori_loop(share.first, share.first + share.trips, body)
        else:
            at = share.first * n
            split_row(Lines(x, None, at, n), Lines(y, None, at, n), alone)
    if batch % nl.num_programs() > 0:
        at = (batch - 1) * n
        split_row(Lines(x, None, at, n), Lines(y, None, at, n), job_of(split, True, 0))


def split_of(radices: Any, tables: Any, loaded: int) -> Split:
    """Return what all transforms of a launch share; loaded: input tiles that DMA fills in turn."""
    geometry = geometry_of(radices[0], length_of(radices[1:]))[0]
    spread = spread_of(radices[1:], radices[0])
    tiles = input_tiles(spread, loaded)
    twiddle = load_tables([tables[1]])[0]
    return Split(geometry, spread, tables, [], twiddle, load_identity(nl.float32), tiles)


def hold_plan(split: Split) -> None:
    """Load four_step's tables, unless that was done."""
    if len(split.held) == 0:
        split.held.append(hold_tables(split.tables[2:], split.spread, None))


def transform_instructions(split: Split) -> int:
    """Return about how many instructions a transform takes."""
    rows = split.geometry.count * instructions_of(split.spread) // split.spread.rows
    return int(rows + 2 * pieces_of_pass(split.geometry) * _PIECE_INSTRUCTIONS)


def job_of(split: Split, is_shared: bool, loops: int) -> Job:
    """Allocate scratch for transforms, one at a time."""
    shape = (2 * split.geometry.count, split.geometry.size + split.geometry.gap)
    scratch = []
    for _ in range(2):
        scratch.append(scratch_of(shape, is_shared))
    return Job(split, scratch, is_shared, loops)


def scratch_of(shape: Any, is_shared: bool) -> Any:
    """Allocate HBM that all programs write and read, or only this program."""
    buffer = nl.shared_hbm if is_shared else nl.private_hbm
    return nl.ndarray(shape, dtype=nl.float32, buffer=buffer)


def meet(tensor: Any, is_shared: bool) -> None:
    """Wait until both programs have written their share of an HBM tensor."""
    if is_shared:
        nisa.core_barrier(tensor, (0, 1))


def share_of(count: int, block: int, instructions: int, job: Job) -> Share:
    """Return this program's share of ``count`` pieces or rows of a transform, in blocks."""
    if job.loops > 0:
        return share_rows(count, block, instructions * job.loops)
    if not job.is_shared:
        return Share(0, 1, 0, count)
    programs, program = nl.num_programs(), nl.program_id(0)
    first = count * program // programs
    return Share(first, 1, 0, count * (program + 1) // programs - first)


def scratch_starts(tensor: Any) -> Any:
    """Return the numbers of a scratch [2 P, ...] with which the real and imaginary parts begin."""
    return [0, tensor.shape[0] // 2 * tensor.shape[1]]


def scratch_lines(tensor: Any, base: Any, size: int) -> Lines:
    """Return a scratch as lines of ``size`` numbers."""
    return Lines([tensor, tensor], base, 0, size, scratch_starts(tensor))


def along(lines: Lines, column: Any) -> Lines:
    """Return the same lines, for a loop that counts the second dimension of their tensors."""
    return Lines(lines.parts, column, lines.skip, lines.held, lines.starts, 1)


def split_row(source: Lines, target: Lines, job: Job) -> None:
    """Transform one line into one line."""
    part_row(source, job)
    meet(job.scratch[0], job.is_shared)
    # unless that was done; behind the first pass, which does not need the tables
    hold_plan(job.split)
    transform_scratch(job)
    meet(job.scratch[1], job.is_shared)
    merge_row(target, job)


# The first pass.


def part_row(source: Lines, job: Job) -> None:
    """Apply the DFTs over p and the twiddles, into the scratch."""
    geometry, scratch = job.split.geometry, job.scratch[0]
    share = share_of(pieces_of_pass(geometry), 1, _PIECE_INSTRUCTIONS, job)
    end, piece = share.first + share.trips * share.step, geometry.piece
    if share.trips > 0:

        def body(column: Any) -> None:
            lanes = scratch_lanes(scratch, column, geometry)
            part_pieces(along(source, column), lanes, 0, share.step, job.split)

        nl.fori_loop(share.first * piece, end * piece, body, share.step * piece)
    part_pieces(source, scratch_lanes(scratch, None, geometry), end, share.rest, job.split)


def scratch_lanes(tensor: Any, base: Any, geometry: Geometry) -> Lanes:
    """Return a scratch as lanes."""
    return Lanes(tensor, base, scratch_starts(tensor), geometry.columns + geometry.gap)


def part_pieces(source: Lines, target: Lanes, first: int, count: int, split: Split) -> None:
    """Run the first pass of ``count`` pieces; the target's base counts their matrices, too."""
    geometry = split.geometry
    for index in range(first, first + count):
        place = Place(0, index * geometry.piece, geometry.columns)
        tile = tile_of(split, index, geometry.lanes)
        for part in range(2):
            load_lines(tile[:, part].expand_dim(1), source, part, place)
        matrices = load_matrices(matrices_of(split, target.base, index), target.base, 0)
        result = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        for low in range(0, geometry.piece, PSUM_BANK):
            high = min(low + PSUM_BANK, geometry.piece)
            banks = contract(tile[:, :, low:high], matrices)
            multiply_banks(result[:, :, low:high], banks, split.twiddle[:, :, low:high])
        for part in range(2):
            view = lanes_of(target, part, index, geometry)
            nisa.dma_copy(dst=view, src=result[:, part], dge_mode=descriptors(target.base))


def tile_of(split: Split, index: int, lanes: int) -> Any:
    """Return the tile for a piece, [lanes, 2, W]; tiles take turns."""
    tile = split.tiles[index % len(split.tiles)]
    numbers = tile[0:lanes, 0 : 2 * split.geometry.piece]
    return numbers.reshape_dim(1, (2, split.geometry.piece))


def lanes_of(lanes: Lanes, part: int, index: int, geometry: Geometry) -> Any:
    """Return a view of a piece of one part of a vector in HBM, [L, W]."""
    pattern = [[lanes.pitch, geometry.lanes], [1, geometry.piece]]
    at = lanes.starts[part] + index * geometry.piece
    return lanes.tensor.ap(pattern, at, scalar_offset=lanes.base, indirect_dim=1)


def matrices_of(split: Split, base: Any, index: int) -> Any:
    """Return a view of Wr and Wi of a piece in HBM, [L, 2, L]."""
    lanes, table = split.geometry.lanes, split.tables[0]
    pattern = [[2 * lanes, lanes], [lanes, 2], [1, lanes]]
    return table.ap(pattern, index * split.geometry.piece * table.shape[1], scalar_offset=base)


def load_matrices(source: Any, base: Any, low: int) -> Any:
    """Load Wr and Wi from HBM [K, 2, M], and make -Wi: SBUF [128, 3, M], from partition ``low`` on.

    base: the register in the source's address, or None.
    """
    rows, _, columns = source.shape
    tile = nl.ndarray((PARTITIONS, 3, columns), dtype=nl.float32, buffer=nl.sbuf)
    held = tile[low : low + rows]
    nisa.dma_copy(dst=held[:, 0:2], src=source, dge_mode=descriptors(base))
    nisa.activation(dst=held[:, 2], op=nl.copy, data=held[:, 1], scale=-1.0)
    return tile


def contract(x: Any, matrices: Any) -> Any:
    """Multiply split complex SBUF [K, 2, n] by the matrix; return a PSUM bank for each part."""
    banks = []
    for part in range(2):
        bank = nl.ndarray((matrices.shape[2], x.shape[2]), dtype=nl.float32, buffer=nl.psum)
        for term in range(2):
            matrix = matrices[0 : x.shape[0], SPLIT_TERMS[part][term]]
            multiply(bank, matrix, x[:, term], term > 0)
        banks.append(bank)
    return banks


# The transforms between, and the last pass.


def transform_scratch(job: Job) -> None:
    """Run the P transforms of length Q, from one scratch into the other."""
    split = job.split
    geometry, spread = split.geometry, split.spread
    first, second = job.scratch[0], job.scratch[1]
    share = share_of(geometry.count, spread.rows, instructions_of(spread), job)
    end = share.first + share.trips * share.step
    if share.trips > 0:

        def body(row: Any) -> None:
            target = scratch_lines(second, row, geometry.size)
            transform_lines(scratch_lines(first, row, geometry.size), target, 0, share.step, split)

        nl.fori_loop(share.first, end, body, share.step)
    target = scratch_lines(second, None, geometry.size)
    transform_lines(scratch_lines(first, None, geometry.size), target, end, share.rest, split)


def transform_lines(source: Lines, target: Lines, first: int, count: int, split: Split) -> None:
    """Run ``count`` transforms of length Q."""
    loads = loads_of(source, Inputs(split.tiles, [], []), split.spread, first, count)
    start_loads(loads, RING)
    transform_rows(loads, Results(target, [], [], 0), split.held[0])


def merge_row(target: Lines, job: Job) -> None:
    """Run the last pass, which interleaves the P results of the scratch."""
    geometry, scratch = job.split.geometry, job.scratch[1]
    share = share_of(pieces_of_pass(geometry), 1, _PIECE_INSTRUCTIONS, job)
    end, piece = share.first + share.trips * share.step, geometry.piece
    if share.trips > 0:

        def body(column: Any) -> None:
            lanes = scratch_lanes(scratch, column, geometry)
            merge_pieces(lanes, along(target, column), 0, share.step, job.split)

        nl.fori_loop(share.first * piece, end * piece, body, share.step * piece)
    merge_pieces(scratch_lanes(scratch, None, geometry), target, end, share.rest, job.split)


def merge_pieces(source: Lanes, target: Lines, first: int, count: int, split: Split) -> None:
    """Run the last pass of ``count`` pieces."""
    geometry = split.geometry
    piece, rows, radix = geometry.piece, geometry.rows, geometry.count
    run = piece // rows * radix  # neighbouring results on a partition
    for index in range(first, first + count):
        tile = tile_of(split, index, geometry.lanes)
        for part in range(2):
            view = lanes_of(source, part, index, geometry)
            nisa.dma_copy(dst=tile[:, part], src=view, dge_mode=descriptors(source.base))
        for part in range(2):
            result = interleave(tile[:, part], split)
            pattern = [[run, rows], [geometry.columns * radix, geometry.blocks], [1, run]]
            at = target.skip + index * piece * radix
            view = view_of(target, part, pattern, at)
            nisa.dma_copy(dst=view, src=result, dge_mode=descriptors(target.base))


def interleave(tile: Any, split: Split) -> Any:
    """Rearrange SBUF [(k_p, g), (j, i)] to SBUF [j, g, (i, k_p)]."""
    geometry = split.geometry
    rows, lanes, blocks = geometry.rows, geometry.lanes, geometry.blocks
    each = geometry.piece // rows
    shape = (rows, blocks, each, geometry.count)
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    together = PSUM_BANK // lanes
    for low in range(0, each, together):
        size = min(together, each - low)
        bank = nl.ndarray((rows, size, lanes), dtype=transposed_dtype(nl.float32), buffer=nl.psum)
        for index in range(size):
            column = low + index
            data = tile[:, column : column + (rows - 1) * each + 1 : each]
            transpose(bank[:, index], data, split.identity)
        numbers = bank.reshape_dim(2, (geometry.count, blocks)).permute((0, 3, 1, 2))
        nisa.activation(dst=result[:, :, low : low + size], op=nl.copy, data=numbers)
    return result.flatten_dims(2, 3)
