"""Operations that kernels share: transposes, products, evacuation, loads of tables, factors."""

from __future__ import annotations

from typing import Any

from nki_sim.hardware import PARTITIONS

from .isa import nisa, nl

SMALLEST_SBUF = 192 << 10  # bytes of a partition, on the smallest chip
PSUM_BANK = 512  # fp32 numbers of a PSUM bank on each partition
DMA_RUN = 1024  # fp32 numbers of a 4 KiB DMA descriptor
HALF = PARTITIONS // 2  # half of the array: a row tile
WHOLE_RADIX = HALF  # the largest radix whose two parts are contracted together
NARROW = 32  # columns or partitions, up to which v2 refuses some stationary operands
# Which of Wr, Wi and -Wi multiply the parts of x: for the real part of W x, and for the imaginary
# part.
SPLIT_TERMS = ((0, 2), (1, 0))
_STAGED = 6 << 10  # bytes a partition of a table that DMA loads at a time


def padded_columns(count: int, rows: int) -> int:
    """Return how many columns a transpose makes of ``count`` partitions with ``rows`` numbers each.

    NeuronCore-v2 refuses some stationary operands of up to 32 columns: there zeros fill up to 33.
    """
    if nisa.get_nc_version() != nisa.nc_version.gen2 or count > NARROW:
        return count
    return count if rows > NARROW and count <= NARROW // 2 else NARROW + 1


def columns_read(columns: int) -> int:
    """Return how many columns a stationary operand reads: more than NeuronCore-v2 refuses."""
    return columns if columns > NARROW else HALF


def load_identity(dtype: Any) -> Any:
    """Load the identity [128, 128] into SBUF.

    GpSimdE copies it, because only a small part of SBUF may stay as DMA wrote it.
    """
    identity = nl.ndarray((PARTITIONS, PARTITIONS), dtype=dtype, buffer=nl.sbuf)
    loaded = nl.shared_identity_matrix(PARTITIONS, dtype=dtype)
    nisa.tensor_copy(dst=identity, src=loaded, engine=nisa.engine.gpsimd)
    return identity


class TablePiece(nl.NKIObject):
    """A piece of a table that DMA loads at a time."""

    source: Any  # HBM [rows, count, ...]
    staged: Any  # SBUF, where DMA writes it
    place: Any  # SBUF, where it stays


def load_tables(tables: Any) -> Any:
    """Load HBM tables, each [rows <= 128, count, ...], into SBUF.

    GpSimdE copies them, because only a small part of SBUF may stay as DMA wrote it. All tables
    share two tiles of up to 6 KiB a partition, which DMA fills in turn, in pieces along the second
    dimension.
    """
    staging: Any = []
    pieces: Any = []
    loaded: Any = []
    longest = 0
    for table in tables:
        longest = max(longest, staged_count(table) * row_length(table))
    for table in tables:
        tile = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.sbuf)
        loaded.append(tile)
        width, step = row_length(table), staged_count(table)
        for first in range(0, table.shape[1], step):
            last = min(first + step, table.shape[1])
            if len(staging) < 2:
                shape = (PARTITIONS, longest)
                staging.append(nl.ndarray(shape, dtype=table.dtype, buffer=nl.sbuf))
            staged = staging[len(pieces) % 2][0 : table.shape[0], 0 : (last - first) * width]
            staged = staged.reshape((table.shape[0], last - first) + table.shape[2:])
            pieces.append(TablePiece(table[:, first:last], staged, tile[:, first:last]))
    # A piece is loaded while the piece before it is copied.
    for index in range(len(pieces) + 1):
        if index < len(pieces):
            piece = pieces[index]
            nisa.dma_copy(dst=piece.staged, src=piece.source, dge_mode=nisa.dge_mode.none)
        if index > 0:
            before = pieces[index - 1]
            nisa.tensor_copy(dst=before.place, src=before.staged, engine=nisa.engine.gpsimd)
    return loaded


def element_count(sizes: Any) -> int:
    """Return how many numbers a tensor of this shape has."""
    count = 1
    for size in sizes:
        count *= size
    return count


def row_length(table: Any) -> int:
    """Return how many numbers of [rows, count, ...] belong to each row and each of ``count``."""
    return element_count(table.shape[2:])


def staged_count(table: Any) -> int:
    """Return how many of the ``count`` of a table [rows, count, ...] DMA loads at a time."""
    numbers = _STAGED // itemsize(table.dtype)
    return min(table.shape[1], max(1, numbers // row_length(table)))


def itemsize(dtype: Any) -> int:
    """Return the bytes of a number, float32 or bfloat16."""
    return 4 if dtype == nl.float32 else 2


def transposed_dtype(dtype: Any) -> Any:
    """Return the dtype that a transpose of ``dtype`` leaves in PSUM.

    From v3 on it is the same dtype, because transposes are exact there; on v2 it is float32.
    """
    return nl.float32 if nisa.get_nc_version() == nisa.nc_version.gen2 else dtype


def even_columns(columns: int, dtype: Any) -> int:
    """Return the columns of a transpose in PSUM, where each begins at a multiple of 4 bytes."""
    return columns if itemsize(dtype) == 4 else columns + columns % 2


def transpose(dst: Any, data: Any, identity: Any) -> None:
    """Transpose SBUF data [P, ...], one strided run, to PSUM [..., columns], zeros from P on.

    dst has ``transposed_dtype(data.dtype)``.
    """
    nisa.nc_matmul(
        dst=dst,
        stationary=data,
        moving=identity[0 : data.shape[0], 0 : dst.shape[len(dst.shape) - 1]],
        is_moving_onezero=True,
        is_transpose=bool(dst.dtype == data.dtype),
        accumulate=False,
    )


def multiply(dst: Any, stationary: Any, moving: Any, accumulate: bool) -> None:
    """Multiply stationary [K, M], transposed, by moving [K, N], into PSUM [M, N]."""
    nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving, accumulate=accumulate)


def multiply_half(dst: Any, stationary: Any, moving: Any, half: int, accumulate: bool) -> None:
    """Run ``multiply`` on half of the partitions, in one of two row tiles of the array.

    The two work side by side where each writes into a PSUM bank of its own.
    """
    low = half * HALF
    held, moved = stationary[low : low + HALF], moving[low : low + HALF]
    multiply_row_tile(dst, held, moved, low, HALF, accumulate)


def multiply_row_tile(
    dst: Any, stationary: Any, moving: Any, low: int, size: int, accumulate: bool
) -> None:
    """Run ``multiply`` on up to ``size`` partitions from ``low`` on, in a row tile of that size."""
    nisa.nc_matmul(
        dst=dst,
        stationary=stationary,
        moving=moving,
        accumulate=accumulate,
        tile_position=(low, 0),
        tile_size=(size, PARTITIONS),
    )


def psum_banks(count: int, shape: Any) -> Any:
    """Allocate PSUM tiles for sums that may not share a bank, or that are made side by side."""
    banks: Any = []
    for _ in range(count):
        banks.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))
    return banks


