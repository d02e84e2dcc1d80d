"""Functions of real float32 tensors to run on the device; the host can run them, too.

A function gets the parts of complex tensors, so that it can be compiled, and returns real tensors.
Layers are made once for the host, with the weights of one seed; `on` moves them to the device.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import trnfft
from tests.registry import REGISTRY
from trnfft import ComplexTensor, nn


@dataclass
class Subject:
    """A function, the shapes of its tensors, and the kernels that it launches in eager mode."""

    run: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    kernels: tuple[str, ...] = ()  # one of these at least; none for what launches nothing
    layer: torch.nn.Module | None = None  # the first argument of `run`

    def on(self, device: str) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
        """The function of tensors on a device to a tuple of real ones, and its parameters."""
        layer = None if self.layer is None else copy.deepcopy(self.layer).to(device)

        def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.run(*tensors) if layer is None else self.run(layer, *tensors)
            return (y.real, y.imag) if y.is_complex() else (y,)

        return run, () if layer is None else tuple(layer.parameters())

    def tensors(self) -> list[torch.Tensor]:
        """Its arguments on the host, the same ones each time."""
        generator = torch.Generator().manual_seed(0)
        return [torch.randn(shape, generator=generator) for shape in self.shapes]


def of_parts(name: str, *arguments: Any) -> Callable[..., Any]:
    return lambda a, b: getattr(trnfft, name)(ComplexTensor(a, b), *arguments)


def of_real(name: str, *arguments: Any) -> Callable[..., Any]:
    return lambda x: getattr(trnfft, name)(x, *arguments)


def layer_of_parts(layer: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
    return layer(ComplexTensor(a, b))


def layer_of_real(layer: Any, x: torch.Tensor) -> Any:
    return layer(x)


def seeded(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make(*arguments, **options)


def kernels_of(*kinds: str, axes: bool = False) -> tuple[str, ...]:
    """The names of the kernels that serve transforms of these kinds, of one or of several axes."""
    every = [each for each in REGISTRY.values() if each.kind in kinds]
    names = [each.kernel.__name__ for each in every if each.takes_shapes == axes]
    return tuple(dict.fromkeys(names))


C2C, R2C, C2R = kernels_of("c2c"), kernels_of("c2c", "r2c"), kernels_of("c2c", "c2r")
AXES_C2R = kernels_of("c2r", axes=True)
AXES = kernels_of("c2c", "r2c", "c2r", axes=True)


def transforms() -> dict[str, Subject]:
    """The 18 functions that transform."""
    found = {}
    for suffix, shape in (("", (3, 16)), ("2", (2, 8, 12)), ("n", (4, 2, 6))):
        half = (*shape[:-1], shape[-1] // 2 + 1)
        extra = AXES if suffix else ()
        for prefix in ("", "i"):
            name = f"{prefix}fft{suffix}"
            found[name] = Subject(of_parts(name), (shape, shape), (*C2C, *extra))
        for name in (f"rfft{suffix}", f"ihfft{suffix}"):
            found[name] = Subject(of_real(name), (shape,), (*R2C, *extra))
        for name in (f"irfft{suffix}", f"hfft{suffix}"):
            found[name] = Subject(of_parts(name), (half, half), (*C2R, *extra))
    return found


def signals() -> dict[str, Subject]:
    """What is made of transforms."""

    def stft(x: torch.Tensor) -> ComplexTensor:
        window = torch.hann_window(16, device=x.device)
        return trnfft.stft(x, 16, window=window, return_complex=True)

    def istft(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(16, device=a.device)
        return trnfft.istft(ComplexTensor(a, b), 16, window=window)

    def bloom(image: torch.Tensor, psf: torch.Tensor) -> torch.Tensor:
        return trnfft.bloom(image, psf, strength=0.6)

    return {
        "dct": Subject(of_real("dct"), ((3, 12),), R2C),
        "dctn": Subject(of_real("dctn", 3, None, (0, 2)), ((4, 2, 6),), AXES_C2R),
        "dst of type 4": Subject(of_real("dst", 4), ((3, 12),), C2C),
        "zoom_fft": Subject(of_real("zoom_fft", 0.3), ((3, 12),), C2C),
        "stft": Subject(stft, ((2, 64),), (*R2C, "frame_spectra")),
        "istft": Subject(istft, ((2, 9, 17),) * 2, C2R),
        "convolve": Subject(
            lambda x, h: trnfft.convolve(x, h, "same", dims=-1),
            ((3, 40), (1, 9)),
            ("convolve_rows",),
        ),
        "bloom": Subject(bloom, ((3, 12, 10), (5, 5)), (*R2C, *AXES)),
        "planned order": Subject(
            lambda a, b: trnfft.ifft(
                trnfft.fft(ComplexTensor(a, b), order="planned") * 2, order="planned"
            ),
            ((2, 24),) * 2,
            C2C,
        ),
        "prime": Subject(of_parts("fft"), ((2, 137),) * 2, C2C),
    }


def layers() -> dict[str, Subject]:
    """Every layer of trnfft.nn."""
    parts, real = layer_of_parts, layer_of_real
    make = {
        "BlockCirculantLinear": (real, (nn.BlockCirculantLinear, 32, 16, 16), ((6, 32),)),
        "ComplexBatchNorm": (parts, (nn.ComplexBatchNorm, 3), ((8, 3, 4),) * 2),
        "ComplexConv1d": (parts, (nn.ComplexConv1d, 2, 3, 3), ((2, 2, 10),) * 2),
        "ComplexConv2d": (parts, (nn.ComplexConv2d, 2, 3, 3), ((2, 2, 6, 5),) * 2),
        "ComplexLinear": (parts, (nn.ComplexLinear, 6, 4), ((5, 6),) * 2),
        "FFTConv1d": (real, (nn.FFTConv1d, 2, 3, 9), ((2, 2, 40),)),
        "FFTConv2d": (real, (nn.FFTConv2d, 2, 2, 5), ((2, 2, 12, 10),)),
        "FNetMixer": (real, (nn.FNetMixer,), ((2, 8, 12),)),
        "ModReLU": (parts, (nn.ModReLU, 4), ((5, 4),) * 2),
        "SpectralConv1d": (real, (nn.SpectralConv1d, 2, 3, 5), ((2, 2, 16),)),
        "SpectralConv2d": (real, (nn.SpectralConv2d, 2, 2, 3, 3), ((2, 2, 8, 10),)),
    }
    kernels = {
        "BlockCirculantLinear": ("block_circulant",),
        "FFTConv1d": R2C,
        "FFTConv2d": (*R2C, *AXES),
        "FNetMixer": (*R2C, *AXES),
        "SpectralConv1d": ("spectral_convolution", *R2C),
        "SpectralConv2d": ("spectral_convolution", *R2C, *AXES),
    }
    return {
        name: Subject(run, shapes, kernels.get(name, ()), seeded(*made))
        for name, (run, made, shapes) in make.items()
    }


SUBJECTS = {**transforms(), **signals(), **layers()}
