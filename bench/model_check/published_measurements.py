"""Published measurements of NKI kernels on NeuronCores, each with its source.

The figures here are those of AWS's documentation and two of Autocomp; `device_records`,
`labs_records`, `small_copies_records`, `autocomp_records`, `nkibench_records` and
`convolution_records` have the others. Paths belong to github.com/aws-neuron/aws-neuron-sdk at the
named commit. A comment says where a value was read off a figure. Each value is compared with the
modelled time of the kernel that `published_kernels`
rebuilds. The seed article's times are in bench/seed_article/figures.py.
"""

from __future__ import annotations

from bench.model_check import (
    autocomp_records,
    convolution_records,
    device_records,
    labs_records,
    nkibench_records,
    small_copies_records,
)
from bench.model_check.measurement import HELD_OUT, INPUT, Measurement, whole_kernels

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


PAYLOAD = "DMA payload"
DMA = "DMA examples"
MATMUL_TRN1 = "matmul, trn1"
MATMUL_TRN2 = "matmul, trn2"
MAMBA_TRN1 = "Mamba, trn1"
SCALAR = "small instructions"
SEED = "seed article"

ABOUT = {
    PAYLOAD: "loads of [128, size], time for a byte as a multiple of that at 32768 bytes",
    DMA: "bfloat16; one transfer on its engine, a load from trigger to data, a whole kernel",
    MATMUL_TRN1: "[4096, 8192] @ [8192, 8192] in bfloat16",
    MATMUL_TRN2: "[4096, 8192] @ [8192, 8192] in float32; busy time where an engine is named",
    MAMBA_TRN1: "channels x points in float32, 16 states",
    SCALAR: "from one instruction to the next, which depends on it; one by itself",
    SEED: "one transform",
    **device_records.ABOUT,
    **labs_records.ABOUT,
    **small_copies_records.ABOUT,
    **autocomp_records.ABOUT,
    **nkibench_records.ABOUT,
    **convolution_records.ABOUT,
}

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

# software_dge_ns lies between the time of the shortest rows and other times.
_PAYLOAD = tuple(
    Measurement(
        PAYLOAD,
        f"{size} bytes",
        "trn2",
        PAYLOAD_PIXELS[32768] / pixels,
        "x",
        DMA_OVERVIEW,
        INPUT if size == 32 else HELD_OUT,
    )
    for size, pixels in PAYLOAD_PIXELS.items()
    if size < 32768
)

# The page and its figure 5 print the times of "transfer"; the others were read off figures 3 and 5,
# to about 0.01 us. dma_start_ns and dma_finish_ns come from the loads, the number of engines for
# four rows from the long transfer, activation_table_ns from exp.
_DMA = (
    Measurement(DMA, "[4, 4096]: transfer", "trn2", 1.416, "us", DMA_OVERVIEW, INPUT),
    Measurement(DMA, "[128, 128]: transfer", "trn2", 0.097, "us", DMA_OVERVIEW),
    Measurement(DMA, "[4, 4096]: load", "trn2", 2.42, "us", DMA_OVERVIEW, INPUT),
    Measurement(DMA, "[128, 128]: load", "trn2", 1.20, "us", DMA_OVERVIEW, INPUT),
    *whole_kernels(
        Measurement(DMA, "[4, 4096]: load, exp, store", "trn2", 9.94, "us", DMA_OVERVIEW, INPUT),
        Measurement(DMA, "[128, 128]: load, exp, store", "trn2", 4.97, "us", DMA_OVERVIEW, INPUT),
    ),
)

# DMA bounds the first three versions, at half the rate of all other records: docs/timing_model.md.
_MATMUL_TRN1 = whole_kernels(
    Measurement(MATMUL_TRN1, "tiled", "trn1", 51800, "us", MATMUL),
    Measurement(MATMUL_TRN1, "loads hoisted", "trn1", 42960, "us", MATMUL),
    Measurement(MATMUL_TRN1, "free dimensions blocked", "trn1", 22070, "us", MATMUL),
    Measurement(MATMUL_TRN1, "all dimensions blocked", "trn1", 6970, "us", MATMUL),
    Measurement(MATMUL_TRN1, "tiled, Autocomp", "trn1", 20990, "us", AUTOCOMP),
)

