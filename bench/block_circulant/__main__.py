"""All figures of block circulant layers.

Run: python -m bench.block_circulant

The program first prints modelled times on trn1 of a layer from 4096 to 4096 features with blocks of
64 numbers, beside those of the naive flow and of a dense float32 product. Then a network of four
layers learns scikit-learn's handwritten digits, once with dense hidden layers and once with block
circulant ones for each length of blocks. The table of this training has accuracy, parameters,
transforms of a training step (counted as they are called), bytes kept for the backward direction,
and the modelled time of the hidden layers. The program needs `pip install ".[bench,demo]"`.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from bench.block_circulant.times import show_times
from bench.block_circulant.training import show_training


def main(
    epochs: Annotated[int, typer.Option(help="Passes over the images.", min=1)] = 30,
) -> None:
    """Print modelled times, and train the network."""
    console = Console(width=140)
    show_times(console)
    show_training(console, epochs)


if __name__ == "__main__":
    typer.run(main)