def evacuate(bank: Any, dtype: Any, is_scalar: bool) -> Any:
    """Move a PSUM bank to a fresh SBUF tile, by ScalarE or VectorE."""
    tile = nl.ndarray(bank.shape, dtype=dtype, buffer=nl.sbuf)
    if is_scalar:
        nisa.activation(dst=tile, op=nl.copy, data=bank)
    else:
        nisa.tensor_copy(dst=tile, src=bank, engine=nisa.engine.vector)
    return tile


class Turns(nl.NKIObject):
    """The engine that moves results out of PSUM: ScalarE or, every ``every`` times, VectorE."""

    count: int
    every: int


def turns_of(every: int) -> Any:
    """Return the turns of a launch; VectorE takes every ``every``-th turn.

    On v2 it takes none, because the two engines exclude each other there and ScalarE is faster.
    """
    return Turns(0, 0 if nisa.get_nc_version() == nisa.nc_version.gen2 else every)


def evacuate_in_turn(dst: Any, bank: Any, turns: Any) -> None:
    """Move results from PSUM to their places in SBUF, by the engine whose turn it is."""
    turns.count += 1
    if turns.every > 0 and turns.count % turns.every == 0:
        nisa.tensor_copy(dst=dst, src=bank, engine=nisa.engine.vector)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=bank)


def factor_views(factors: Any, low: int, shape: Any) -> Any:
    """Return the real and imaginary part of factors for both parts of data, by strides of 0.

    factors: a whole SBUF tile [P, 2, L], of which columns from ``low`` on are used. shape: the
    shape of the data, [p, 2, n], or [p, 2, rows, n] for the same factors in every row.
    """
    length = factors.shape[2]
    pattern = [[2 * length, shape[0]], [0, 2]]
    if len(shape) == 4:
        pattern.append([0, shape[2]])
    pattern.append([1, shape[len(shape) - 1]])
    return [factors.ap(pattern, low), factors.ap(pattern, length + low)]


def multiply_complex(dst: Any, x: Any, factors: Any) -> None:
    """Set dst = x times factors, split complex SBUF [P, 2, ...], on VectorE; dst may be x.

    factors: [real, imaginary], each for both parts of x, as ``factor_views`` returns them.
    """
    by_real = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    by_imaginary = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=by_real, data1=x, data2=factors[0], op=nl.multiply)
    nisa.tensor_tensor(dst=by_imaginary, data1=x, data2=factors[1], op=nl.multiply)
    nisa.tensor_tensor(dst=dst[:, 0], data1=by_real[:, 0], data2=by_imaginary[:, 1], op=nl.subtract)
    nisa.tensor_tensor(dst=dst[:, 1], data1=by_imaginary[:, 0], data2=by_real[:, 1], op=nl.add)


def multiply_banks(dst: Any, banks: Any, factors: Any) -> None:
    """Set dst = banks times factors, on VectorE; dst and factors are split complex SBUF [P, 2, n].

    banks: PSUM [P, n], real and imaginary part. VectorE reads an operand in PSUM and an operand in
    SBUF at once, but two operands in SBUF one after the other. So half of the products go to PSUM.
    """
    shape = banks[0].shape
    products = nl.ndarray((shape[0], 2, shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for part in range(2):
        here, there = banks[part], banks[1 - part]
        crossed = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_tensor(dst=products[:, part], data1=here, data2=factors[:, 0], op=nl.multiply)
        nisa.tensor_tensor(dst=crossed, data1=there, data2=factors[:, 1], op=nl.multiply)
        op = nl.subtract if part == 0 else nl.add
        nisa.tensor_tensor(dst=dst[:, part], data1=products[:, part], data2=crossed, op=op)


def multiply_through_psum(dst: Any, x: Any, factors: Any) -> None:
    """Set dst = x times factors, split complex SBUF [P, 2, n]; dst may be x.

    ScalarE copies x to PSUM, where VectorE takes half the cycles. This is for kernels that leave
    ScalarE idle.
    """
    for low in range(0, x.shape[2], PSUM_BANK):
        high = min(low + PSUM_BANK, x.shape[2])
        banks = []
        for part in range(2):
            bank = nl.ndarray((x.shape[0], high - low), dtype=nl.float32, buffer=nl.psum)
            nisa.activation(dst=bank, op=nl.copy, data=x[:, part, low:high])
            banks.append(bank)
        multiply_banks(dst[:, :, low:high], banks, factors[:, :, low:high])