# "DMA engine" is "Dma Packet Time" divided by 16 engines. The first two versions show the cost of
# descriptors and of software DGE, and that strides of a power of two are not slow on this chip;
# TensorE and VectorE show their rates.
_MATMUL_TRN2 = (
    *whole_kernels(
        Measurement(MATMUL_TRN2, "tiled", "trn2", 39895, "us", OPTIMIZATION, INPUT),
        Measurement(MATMUL_TRN2, "loads hoisted", "trn2", 28198, "us", OPTIMIZATION, INPUT),
        Measurement(MATMUL_TRN2, "all dimensions blocked", "trn2", 28302, "us", OPTIMIZATION),
    ),
    Measurement(MATMUL_TRN2, "tiled: DMA engine", "trn2", 519580 / 16, "us", OPTIMIZATION, INPUT),
    Measurement(
        MATMUL_TRN2, "loads hoisted: DMA engine", "trn2", 402070 / 16, "us", OPTIMIZATION, INPUT
    ),
    Measurement(MATMUL_TRN2, "all blocked: DMA engine", "trn2", 81730 / 16, "us", OPTIMIZATION),
    Measurement(MATMUL_TRN2, "all blocked: TensorE", "trn2", 28160, "us", OPTIMIZATION, INPUT),
    Measurement(MATMUL_TRN2, "all blocked: VectorE", "trn2", 2990, "us", OPTIMIZATION, INPUT),
)

# float32, batch 1; the page names no chip, but NKI then ran on NeuronCore-v2 only. v1 loops over
# states outside, v2 over channels, v3 splits the sequence into 512 points. The cost of v2 above 512
# points showed that rows longer than a PSUM bank are copied to SBUF.
_MAMBA = whole_kernels(
    Measurement(MAMBA_TRN1, "v1, 256 x 512", "trn1", 172.93, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v1, 4096 x 512", "trn1", 2340, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v1, 256 x 2048, Autocomp", "trn1", 636, "us", AUTOCOMP),
    Measurement(MAMBA_TRN1, "v2, 4096 x 512", "trn1", 1610, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v2, 4096 x 1024", "trn1", 4400, "us", MAMBA, INPUT),
    Measurement(MAMBA_TRN1, "v2, 4096 x 2048", "trn1", 8900, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v2, 4096 x 3072", "trn1", 13100, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v2, 4096 x 4096", "trn1", 17600, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v2, 4096 x 5120", "trn1", 23700, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v2, 4096 x 6144", "trn1", 27500, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 512", "trn1", 1600, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 1024", "trn1", 3300, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 2048", "trn1", 6600, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 3072", "trn1", 10100, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 4096", "trn1", 13300, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 5120", "trn1", 17300, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 6144", "trn1", 19600, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 7168", "trn1", 24200, "us", MAMBA),
    Measurement(MAMBA_TRN1, "v3, 4096 x 8192", "trn1", 27800, "us", MAMBA),
)

_SCALAR = (
    Measurement(SCALAR, "ScalarE, one element", "trn1", 0.189, "us", PERFORMANCE),
    Measurement(SCALAR, "VectorE, two of 8192", "trn1", 14.968, "us", PERFORMANCE),
)

PUBLISHED = (
    *_PAYLOAD,
    *_DMA,
    *_MATMUL_TRN1,
    *_MATMUL_TRN2,
    *_MAMBA,
    *_SCALAR,
    *device_records.RECORDS,
    *labs_records.RECORDS,
    *small_copies_records.RECORDS,
    *autocomp_records.RECORDS,
    *nkibench_records.RECORDS,
    *convolution_records.RECORDS,
)

LEFT_OUT = {
    "matmul with free dimensions blocked, trn2": "its operands need 320 of 224 KiB of SBUF",
    "Mamba v2 above 6144 points": "needs the compiler's spills: 196.5 of 192 KiB of SBUF",
    "layer norm, 2.31 and 1.97 ms on trn1": "too long for the (300, 1000) it says: 2.4 MB moved",
    "matmul of eight sizes, nki-autotune issue 25": "names no chip",
    "seed: 97 us for a permute": "names neither length nor batch; part of it is on the host",
    "seed: 739 us for a butterfly stage": "the total at N = 1024 over its ten stages",
    "seed: butterfly at N = 512": "an estimate",
    **device_records.LEFT_OUT,
    **labs_records.LEFT_OUT,
    **small_copies_records.LEFT_OUT,
    **autocomp_records.LEFT_OUT,
}
