"""All figures of block circulant layers: python bench/block_circulant.py [--out curves.png]

First modelled times on trn1 of 4096 -> 4096 features with blocks of 64 numbers, beside the naive
flow and a dense float32 product. Then a network of four layers learns scikit-learn's handwritten
digits, its hidden layers dense or block circulant: accuracy, parameters, transforms of a training
step, counted as they are called, bytes kept for the backward direction, and modelled time of the
hidden layers. Curves go to a PNG. Needs `pip install ".[bench,demo]"`.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import block_circulant_baselines as baselines
import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import nn

import trnfft.nn.block_circulant
import trnfft.ops.block_circulant
from nki_kernels import hardware, simulator
from trnfft.nn import BlockCirculantLinear, convert_linear
from trnfft.planner.planner import plan, plan_block_circulant

FEATURES, BLOCK, BATCHES = 4096, 64, (32, 2048)
WIDTH, HIDDEN, ROWS, BLOCKS = 1024, 2, 128, (8, 16, 64)


def spec(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "float32"


def dry_us(kernel: object, *given: object) -> float:
    """Modelled microseconds of a launch on trn1."""
    with hardware.select(hardware.TRN1), simulator.strict():
        return simulator.dry_run(kernel, *given).total_ns / 1e3


def naive_us(rows: int, p: int, q: int, k: int) -> dict[str, float]:
    """Modelled microseconds of the naive forward flow, launch by launch; q <= 64.

    Products and sums of more than 64 rows are those of 32 and 64 rows, continued as a line.
    """
    transforms = {"batch": 0, "real": True, "target": "trn1"}

    def transform(count: int, inverse: bool) -> float:
        given = {**transforms, "batch": count, "inverse": inverse}
        return (plan(k, **given).predicted_ns or 0.0) / 1e3  # type: ignore[arg-type]

    ones = np.kron(np.eye(128 // q), np.ones((q, 1))).astype(np.float32)
    half = k // 2 + 1

    def products(rows: int) -> float:
        x, w = spec(rows, q, half), spec(q, p, half)
        return dry_us(baselines.multiply_pairs, x, x, w, w)

    def sums(rows: int) -> float:
        return dry_us(baselines.sum_blocks, spec(rows, q, p * k), ones)

    def continued(price: object, rows: int) -> float:
        if rows <= 64:
            return price(rows)  # type: ignore[operator, no-any-return]
        first, second = price(32), price(64)  # type: ignore[operator]
        return second + (second - first) * (rows - 64) / 32

    return {
        "F x": transform(rows * q, False),
        "F w": transform(p * q, False),
        "products": continued(products, rows),
        "F^-1": transform(rows * p * q, True),
        "sums": continued(sums, rows),
    }


def dense_us(rows: int, depth: int, width: int) -> float:
    """Modelled microseconds of a dense float32 product [rows, depth] x [depth, width]."""
    weight = spec(width // 256, 128, depth // 128, 256)
    return dry_us(baselines.dense_product, spec(rows, depth), weight)


def circulant_us(rows: int, p: int, q: int, k: int) -> tuple[float, float]:
    """Modelled microseconds forward and backward, a launch each."""
    found = [
        plan_block_circulant((p, q, k), batch=rows, gradients=gradients, target="trn1")
        for gradients in (False, True)
    ]
    return tuple((each.predicted_ns or 0.0) / 1e3 for each in found)  # type: ignore[return-value]


def show_times(console: Console) -> None:
    blocks = FEATURES // BLOCK
    table = Table(title=f"{FEATURES} -> {FEATURES}, blocks of {BLOCK}: modelled on trn1, us")
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
            f"naive, batch {rows}: "
            + ", ".join(f"{name} {time:,.0f} us" for name, time in steps.items())
        )
    console.print(table)
    console.print(plan_block_circulant((blocks,) * 2 + (BLOCK,), batch=32, target="trn1").tree())


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts transforms by the rows that rfft and irfft of trnfft are called with."""
    counts: Counter[str] = Counter()

    def counting(name: str, function: object) -> object:
        def call(x: torch.Tensor, *rest: int) -> torch.Tensor:
            counts[name] += x.shape[:-1].numel()
            return function(x, *rest)  # type: ignore[operator, no-any-return]

        return call

    with (
        mock.patch.multiple(
            trnfft.ops.block_circulant,
            rfft=counting("rfft", trnfft.rfft),
            irfft=counting("irfft", trnfft.irfft),
        ),
        mock.patch.multiple(
            baselines,
            rfft=counting("rfft", trnfft.rfft),
            irfft=counting("irfft", trnfft.irfft),
        ),
    ):
        yield counts


