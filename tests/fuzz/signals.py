"""Rows of the table of public functions: signals, convolutions and pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal
import torch

import trnfft
from tests.definitions import bloomed
from tests.fuzz.function import Check, Function
from tests.fuzz.values import (
    FLAG,
    NUMBER,
    TENSOR,
    Argument,
    ints,
    names,
    optional,
    tensors,
)

SIGNALS: dict[str, Function] = {}


def _stft(input: Any, **options: Any) -> Any:
    is_complex = options.pop("return_complex", None) is not False
    window = options.get("window")
    if window is None:
        options["window"] = torch.ones(options.get("win_length") or options["n_fft"]).double()
    result = torch.stft(input, **options, return_complex=True)
    return result if is_complex else torch.view_as_real(result)


STFT = {
    "n_fft": ints("8", "16", "5"),
    "hop_length": optional(ints("2", "4")),
    "win_length": optional(ints("8", "5")),
    "window": optional(tensors("torch.hann_window(8)", "torch.ones(5)", "torch.ones(16).double()")),
    "center": FLAG,
    "normalized": FLAG,
    "onesided": FLAG,
    "return_complex": FLAG,
}
SIGNALS["stft"] = Function(
    trnfft.stft,
    {
        "input": tensors("randn(64)", "randn(2, 40)", "randn(64, dtype=torch.complex64)"),
        **STFT,
        "pad_mode": optional(names("reflect", "constant", "replicate", "circular")),
        "align_to_window": FLAG,
    },
    _stft,
)
SIGNALS["istft"] = Function(
    trnfft.istft,
    {
        "input": tensors(
            "trnfft.stft(randn(64), 8)",
            "trnfft.stft(randn(2, 40), 16)",
            "trnfft.stft(randn(64), 8, onesided=False)",
        ),
        **STFT,
        "length": optional(ints("30", "64")),
    },
    lambda **options: torch.istft(
        **{"window": torch.ones(options.get("win_length") or options["n_fft"]).double(), **options}
    ),
)


# Convolution


def _convolution(
    input: Any, filter: Any, mode: str = "full", dims: Any = None, padding: str = "zero"
) -> Any:
    """Returns SciPy's direct sums, if no dimension is broadcast and the input is not extended."""
    if dims is not None or padding != "zero" or input.ndim != filter.ndim:
        return None
    if mode == "same" and any(n < m for n, m in zip(input.shape, filter.shape, strict=True)):
        return None
    if mode != "full" and 1 in (*input.shape, *filter.shape):
        return None
    x, h = input.resolve_conj().detach().numpy(), filter.resolve_conj().detach().numpy()
    return torch.from_numpy(np.asarray(scipy.signal.convolve(x, h, mode, method="direct")))


CONVOLVE = {
    "input": TENSOR,
    "filter": TENSOR,
    "mode": optional(names("full", "same", "valid")),
    "dims": optional(ints("-1", "(0,)", "(-1, -2)", "0")),
}
SIGNALS["convolve"] = Function(
    trnfft.convolve,
    {**CONVOLVE, "padding": optional(names("zero", "circular", "mirror"))},
    _convolution,
)
SIGNALS["oaconvolve"] = Function(trnfft.oaconvolve, CONVOLVE, _convolution)


def _filtered(psf: Any, size: Any, image: Any, padding: str = "zero", strength: float = 1.0) -> Any:
    bloom_filter = trnfft.BloomFilter(psf, size, padding=padding)
    return bloom_filter(image, strength)


def _resampled(psf: Any, size: Any) -> Any:
    return trnfft.BloomFilter(psf, (16, 12)).resampled(size).padded_size


IMAGE = tensors(
    "randn(9, 12)", "randn(3, 9, 12)", "randn(2, 3, 9, 12).double()", "randn(9, 12).half()"
)
PSF = tensors("torch.rand(3, 4)", "torch.rand(5, 5)", "torch.rand(3, 2, 1)", "torch.rand(1, 20)")
PADDING = optional(names("zero", "mirror"))
SIZE = ints("(9, 12)", "[9, 12]")
SIGNALS["bloom"] = Function(
    trnfft.bloom, {"image": IMAGE, "psf": PSF, "strength": NUMBER, "padding": PADDING}, bloomed
)
SIGNALS["BloomFilter"] = Function(
    _filtered,
    {"psf": PSF, "size": SIZE, "image": IMAGE, "padding": PADDING, "strength": NUMBER},
    lambda psf, size, image, **options: bloomed(image, psf, **options),
)
SIGNALS["BloomFilter.resampled"] = Function(
    _resampled,
    {"psf": tensors("torch.rand(3, 4)"), "size": SIZE},
    lambda psf, size: lambda padded: all(m >= n for m, n in zip(padded, size, strict=True)),
)


def _is_psf(size: Any, *others: Any, **named: Any) -> Check:
    def check(psf: Any) -> bool:
        whole = abs(float(psf.double().sum()) - 1) < 1e-4
        return psf.shape == (int(size),) * 2 and bool((psf >= 0).all()) and whole

    return check


SIDE = ints("1", "8", "33")
SIGMA = Argument(("0.5", "2"))
psfs = trnfft.point_spread_functions
SIGNALS["gaussian"] = Function(psfs.gaussian, {"size": SIDE, "sigma": SIGMA}, _is_psf)
SIGNALS["star"] = Function(psfs.star, {"size": SIDE, "blades": optional(ints("5", "6"))}, _is_psf)
SIGNALS["heart"] = Function(psfs.heart, {"size": SIDE}, _is_psf)
