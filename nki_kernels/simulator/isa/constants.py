"""nki.isa.constants: the enumerations of nki.isa under the name that AWS's nki-library imports.

The SDK documents them as members of nki.isa only; sixteen files of nki-library (NKI 0.3) import
oob_mode, dge_mode and matmul_perf_mode from here.
"""

from __future__ import annotations

from ..enums import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)

__all__ = [
    "dge_mode",
    "dma_engine",
    "engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
]
