"""Copies that the kernels of several probes use."""

from __future__ import annotations

from typing import Any

from bench.model_check.device_kernels import load, stored
from nki_kernels.isa import nisa, nl

__all__ = ["evacuated", "load", "stored"]


def evacuated(bank: Any) -> Any:
    """Copies a view of PSUM to a new SBUF tile, by VectorE."""
    tile = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=bank, engine=nisa.engine.vector)
    return tile
