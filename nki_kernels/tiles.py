"""Moves that kernels share: sizes of tiles, transposes, products, evacuation, tables, factors."""

from __future__ import annotations

from typing import Any

from .hardware import PARTITIONS
from .nki_api import nisa, nl

PSUM_BANK = 512  # fp32 numbers of a PSUM bank, a partition
DMA_RUN = 1024  # fp32 numbers of a 4 KiB DMA descriptor
WHOLE_RADIX = PARTITIONS // 2  # the largest that is contracted at once, both parts together
NARROW = 32  # columns or partitions up to which v2 refuses some stationary operands
_STAGED = 6 << 10  # bytes a partition of a table that DMA brings at a time


def padded_columns(count: int, rows: int) -> int:
    """Columns that a transpose makes of ``count`` partitions with ``rows`` numbers each.

    On v2 some stationary operands of up to 32 columns are refused: there zeros fill 33 of them.
    """
    if nisa.get_nc_version() != nisa.nc_version.gen2 or count > NARROW:
        return count
    return count if rows > NARROW and count <= NARROW // 2 else NARROW + 1


def columns_read(columns: int) -> int:
    """Columns that a stationary operand reads, which is never as narrow as v2 refuses."""
    return columns if columns > NARROW else PARTITIONS // 2


def load_identity(dtype: Any) -> Any:
    """The identity [128, 128] in SBUF, copied by GpSimdE: what DMA writes may not stay."""
    identity = nl.ndarray((PARTITIONS, PARTITIONS), dtype=dtype, buffer=nl.sbuf)
    loaded = nl.shared_identity_matrix(PARTITIONS, dtype=dtype)
    nisa.tensor_copy(dst=identity, src=loaded, engine=nisa.engine.gpsimd)
    return identity


class TablePiece(nl.NKIObject):
    """What DMA brings of a table at a time."""

    source: Any  # HBM [rows, count, ...]
    staged: Any  # SBUF, where it arrives
    place: Any  # SBUF, where it stays


def load_tables(tables: Any) -> Any:
    """Tables of HBM, each [rows <= 128, count, ...], in SBUF.

    By way of GpSimdE: what DMA writes may not stay. All share two tiles of up to 6 KiB a partition
    that DMA fills in turn, in pieces along the second dimension.
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
    # A piece is on its way while the one before is copied.
    for index in range(len(pieces) + 1):
        if index < len(pieces):
            piece = pieces[index]
            nisa.dma_copy(dst=piece.staged, src=piece.source, dge_mode=nisa.dge_mode.none)
        if index > 0:
            before = pieces[index - 1]
            nisa.tensor_copy(dst=before.place, src=before.staged, engine=nisa.engine.gpsimd)
    return loaded


def row_length(table: Any) -> int:
    """Numbers of [rows, count, ...] for each row and each of ``count``."""
    width = 1
    for size in table.shape[2:]:
        width *= size
    return width


def staged_count(table: Any) -> int:
    """How many of the ``count`` of a table [rows, count, ...] DMA brings at a time."""
    numbers = _STAGED // (4 if table.dtype == nl.float32 else 2)
    return min(table.shape[1], max(1, numbers // row_length(table)))


def transposed_dtype(dtype: Any) -> Any:
    """What a transpose of ``dtype`` leaves in PSUM: the same from v3 on, where it is exact."""
    return nl.float32 if nisa.get_nc_version() == nisa.nc_version.gen2 else dtype


def transpose(dst: Any, data: Any, identity: Any) -> None:
    """SBUF data [P, ...], one strided run, to PSUM [..., columns]: zeros from column P on.

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
    """stationary [K, M] transposed times moving [K, N], in PSUM [M, N]."""
    nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving, accumulate=accumulate)


def evacuate(bank: Any, dtype: Any, is_scalar: bool) -> Any:
    """A PSUM bank in a fresh SBUF tile, by ScalarE or VectorE."""
    tile = nl.ndarray(bank.shape, dtype=dtype, buffer=nl.sbuf)
    if is_scalar:
        nisa.activation(dst=tile, op=nl.copy, data=bank)
    else:
        nisa.tensor_copy(dst=tile, src=bank, engine=nisa.engine.vector)
    return tile


def factor_views(factors: Any, low: int, shape: Any) -> Any:
    """Real and imaginary part of factors for both parts of data of ``shape``, by strides of 0.

    factors: a whole SBUF tile [P, 2, L], of which columns from ``low`` on are meant. shape: that
    of the data, [p, 2, n], or [p, 2, rows, n] for the same factors in every row.
    """
    length = factors.shape[2]
    pattern = [[2 * length, shape[0]], [0, 2]]
    if len(shape) == 4:
        pattern.append([0, shape[2]])
    pattern.append([1, shape[len(shape) - 1]])
    return [factors.ap(pattern, low), factors.ap(pattern, length + low)]


def multiply_complex(dst: Any, x: Any, factors: Any) -> None:
    """dst = x times factors, split complex SBUF [P, 2, ...], on VectorE; dst may be x.

    factors: [real, imaginary], each for both parts of x, as ``factor_views`` gives them.
    """
    by_real = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    by_imaginary = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=by_real, data1=x, data2=factors[0], op=nl.multiply)
    nisa.tensor_tensor(dst=by_imaginary, data1=x, data2=factors[1], op=nl.multiply)
    nisa.tensor_tensor(dst=dst[:, 0], data1=by_real[:, 0], data2=by_imaginary[:, 1], op=nl.subtract)
    nisa.tensor_tensor(dst=dst[:, 1], data1=by_imaginary[:, 0], data2=by_real[:, 1], op=nl.add)
