"""Times of small kernels on NeuronCores, measured by others; `device_kernels` rebuilds the kernels.

A range is represented by its middle. The times of kiln were measured on one NeuronCore of a
trn1.2xlarge under NKI 0.6. They are slopes between two counts of repetitions, or times of calls
minus the time of an empty graph.
"""

from __future__ import annotations

from bench.model_check.measurement import INPUT, Measurement

KILN = "github.com/foxl-ai/kiln"
NOTES = "docs/neuron-notes.md f5a7faf3 (2026-10-08)"
EP = f"{KILN}, {NOTES}, tools/probe_ep_prims.py (2026-10-04): --pe, --pe-shape and --dq-tile"
VECTOR = f"{KILN}, tools/probe_prefill_vector.py, header (2026-10-03)"
RATE = f"{KILN}, {NOTES}, tools/probe_mk_dma.py fc21e10d (2026-10-05), and moe_ep v4"
LANES = f"{KILN}, tools/probe_prefill_dma.py, header (2026-10-03)"
DYNAMIC = f"{KILN}, {NOTES}, tools/probe_nki_dynamic.py a04d1fab (2026-10-03): k_dma_time"
HEAD = (
    "a megakernel of Qwen3-8B, examples/lm-head-walkthrough (2026-10-10): trn2, both cores at work"
)

TENSOR = "TensorE, trn1"
STREAMS = "VectorE and ScalarE, trn1"
DMA_TRN1 = "DMA, trn1"
DMA_TRN2 = "DMA, trn2"

ABOUT = {
    TENSOR: "bfloat16, products that follow each other; one",
    STREAMS: "float8 to bfloat16 with scales; [128, 4096] in blocks, [128, 512] in tiles",
    DMA_TRN1: "from HBM through four buffers; one chunk, or all",
    DMA_TRN2: "weights of a core, 622 MB, from HBM",
}

STREAM_BYTES = 9 * 128 * 196_608
CHUNK_BYTES = 128 * 16 * 512


def _at_rate(size: int, gigabytes_per_second: float) -> float:
    """Returns the microseconds that ``size`` bytes need at a rate."""
    return size / gigabytes_per_second / 1e3


# The notes give the rate of columns as a range over widths of 128 to 512: "2.45 a nanosecond".
_TENSOR = (
    Measurement(TENSOR, "[128, 128] by 512 columns", "trn1", 512 / 2450, "us", EP, INPUT),
    Measurement(TENSOR, "[128, 128] by 16 columns", "trn1", 0.030, "us", EP),
    Measurement(TENSOR, "[128, 16] by 512 columns", "trn1", 0.215, "us", EP),
)

# The times with both engines show that writes to parts of one tile do not wait for each other.
_STREAMS = (
    Measurement(STREAMS, "block: 64 on VectorE", "trn1", 5.84, "us", VECTOR),
    Measurement(STREAMS, "block: 64 on ScalarE", "trn1", 4.43, "us", VECTOR),
    Measurement(STREAMS, "block: 32 on each", "trn1", 2.69, "us", VECTOR, INPUT),
    Measurement(STREAMS, "block: 8 products in SBUF", "trn1", 8.50, "us", VECTOR),
    Measurement(STREAMS, "block: 8 products with PSUM", "trn1", 3.74, "us", VECTOR, INPUT),
    Measurement(STREAMS, "tile: 4 on VectorE", "trn1", 0.54, "us", EP),
    Measurement(STREAMS, "tile: 4 on ScalarE", "trn1", 0.46, "us", EP),
    Measurement(STREAMS, "tile: 2 on each", "trn1", 0.31, "us", EP, INPUT),
    Measurement(STREAMS, "tile: a product in SBUF", "trn1", 0.99, "us", EP),
    Measurement(STREAMS, "tile: a product with PSUM", "trn1", 0.47, "us", EP),
)

# The stream of 226 MB has a range of 261 to 264 GB/s; 512 of every 4096 bytes are loaded at 160
# GB/s. Loads by number are times of a call minus 137 us.
_DMA_TRN1 = (
    Measurement(
        DMA_TRN1, "226 MB, [128, 8 KiB]", "trn1", _at_rate(STREAM_BYTES, 262.5), "us", RATE, INPUT
    ),
    Measurement(DMA_TRN1, "226 MB, [32, 8 KiB]", "trn1", _at_rate(STREAM_BYTES, 196), "us", RATE),
    Measurement(
        DMA_TRN1, "[128, 16 of 512 B]", "trn1", _at_rate(CHUNK_BYTES, 160), "us", RATE, INPUT
    ),
    Measurement(DMA_TRN1, "[128, 8 KiB], rows by number", "trn1", 4.01, "us", LANES),
    Measurement(DMA_TRN1, "[128, 6400 B], by number", "trn1", 3.05, "us", LANES),
    Measurement(DMA_TRN1, "both of them", "trn1", 8.15, "us", LANES),
    Measurement(DMA_TRN1, "256 of [128, 6528 B]", "trn1", 980 - 137, "us", DYNAMIC),
)

# hbm_stack_bytes_per_ns comes from the last measurement, whose range is 2.20 to 2.23 ms. Both cores
# were at work here, unlike in the measurements of the labs.
_DMA_TRN2 = (
    Measurement(DMA_TRN2, "1.2 KB a row, software DGE", "trn2", 2710, "us", HEAD, cores=2),
    Measurement(DMA_TRN2, "1.2 KB a row, hardware DGE", "trn2", 2530, "us", HEAD, cores=2),
    Measurement(DMA_TRN2, "32 KB a row, hardware DGE", "trn2", 2215, "us", HEAD, INPUT, cores=2),
)

RECORDS = (*_TENSOR, *_STREAMS, *_DMA_TRN1, *_DMA_TRN2)

LEFT_OUT = {
    "kiln: 224 to 230 GB/s": "the stream of 226 MB with the launch in it, by an older probe",
    "kiln: 0.39 to 0.48 ns a column": "a range over three widths, none of them by itself",
    "kiln: 2.18 and 3.32 us for split loads": "faster than HBM: loads that nothing reads are gone",
    "kiln: loads that are skipped, 0.8 us": "a dry run does not know an index out of bounds",
    "kiln: engines inside of large kernels": "overlapping durations of instructions, not intervals",
    "latencies of single matmuls on trn1": "the model has intervals and one time to visible data",
    "spectral DNS: streams of tiles": "names no shape",
}
