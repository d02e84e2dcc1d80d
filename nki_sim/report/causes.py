"""The causes, in words, to which the time of a critical path is assigned."""

from __future__ import annotations

SMALL = "fixed costs of small instructions"
COMPUTE = "busy"
LATENCY = "Latency between instructions"
DMA_LATENCY = "Latency of DMA"
DMA_MOVES = "DMA moves data at full rate"
DMA_SLOW = "DMA moves data slowly: short rows or few partitions"
DESCRIPTORS = "GpSimdE writes the descriptors of DMA"
DMA_COPIES = "DMA engines prepare one copy after the other"
DMA_TRIGGERS = "A DMA queue triggers one copy after the other"
SBUF_REUSE = "Waits for SBUF that older tiles hold"
PSUM_REUSE = "Waits for PSUM that older tiles hold"
READERS = "A tile is written again: waits for its readers"
NO_REORDER = "A no_reorder block runs one instruction after the other"
PORTS = "Engines take turns on a port or a PSUM bank"
BARRIER = "The cores wait for each other"
BRANCHES = "Branches of loops on the device"
TABLES = "ScalarE loads tables of functions"

ENGINE_NAMES = {"tensor": "TensorE", "vector": "VectorE", "scalar": "ScalarE", "gpsimd": "GpSimdE"}
