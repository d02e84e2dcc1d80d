"""The HBM traffic of layers: inside the launches of their kernels, and in torch between them.

Run: python -m bench.layer_traffic [trn1 trn2 trn3]

The program runs a forward pass without gradients on the backend "nki-sim", or a training step,
which is a forward and a backward pass; the spectra of constant filters are kept from the pass
before. Layers of which one launch does the work are run a second time by transforms, as before that
launch existed: "apart" says so. The simulator models the launches, on a logical core of the default
degree. The operations of torch between the launches are counted as if each of them read its
operands from HBM and wrote its result to HBM, at the rate of the DMA engines of the logical core,
or of HBM. This count is an upper bound, because a compiler fuses some of the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

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
from trnfft.planner import planner


@dataclass(frozen=True)
class Case:
    """A layer and the shapes of its inputs.

    is_fused: whether a kernel computes the layer in one launch, and transforms do otherwise.
    is_trained: whether a training step is measured.
    """

    title: str
    layer: Callable[[], torch.nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    is_fused: bool = False
    is_trained: bool = False


class Fno(torch.nn.Module):
    """A small Fourier neural operator: four Fourier layers, each with a 1 x 1 convolution beside.

    Args:
        spectral: makes a Fourier layer.
        width: number of channels.
    """

    def __init__(self, spectral: Callable[[], torch.nn.Module], width: int) -> None:
        super().__init__()
        self.lift = torch.nn.Conv2d(3, width, 1)
        self.spectral = torch.nn.ModuleList(spectral() for _ in range(4))
        self.beside = torch.nn.ModuleList(torch.nn.Conv2d(width, width, 1) for _ in range(4))
        self.project = torch.nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.lift(x)
        for spectral, beside in zip(self.spectral, self.beside, strict=True):
            x = torch.nn.functional.gelu(spectral(x) + beside(x))
        y: torch.Tensor = self.project(x)
        return y


CASES = (
    Case("FFTConv1d 64 -> 64, groups 64", lambda: _conv1d(64, 64), ((4, 64, 1024),)),
    Case("FFTConv1d 16 -> 16, groups 1", lambda: _conv1d(16, 1), ((4, 16, 1024),)),
    Case("FFTConv2d 16 -> 16, groups 16", lambda: _conv2d(16), ((2, 16, 100, 100),)),
    Case("LongConv", nn.LongConv, ((4, 64, 1024), (64, 1024))),
    *(
        Case(
            f"SpectralConv1d, {modes} modes",
            partial(nn.SpectralConv1d, 64, 64, modes),
            ((32, 64, 1024),),
            is_fused=True,
        )
        for modes in (16, 64)
    ),
    *(
        Case(
            f"SpectralConv2d, {modes} modes",
            partial(nn.SpectralConv2d, 32, 32, modes, modes),
            ((16, 32, 64, 64),),
            is_fused=True,
            is_trained=is_trained,
        )
        for modes, is_trained in ((12, False), (16, False), (12, True))
    ),
    Case(
        "SpectralConv3d, 8 modes",
        lambda: nn.SpectralConv3d(4, 4, 8, 8, 8),
        ((2, 4, 32, 32, 32),),
        is_fused=True,
    ),
    Case(
        "FNO, 4 layers, 12 modes",
        lambda: Fno(lambda: nn.SpectralConv2d(32, 32, 12, 12), 32),
        ((16, 3, 64, 64),),
        is_fused=True,
        is_trained=True,
    ),
    Case("Spectrogram", lambda: nn.Spectrogram(512, hop_length=128), ((16, 48000),), is_fused=True),
    Case(
        "MelSpectrogram",
        lambda: nn.MelSpectrogram(16000, 512, hop_length=128, n_mels=80),
        ((16, 48000),),
        is_fused=True,
    ),
    Case("FNetMixer", nn.FNetMixer, ((512, 768),)),
    Case("FNetMixer", nn.FNetMixer, ((4, 256, 256),)),
)


def _conv1d(channels: int, groups: int) -> torch.nn.Module:
    return nn.FFTConv1d(channels, channels, 513, padding="same", groups=groups)


def _conv2d(channels: int) -> torch.nn.Module:
    return nn.FFTConv2d(channels, channels, 29, padding="same", groups=channels)


@dataclass(frozen=True)
class Traffic:
    """The costs of a pass or a training step on one core: bytes of HBM and modelled times."""

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
    # Repetitions by `expand` occupy no bytes.
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())


@contextmanager
def _apart() -> Iterator[None]:
    """Lets no kernel compute a layer in one launch in a block."""

    def refuse(*arguments: object, **others: object) -> None:
        raise NotImplementedError

    with mock.patch.object(planner, "plan_for", refuse):
        yield


def measured(case: Case, target: str, is_apart: bool = False) -> Traffic:
    """Returns the traffic of a case, in its second pass.

    is_apart: whether transforms compute it, also where a kernel does it in one launch.
    """
    torch.manual_seed(0)
    layer = case.layer().requires_grad_(case.is_trained).train(case.is_trained)
    inputs = [torch.randn(shape) for shape in case.shapes]
    chip = hardware.chip(target)

    def run() -> None:
        y = layer(*inputs)
        if case.is_trained:
            y.backward(torch.ones_like(y))

    with ExitStack() as stack:
        stack.enter_context(hardware.select(chip))
        stack.enter_context(trnfft.backend("nki-sim"))
        stack.enter_context(torch.set_grad_enabled(case.is_trained))
        stack.enter_context(_apart() if is_apart else nullcontext())
        run()
        with nki_sim.record() as timeline, _Operations() as operations:
            run()
    return Traffic(
        timeline.launches,
        timeline.hbm_bytes,
        timeline.total_ns / 1e3,
        operations.nbytes,
        chip.dma_floor_ns(1, operations.nbytes, hardware.degree(chip)) / 1e3,
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
        where = f"one logical core of {target}, LNC={hardware.degree(chip)}"
        table = Table(title=f"forward passes and training steps, modelled on {where}")
        for heading in ("layer", "input"):
            table.add_column(heading)
        headings = ("launches", "MB in them", "us in them", "with them, about")
        for heading in (*headings, "MB between", "us between"):
            table.add_column(heading, justify="right")
        for case, is_apart in [(case, way) for case in CASES for way in (True, False)]:
            if is_apart and not case.is_fused:
                continue
            found = measured(case, target, is_apart)
            table.add_row(
                case.title + ", training" * case.is_trained + ", apart" * is_apart,
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
