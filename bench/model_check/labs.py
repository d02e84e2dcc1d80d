"""Whole kernels in trainium-agent-labs on trn2: their times, and how they are modelled.

`labs_kernels` rebuilds the kernels. The times come from the device's clock, on one core, under NKI
0.6. Each time contains a launch; a sum of two shapes contains two launches, and the time of an
engine or a queue none. The overhead of a launch is the only fitted constant.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check import labs_kernels as kernels
from bench.model_check.measured import FITTED, INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import (
    once_a_chip,
    readings_us,
    spec,
    timeline_of,
    total_us,
)
from bench.model_check.published_kernels import matmul_free_blocks
from nki_sim import hardware
from nki_sim.report.timeline import Timeline

LABS = "github.com/yahavb/trainium-agent-labs"
CHIPBOOST = f"{LABS}, projects/03-chipboost, kernels and the status of its P2 (2026-10-10)"
ATTENTION = f"{LABS}, attention kernels V1, V5, M0, M6 and fast, headers (2026-10-10)"
OVERHEAD = "labs"
DEPTH, ROWS = 4096, 256  # K and M of the matrix products

COPY = Group("labs: copies, trn2", "bfloat16")
NORM = Group("labs: RMS norm, trn2", "bfloat16")
MATMUL = Group(
    "labs: matmul, trn2",
    "4096 x 256 by 4096 x N in bfloat16; m, n, k: tiles of a block",
)
HEADS = Group(
    "labs: attention, trn2",
    "positions x numbers, or positions x heads x numbers, in float32",
)


def tiled_us(*shape: int) -> Value:
    """Returns the microseconds of a copy of bfloat16 by tiles."""
    return total_us(kernels.copy_tiles, spec("bfloat16", *shape))


def packed_us(chunks: int, *shape: int) -> Value:
    """Returns the microseconds of a packed copy, which loads at most 32 KiB a partition at once."""
    return total_us(kernels.copy_packed, spec("bfloat16", *shape), chunks)


def norm_us(rows: int, length: int) -> Value:
    """Returns the microseconds of an RMS norm of bfloat16."""
    return total_us(kernels.rms_norm, spec("bfloat16", rows, length), spec("bfloat16", 1, length))


def matmul_us(kernel: Any, columns: int, *blocks: int) -> Value:
    """Returns the microseconds of a matrix product on the chip."""
    operands = spec("bfloat16", DEPTH, ROWS), spec("bfloat16", DEPTH, columns)
    return total_us(kernel, *operands, *blocks)


tiles_us = partial(matmul_us, matmul_free_blocks)
blocks_us = partial(matmul_us, kernels.matmul_blocks)


def head_us(positions: int, length: int, is_hardware: bool) -> Value:
    """Returns the microseconds of attention with one head."""
    x = spec("float32", positions, length)
    return total_us(kernels.attention, x, x, x, is_hardware)


@once_a_chip
def heads(*shape: int) -> Timeline:
    """Returns the launch of attention with several heads."""
    x = spec("float32", *shape)
    return timeline_of(kernels.attention_heads, x, x, x)


def hardware_heads_us(*shape: int) -> Value:
    """Returns the microseconds of attention with several heads and hardware DGE."""
    x = spec("float32", *shape)
    return total_us(kernels.attention_heads_hardware, x, x, x)


def queue_us(count: int) -> Value:
    """Returns for how long transfers occupy Sync's queue: q, v and the result of every head."""
    return 3 * count * hardware.current().hardware_dge_ns / 1e3


def _of(
    group: Group, name: str, us: float, model: Any, source: str = CHIPBOOST, **others: Any
) -> Measured:
    given = {"is_whole_kernel": True, "launches": 1, "overhead": OVERHEAD, **others}
    return Measured(group, "trn2", source, name, us, model, **given)


_copy, _norm, _product = partial(_of, COPY), partial(_of, NORM), partial(_of, MATMUL)
_attention = partial(_of, HEADS, source=ATTENTION)
_engine = partial(_attention, is_whole_kernel=False, launches=0)

