"""Small kernels on NeuronCores, measured by others: their times, and how they are modelled.

`device_kernels` rebuilds the kernels. A range is represented by its middle. The times of kiln were
measured on one NeuronCore of a trn1.2xlarge under NKI 0.6. They are slopes between two counts of
repetitions, or times of calls minus the time of an empty graph.
"""

from __future__ import annotations

from functools import partial

from bench.model_check import device_kernels as kernels
from bench.model_check.measured import INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import continued, repeated_us, spec, total_us

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

TENSOR = Group("TensorE, trn1", "bfloat16, products that follow each other; one")
STREAMS = Group(
    "VectorE and ScalarE, trn1",
    "float8 to bfloat16 with scales; [128, 4096] in blocks, [128, 512] in tiles",
)
DMA_TRN1 = Group("DMA, trn1", "from HBM through four buffers; one chunk, or all")
DMA_TRN2 = Group("DMA, trn2", "weights of a core, 622 MB, from HBM")

STREAM_BYTES = 9 * 128 * 196_608
CHUNK_BYTES = 128 * 16 * 512
PART = 196_608  # bytes in each partition of one part of the stream
WEIGHTS = 622_000_000  # bytes that a core streams on trn2


def product_us(rows: int, columns: int) -> Value:
    """Returns the microseconds of one product in a chain with 16 stationary operands in turn.

    The time is the slope between chains of 256 and of 1024 products.
    """
    left, right = spec("bfloat16", 128, 16, rows), spec("bfloat16", 128, columns)
    return repeated_us(lambda n: total_us(kernels.matmul_chain, left, right, n), 256, 1024)


def block_us(way: str) -> Value:
    """Returns the microseconds of one block of `scale_blocks`, from the slope of 4 to 36 blocks."""
    codes, scales = spec("uint8", 2, 128, 4096), spec("float32", 128, 2, 32)
    return repeated_us(lambda n: total_us(kernels.scale_blocks, codes, scales, n, way), 4, 36)


def tile_us(way: str) -> Value:
    """Returns the microseconds of one of the 32 tiles of `scale_tiles`.

    The time of a round is the slope of 1 to 4 rounds.
    """
    codes, scales = spec("uint8", 128, 32, 512), spec("float32", 128, 32, 4)
    return repeated_us(lambda n: total_us(kernels.scale_tiles, codes, scales, n, way), 1, 4) / 32


def stream_us(rows: int) -> Value:
    """Returns the microseconds of a stream of nine parts."""

    def parts_us(count: int) -> Value:
        return total_us(kernels.stream, spec("uint8", count, 128, PART), 8192, rows)

    return continued(parts_us, 2, 9)


def runs_us(count: int) -> Value:
    """Returns the microseconds of chunks of runs."""
    return total_us(kernels.stream_runs, spec("uint8", count, 128, 16, 4096), 512)


def lanes_us(gathers: bool, loads: bool) -> Value:
    """Returns the microseconds of one tile of `load_lanes`, from the slope of 4 to 68 tiles."""

    def tiles_us(count: int) -> Value:
        return total_us(
            kernels.load_lanes,
            spec("bfloat16", 8192, 4096),
            spec("int32", 128, count),
            spec("uint8", 288, 128, 6400),
            spec("int32", 1, count),
            gathers,
            loads,
        )

    return repeated_us(tiles_us, 4, 68)


def experts_us() -> Value:
    """Returns the microseconds of loads whose addresses are numbers in a tensor."""
    return total_us(kernels.load_experts, spec("uint8", 256, 128, 6528), spec("int32", 1, 256))


def narrow_us(is_hardware: bool) -> Value:
    """Returns the microseconds in which two cores load all weights, by 4130 narrow transfers."""
    width = WEIGHTS // 2 // 4130 // 128

    def tiles_us(count: int) -> Value:
        weights = spec("bfloat16", 128, count * width)
        return total_us(kernels.stream_weights[2], weights, width, is_hardware)

    return repeated_us(tiles_us, 64, 192) * WEIGHTS / (2 * 128 * width)


def wide_us() -> Value:
    """Returns the same by wide transfers, which follow each other in HBM."""

    def tiles_us(count: int) -> Value:
        weights = spec("bfloat16", count * 128, 16384)
        return total_us(kernels.stream_weights[2], weights, 16384, True)

    return repeated_us(tiles_us, 8, 24) * WEIGHTS / (128 * 32768)


