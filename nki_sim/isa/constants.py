"""The module nki.isa.constants: the enumerations of nki.isa, as AWS's nki-library imports them.

The SDK documents the enumerations as members of nki.isa only. Sixteen files of nki-library (NKI
0.3) import oob_mode, dge_mode and matmul_perf_mode from nki.isa.constants.
"""

from __future__ import annotations

from nki_sim.base.enums import (
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