# The launch is fitted to the two copies packed in one chunk. dma_core_bytes_per_ns lies between the
# rate from their slope, 388 GB/s, and another rate.
_COPIES = (
    _copy("tiled, 256 x 4096", 20.55, lambda: tiled_us(256, 4096)),
    _copy("tiled, 4096 x 128", 51.65, lambda: tiled_us(4096, 128)),
    _copy("packed, 256 x 4096", 23.2, lambda: packed_us(1, 256, 4096), use=FITTED),
    _copy("packed, 4096 x 128", 17.8, lambda: packed_us(1, 4096, 128), use=FITTED),
    _copy(
        "packed, 2048 x 4096 and 32768 x 128",
        140.7,
        lambda: packed_us(4, 2048, 4096) + packed_us(2, 32768, 128),
        launches=2,
    ),
)

_NORMS = (
    _norm("256 x 4096", 46.8, lambda: norm_us(256, 4096)),
    _norm("4096 x 128", 67.2, lambda: norm_us(4096, 128)),
    _norm(
        "2048 x 4096 and 32768 x 128",
        518.2,
        lambda: norm_us(2048, 4096) + norm_us(32768, 128),
        launches=2,
    ),
)

# The source loads a left tile before every product. Then 1560 and 520 transfers give a launch of 57
# us; with the left loads outside of the loop over N, 856 and 328 transfers give a plausible launch
# of 6 us. The kernel is rebuilt in the second way. N = 2048 has only four tiles of 512 columns;
# wider blocks are cut to four tiles there.
_PRODUCTS = (
    _product("tiled, N = 6144", 691.7, lambda: tiles_us(6144, 1, 1), use=INPUT),
    _product("tiled, N = 2048", 268.8, lambda: tiles_us(2048, 1, 1), use=INPUT),
    _product("blocks of 2, 2, 8, N = 6144", 280.4, lambda: blocks_us(6144, 2, 2, 8)),
    _product("blocks of 2, 2, 8, N = 2048", 104.7, lambda: blocks_us(2048, 2, 2, 8)),
    _product(
        "blocks of 1, 12, 4, both N",
        280.3,
        lambda: blocks_us(6144, 1, 12, 4) + blocks_us(2048, 1, 4, 4),
        launches=2,
    ),
    _product("blocks of 2, 6, 16, N = 6144", 206.5, lambda: blocks_us(6144, 2, 6, 16)),
    _product("blocks of 2, 6, 16, N = 2048", 81.8, lambda: blocks_us(2048, 2, 4, 16)),
)

_ATTENTIONS = (
    _attention("128 x 64", 17.69, lambda: head_us(128, 64, False)),
    _attention("128 x 64, hardware DGE", 16.06, lambda: head_us(128, 64, True)),
    _attention("96 x 32, hardware DGE", 15.14, lambda: head_us(96, 32, True)),
    _attention("128 x 16 x 64", 74.50, lambda: readings_us(heads(128, 16, 64))),
    _attention("128 x 16 x 128", 76.08, lambda: readings_us(heads(128, 16, 128))),
    _attention("96 x 8 x 32", 38.38, lambda: readings_us(heads(96, 8, 32))),
    _attention("128 x 32 x 128", 125.32, lambda: readings_us(heads(128, 32, 128))),
    _attention("128 x 32 x 128, hardware DGE", 128.3, lambda: hardware_heads_us(128, 32, 128)),
    # software_dge_ns lies between the time of GpSimdE, which issues 128 transfers, and another.
    _engine(
        "128 x 32 x 128: GpSimdE",
        86,
        lambda: heads(128, 32, 128).engine_busy_ns["gpsimd"] / 1e3,
        use=INPUT,
    ),
    _engine("128 x 32 x 128: Sync's queue", 82, lambda: queue_us(32)),
)

RECORDS = (*_COPIES, *_NORMS, *_PRODUCTS, *_ATTENTIONS)

LEFT_OUT = {
    "labs: matmul on two cores": "how the two cores share the work was not rebuilt",
    "labs: sweep of tiled matmul, 96 rows": "an older compiler; times of a call on the host",
    "labs: attention with DMA transposes": "results are not stored",
}
