"""Modelled values of the measurements in `device_records`, by the names of the measurements."""

from __future__ import annotations

from collections.abc import Callable

from bench.model_check import device_kernels as kernels
from bench.model_check.device_records import DMA_TRN1, DMA_TRN2, STREAMS, TENSOR
from bench.model_check.modelled_launch import (
    Modelled,
    Value,
    continued,
    repeated_us,
    spec,
    total_us,
)
from nki_sim import hardware

PART = 196_608  # bytes in each partition of one part of the stream
WEIGHTS = 622_000_000  # bytes that a core streams on trn2


def tensor_products() -> Modelled:
    """Returns the time of one product in a chain that uses 16 stationary operands in turn.

    Each time is the slope between chains of 256 and of 1024 products.
    """

    def product_us(rows: int, columns: int) -> Value:
        left, right = spec("bfloat16", 128, 16, rows), spec("bfloat16", 128, columns)
        return repeated_us(lambda n: total_us(kernels.matmul_chain, left, right, n), 256, 1024)

    with hardware.select(hardware.TRN1):
        shapes = ((128, 512), (128, 16), (16, 512))
        return {f"[128, {m}] by {n} columns": product_us(m, n) for m, n in shapes}


def scaled_codes() -> Modelled:
    """Returns the times of one block of `scale_blocks` and of one tile of `scale_tiles`."""
    names = {
        "vector": ("64 on VectorE", "4 on VectorE"),
        "scalar": ("64 on ScalarE", "4 on ScalarE"),
        "both": ("32 on each", "2 on each"),
        "sbuf": ("8 products in SBUF", "a product in SBUF"),
        "psum": ("8 products with PSUM", "a product with PSUM"),
    }
    found = {}
    with hardware.select(hardware.TRN1):
        for way, (block, tile) in names.items():
            found[f"block: {block}"] = block_us(way)
            found[f"tile: {tile}"] = tile_us(way)
    return found


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


def transfers_trn1() -> Modelled:
    """Returns the times of streams of nine parts, of chunks of runs, and of loads by number."""

    def stream_us(rows: int) -> Modelled:
        return continued(
            lambda n: {"": total_us(kernels.stream, spec("uint8", n, 128, PART), 8192, rows)}, 2, 9
        )

    def runs_us(count: int) -> Value:
        return total_us(kernels.stream_runs, spec("uint8", count, 128, 16, 4096), 512)

    with hardware.select(hardware.TRN1):
        return {
            "226 MB, [128, 8 KiB]": stream_us(128)[""],
            "226 MB, [32, 8 KiB]": stream_us(32)[""],
            "[128, 16 of 512 B]": repeated_us(runs_us, 8, 40),
            "[128, 8 KiB], rows by number": lanes_us(True, False),
            "[128, 6400 B], by number": lanes_us(False, True),
            "both of them": lanes_us(True, True),
            "256 of [128, 6528 B]": total_us(
                kernels.load_experts, spec("uint8", 256, 128, 6528), spec("int32", 1, 256)
            ),
        }


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


def transfers_trn2() -> Modelled:
    """Returns the times to load all weights by each of two cores at once.

    The weights are loaded by 4130 transfers of 588 columns, or by wide transfers that follow each
    other in HBM.
    """
    kernel = kernels.stream_weights[2]

    def narrow_us(is_hardware: bool) -> Value:
        width = WEIGHTS // 2 // 4130 // 128

        def tiles_us(count: int) -> Value:
            weights = spec("bfloat16", 128, count * width)
            return total_us(kernel, weights, width, is_hardware)

        return repeated_us(tiles_us, 64, 192) * WEIGHTS / (2 * 128 * width)

    def wide_us(count: int) -> Value:
        return total_us(kernel, spec("bfloat16", count * 128, 16384), 16384, True)

    with hardware.select(hardware.TRN2):
        return {
            "1.2 KB a row, software DGE": narrow_us(False),
            "1.2 KB a row, hardware DGE": narrow_us(True),
            "32 KB a row, hardware DGE": repeated_us(wide_us, 8, 24) * WEIGHTS / (128 * 32768),
        }


GROUPS: dict[str, Callable[[], Modelled]] = {
    TENSOR: tensor_products,
    STREAMS: scaled_codes,
    DMA_TRN1: transfers_trn1,
    DMA_TRN2: transfers_trn2,
}
