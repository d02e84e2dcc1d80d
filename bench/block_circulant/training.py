"""A network learns handwritten digits, with hidden layers that are dense or block circulant."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from bench.block_circulant.steps import saved_bytes, transforms_of_a_step
from bench.block_circulant.times import circulant_us, dense_us
from trnfft.nn import BlockCirculantLinear, convert_linear

WIDTH, HIDDEN, ROWS, BLOCKS = 1024, 2, 128, (8, 16, 64)


@dataclass(frozen=True)
class Digits:
    """Images [count, 64] in float32, from -1 to 1, with their labels [count] in int64."""

    images: torch.Tensor
    labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def network() -> nn.Sequential:
    """Returns four linear layers; the two in the middle are square."""
    hidden = [layer for _ in range(HIDDEN) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), *hidden, nn.Linear(WIDTH, 10))


def digits() -> Digits:
    """Returns scikit-learn's digits in random order; a quarter of them are test images."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images / 8 - 1, dtype=torch.float32)
    y = torch.tensor(labels, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[: len(x) * 3 // 4], order[len(x) * 3 // 4 :]
    return Digits(x[train], y[train], x[test], y[test])


def learn(model: nn.Module, data: Digits, epochs: int) -> float:
    """Trains the model, and returns its accuracy on the test images."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(epochs):
        for rows in torch.randperm(len(data.images), generator=generator).split(ROWS):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data.images[rows]), data.labels[rows])
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        found = model(data.test_images).argmax(1)
    return (found == data.test_labels).double().mean().item()


def modelled_us(k: int) -> float:
    """Returns the modelled microseconds of the hidden layers in a training step.

    k: length of the blocks; 0 for dense hidden layers.
    """
    if k:
        return HIDDEN * sum(circulant_us(ROWS, WIDTH // k, WIDTH // k, k))
    both = 2 * dense_us(ROWS, WIDTH, WIDTH)  # the forward product, and the gradient of the input
    return HIDDEN * (both + dense_us(WIDTH, ROWS, WIDTH))


def show_training(console: Console, epochs: int) -> None:
    """Prints a row for each kind of hidden layers."""
    data = digits()
    step = data.images[:ROWS]
    torch.manual_seed(0)
    dense = network()
    table = Table(title=f"Digits, {epochs} epochs, batches of {ROWS}, hidden layers {WIDTH} wide")
    names = ("hidden layers", "accuracy", "parameters", "compression", "transforms a step")
    for name in (*names, "of the naive flow", "bytes saved", "hidden layers on trn1, LNC=1"):
        table.add_column(name, justify="right")
    for k in (0, *BLOCKS):
        model = copy.deepcopy(dense)
        # Each layer gets new random values: the best approximation of a random dense matrix by a
        # block circulant one is nearly 0.
        if k:
            convert_linear(model, k, lambda _, layer: layer.in_features == layer.out_features)
            for layer in model:
                if isinstance(layer, BlockCirculantLinear):
                    layer.reset_parameters()
        name = f"blocks of {k}" if k else "dense"
        counts = [transforms_of_a_step(model, step, is_naive) for is_naive in (False, True)]
        saved = saved_bytes(model, step)
        accuracy = learn(model, data, epochs)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        ratio = sum(parameter.numel() for parameter in dense.parameters()) / parameters
        table.add_row(
            name,
            f"{accuracy:.1%}",
            f"{parameters:,}",
            f"{ratio:.1f}",
            *(f"{count:,}" for count in counts),
            f"{saved:,}",
            f"{modelled_us(k):.0f} us",
        )
    console.print(table)
