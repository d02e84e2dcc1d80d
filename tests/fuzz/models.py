"""Models of random programs: blocks from [2, 2, 12] to [2, 2, 12], in the names of either run.

A block of this library's layers has a twin, with the same parameters and the computation of the
table of public functions in torch's own operators.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

import trnfft
from tests.fuzz.layers import LAYERS

CHANNELS, POINTS, MODES = 2, 12, 4
BINS = POINTS // 2 + 1
FUNCTIONS = ("fft", "ifft", "rfft", "irfft", "fftn", "stft", "istft", "made", "polar")


class Block(nn.Module):
    """A block that computes with the functions of a run, which copies of the block share."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__()
        self.names = names

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
        memo[id(self.names)] = self.names
        copied = self.__reduce_ex__(4)
        made = copied[0](*copied[1])
        memo[id(self)] = made
        made.__setstate__(copy.deepcopy(copied[2], memo))
        return made


class Fourier(Block):
    """The block of a neural operator, as its authors write it: a product in a tensor of zeros."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__(names)
        self.weight = nn.Parameter(0.5 * torch.randn(CHANNELS, CHANNELS, MODES) + 0.3j)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = self.names.rfft(x)
        shape = (len(x), CHANNELS, BINS)
        product = torch.zeros(*shape, dtype=x.dtype.to_complex(), device=x.device)
        product[:, :, :MODES] = torch.einsum("bix,iox->box", spectrum[..., :MODES], self.weight)
        return self.names.irfft(product, n=x.shape[-1])


class SplitFourier(Block):
    """A product with a parameter that is a ComplexTensor in one of the runs."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__(names)
        self.weight = nn.Parameter(names.made(torch.randn(CHANNELS, BINS), torch.ones(2, BINS)))
        self.register_buffer("phase", names.polar(torch.ones(BINS), torch.arange(BINS * 1.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = self.names.rfft(x) * self.weight * self.phase.to(self.weight.dtype)
        return self.names.irfft(spectrum, n=x.shape[-1])


class Convolution(Block):
    """A product of two padded spectra."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__(names)
        self.filter = nn.Parameter(torch.randn(CHANNELS, POINTS) / POINTS**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = 2 * x.shape[-1]
        product = self.names.rfft(x, n) * self.names.rfft(self.filter, n)
        return self.names.irfft(product, n)[..., : x.shape[-1]]


class Correlation(Block):
    """Sums of the input at its most correlated delays."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__(names)
        self.query = nn.Parameter(torch.randn(POINTS, POINTS) / POINTS**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = self.names.rfft(x @ self.query) * self.names.rfft(x).conj()
        scores = self.names.irfft(spectrum, n=x.shape[-1]).mean((0, 1))
        scores = scores + torch.linspace(0, 0.1, x.shape[-1], dtype=x.dtype)  # no two are equal
        weights, delays = torch.topk(scores, 2)
        rolled = [torch.roll(x, -int(delay), -1) for delay in delays]
        return sum(map(torch.mul, rolled, torch.softmax(weights, -1)))  # type: ignore[return-value]


class Polar(Block):
    """Another magnitude and another phase."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__(names)
        self.gain = nn.Parameter(torch.rand(BINS) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.names.rfft(x) + (9 + 2j)
        # torch has wrong derivatives of torch.polar for a negative magnitude.
        y = self.names.polar(z.abs() * self.gain.square(), z.angle() + self.gain)
        return self.names.irfft(y - 9, n=x.shape[-1])


class Parts(Block):
    """Activations of the parts, of which one is written."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.names.rfft(x) + (3 + 2j)  # a zero is on both sides of a kink
        y = self.names.made(torch.relu(z.real), torch.tanh(z.imag))
        y = y * 1
        y.real[..., 0] = 0.5
        return self.names.irfft(y, n=x.shape[-1])


class Pairs(Block):
    """A linear layer of real and imaginary parts."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__(names)
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = self.layer(torch.view_as_real(self.names.rfft(x)))
        return self.names.irfft(torch.view_as_complex(pairs.contiguous()), n=x.shape[-1])


class Frames(Block):
    """A mask of a signal's frames."""

    def __init__(self, names: SimpleNamespace) -> None:
        super().__init__(names)
        self.mask = nn.Parameter(torch.rand(5, 1) + 0.5)
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = {"n_fft": 8, "hop_length": 2, "window": self.window.to(x.dtype)}
        z = self.names.stft(x.flatten(0, 1), **given, return_complex=True) * self.mask
        return self.names.istft(z, **given, length=x.shape[-1]).reshape(x.shape)


class OfSpectrum(Block):
    """A layer of complex numbers between two transforms, far from zero, where phases jump."""

    def __init__(self, names: SimpleNamespace, layer: nn.Module) -> None:
        super().__init__(names)
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.names.irfft(self.layer(self.names.rfft(x) + (3 + 2j)), n=x.shape[-1])


class Mixed(Block):
    """A transform along two dimensions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.names.fftn(x, dim=(-2, -1)).real / 4


def _twin(name: str) -> type[nn.Module]:
    """Returns a subclass of a layer, with the computation of its reference."""
    base = getattr(trnfft.nn, name)

    def forward(self: Any, input: torch.Tensor) -> torch.Tensor:
        return LAYERS[f"nn.{name}"].reference(self, input)

    return type(name, (base,), {"forward": forward, "__module__": __name__})


OF_NAME = {
    name.removeprefix("nn."): _twin(name.removeprefix("nn."))
    for name, function in LAYERS.items()
    if function.is_layer
}
OWN = SimpleNamespace(**{name: getattr(trnfft.nn, name) for name in OF_NAME})
TWINS = SimpleNamespace(**OF_NAME)

# Blocks, from the functions and the layers of a run.
BLOCKS = {
    **{
        block.__name__: lambda names, layers, block=block: block(names)
        for block in (
            *(Fourier, SplitFourier, Convolution, Correlation, Polar, Parts, Pairs, Frames, Mixed),
        )
    },
    "FFTConv1d": lambda names, layers: layers.FFTConv1d(2, 2, 3, padding=1),
    "FFTConv1d circular": lambda names, layers: layers.FFTConv1d(
        2, 2, 4, padding="same", padding_mode="circular", groups=2, bias=False
    ),
    "SpectralConv1d": lambda names, layers: layers.SpectralConv1d(2, 2, MODES),
    "SpectralConv": lambda names, layers: layers.SpectralConv(2, 2, MODES),
    "FNetMixer": lambda names, layers: layers.FNetMixer(),
    "BlockCirculantLinear": lambda names, layers: layers.BlockCirculantLinear(12, 12, 4),
    "ComplexLinear": lambda names, layers: OfSpectrum(names, layers.ComplexLinear(BINS, BINS)),
    "ComplexConv1d": lambda names, layers: OfSpectrum(
        names, layers.ComplexConv1d(2, 2, 3, padding=1)
    ),
    "ModReLU": lambda names, layers: OfSpectrum(names, layers.ModReLU(2)),
    "Linear": lambda names, layers: nn.Linear(12, 12),
    "Conv1d": lambda names, layers: nn.Conv1d(2, 2, 1),
    "Tanh": lambda names, layers: nn.Tanh(),
    "LayerNorm": lambda names, layers: nn.LayerNorm(12),
    "BatchNorm1d": lambda names, layers: nn.BatchNorm1d(2),
}


def model(found: dict[str, Any], *kinds: str) -> nn.Sequential:
    """Returns the blocks of these kinds, of functions and layers among the names of a run."""
    torch.manual_seed(len(kinds))
    before = torch.get_default_dtype()
    torch.set_default_dtype(found["D"])  # complex parameters cannot be converted to a real dtype
    try:
        names = SimpleNamespace(**{name: found[name] for name in FUNCTIONS})
        layers = TWINS if found["is_native"] else OWN
        return nn.Sequential(*(BLOCKS[kind](names, layers) for kind in kinds))
    finally:
        torch.set_default_dtype(before)


def signal(dtype: torch.dtype) -> torch.Tensor:
    """Returns a batch for a model."""
    x = torch.arange(2.0 * CHANNELS * POINTS, dtype=dtype).reshape(2, CHANNELS, POINTS)
    return (x * 1.7).cos() + (x * 0.3).sin()


def loss(y: torch.Tensor) -> torch.Tensor:
    """Returns a number of which each output has another derivative."""
    return (y - torch.arange(y.shape[-1], dtype=y.dtype).cos()).square().mean()


def flat(tensors: Iterable[torch.Tensor | None]) -> torch.Tensor:
    """Returns the numbers of all tensors; None has none."""
    found = [x for x in tensors if x is not None]
    real = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in found]
    return torch.cat([x.detach().reshape(-1) for x in real] or [torch.zeros(0)])


def gradients(module: nn.Module) -> torch.Tensor:
    """Returns the gradients of all parameters, where None is zeros."""
    parameters = module.parameters()
    return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)


def closure(module: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> Any:
    """Returns a function that computes the loss and its gradients, as optimizers call it."""

    def compute() -> torch.Tensor:
        optimizer.zero_grad()
        found = loss(module(x))
        found.backward()
        return found

    return compute


def penalty(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Returns the squares of the gradients of the loss, to be differentiated."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss(module(x)), parameters, create_graph=True, allow_unused=True)
    return sum((g.abs().square().sum() for g in found if g is not None), x.sum() * 0)


def stored(module: nn.Module) -> nn.Module:
    """Returns a copy, with the parameters that were written to a file and read."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    copied = copy.deepcopy(module)
    copied.load_state_dict(torch.load(file, weights_only=True))
    return copied
