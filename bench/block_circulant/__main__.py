"""Modelled times on trn1 of block circulant layers, of the naive flow, and of a dense product.

Run: python -m bench.block_circulant. It prints the forward and the backward direction of a layer
from 4096 to 4096 features with blocks of 64 numbers, and training steps of smaller layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import nki_sim
import trnfft
from bench.block_circulant.dense_product import dense_product
from bench.block_circulant.naive_flow import multiply_pairs, sum_blocks
from nki_sim import hardware
from trnfft.nn import BlockCirculantLinear
from trnfft.planner.kinds import BlockCirculant
from trnfft.planner.planner import plan, plan_for

FEATURES, BLOCK, BATCHES = 4096, 64, (32, 2048)
TRAINED, ROWS, BLOCKS = 1024, 128, (8, 16, 64)  # features, rows and blocks of training steps


def spec(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "float32"


def dry_us(kernel: Any, *given: Any) -> float:
    """Returns the modelled time of a launch on trn1, in microseconds.

    The rule "dma-written-ahead" is allowed to be broken, so that the naive kernels load as far
    ahead as they can.
    """
    ahead = nki_sim.allow("dma-written-ahead")
    with hardware.select(hardware.TRN1), nki_sim.strict(), ahead:
        return nki_sim.dry_run(kernel, *given).total_ns / 1e3


def naive_us(rows: int, p: int, q: int, k: int) -> dict[str, float]:
    """Returns the modelled microseconds of each launch of the naive forward flow, for q <= 64.

    Products and sums of more than 64 rows are extrapolated: their times lie on the line through the
    times of 32 and of 64 rows.
    """

    def transform(count: int, inverse: bool) -> float:
        found = plan(k, batch=count, real=True, inverse=inverse, target="trn1", cores=1)
        return (found.predicted_ns or 0.0) / 1e3

    ones = np.kron(np.eye(128 // q), np.ones((q, 1))).astype(np.float32)
    half = k // 2 + 1

    def products(rows: int) -> float:
        x, w = spec(rows, q, half), spec(q, p, half)
        return dry_us(multiply_pairs, x, x, w, w)

    def sums(rows: int) -> float:
        return dry_us(sum_blocks, spec(rows, q, p * k), ones)

    def continued(price: Callable[[int], float], rows: int) -> float:
        if rows <= 64:
            return price(rows)
        first, second = price(32), price(64)
        return second + (second - first) * (rows - 64) / 32

    return {
        "F x": transform(rows * q, False),
        "F w": transform(p * q, False),
        "products": continued(products, rows),
        "F^-1": transform(rows * p * q, True),
        "sums": continued(sums, rows),
    }


def dense_us(rows: int, depth: int, width: int) -> float:
    """Returns modelled microseconds of a dense float32 product [rows, depth] x [depth, width]."""
    weight = spec(width // 256, 128, depth // 128, 256)
    return dry_us(dense_product, spec(rows, depth), weight)


def circulant_us(rows: int, p: int, q: int, k: int) -> tuple[float, float]:
    """Returns the modelled microseconds of the forward and of the backward launch."""

    def launch(gradients: bool) -> float:
        kind = BlockCirculant(p, q, k, gradients)
        found = plan_for(kind, batch=rows, target="trn1", cores=1)
        return (found.predicted_ns or 0.0) / 1e3

    return launch(False), launch(True)


def show_times(console: Console) -> None:
    """Prints the steps of the naive flow, a table with a row for each batch, and the plan."""
    blocks = FEATURES // BLOCK
    table = Table(title=f"{FEATURES} -> {FEATURES}, blocks of {BLOCK}: modelled on trn1, LNC=1, us")
    for name in ("batch", "naive forward", "dense forward", "forward", "backward", "naive / ours"):
        table.add_column(name, justify="right")
    for name in ("dense / ours", "bytes saved"):
        table.add_column(name, justify="right")
    layer = BlockCirculantLinear(FEATURES, FEATURES, BLOCK)
    for rows in BATCHES:
        steps = naive_us(rows, blocks, blocks, BLOCK)
        naive, dense = sum(steps.values()), dense_us(rows, FEATURES, FEATURES)
        forward, backward = circulant_us(rows, blocks, blocks, BLOCK)
        times = [f"{time:,.0f}" for time in (naive, dense, forward, backward)]
        with trnfft.backend("nki-sim"):
            saved = layer.saved_bytes(rows)
        ratios = f"{naive / forward:.1f}", f"{dense / forward:.1f}"
        table.add_row(str(rows), *times, *ratios, f"{saved:,}")
        console.print(
            f"naive, batch {rows}, modelled on trn1, LNC=1: "
            + ", ".join(f"{name} {time:,.0f} us" for name, time in steps.items())
        )
    console.print(table)
    console.print(f"Not counted above: {hardware.TRN1.launches.note('trn1')}")
    kind = BlockCirculant(blocks, blocks, BLOCK)
    console.print(plan_for(kind, batch=32, target="trn1", cores=1).tree())


def show_steps(console: Console) -> None:
    """Prints a training step of a dense layer, and of block circulant ones, without launches."""
    products = 2 * dense_us(ROWS, TRAINED, TRAINED)  # forward, and the gradient of the input
    dense = products + dense_us(TRAINED, ROWS, TRAINED)
    console.print(f"training step {TRAINED} -> {TRAINED}, {ROWS} rows, modelled on trn1, LNC=1:")
    console.print(f"dense {dense:.0f} us")
    for k in BLOCKS:
        us = sum(circulant_us(ROWS, TRAINED // k, TRAINED // k, k))
        console.print(f"blocks of {k} {us:.0f} us, {us / dense:.1f} times as long")


if __name__ == "__main__":
    wide = Console(width=140)
    show_times(wide)
    show_steps(wide)
