"""Kernels of AWS's documentation, two by Autocomp: their times, and how they are modelled.

`published_kernels` rebuilds the kernels. Paths belong to github.com/aws-neuron/aws-neuron-sdk at
the named commit. A comment says where a value was read off a figure. Values of large sizes, which
repeat the work of small sizes, are extrapolated on a line.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check import published_kernels as kernels
from bench.model_check.measured import HELD_OUT, INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import (
    continued,
    once_a_chip,
    readings_us,
    spec,
    timeline_of,
    total_us,
)
from nki_sim import hardware
from nki_sim.report.timeline import Timeline

SDK = "aws-neuron-sdk 81ce03ae (2026-08-21)"
DMA_OVERVIEW = f"{SDK}, nki/get-started/about/nki-dma-overview.rst"
OPTIMIZATION = f"{SDK}, nki/guides/tutorials/kernel-optimization.rst, figures v2 to v5"
MAMBA = f"{SDK}, nki/guides/tutorials/fused_mamba.rst"
PERFORMANCE = f"{SDK}, nki/deep-dives/nki_perf_guide.rst, Opt #5a and figure 17"
MATMUL = (
    "aws-neuron-sdk 4eba310f (2025-05-20), general/nki/tutorials/matrix_multiplication.rst: BF16, "
    "Trn1.32xlarge"
)
AUTOCOMP = (
    "github.com/ucb-bar/autocomp dd26a565 (2026-06-29), examples/trn-tutorial, first candidate; "
    "sizes in harnesses/trn-tutorial-nki1: trn1.2xlarge"
)

PAYLOAD = Group(
    "DMA payload", "loads of [128, size], time for a byte as a multiple of that at 32768 bytes"
)
DMA = Group(
    "DMA examples",
    "bfloat16; one transfer on its engine, a load from trigger to data, a whole kernel",
)
MATMUL_TRN1 = Group("matmul, trn1", "[4096, 8192] @ [8192, 8192] in bfloat16")
MATMUL_TRN2 = Group(
    "matmul, trn2",
    "[4096, 8192] @ [8192, 8192] in float32; busy time where an engine is named",
)
MAMBA_TRN1 = Group("Mamba, trn1", "channels x points in float32, 16 states")
SCALAR = Group(
    "small instructions", "from one instruction to the next, which depends on it; one by itself"
)

M, K, N = 4096, 8192, 8192  # of the published matrix products
STATES = 16  # of the published Mamba layers

# Bytes a partition, and the height in pixels of the point above the axis of nki-dma-intro-1.jpg.
# Its throughput has no scale, so that times for a byte are relative to the last point. The page's
# other figures are of trn2.
PAYLOAD_PIXELS = {
    32: 5.5,
    64: 11,
    128: 21.5,
    256: 43,
    512: 86.5,
    1024: 176.5,
    2048: 339,
    4096: 403,
    8192: 410,
    16384: 413.5,
    32768: 417,
}


def payload(size: int) -> Value:
    """Returns the time for a byte, relative to that with 32768 bytes a partition."""
    return load_ns(size) / load_ns(32768)


@once_a_chip
def load_ns(size: int) -> float:
    """Returns the time for a byte: the slope between launches of many loads [128, size]."""
    times = [
        timeline_of(kernels.load_tiles, spec("float32", count, 128, size // 4)).total_ns
        for count in (32, 64)
    ]
    return (times[1] - times[0]) / (32 * 128 * size)


@once_a_chip
def exponential(*shape: int) -> Timeline:
    """Returns the launch that loads a tile of bfloat16, computes exp, and stores it."""
    return timeline_of(kernels.exponential, spec("bfloat16", *shape))


def loaded_ns(*shape: int) -> float:
    """Returns the nanoseconds from the trigger of the load until its data is there."""
    chip = hardware.current()
    return exponential(*shape).events[0].end_ns + chip.dma_finish_ns - chip.software_dge_ns


def transferred_us(*shape: int) -> Value:
    """Returns the microseconds of the load on its engine."""
    chip = hardware.current()
    return (loaded_ns(*shape) - (chip.dma_start_ns + chip.dma_finish_ns)) / 1e3


def packet_ns(timeline: Timeline) -> float:
    """Returns nanoseconds for which a DMA engine moves data; all engines share the transfers."""
    chip = hardware.current()
    descriptors = timeline.dma_descriptors * chip.dma_descriptor_ns / chip.dma_engines
    return descriptors + timeline.dma_bytes / chip.dma_total_bytes_per_ns


@once_a_chip
def engines_us(kernel: Any, *arguments: Any) -> dict[str, Value]:
    """Returns the modelled microseconds of a launch ("total") and of every engine."""
    timeline = timeline_of(kernel, *arguments)
    times = {**timeline.engine_busy_ns, "dma": packet_ns(timeline)}
    return {"total": readings_us(timeline), **{key: time / 1e3 for key, time in times.items()}}


def matmul_us(kernel: Any, dtype: str, *blocks: int, part: str = "total") -> Value:
    """Returns the microseconds of the product of the published size, whole or of an engine.

    The time is extrapolated from a few rows.
    """

    def rows(m: int) -> Value:
        return engines_us(kernel, spec(dtype, K, m), spec(dtype, K, N), *blocks)[part]

    return continued(rows, 256, M)


def blocked_us(dtype: str, part: str = "total") -> Value:
    """Returns the same with all dimensions blocked, extrapolated from a few blocks of K."""

    def depth(k: int) -> Value:
        operands = spec(dtype, k, M), spec(dtype, k, N)
        return engines_us(kernels.matmul_blocks, *operands, 16, 2, 8)[part]

    return continued(depth, 2048, K)


def mamba_us(version: str, channels: int, length: int) -> Value:
    """Returns the microseconds of a layer [channels, length], extrapolated from its first channels.

    v1 loops over states outside, v2 over channels, v3 splits the sequence into 512 points.
    """
    kernel, *step = {
        "v1": (kernels.mamba_states_outside,),
        "v2": (kernels.mamba_channels_outside, length),
        "v3": (kernels.mamba_channels_outside, 512),
    }[version]

    def rows(count: int) -> Value:
        points, weights = spec("float32", count, length), spec("float32", count, STATES)
        inputs = spec("float32", STATES, length)
        return total_us(kernel, points, points, weights, inputs, inputs, *step)

    return continued(rows, 128, channels)


def dependent_us() -> Value:
    """Returns the microseconds from one instruction to the next, which depends on it."""
    x = spec("float32", 128, 1)
    first, second = (
        timeline_of(kernels.dependent_scalars, x, count).total_ns for count in (32, 64)
    )
    return (second - first) / 32 / 1e3


def addition_us() -> Value:
    """Returns the microseconds of one long instruction."""
    wide = spec("float32", 64, 8192)
    addition = next(e for e in timeline_of(kernels.add, wide, wide).events if e.engine != "dma")
    return (addition.end_ns - addition.start_ns) / 1e3


# software_dge_ns lies between the time of the shortest rows and other times.
_PAYLOAD = tuple(
    Measured(
        PAYLOAD,
        "trn2",
        DMA_OVERVIEW,
        f"{size} bytes",
        PAYLOAD_PIXELS[32768] / pixels,
        partial(payload, size),
        INPUT if size == 32 else HELD_OUT,
        "x",
    )
    for size, pixels in PAYLOAD_PIXELS.items()
    if size < 32768
)

_dma = partial(Measured, DMA, "trn2", DMA_OVERVIEW)
_whole_dma = partial(_dma, is_whole_kernel=True)

# The page and its figure 5 print the times of "transfer"; the others were read off figures 3 and 5,
# to about 0.01 us. dma_start_ns and dma_finish_ns come from the loads, the number of engines for
# four rows from the long transfer, activation_table_ns from exp.
_DMA = (
    _dma("[4, 4096]: transfer", 1.416, lambda: transferred_us(4, 4096), INPUT),
    _dma("[128, 128]: transfer", 0.097, lambda: transferred_us(128, 128)),
    _dma("[4, 4096]: load", 2.42, lambda: loaded_ns(4, 4096) / 1e3, INPUT),
    _dma("[128, 128]: load", 1.20, lambda: loaded_ns(128, 128) / 1e3, INPUT),
    _whole_dma(
        "[4, 4096]: load, exp, store", 9.94, lambda: readings_us(exponential(4, 4096)), INPUT
    ),
    _whole_dma(
        "[128, 128]: load, exp, store", 4.97, lambda: readings_us(exponential(128, 128)), INPUT
    ),
)

_tutorial = partial(Measured, MATMUL_TRN1, "trn1", MATMUL, is_whole_kernel=True)

# DMA bounds the first three versions, at half the rate of all other records: docs/timing_model.md.
# Autocomp starts from the first version.
_MATMUL_TRN1 = (
    _tutorial("tiled", 51800, lambda: matmul_us(kernels.matmul_tiled, "bfloat16")),
    _tutorial(
        "loads hoisted", 42960, lambda: matmul_us(kernels.matmul_free_blocks, "bfloat16", 1, 1)
    ),
    _tutorial(
        "free dimensions blocked",
        22070,
        lambda: matmul_us(kernels.matmul_free_blocks, "bfloat16", 2, 2),
    ),
    _tutorial("all dimensions blocked", 6970, lambda: blocked_us("bfloat16")),
    Measured(
        MATMUL_TRN1,
        "trn1",
        AUTOCOMP,
        "tiled, Autocomp",
        20990,
        lambda: matmul_us(kernels.matmul_tiled, "bfloat16"),
        is_whole_kernel=True,
    ),
)

_guide = partial(Measured, MATMUL_TRN2, "trn2", OPTIMIZATION)
_whole_guide = partial(_guide, is_whole_kernel=True)
_tiled = partial(matmul_us, kernels.matmul_tiled, "float32")
_hoisted = partial(matmul_us, kernels.matmul_free_blocks, "float32", 1, 1)
_blocked = partial(blocked_us, "float32")

# "DMA engine" is "Dma Packet Time" divided by 16 engines. The first two versions show the cost of
# descriptors and of software DGE, and that strides of a power of two are not slow on this chip;
# TensorE and VectorE show their rates.
_MATMUL_TRN2 = (
    _whole_guide("tiled", 39895, _tiled, INPUT),
    _whole_guide("loads hoisted", 28198, _hoisted, INPUT),
    _whole_guide("all dimensions blocked", 28302, _blocked),
    _guide("tiled: DMA engine", 519580 / 16, lambda: _tiled(part="dma"), INPUT),
    _guide("loads hoisted: DMA engine", 402070 / 16, lambda: _hoisted(part="dma"), INPUT),
    _guide("all blocked: DMA engine", 81730 / 16, lambda: _blocked(part="dma")),
    _guide("all blocked: TensorE", 28160, lambda: _blocked(part="tensor"), INPUT),
    _guide("all blocked: VectorE", 2990, lambda: _blocked(part="vector"), INPUT),
)


def _mamba(
    version: str,
    channels: int,
    length: int,
    us: float,
    use: str = HELD_OUT,
    source: str = MAMBA,
    by: str = "",
) -> Measured:
    return Measured(
        MAMBA_TRN1,
        "trn1",
        source,
        f"{version}, {channels} x {length}{by}",
        us,
        partial(mamba_us, version, channels, length),
        use,
        is_whole_kernel=True,
    )


# float32, batch 1; the page names no chip, but NKI then ran on NeuronCore-v2 only. The cost of v2
# above 512 points showed that rows longer than a PSUM bank are copied to SBUF.
_MAMBA = (
    _mamba("v1", 256, 512, 172.93),
    _mamba("v1", 4096, 512, 2340),
    _mamba("v1", 256, 2048, 636, source=AUTOCOMP, by=", Autocomp"),
    _mamba("v2", 4096, 512, 1610),
    _mamba("v2", 4096, 1024, 4400, INPUT),
    _mamba("v2", 4096, 2048, 8900),
    _mamba("v2", 4096, 3072, 13100),
    _mamba("v2", 4096, 4096, 17600),
    _mamba("v2", 4096, 5120, 23700),
    _mamba("v2", 4096, 6144, 27500),
    _mamba("v3", 4096, 512, 1600),
    _mamba("v3", 4096, 1024, 3300),
    _mamba("v3", 4096, 2048, 6600),
    _mamba("v3", 4096, 3072, 10100),
    _mamba("v3", 4096, 4096, 13300),
    _mamba("v3", 4096, 5120, 17300),
    _mamba("v3", 4096, 6144, 19600),
    _mamba("v3", 4096, 7168, 24200),
    _mamba("v3", 4096, 8192, 27800),
)

_SCALAR = (
    Measured(SCALAR, "trn1", PERFORMANCE, "ScalarE, one element", 0.189, dependent_us),
    Measured(SCALAR, "trn1", PERFORMANCE, "VectorE, two of 8192", 14.968, addition_us),
)

RECORDS = (*_PAYLOAD, *_DMA, *_MATMUL_TRN1, *_MATMUL_TRN2, *_MAMBA, *_SCALAR)

LEFT_OUT = {
    "matmul with free dimensions blocked, trn2": "its operands need 320 of 224 KiB of SBUF",
    "Mamba v2 above 6144 points": "needs the compiler's spills: 196.5 of 192 KiB of SBUF",
    "layer norm, 2.31 and 1.97 ms on trn1": "too long for the (300, 1000) it says: 2.4 MB moved",
    "matmul of eight sizes, nki-autotune issue 25": "names no chip",
    "seed: 97 us for a permute": "names neither length nor batch; part of it is on the host",
    "seed: 739 us for a butterfly stage": "the total at N = 1024 over its ten stages",
    "seed: butterfly at N = 512": "an estimate",
}
