"""Modelled values of the measurements in `published_measurements`.

One function computes the values of one group, by the names of its measurements. Values of large
sizes, which repeat the work of small sizes, are extrapolated on a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.model_check import published_kernels as kernels
from bench.model_check.modelled_launch import Modelled, continued, readings_us, spec, timeline_of
from bench.model_check.published_measurements import (
    DMA,
    MAMBA_TRN1,
    MATMUL_TRN1,
    MATMUL_TRN2,
    PAYLOAD,
    PAYLOAD_PIXELS,
    PUBLISHED,
    SCALAR,
)
from nki_sim import hardware
from nki_sim.report.timeline import Timeline

M, K, N = 4096, 8192, 8192  # of the published matrix products
STATES = 16  # of the published Mamba layers


def times_us(timeline: Timeline) -> Modelled:
    """Returns the modelled microseconds of the launch ("total") and of every engine."""
    times = {**timeline.engine_busy_ns, "dma": packet_ns(timeline)}
    return {"total": readings_us(timeline), **{key: time / 1e3 for key, time in times.items()}}


def packet_ns(timeline: Timeline) -> float:
    """Returns nanoseconds for which a DMA engine moves data; all engines share the transfers."""
    chip = hardware.current()
    descriptors = timeline.dma_descriptors * chip.dma_descriptor_ns / chip.dma_engines
    return descriptors + timeline.dma_bytes / chip.dma_total_bytes_per_ns


def payload() -> Modelled:
    """Returns the time for a byte, relative to that with 32768 bytes a partition.

    Each time is the slope between launches of many loads [128, size].
    """

    def load_ns(size: int) -> float:
        times = [
            timeline_of(kernels.load_tiles, spec("float32", count, 128, size // 4)).total_ns
            for count in (32, 64)
        ]
        return (times[1] - times[0]) / (32 * 128 * size)

    with hardware.select(hardware.TRN2):
        reference = load_ns(32768)
        return {f"{n} bytes": load_ns(n) / reference for n in PAYLOAD_PIXELS if n < 32768}


def dma_examples() -> Modelled:
    """Returns the times of two kernels in bfloat16 that load a tile, compute exp, and store it."""
    found = {}
    with hardware.select(hardware.TRN2):
        chip = hardware.current()
        for shape in ((4, 4096), (128, 128)):
            timeline = timeline_of(kernels.exponential, spec("bfloat16", *shape))
            loaded = timeline.events[0].end_ns + chip.dma_finish_ns - chip.software_dge_ns
            fixed = chip.dma_start_ns + chip.dma_finish_ns
            found[f"{list(shape)}: transfer"] = (loaded - fixed) / 1e3
            found[f"{list(shape)}: load"] = loaded / 1e3
            found[f"{list(shape)}: load, exp, store"] = readings_us(timeline)
    return found


def matmul(kernel: Any, dtype: str, *blocks: int) -> Modelled:
    """Returns times_us of the product of the published size, extrapolated from a few rows."""

    def rows(m: int) -> Modelled:
        return times_us(timeline_of(kernel, spec(dtype, K, m), spec(dtype, K, N), *blocks))

    return continued(rows, 256, M)


def blocked_matmul(dtype: str) -> Modelled:
    """Returns times_us with all dimensions blocked, extrapolated from a few blocks of K."""

    def depth(k: int) -> Modelled:
        operands = spec(dtype, k, M), spec(dtype, k, N)
        return times_us(timeline_of(kernels.matmul_blocks, *operands, 16, 2, 8))

    return continued(depth, 2048, K)


def matmul_trn1() -> Modelled:
    """Returns the times of the tutorial's four versions in bfloat16.

    Autocomp starts from the first version.
    """
    with hardware.select(hardware.TRN1):
        tiled = matmul(kernels.matmul_tiled, "bfloat16")["total"]
        return {
            "tiled": tiled,
            "tiled, Autocomp": tiled,
            "loads hoisted": matmul(kernels.matmul_free_blocks, "bfloat16", 1, 1)["total"],
            "free dimensions blocked": matmul(kernels.matmul_free_blocks, "bfloat16", 2, 2)[
                "total"
            ],
            "all dimensions blocked": blocked_matmul("bfloat16")["total"],
        }


def matmul_trn2() -> Modelled:
    """Returns times of three versions of the optimisation guide in float32, whole and by engine."""
    with hardware.select(hardware.TRN2):
        tiled = matmul(kernels.matmul_tiled, "float32")
        hoisted = matmul(kernels.matmul_free_blocks, "float32", 1, 1)
        blocked = blocked_matmul("float32")
    return {
        "tiled": tiled["total"],
        "tiled: DMA engine": tiled["dma"],
        "loads hoisted": hoisted["total"],
        "loads hoisted: DMA engine": hoisted["dma"],
        "all dimensions blocked": blocked["total"],
        "all blocked: DMA engine": blocked["dma"],
        "all blocked: TensorE": blocked["tensor"],
        "all blocked: VectorE": blocked["vector"],
    }


def mamba(kernel: Any, channels: int, length: int, *step: int) -> Modelled:
    """Returns times_us of a layer [channels, length], extrapolated from its first channels."""

    def rows(count: int) -> Modelled:
        points, weights = spec("float32", count, length), spec("float32", count, STATES)
        inputs = spec("float32", STATES, length)
        return times_us(timeline_of(kernel, points, points, weights, inputs, inputs, *step))

    return continued(rows, 128, channels)


def mamba_trn1() -> Modelled:
    """Returns the times of v1, v2 and v3 of the tutorial, with the sizes that the names give."""
    found = {}
    with hardware.select(hardware.TRN1):
        for measurement in PUBLISHED:
            if measurement.group != MAMBA_TRN1:
                continue
            version, size = measurement.name.split(", ")[:2]
            channels, length = [int(n) for n in size.split(" x ")]
            if version == "v1":
                times = mamba(kernels.mamba_states_outside, channels, length)
            else:
                step = length if version == "v2" else 512
                times = mamba(kernels.mamba_channels_outside, channels, length, step)
            found[measurement.name] = times["total"]
    return found


def small_instructions() -> Modelled:
    """Returns the time between two dependent instructions, and that of one long instruction."""
    with hardware.select(hardware.TRN1):
        x = spec("float32", 128, 1)
        first, second = [
            timeline_of(kernels.dependent_scalars, x, count).total_ns for count in (32, 64)
        ]
        wide = spec("float32", 64, 8192)
        addition = next(e for e in timeline_of(kernels.add, wide, wide).events if e.engine != "dma")
    return {
        "ScalarE, one element": (second - first) / 32 / 1e3,
        "VectorE, two of 8192": (addition.end_ns - addition.start_ns) / 1e3,
    }


GROUPS: dict[str, Callable[[], Modelled]] = {
    PAYLOAD: payload,
    DMA: dma_examples,
    MATMUL_TRN1: matmul_trn1,
    MATMUL_TRN2: matmul_trn2,
    MAMBA_TRN1: mamba_trn1,
    SCALAR: small_instructions,
}
