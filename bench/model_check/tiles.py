"""Tiles of SBUF and PSUM, and what the rebuilt kernels do with them.

No engine is named, so that the simulator chooses, as a compiler does.
"""

from __future__ import annotations

from typing import Any

from nki_kernels.base.isa import nisa, nl

TILE = 128  # partitions, and columns of a stationary tile
WIDE = 512  # columns of a moving tile


def load(source: Any) -> Any:
    """Returns a new SBUF tile with the contents of a view of HBM; the compiler picks a queue."""
    return load_by(source, nisa.dge_mode.unknown)


def load_by(source: Any, dge_mode: Any) -> Any:
    """Returns a new SBUF tile with the contents of a view of HBM."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source, dge_mode=dge_mode)
    return tile


def store(destination: Any, tile: Any) -> None:
    """Copies an SBUF tile to a view of HBM."""
    nisa.dma_copy(dst=destination, src=tile)


def part(index: Any, size: int) -> slice:
    """Returns the slice of part number ``index``, where each part has ``size`` elements."""
    return slice(index * size, (index + 1) * size)


def stored(tile: Any) -> Any:
    """Returns a new tensor in HBM with the contents of a tile."""
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def new_like(tile: Any) -> Any:
    """Returns a new SBUF tile of float32 with the shape of a tile."""
    return nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)


def copied(source: Any, dtype: Any) -> Any:
    """Returns a copy of a tile in SBUF, in the given dtype."""
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=source)
    return tile


def combined(left: Any, right: Any, op: Any) -> Any:
    """Returns a new tile with ``left op right``."""
    tile = new_like(left)
    nisa.tensor_tensor(dst=tile, data1=left, data2=right, op=op)
    return tile


def scaled(data: Any, factor: Any) -> Any:
    """Returns a new tile with data * factor; factor is a number or a tile [partitions, 1]."""
    tile = new_like(data)
    nisa.tensor_scalar(dst=tile, data=data, op0=nl.multiply, operand0=factor)
    return tile


def transposed(tile: Any) -> Any:
    """Returns the transpose of an SBUF tile, in PSUM, with the tile's dtype."""
    bank = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=bank, data=tile)
    return bank
