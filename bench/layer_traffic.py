"""The HBM traffic of layers: inside the launches of their kernels, and in torch between them.

Run: python -m bench.layer_traffic [trn1 trn2 trn3]

The program runs a forward pass without gradients on the backend "nki-sim"; the spectra of constant
filters are kept from the pass before. The simulator models the launches. The operations of torch
between the launches are counted as if each of them read its operands from HBM and wrote its result
to HBM, at the documented DMA rate. This count is an upper bound, because a compiler fuses some of
the operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import nki_sim
import trnfft
from bench import program
from nki_sim import hardware
from nki_sim.measured_times import about
from trnfft import nn


@dataclass(frozen=True)
class Case:
    """A layer and the shapes of its inputs."""

    title: str
    layer: Callable[[], torch.nn.Module]
    shapes: tuple[tuple[int, ...], ...]


CASES = (
    Case("FFTConv1d 64 -> 64, groups 64", lambda: _conv1d(64, 64), ((4, 64, 1024),)),
    Case("FFTConv1d 16 -> 16, groups 1", lambda: _conv1d(16, 1), ((4, 16, 1024),)),
    Case("FFTConv2d 16 -> 16, groups 16", lambda: _conv2d(16), ((2, 16, 100, 100),)),
    Case("LongConv", nn.LongConv, ((4, 64, 1024), (64, 1024))),
    Case(
        "SpectralConv1d, 16 of 513 modes", lambda: nn.SpectralConv1d(32, 32, 16), ((8, 32, 1024),)
    ),
    Case("SpectralConv2d, 12 modes", lambda: nn.SpectralConv2d(16, 16, 12, 12), ((4, 16, 64, 64),)),
    Case(
        "SpectralConv3d, 8 modes", lambda: nn.SpectralConv3d(4, 4, 8, 8, 8), ((2, 4, 32, 32, 32),)
    ),
    Case("FNetMixer", nn.FNetMixer, ((4, 256, 256),)),
)


def _conv1d(channels: int, groups: int) -> torch.nn.Module:
    return nn.FFTConv1d(channels, channels, 513, padding="same", groups=groups)


def _conv2d(channels: int) -> torch.nn.Module:
    return nn.FFTConv2d(channels, channels, 29, padding="same", groups=channels)


@dataclass(frozen=True)
class Traffic:
    """The costs of a forward pass on one core: bytes of HBM and modelled times."""

    launches: int
    launched_bytes: int
    launched_us: float
    other_bytes: int
    other_us: float


class _Operations(TorchDispatchMode):
    """Counts the bytes that torch's operations read and write; views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace == "trnfft":  # a launch, with torch's operations that prepare it
            with self:
                return OPDEFS[func._schema.name]._init_fn(*args, **(kwargs or {}))
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented  # the operations on its parts are counted
        result = func(*args, **(kwargs or {}))
        read, made = _tensors((args, kwargs)), _tensors(result)
        places = {x.untyped_storage().data_ptr() for x in read}
        if any(x.untyped_storage().data_ptr() not in places for x in made) or _is_mutable(func):
            self.nbytes += sum(_stored(x) for x in (*read, *made))
        return result


def _tensors(values: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]


def _is_mutable(func: Any) -> bool:
    return bool(func._schema.is_mutable)


def _stored(x: torch.Tensor) -> int:
    """Returns the bytes that a tensor occupies; repetitions by `expand` occupy none."""
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())


def measured(case: Case, target: str) -> Traffic:
    """Returns the traffic of a case, in its second pass."""
    torch.manual_seed(0)
    layer = case.layer().requires_grad_(False).eval()
    inputs = [torch.randn(shape) for shape in case.shapes]
    chip = hardware.chip(target)
    with hardware.select(chip), trnfft.backend("nki-sim"), torch.no_grad():
        layer(*inputs)
        with nki_sim.record() as timeline, _Operations() as operations:
            layer(*inputs)
    return Traffic(
        timeline.launches,
        timeline.hbm_bytes,
        timeline.total_ns / 1e3,
        operations.nbytes,
        operations.nbytes / chip.dma_total_bytes_per_ns / 1e3,
    )


app = typer.Typer(add_completion=False)


@app.command()
def main(
    targets: program.TargetsArgument = None,
) -> None:
    """Print a table for each chip."""
    console = Console(width=130)
    for target in targets or hardware.NAMES:
        chip = hardware.chip(target)
        table = Table(title=f"a forward pass, modelled on one core of {target}")
        for heading in ("layer", "input"):
            table.add_column(heading)
        headings = ("launches", "MB in them", "us in them", "with them, about")
        for heading in (*headings, "MB between", "us between"):
            table.add_column(heading, justify="right")
        for case in CASES:
            found = measured(case, target)
            table.add_row(
                case.title,
                " x ".join(map(str, case.shapes[0])),
                str(found.launches),
                f"{found.launched_bytes / 1e6:.2f}",
                f"{found.launched_us:.1f}",
                about(chip.with_launches_ns(1e3 * found.launched_us, found.launches)),
                f"{found.other_bytes / 1e6:.2f}",
                f"{found.other_us:.1f}",
            )
        console.print(table)


if __name__ == "__main__":
    app()
