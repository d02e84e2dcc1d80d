"""Rows of the table of public functions: the layers of `trnfft.nn`."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import trnfft
from tests.fuzz.function import Check, Function, plain
from tests.fuzz.values import (
    DEVICE,
    DTYPE,
    FLAG,
    NUMBER,
    REAL,
    Argument,
    ints,
    names,
    optional,
    tensors,
)

LAYERS: dict[str, Function] = {}

CHANNELS = {"in_channels": ints("4"), "out_channels": ints("6")}
WHERE = {"device": DEVICE, "dtype": DTYPE}
CONV = {
    "stride": optional(ints("1", "2")),
    "padding": optional(ints("1", "0")) | optional(names("valid", "same")),
    "dilation": optional(ints("1", "2")),
    "groups": optional(ints("1", "2")),
    "bias": FLAG,
}
PADDING_MODE = optional(names("zeros", "reflect", "replicate", "circular"))


def _layer(name: str, arguments: dict[str, Argument], reference: Callable[..., Any]) -> None:
    """Adds a layer to the table; its call has the argument `input`."""

    def call(input: Any, **options: Any) -> Any:
        call.layer = getattr(trnfft.nn, name)(**options)  # type: ignore[attr-defined]
        return call.layer(input)  # type: ignore[attr-defined]

    LAYERS[f"nn.{name}"] = Function(call, arguments, reference, is_layer=True)


def _complex(part: str, layer: Any) -> Any:
    real, imag = (getattr(layer, f"{part}_{half}") for half in ("real", "imag"))
    return None if real is None else torch.complex(real.double(), imag.double())


def _complex_conv(convolve: Any) -> Callable[..., Any]:
    return lambda layer, input: convolve(
        input + 0j, _complex("weight", layer), _complex("bias", layer), **layer.settings
    )


def _fft_conv(layer: Any, input: Any) -> Any:
    bias = None if layer.bias is None else layer.bias.double()
    return layer._conv_forward(input, layer.weight.double(), bias)


def _spectral(layer: Any, input: Any) -> Any:
    """Mixes the lowest frequencies, of both signs in all dimensions except the last."""
    *signed, last = layer._modes.values()
    dims = tuple(range(2, input.ndim))
    spectrum, weight = torch.fft.rfftn(input, dim=dims), _complex("weight", layer)
    y = spectrum.new_zeros((len(input), layer.out_channels, *spectrum.shape[2:]))
    for signs in itertools.product(*([slice(None, n), slice(-n, None)] for n in signed)):
        part = (slice(None), slice(None), *signs, slice(None, last))
        y[part] = torch.einsum("bi...,io...->bo...", spectrum[part], weight[part])
    return torch.fft.irfftn(y, input.shape[2:], dims)


def _neural_operator(layer: Any, input: Any) -> Any:
    """Returns the sum over the weight's ascending frequencies, for an input with all of them."""
    if layer.scale is not None or any(map(operator.lt, input.shape[2:], layer.n_modes)):
        return None
    dims, norm = tuple(range(2, input.ndim)), layer.fft_norm
    spectrum, weight = torch.fft.rfftn(input, dim=dims, norm=norm), _complex("weight", layer)
    y = spectrum.new_zeros((len(input), layer.out_channels, *spectrum.shape[2:]))
    for place in itertools.product(*map(range, layer.modes)):
        k = [i - n // 2 for i, n in zip(place[:-1], layer.modes, strict=False)] + [place[-1]]
        x, w = spectrum[(..., *k)], weight[(..., *place)]
        y[(..., *k)] = torch.einsum("bi,io->bo", x, w)
    y = torch.fft.irfftn(y, input.shape[2:], dims, norm=norm)
    return y if layer.bias is None else y + layer.bias.double()


def _circulant(layer: Any, input: Any) -> Any:
    weight, bias = layer.weight.double(), layer.bias
    dense = weight.flatten()[layer._index(weight)]
    return F.linear(input, dense, None if bias is None else bias.double())


def _mod_relu(layer: Any, input: Any) -> Any:
    bias = layer.bias.double().view(-1, *(1,) * max(input.ndim - 2, 0))
    return torch.polar(torch.relu(input.abs() + bias), (input + 0j).angle())


def _is_white(layer: Any, input: Any) -> Check | None:
    """Checks that every channel has mean zero, and that each part has half of the power."""
    if not layer.track_running_stats or not layer.affine or not 0 < layer.eps < 1e-3:
        return None

    def check(y: Any) -> bool:
        parts = torch.stack([y.real, y.imag]).double().transpose(1, 2).flatten(2)
        return bool(parts.mean(-1).abs().max() < 1e-2 and (parts.square().mean(-1) < 0.51).all())

    return check


LINE = tensors(
    "randn(3, 4, 20)", "randn(1, 4, 9).double()", "randn(2, 4, 20, dtype=torch.complex64)"
)
REAL_LINE = tensors("randn(3, 4, 20)", "randn(1, 4, 33)", "randn(4, 12).half()")
PLANE = tensors("randn(2, 4, 8, 9)", "randn(1, 4, 16, 8, dtype=torch.complex64)")
REAL_PLANE = tensors("randn(2, 4, 8, 9)", "randn(4, 10, 8)")
SPACE = tensors("randn(2, 4, 4, 5, 6)", "randn(1, 4, 8, 4, 2).double()")
NORM = optional(names("forward", "ortho", "backward"))
ROWS = tensors("randn(3, 4)", "randn(2, 5, 4)", "randn(3, 4, dtype=torch.complex64)")
FEATURES = {"in_features": ints("4"), "out_features": ints("6"), "bias": FLAG, **WHERE}

_layer(
    "ComplexLinear",
    {"input": ROWS, **FEATURES},
    lambda layer, input: F.linear(input + 0j, _complex("weight", layer), _complex("bias", layer)),
)
_layer(
    "ComplexConv1d",
    {"input": LINE, **CHANNELS, "kernel_size": ints("3", "(2,)"), **CONV, **WHERE},
    _complex_conv(F.conv1d),
)
_layer(
    "ComplexConv2d",
    {"input": PLANE, **CHANNELS, "kernel_size": ints("3", "(2, 3)"), **CONV, **WHERE},
    _complex_conv(F.conv2d),
)
_layer(
    "FFTConv1d",
    {
        "input": REAL_LINE,
        **CHANNELS,
        "kernel_size": ints("3", "(2,)"),
        **CONV,
        "padding_mode": PADDING_MODE,
        **WHERE,
    },
    _fft_conv,
)
_layer(
    "FFTConv2d",
    {
        "input": REAL_PLANE,
        **CHANNELS,
        "kernel_size": ints("3", "(2, 3)"),
        **CONV,
        "padding_mode": PADDING_MODE,
        **WHERE,
    },
    _fft_conv,
)
_layer(
    "SpectralConv1d", {"input": REAL_LINE, **CHANNELS, "modes": ints("3", "5"), **WHERE}, _spectral
)
_layer(
    "SpectralConv2d",
    {"input": REAL_PLANE, **CHANNELS, "modes1": ints("2"), "modes2": ints("3"), **WHERE},
    _spectral,
)
_layer(
    "SpectralConv3d",
    {
        "input": SPACE,
        **CHANNELS,
        **{name: ints("2", "1") for name in ("modes1", "modes2", "modes3")},
        **WHERE,
    },
    _spectral,
)
ONLY = optional(ints("None"))
_layer(
    "SpectralConv",
    {
        "input": REAL_PLANE,
        **CHANNELS,
        "n_modes": ints("(4, 5)", "[2, 3]", "(6, 8)"),
        "complex_data": FLAG,
        "max_n_modes": ONLY,
        "bias": FLAG,
        "separable": FLAG,
        "resolution_scaling_factor": Argument(("", "None"), ("2", "[1, 0.5]", *NUMBER.hostile)),
        "fno_block_precision": optional(names("full")),
        "factorization": optional(names("dense")),
        "init_std": Argument(("", "0.1", "'auto'"), NUMBER.hostile),
        "fft_norm": NORM,
        "device": DEVICE,
    },
    _neural_operator,
)
_layer("FNetMixer", {"input": REAL}, lambda layer, input: torch.fft.fft2(input).real)
_layer("ModReLU", {"input": LINE, "num_features": ints("4", "1"), **WHERE}, _mod_relu)
_layer(
    "ComplexBatchNorm",
    {
        "input": LINE,
        "num_features": ints("4"),
        "eps": NUMBER,
        "momentum": NUMBER,
        "affine": FLAG,
        "track_running_stats": FLAG,
        **WHERE,
    },
    _is_white,
)
_layer(
    "BlockCirculantLinear",
    {"input": ROWS, **FEATURES, "block_size": ints("2", "3", "4", "8")},
    _circulant,
)


def _converted(model: Any, block_size: Any, predicate: Any = None) -> Any:
    return trnfft.nn.convert_linear(model, block_size, predicate)


MODEL = Argument(
    (
        "torch.nn.Linear(8, 4)",
        "torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())",
        "torch.nn.ReLU()",
    ),
    (
        "None",
        "'x'",
        "torch.nn.Linear",
        "torch.nn.Linear(0, 0)",
        "torch.nn.Linear(4, 0)",
        "torch.nn.LazyLinear(3)",
        "torch.nn.Linear(8, 4, device='meta')",
        "torch.nn.Linear(8, 4, dtype=torch.complex64)",
        "torch.nn.Linear(8, 4).half()",
        "randn(3)",
        "[torch.nn.Linear(4, 4)]",
    ),
)
PREDICATE = Argument(
    ("", "lambda name, layer: True", "None"),
    ("3", "'x'", "torch.tensor(1)"),
)
LAYERS["nn.convert_linear"] = Function(
    _converted,
    {"model": MODEL, "block_size": ints("2", "4"), "predicate": PREDICATE},
    lambda **options: lambda result: isinstance(result, torch.nn.Module),
)


# Spectrograms

SIGNAL = tensors("randn(64)", "randn(2, 3, 40)", "randn(64).double()")
WINDOW = Argument(
    ("", "torch.hann_window", "torch.ones"),
    ("None", "'x'", "int", "np.ones", "lambda n: randn(n + 1)", "lambda n: None", "object()"),
)
FRAMES = {
    "n_fft": ints("8", "16"),
    "win_length": optional(ints("8", "6")),
    "hop_length": optional(ints("2", "3")),
    "pad": optional(ints("0", "3")),
    "window_fn": WINDOW,
    "normalized": Argument(
        ("", "False", "True", "'window'", "'frame_length'"), FLAG.hostile + names("").hostile
    ),
    "wkwargs": Argument(("", "None", "{}"), ("3", "'x'", "[]")),
    "center": FLAG,
}
POWER = Argument(("", "1", "2", "0.5"), NUMBER.hostile)
PAD_MODE = optional(names("reflect", "constant"))


def _framed(n_fft: Any, win_length: Any, hop_length: Any, window_fn: Any, **others: Any) -> Any:
    """Returns the arguments of torch.stft, and the number by which its spectra are divided."""
    n_fft, win_length, hop_length = map(plain, (n_fft, win_length, hop_length))
    size = n_fft if win_length is None else win_length
    hop = size // 2 if hop_length is None else hop_length
    window, by = window_fn(int(size)).double(), others.get("normalized")
    norm = window.norm() if by in (True, "window") else 1.0
    options = {"n_fft": n_fft, "hop_length": hop, "win_length": size, "window": window}
    options |= {
        key: bool(others[key]) for key in ("center", "onesided") if others.get(key) is not None
    }
    return options | {"normalized": by == "frame_length"}, norm


def _spectrogram(
    waveform: Any,
    n_fft: Any,
    win_length: Any = None,
    hop_length: Any = None,
    pad: Any = 0,
    window_fn: Any = torch.hann_window,
    power: Any = 2.0,
    pad_mode: str = "reflect",
    **others: Any,
) -> Any:
    options, norm = _framed(n_fft, win_length, hop_length, window_fn, **others)
    x = F.pad(waveform, (plain(pad),) * 2)
    rows = x.reshape(-1, x.shape[-1])
    spectra = torch.stft(rows, **options, pad_mode=pad_mode, return_complex=True) / norm
    spectra = spectra.reshape(*x.shape[:-1], *spectra.shape[-2:])
    return spectra if power is None else spectra.abs() ** float(power)


def _called(name: str, input: str) -> Callable[..., Any]:
    """Returns a function that makes the layer and calls it; the reference needs no layer."""

    def call(**options: Any) -> Any:
        x = options.pop(input)
        return getattr(trnfft.nn, name)(**options)(x)

    return call


LAYERS["nn.Spectrogram"] = Function(
    _called("Spectrogram", "waveform"),
    {"waveform": SIGNAL, **FRAMES, "power": POWER, "pad_mode": PAD_MODE, "onesided": FLAG},
    _spectrogram,
)


def _inverse_spectrogram(
    spectrogram: Any,
    n_fft: Any,
    win_length: Any = None,
    hop_length: Any = None,
    pad: Any = 0,
    window_fn: Any = torch.hann_window,
    **others: Any,
) -> Any:
    options, norm = _framed(n_fft, win_length, hop_length, window_fn, **others)
    rows = (spectrogram + 0j).reshape(-1, *spectrogram.shape[-2:]) * norm
    return torch.istft(rows, **options).reshape(*spectrogram.shape[:-2], -1)


LAYERS["nn.InverseSpectrogram"] = Function(
    _called("InverseSpectrogram", "spectrogram"),
    {
        "spectrogram": tensors("trnfft.stft(randn(64), 8)", "trnfft.stft(randn(2, 60), 16)"),
        **FRAMES,
        "pad_mode": PAD_MODE,
        "onesided": FLAG,
    },
    _inverse_spectrogram,
)


def _bank(
    sample_rate: Any = 16000,
    f_min: Any = 0.0,
    f_max: Any = None,
    n_mels: Any = 128,
    n_stft: Any = 201,
    norm: Any = None,
    mel_scale: str = "htk",
) -> Any:
    """Returns the triangles that the docstring defines."""
    to_mel: Any = lambda f: 2595 * np.log10(1 + f / 700)  # noqa: E731
    if mel_scale == "slaney":
        above = lambda f: 15 + 27 * np.log(np.maximum(f, 1000) / 1000) / np.log(6.4)  # noqa: E731
        to_mel = lambda f: np.where(f < 1000, 3 * f / 200, above(f))  # noqa: E731
    f_max = sample_rate // 2 if f_max is None else f_max
    mels = np.linspace(to_mel(np.float64(f_min)), to_mel(np.float64(f_max)), int(n_mels) + 2)
    fine = np.linspace(0, 3 * float(f_max), 10**6)
    corners = np.interp(mels, to_mel(fine), fine)
    frequencies = np.linspace(0, sample_rate // 2, int(n_stft))
    rows = [np.interp(frequencies, corners[i : i + 3], [0, 1, 0]) for i in range(int(n_mels))]
    heights = 2 / (corners[2:] - corners[:-2]) if norm == "slaney" else np.ones(int(n_mels))
    return torch.from_numpy(np.array(rows) * heights[:, None])


MELS = {
    "n_mels": ints("5", "3"),
    "sample_rate": optional(ints("8000")),
    "f_min": Argument(("", "20", "0.0"), NUMBER.hostile),
    "f_max": Argument(("", "3000.0", "None"), NUMBER.hostile),
    "norm": optional(names("slaney")),
    "mel_scale": optional(names("htk", "slaney")),
}


def _mel_scale(specgram: Any, **options: Any) -> Any:
    f_min, f_max = options.get("f_min", 0), options.get("f_max")
    if f_min < 0 or (f_max is not None and not f_min + 100 < f_max < 1e5):
        return None
    return _bank(**options) @ specgram


LAYERS["nn.MelScale"] = Function(
    _called("MelScale", "specgram"),
    {
        "specgram": tensors(
            "torch.rand(9, 4)", "torch.rand(2, 3, 9, 5)", "torch.rand(9, 4).double()"
        ),
        **MELS,
        "n_stft": ints("9"),
    },
    _mel_scale,
    tolerance=1e-4,
)


def _mel_spectrogram(waveform: Any, n_fft: Any, **options: Any) -> Any:
    mels = {key: options.pop(key) for key in MELS if key in options}
    return _mel_scale(_spectrogram(waveform, n_fft, **options), n_stft=n_fft // 2 + 1, **mels)


LAYERS["nn.MelSpectrogram"] = Function(
    _called("MelSpectrogram", "waveform"),
    {"waveform": SIGNAL, **FRAMES, **MELS, "power": POWER, "pad_mode": PAD_MODE},
    _mel_spectrogram,
    tolerance=1e-4,
)


def _long_conv(u: Any, k: Any) -> Any:
    """Returns the sum that the docstring defines."""
    length = u.shape[-1]
    y = torch.zeros_like(u)
    for m in range(min(length, k.shape[-1])):
        y[..., m:] += k[:, m, None] * u[..., : length - m]
    return y


LAYERS["nn.LongConv"] = Function(
    lambda u, k: trnfft.nn.LongConv()(u, k),
    {
        "u": tensors("randn(2, 3, 20)", "randn(3, 8)", "randn(1, 3, 9).half()"),
        "k": tensors("randn(3, 5)", "randn(1, 30)", "randn(3, 8)"),
    },
    _long_conv,
    tolerance=1e-3,
)
