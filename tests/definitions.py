"""Layers and filters by their definitions, in float64: for tests, and for the fuzzers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from trnfft import nn


def complex_of(part: str, layer: Any) -> Any:
    """Returns a complex parameter in double precision, from its two parts; None where it has none.

    part: "weight" or "bias".
    """
    real, imag = (getattr(layer, f"{part}_{half}") for half in ("real", "imag"))
    return None if real is None else torch.complex(real.double(), imag.double())


def linear(layer: Any, x: Any) -> Any:
    return F.linear(x + 0j, complex_of("weight", layer), complex_of("bias", layer))


def convolution(convolve: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the definition of a complex layer that convolves as a function of torch does."""
    return lambda layer, x: convolve(
        x + 0j, complex_of("weight", layer), complex_of("bias", layer), **layer.settings
    )


def real_convolution(layer: Any, x: Any) -> Any:
    bias = None if layer.bias is None else layer.bias.double()
    return layer._conv_forward(x, layer.weight.double(), bias)


def lowest_frequencies(layer: Any, x: Any) -> Any:
    """Mixes the lowest frequencies, of both signs in all dimensions except the last."""
    *signed, last = layer._modes.values()
    dims = tuple(range(2, x.ndim))
    spectrum, weight = torch.fft.rfftn(x, dim=dims), complex_of("weight", layer)
    y = spectrum.new_zeros((len(x), layer.out_channels, *spectrum.shape[2:]))
    for signs in itertools.product(*([slice(None, n), slice(-n, None)] for n in signed)):
        part = (slice(None), slice(None), *signs, slice(None, last))
        y[part] = torch.einsum("bi...,io...->bo...", spectrum[part], weight[part])
    return torch.fft.irfftn(y, x.shape[2:], dims)


def neural_operator(layer: Any, x: Any, sizes: Sequence[int] | None = None) -> Any:
    """Mixes the frequencies of the weight, which are signed numbers in ascending order.

    sizes: of the result; those of the input by default.
    """
    sizes = tuple(x.shape[2:] if sizes is None else sizes)
    weight = torch.complex(*layer.parts).to(torch.complex128)
    kept = [min(m, n, s) for m, n, s in zip(layer.modes, x.shape[2:], sizes, strict=True)]
    kept[-1] = min(layer.modes[-1], x.shape[-1] // 2 + 1, sizes[-1] // 2 + 1)
    dims = tuple(range(2, x.ndim))
    spectrum = torch.fft.rfftn(x, dim=dims, norm=layer.fft_norm)
    half = (*sizes[:-1], sizes[-1] // 2 + 1)
    result = torch.zeros(x.shape[0], layer.out_channels, *half, dtype=torch.complex128)
    signed = [range(-(count // 2), count - count // 2) for count in kept[:-1]]
    for frequency in itertools.product(*signed, range(kept[-1])):
        # Where it is in the weight: ascending, and fewer frequencies are those in the middle.
        place = [
            k + count // 2 + (size - count) // 2
            for k, count, size in zip(frequency[:-1], kept, layer.modes, strict=False)
        ]
        mix = weight[(..., *place, frequency[-1])]
        numbers = spectrum[(..., *frequency)]
        result[(..., *frequency)] = numbers * mix if mix.ndim == 1 else numbers @ mix
    y = torch.fft.irfftn(result, sizes, dims, norm=layer.fft_norm)
    return y if layer.bias is None else y + layer.bias.double()


def circulant(layer: Any, x: Any) -> Any:
    weight, bias = layer.weight.double(), layer.bias
    dense = weight.flatten()[layer._index(weight)]
    return F.linear(x, dense, None if bias is None else bias.double())


def mod_relu(layer: Any, x: Any) -> Any:
    bias = layer.bias.double().view(-1, *(1,) * max(x.ndim - 2, 0))
    return torch.polar(torch.relu(x.abs() + bias), (x + 0j).angle())


# Functions of a layer and of its input in double precision.
OF_LAYERS: dict[type, Callable[..., Any]] = {
    nn.ComplexLinear: linear,
    nn.ComplexConv1d: convolution(F.conv1d),
    nn.ComplexConv2d: convolution(F.conv2d),
    nn.FFTConv1d: real_convolution,
    nn.FFTConv2d: real_convolution,
    nn.SpectralConv1d: lowest_frequencies,
    nn.SpectralConv2d: lowest_frequencies,
    nn.SpectralConv3d: lowest_frequencies,
    nn.SpectralConv: neural_operator,
    nn.FNetMixer: lambda layer, x: torch.fft.fft2(x).real,
    nn.ModReLU: mod_relu,
    nn.BlockCirculantLinear: circulant,
}


def causal(u: Any, k: Any) -> Any:
    """Returns sum_m k[m] u[l - m] for each l."""
    length = u.shape[-1]
    y = torch.zeros_like(u)
    for m in range(min(length, k.shape[-1])):
        y = y + F.pad(k[:, m, None] * u[..., : length - m], (m, 0))
    return y


def bloomed(image: Any, psf: Any, strength: float = 1.0, padding: str = "zero") -> Any:
    """Returns the sum over all pixels of a PSF, on the picture with its surroundings."""
    (high, wide), (height, width) = psf.shape[-2:], image.shape[-2:]
    margins = [(0, 0)] * (image.ndim - 2) + [(high // 2,) * 2, (wide // 2,) * 2]
    mode: Any = "symmetric" if padding == "mirror" else "constant"
    x = np.pad(image.detach().numpy(), margins, mode)
    total = torch.zeros(image.shape, dtype=torch.float64)
    for a in range(high):
        for b in range(wide):
            top, left = 2 * (high // 2) - a, 2 * (wide // 2) - b
            moved = torch.from_numpy(x[..., top : top + height, left : left + width])
            total += psf[..., a, b, None, None] * moved
    return (1 - float(strength)) * image + float(strength) * total


def mel_of(hz: float, scale: str) -> float:
    if scale == "htk":
        return 2595 * math.log10(1 + hz / 700)
    return 3 * hz / 200 if hz < 1000 else 15 + 27 * math.log(hz / 1000) / math.log(6.4)


def hz_of(mel: float, scale: str) -> float:
    """Returns the inverse of `mel_of`, by bisection."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if mel_of(middle, scale) < mel else (low, middle)
    return low


def triangles(
    n_mels: int, rate: int, least: float, most: float, n_stft: int, norm: str | None, scale: str
) -> torch.Tensor:
    """Returns the bank of filters [n_stft, n_mels] of a mel scale."""
    first, last = mel_of(least, scale), mel_of(most, scale)
    corners = [hz_of(first + (last - first) * i / (n_mels + 1), scale) for i in range(n_mels + 2)]
    bank = np.zeros((n_stft, n_mels))
    for m in range(n_mels):
        left, middle, right = corners[m : m + 3]
        for i in range(n_stft):
            f = i * (rate // 2) / (n_stft - 1)
            if left < f <= middle:
                bank[i, m] = (f - left) / (middle - left)
            elif middle < f < right:
                bank[i, m] = (right - f) / (right - middle)
        if norm == "slaney":
            bank[:, m] *= 2 / (right - left)
    return torch.from_numpy(bank)
