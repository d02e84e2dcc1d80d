"""Times of whole kernels in trainium-agent-labs on trn2; `labs_kernels` rebuilds the kernels.

The times come from the device's clock, on one core, under NKI 0.6. Each time contains a launch; a
sum of two shapes contains two launches.
"""

from __future__ import annotations

from bench.model_check.measurement import FITTED, INPUT, Measurement, whole_kernels

LABS = "github.com/yahavb/trainium-agent-labs"
CHIPBOOST = f"{LABS}, projects/03-chipboost, kernels and the status of its P2 (2026-10-10)"
ATTENTION = f"{LABS}, attention kernels V1, V5, M0, M6 and fast, headers (2026-10-10)"

COPY = "labs: copies, trn2"
MATMUL = "labs: matmul, trn2"
NORM = "labs: RMS norm, trn2"
HEADS = "labs: attention, trn2"

ABOUT = {
    COPY: "bfloat16",
    MATMUL: "4096 x 256 by 4096 x N in bfloat16; m, n, k: tiles of a block",
    NORM: "bfloat16",
    HEADS: "positions x numbers, or positions x heads x numbers, in float32",
}

# The launch is fitted to the two copies packed in one chunk. dma_core_bytes_per_ns lies between the
# rate from their slope, 388 GB/s, and another rate.
_COPY = whole_kernels(
    Measurement(COPY, "tiled, 256 x 4096", "trn2", 20.55, "us", CHIPBOOST),
    Measurement(COPY, "tiled, 4096 x 128", "trn2", 51.65, "us", CHIPBOOST),
    Measurement(COPY, "packed, 256 x 4096", "trn2", 23.2, "us", CHIPBOOST, FITTED),
    Measurement(COPY, "packed, 4096 x 128", "trn2", 17.8, "us", CHIPBOOST, FITTED),
    Measurement(COPY, "packed, 2048 x 4096 and 32768 x 128", "trn2", 140.7, "us", CHIPBOOST),
)

_NORM = whole_kernels(
    Measurement(NORM, "256 x 4096", "trn2", 46.8, "us", CHIPBOOST),
    Measurement(NORM, "4096 x 128", "trn2", 67.2, "us", CHIPBOOST),
    Measurement(NORM, "2048 x 4096 and 32768 x 128", "trn2", 518.2, "us", CHIPBOOST),
)

# The source loads a left tile before every product. Then 1560 and 520 transfers give a launch of 57
# us; with the left loads outside of the loop over N, 856 and 328 transfers give a plausible launch
# of 6 us. The kernel is rebuilt in the second way.
_MATMUL = whole_kernels(
    Measurement(MATMUL, "tiled, N = 6144", "trn2", 691.7, "us", CHIPBOOST, INPUT),
    Measurement(MATMUL, "tiled, N = 2048", "trn2", 268.8, "us", CHIPBOOST, INPUT),
    Measurement(MATMUL, "blocks of 2, 2, 8, N = 6144", "trn2", 280.4, "us", CHIPBOOST),
    Measurement(MATMUL, "blocks of 2, 2, 8, N = 2048", "trn2", 104.7, "us", CHIPBOOST),
    Measurement(MATMUL, "blocks of 1, 12, 4, both N", "trn2", 280.3, "us", CHIPBOOST),
    Measurement(MATMUL, "blocks of 2, 6, 16, N = 6144", "trn2", 206.5, "us", CHIPBOOST),
    Measurement(MATMUL, "blocks of 2, 6, 16, N = 2048", "trn2", 81.8, "us", CHIPBOOST),
)

_ATTENTION = whole_kernels(
    Measurement(HEADS, "128 x 64", "trn2", 17.69, "us", ATTENTION),
    Measurement(HEADS, "128 x 64, hardware DGE", "trn2", 16.06, "us", ATTENTION),
    Measurement(HEADS, "96 x 32, hardware DGE", "trn2", 15.14, "us", ATTENTION),
    Measurement(HEADS, "128 x 16 x 64", "trn2", 74.50, "us", ATTENTION),
    Measurement(HEADS, "128 x 16 x 128", "trn2", 76.08, "us", ATTENTION),
    Measurement(HEADS, "96 x 8 x 32", "trn2", 38.38, "us", ATTENTION),
    Measurement(HEADS, "128 x 32 x 128", "trn2", 125.32, "us", ATTENTION),
    Measurement(HEADS, "128 x 32 x 128, hardware DGE", "trn2", 128.3, "us", ATTENTION),
)

# software_dge_ns lies between the time of GpSimdE, which issues 128 transfers, and another time.
_QUEUES = (
    Measurement(HEADS, "128 x 32 x 128: GpSimdE", "trn2", 86, "us", ATTENTION, INPUT),
    Measurement(HEADS, "128 x 32 x 128: Sync's queue", "trn2", 82, "us", ATTENTION),
)

RECORDS = (*_COPY, *_NORM, *_MATMUL, *_ATTENTION, *_QUEUES)

LEFT_OUT = {
    "labs: matmul on two cores": "how the two cores share the work was not rebuilt",
    "labs: sweep of tiled matmul, 96 rows": "an older compiler; times of a call on the host",
    "labs: attention with DMA transposes": "results are not stored",
}