def _at_rate(size: int, gigabytes_per_second: float) -> float:
    return size / gigabytes_per_second / 1e3


_product = partial(Measured, TENSOR, "trn1", EP)
_block = partial(Measured, STREAMS, "trn1", VECTOR)
_tile = partial(Measured, STREAMS, "trn1", EP)
_dma = partial(Measured, DMA_TRN1, "trn1")
_weights = partial(Measured, DMA_TRN2, "trn2", HEAD, cores=2)

# The notes give the rate of columns as a range over widths of 128 to 512: "2.45 a nanosecond".
_TENSOR = (
    _product("[128, 128] by 512 columns", 512 / 2450, lambda: product_us(128, 512), INPUT),
    _product("[128, 128] by 16 columns", 0.030, lambda: product_us(128, 16)),
    _product("[128, 16] by 512 columns", 0.215, lambda: product_us(16, 512)),
)

# The times with both engines show that writes to parts of one tile do not wait for each other.
_STREAMS = (
    _block("block: 64 on VectorE", 5.84, lambda: block_us("vector")),
    _block("block: 64 on ScalarE", 4.43, lambda: block_us("scalar")),
    _block("block: 32 on each", 2.69, lambda: block_us("both"), INPUT),
    _block("block: 8 products in SBUF", 8.50, lambda: block_us("sbuf")),
    _block("block: 8 products with PSUM", 3.74, lambda: block_us("psum"), INPUT),
    _tile("tile: 4 on VectorE", 0.54, lambda: tile_us("vector")),
    _tile("tile: 4 on ScalarE", 0.46, lambda: tile_us("scalar")),
    _tile("tile: 2 on each", 0.31, lambda: tile_us("both"), INPUT),
    _tile("tile: a product in SBUF", 0.99, lambda: tile_us("sbuf")),
    _tile("tile: a product with PSUM", 0.47, lambda: tile_us("psum")),
)

# The stream of 226 MB has a range of 261 to 264 GB/s; 512 of every 4096 bytes are loaded at 160
# GB/s. Loads by number are times of a call minus 137 us.
_STREAMED = (
    _dma(
        RATE,
        "226 MB, [128, 8 KiB]",
        _at_rate(STREAM_BYTES, 262.5),
        lambda: stream_us(128),
        INPUT,
    ),
    _dma(RATE, "226 MB, [32, 8 KiB]", _at_rate(STREAM_BYTES, 196), lambda: stream_us(32)),
    _dma(
        RATE,
        "[128, 16 of 512 B]",
        _at_rate(CHUNK_BYTES, 160),
        lambda: repeated_us(runs_us, 8, 40),
        INPUT,
    ),
    _dma(LANES, "[128, 8 KiB], rows by number", 4.01, lambda: lanes_us(True, False)),
    _dma(LANES, "[128, 6400 B], by number", 3.05, lambda: lanes_us(False, True)),
    _dma(LANES, "both of them", 8.15, lambda: lanes_us(True, True)),
    _dma(DYNAMIC, "256 of [128, 6528 B]", 980 - 137, experts_us),
)

# hbm_stack_bytes_per_ns comes from the last measurement, whose range is 2.20 to 2.23 ms. Both cores
# were at work here, unlike in the measurements of the labs.
_WEIGHTS = (
    _weights("1.2 KB a row, software DGE", 2710, lambda: narrow_us(False)),
    _weights("1.2 KB a row, hardware DGE", 2530, lambda: narrow_us(True)),
    _weights("32 KB a row, hardware DGE", 2215, wide_us, INPUT),
)

RECORDS = (*_TENSOR, *_STREAMS, *_STREAMED, *_WEIGHTS)

LEFT_OUT = {
    "kiln: 224 to 230 GB/s": "the stream of 226 MB with the launch in it, by an older probe",
    "kiln: 0.39 to 0.48 ns a column": "a range over three widths, none of them by itself",
    "kiln: 2.18 and 3.32 us for split loads": "faster than HBM: loads that nothing reads are gone",
    "kiln: loads that are skipped, 0.8 us": "a dry run does not know an index out of bounds",
    "kiln: engines inside of large kernels": "overlapping durations of instructions, not intervals",
    "latencies of single matmuls on trn1": "the model has intervals and one time to visible data",
    "spectral DNS: streams of tiles": "names no shape",
}
