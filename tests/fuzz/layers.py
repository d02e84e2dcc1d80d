"""Rows of the table of public functions: the layers of `trnfft.nn`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import trnfft
from tests import definitions
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


def _layer(
    name: str, arguments: dict[str, Argument], reference: Callable[..., Any] | None = None
) -> None:
    """Adds a layer to the table; its call has the argument `input`.

    reference: by default the layer's definition.
    """
    made = getattr(trnfft.nn, name)

    def call(input: Any, **options: Any) -> Any:
        call.layer = made(**options)  # type: ignore[attr-defined]
        return call.layer(input)  # type: ignore[attr-defined]

    right = reference or (lambda layer, input: definitions.OF_LAYERS[made](layer, input))
    LAYERS[f"nn.{name}"] = Function(call, arguments, right, is_layer=True)


def _neural_operator(layer: Any, input: Any) -> Any:
    """Returns the definition's result for an input with all frequencies."""
    if layer.scale is not None or any(map(operator.lt, input.shape[2:], layer.n_modes)):
        return None
    return definitions.neural_operator(layer, input)


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

_layer("ComplexLinear", {"input": ROWS, **FEATURES})
_layer(
    "ComplexConv1d",
    {"input": LINE, **CHANNELS, "kernel_size": ints("3", "(2,)"), **CONV, **WHERE},
)
_layer(
    "ComplexConv2d",
    {"input": PLANE, **CHANNELS, "kernel_size": ints("3", "(2, 3)"), **CONV, **WHERE},
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
)
_layer("SpectralConv1d", {"input": REAL_LINE, **CHANNELS, "modes": ints("3", "5"), **WHERE})
_layer(
    "SpectralConv2d",
    {"input": REAL_PLANE, **CHANNELS, "modes1": ints("2"), "modes2": ints("3"), **WHERE},
)
_layer(
    "SpectralConv3d",
    {
        "input": SPACE,
        **CHANNELS,
        **{name: ints("2", "1") for name in ("modes1", "modes2", "modes3")},
        **WHERE,
    },
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
        "resolution_scaling_factor": Argument(("", "None")),
        "fno_block_precision": optional(names("full")),
        "factorization": optional(names("dense")),
        "init_std": Argument(("", "0.1", "'auto'")),
        "fft_norm": NORM,
        "device": DEVICE,
    },
    _neural_operator,
)
_layer("FNetMixer", {"input": REAL})
_layer("ModReLU", {"input": LINE, "num_features": ints("4", "1"), **WHERE})
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
PREDICATE = Argument(("", "lambda name, layer: True", "None"))
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
    "normalized": Argument(("", "False", "True", "'window'", "'frame_length'")),
    "wkwargs": Argument(("", "None", "{}")),
    "center": FLAG,
}
POWER = Argument(("", "1", "2", "0.5"))
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


MELS = {
    "n_mels": ints("5", "3"),
    "sample_rate": optional(ints("8000")),
    "f_min": Argument(("", "20", "0.0")),
    "f_max": Argument(("", "3000.0", "None")),
    "norm": optional(names("slaney")),
    "mel_scale": optional(names("htk", "slaney")),
}


def _mel_scale(
    specgram: Any,
    n_stft: Any = 201,
    n_mels: Any = 128,
    sample_rate: Any = 16000,
    f_min: Any = 0.0,
    f_max: Any = None,
    norm: Any = None,
    mel_scale: str = "htk",
) -> Any:
    if f_min < 0 or (f_max is not None and not f_min + 100 < f_max < 1e5):
        return None
    most = sample_rate // 2 if f_max is None else f_max
    sizes = int(n_mels), int(sample_rate), float(f_min), float(most), int(n_stft)
    return definitions.triangles(*sizes, norm, mel_scale).T @ specgram


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


LAYERS["nn.LongConv"] = Function(
    lambda u, k: trnfft.nn.LongConv()(u, k),
    {
        "u": tensors("randn(2, 3, 20)", "randn(3, 8)", "randn(1, 3, 9).half()"),
        "k": tensors("randn(3, 5)", "randn(1, 30)", "randn(3, 8)"),
    },
    definitions.causal,
    tolerance=1e-3,
)
