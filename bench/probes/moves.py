"""Copies that the kernels of several probes use."""

from __future__ import annotations

from typing import Any

from bench.model_check.tiles import load, stored
from nki_kernels.base.isa import nisa, nl

__all__ = ["combined", "copied", "evacuated", "load", "product", "stored"]


def copied(source: Any, dtype: Any) -> Any:
    """Copies a view to a new SBUF tile of a dtype, by VectorE."""
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=source, engine=nisa.engine.vector)
    return tile


def evacuated(bank: Any) -> Any:
    """Copies a view of PSUM to a new SBUF tile, by VectorE."""
    return copied(bank, nl.float32)


def product(stationary: Any, moving: Any, columns: int) -> Any:
    """Returns stationary.T @ moving in a new SBUF tile of float32, which has ``columns`` rows."""
    bank = nl.ndarray((columns, moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=False)
    return evacuated(bank)


def combined(a: Any, b: Any, op: Any, engine: Any) -> Any:
    """Returns a op b in a new SBUF tile."""
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=a, data2=b, op=op, engine=engine)
    return tile