def transforms_of_a_step(model: nn.Module, x: torch.Tensor, is_naive: bool) -> int:
    """Transforms of one forward and backward pass, counted."""

    def naive(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return baselines.NaiveProduct.apply(x, weight) + bias

    given = naive if is_naive else trnfft.ops.block_circulant.block_circulant_product
    with (
        mock.patch.object(trnfft.nn.block_circulant, "block_circulant_product", given),
        counted() as counts,
    ):
        model(x).sum().backward()
    model.zero_grad()
    return sum(counts.values())


def saved_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """Bytes of all tensors that a forward pass keeps for the backward one, parameters left out."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)
    del y
    return sum(kept.values())


def network() -> nn.Module:
    hidden = [layer for _ in range(HIDDEN) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), *hidden, nn.Linear(WIDTH, 10))


def digits() -> list[torch.Tensor]:
    """Images and labels to learn, then those to test with, a quarter of all."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images / 8 - 1, dtype=torch.float32)
    y = torch.tensor(labels, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[: len(x) * 3 // 4], order[len(x) * 3 // 4 :]
    return [x[train], y[train], x[test], y[test]]


def learn(model: nn.Module, data: list[torch.Tensor], epochs: int) -> list[float]:
    """Accuracy on the test images after each epoch."""
    x, y, test_x, test_y = data
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1)
    curve = []
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(ROWS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            curve.append((model(test_x).argmax(1) == test_y).double().mean().item())
    return curve


def modelled_us(k: int) -> float:
    """Modelled microseconds of the hidden layers in a training step; k = 0: dense ones."""
    if k:
        return HIDDEN * sum(circulant_us(ROWS, WIDTH // k, WIDTH // k, k))
    both = 2 * dense_us(ROWS, WIDTH, WIDTH)  # forward, and the gradient of the input
    return HIDDEN * (both + dense_us(WIDTH, ROWS, WIDTH))


def show_training(console: Console, out: Path, epochs: int) -> None:
    data = digits()
    torch.manual_seed(0)
    dense = network()
    table = Table(title=f"Digits, {epochs} epochs, batches of {ROWS}, hidden layers {WIDTH} wide")
    names = ("hidden layers", "accuracy", "parameters", "compression", "transforms a step")
    for name in (*names, "of the naive flow", "bytes saved", "hidden layers on trn1"):
        table.add_column(name, justify="right")
    curves = {}
    for k in (0, *BLOCKS):
        model = copy.deepcopy(dense)
        if k:  # with values of its own, as the best approximation of random ones is nearly 0
            convert_linear(model, k, lambda _, layer: layer.in_features == layer.out_features)
            for layer in model:
                if isinstance(layer, BlockCirculantLinear):
                    layer.reset_parameters()
        name = f"blocks of {k}" if k else "dense"
        counts = [transforms_of_a_step(model, data[0][:ROWS], naive) for naive in (False, True)]
        saved = saved_bytes(model, data[0][:ROWS])
        curves[name] = learn(model, data, epochs)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        ratio = sum(parameter.numel() for parameter in dense.parameters()) / parameters
        table.add_row(
            name,
            f"{curves[name][-1]:.1%}",
            f"{parameters:,}",
            f"{ratio:.1f}",
            *(f"{count:,}" for count in counts),
            f"{saved:,}",
            f"{modelled_us(k):.0f} us",
        )
    console.print(table)
    draw(curves, out)
    console.print(f"curves: {out}")


def draw(curves: dict[str, list[float]], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, curve in curves.items():
        axes.plot(range(1, len(curve) + 1), [100 * value for value in curve], label=name)
    axes.set(xlabel="epoch", ylabel="accuracy on test images, %", title="Hidden layers")
    axes.set_ylim(bottom=min(80, *(100 * curve[2] for curve in curves.values())), top=100)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(out, dpi=150)


def main(out: Path = Path("block_circulant.png"), epochs: int = 30) -> None:
    console = Console(width=140)
    show_times(console)
    show_training(console, out, epochs)


if __name__ == "__main__":
    typer.run(main)
