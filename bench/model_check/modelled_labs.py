"""Modelled values of the measurements in `labs_records`, by the names of the measurements.

A value is the modelled time on the chip plus the time of a launch. The time of a launch is the only
fitted constant; it is fitted to the copies that `labs_records` marks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bench.model_check import labs_kernels as kernels
from bench.model_check.labs_records import COPY, HEADS, MATMUL, NORM, RECORDS
from bench.model_check.measurement import FITTED
from bench.model_check.modelled_launch import (
    Modelled,
    Value,
    readings_us,
    spec,
    timeline_of,
    total_us,
)
from bench.model_check.published_kernels import matmul_free_blocks
from nki_sim import hardware

DEPTH, ROWS = 4096, 256  # K and M of the matrix products


def launch_us() -> float:
    """Returns the microseconds of a launch beside the time on the chip.

    The result is the mean over the measurements that `labs_records` marks for the fit.
    """
    chip = copies_on_chip()
    rest = [m.value - float(chip[m.name][0]) for m in RECORDS if m.use == FITTED]
    return sum(rest) / len(rest)


@functools.cache
def copies_on_chip() -> Modelled:
    """Returns the times of copies of bfloat16 without launches.

    A packed copy loads at most 32 KiB a partition at once.
    """

    def tiled(*shape: int) -> Value:
        return total_us(kernels.copy_tiles, spec("bfloat16", *shape))

    def packed(chunks: int, *shape: int) -> Value:
        return total_us(kernels.copy_packed, spec("bfloat16", *shape), chunks)

    with hardware.select(hardware.TRN2):
        return {
            "tiled, 256 x 4096": tiled(256, 4096),
            "tiled, 4096 x 128": tiled(4096, 128),
            "packed, 256 x 4096": packed(1, 256, 4096),
            "packed, 4096 x 128": packed(1, 4096, 128),
            "packed, 2048 x 4096 and 32768 x 128": packed(4, 2048, 4096) + packed(2, 32768, 128),
        }


def launched(chip: Modelled) -> Modelled:
    """Adds the launches to the times.

    A name that adds two shapes has two launches; a time of one engine has none.
    """
    found = {}
    for name, time in chip.items():
        count = 0 if ":" in name else 2 if " and " in name or "both" in name else 1
        found[name] = time + count * launch_us()
    return found


def copies() -> Modelled:
    """Returns the times of copies with their launches."""
    return launched(copies_on_chip())


def norms() -> Modelled:
    """Returns the times of RMS norms of bfloat16."""

    def norm_us(rows: int, length: int) -> Value:
        return total_us(
            kernels.rms_norm, spec("bfloat16", rows, length), spec("bfloat16", 1, length)
        )

    with hardware.select(hardware.TRN2):
        return launched(
            {
                "256 x 4096": norm_us(256, 4096),
                "4096 x 128": norm_us(4096, 128),
                "2048 x 4096 and 32768 x 128": norm_us(2048, 4096) + norm_us(32768, 128),
            }
        )


def matmul_us(kernel: Any, columns: int, *blocks: int) -> Value:
    """Returns the microseconds of a matrix product on the chip."""
    operands = spec("bfloat16", DEPTH, ROWS), spec("bfloat16", DEPTH, columns)
    return total_us(kernel, *operands, *blocks)


def products() -> Modelled:
    """Returns the times of matrix products.

    N = 2048 has only four tiles of 512 columns; wider blocks are cut to four tiles there.
    """
    found = {}
    with hardware.select(hardware.TRN2):
        for columns in (6144, 2048):
            most = columns // 512
            size = f"N = {columns}"
            found[f"tiled, {size}"] = matmul_us(matmul_free_blocks, columns, 1, 1)
            found[f"blocks of 2, 2, 8, {size}"] = matmul_us(kernels.matmul_blocks, columns, 2, 2, 8)
            found[f"blocks of 2, 6, 16, {size}"] = matmul_us(
                kernels.matmul_blocks, columns, 2, min(6, most), 16
            )
        found["blocks of 1, 12, 4, both N"] = matmul_us(
            kernels.matmul_blocks, 6144, 1, 12, 4
        ) + matmul_us(kernels.matmul_blocks, 2048, 1, 4, 4)
    return launched(found)


def heads() -> Modelled:
    """Returns the times of attention with one head and with several heads.

    The value of a queue is the time for which the transfers occupy the queue.
    """

    def head(positions: int, length: int, is_hardware: bool) -> Value:
        x = spec("float32", positions, length)
        return total_us(kernels.attention, x, x, x, is_hardware)

    with hardware.select(hardware.TRN2):
        found = {
            "128 x 64": head(128, 64, False),
            "128 x 64, hardware DGE": head(128, 64, True),
            "96 x 32, hardware DGE": head(96, 32, True),
        }
        for shape in ((128, 16, 64), (128, 16, 128), (96, 8, 32), (128, 32, 128)):
            x = spec("float32", *shape)
            timeline = timeline_of(kernels.attention_heads, x, x, x)
            found[" x ".join(map(str, shape))] = readings_us(timeline)
        found["128 x 32 x 128: GpSimdE"] = timeline.engine_busy_ns["gpsimd"] / 1e3
        found["128 x 32 x 128, hardware DGE"] = total_us(kernels.attention_heads_hardware, x, x, x)
        # The queue moves q, v and the result of every head.
        found["128 x 32 x 128: Sync's queue"] = 3 * 32 * hardware.current().hardware_dge_ns / 1e3
    return launched(found)


GROUPS: dict[str, Callable[[], Modelled]] = {
    COPY: copies,
    NORM: norms,
    MATMUL: products,
    HEADS: heads,
}
