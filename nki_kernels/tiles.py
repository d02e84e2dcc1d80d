"""Moves that kernels share: sizes of tiles, transposes, products, evacuation, tables, factors."""

from __future__ import annotations

from typing import Any

from .hardware import PARTITIONS
from .nki_api import nisa, nl

PSUM_BANK = 512  # fp32 numbers of a PSUM bank, a partition
DMA_RUN = 1024  # fp32 numbers of a 4 KiB DMA descriptor
WHOLE_RADIX = PARTITIONS // 2  # the largest that is contracted at once, both parts together
NARROW = 32  # columns or partitions up to which v2 refuses some stationary operands
_STAGED = 2048  # fp32 numbers a partition of a table that DMA brings at a time, twice at once


def padded_columns(count: int) -> int:
    """Columns that a product is given for ``count`` rows of data: 64 or 128.

    The Tensor engine takes as long for one column as for 64, and v2 refuses some tiles of 32.
    """
    return PARTITIONS // 2 if 2 * count <= PARTITIONS else PARTITIONS


def load_identity(dtype: Any) -> Any:
    """The identity [128, 128] in SBUF, copied by GpSimdE: what DMA writes may not stay."""
    identity = nl.ndarray((PARTITIONS, PARTITIONS), dtype=dtype, buffer=nl.sbuf)
    loaded = nl.shared_identity_matrix(PARTITIONS, dtype=dtype)
    nisa.tensor_copy(dst=identity, src=loaded, engine=nisa.engine.gpsimd)
    return identity


def load_table(table: Any) -> Any:
    """A table of HBM [rows <= 128, ...] in SBUF, copied by GpSimdE: DMA's writes may not stay."""
    return load_tables([table])[0]


def load_tables(tables: Any) -> Any:
    """Tables of one dtype in SBUF, each as by ``load_table``.

    Along their second dimension in pieces of about 8 KiB a partition, two of all of them at once.
    """
    size = 0
    pieces = 0
    for table in tables:
        size = max(size, _staged_columns(table) * _width(table))
        pieces += -(-table.shape[1] // _staged_columns(table))
    ring = []
    for _ in range(min(2, pieces)):
        shape = (PARTITIONS, size)
        ring.append(nl.ndarray(shape, dtype=tables[0].dtype, buffer=nl.sbuf))
    loaded = []
    pieces = 0
    for table in tables:
        tile = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.sbuf)
        step = _staged_columns(table)
        for first in range(0, table.shape[1], step):
            source = table[:, first : min(first + step, table.shape[1])]
            numbers = source.shape[1] * _width(table)
            staged = ring[pieces % len(ring)][0 : table.shape[0], 0:numbers].reshape(source.shape)
            nisa.dma_copy(dst=staged, src=source, dge_mode=nisa.dge_mode.none)
            place = tile[:, first : first + source.shape[1]]
            nisa.tensor_copy(dst=place, src=staged, engine=nisa.engine.gpsimd)
            pieces += 1
        loaded.append(tile)
    return loaded


def _staged_columns(table: Any) -> int:
    """Indices of a table's second dimension that are loaded at a time."""
    return min(table.shape[1], max(1, _STAGED // _width(table)))


def _width(table: Any) -> int:
    """Numbers of a table's row and each index of its second dimension."""
    width = 1
    for size in table.shape[2:]:
        width *= size
    return width


def transpose(dst: Any, data: Any, identity: Any) -> None:
    """SBUF data [P, ...], one strided run, to PSUM [..., columns]: zeros from column P on."""
    nisa.nc_matmul(
        dst=dst,
        stationary=data,
        moving=identity[0 : data.shape[0], 0 : dst.shape[len(dst.shape) - 1]],
        is_moving_onezero=True,
        is_transpose=bool(data.dtype == nl.float32),
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
