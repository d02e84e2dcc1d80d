"""The table of public functions: the kinds of their arguments, and a reference for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.signal
import torch
import torch.nn.functional as F

import trnfft
from tests.fuzz.values import (
    COMPLEX,
    DEVICE,
    DTYPE,
    FLAG,
    NUMBER,
    OUT,
    REAL,
    TENSOR,
    Argument,
    ints,
    names,
    optional,
    tensors,
)

Check = Callable[[Any], bool]


@dataclass(frozen=True)
class Function:
    """A public function.

    Attributes:
        call: itself, or for a layer what makes and calls it.
        arguments: a kind for each of its arguments.
        reference: of the same arguments, whose tensors are float64 and complex128 then: the right
            result, or a check of the result. Of a layer it gets the layer first.
        is_layer: whether all arguments but `input` are the constructor's.
        tolerance: relative L2 error.
    """

    call: Callable[..., Any]
    arguments: dict[str, Argument]
    reference: Callable[..., Any]
    is_layer: bool = False
    tolerance: float = 2e-5


FUNCTIONS: dict[str, Function] = {}


# Transforms

LENGTH = optional(ints("8", "5", "16", "97", "300", "1"))
DIM = optional(ints("-1", "0"))
NORM = names("backward", "ortho", "forward") | optional(names("backward"))
SIZES = optional(ints("(4, 6)", "[5]", "3", "(-1, 7)"))
DIMS = optional(ints("(0, 1)", "(-1,)", "0", "[-2, -1]", "()"))


def _plain(given: Any) -> Any:
    """Python's ints in place of what stands for them."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Iterable) and getattr(given, "ndim", 1):
        return tuple(map(int, given))
    return int(given)


def _torchs(name: str) -> Callable[..., Any]:
    def reference(input: Any, *, out: Any = None, order: str = "natural", **options: Any) -> Any:
        options = {key: _plain(given) for key, given in options.items()}
        dim = options.get("dim", -1)
        if order == "planned" and name == "ifft":
            n = input.shape[dim]
            input = input.index_select(dim, torch.from_numpy(trnfft.order.positions(n)))
        # torch.fft.fft2 does not take None, which stands for all dimensions here.
        takes_all = name.endswith("2") and options.get("dim", 0) is None
        result = getattr(torch.fft, f"{name[:-1]}n" if takes_all else name)(input, **options)
        if order == "planned" and name == "fft":
            n = result.shape[dim]
            result = result.index_select(dim, torch.from_numpy(trnfft.order.frequencies(n)))
        return result

    return reference


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _input = REAL if _name in ("rfft", "ihfft") else TENSOR
    _arguments = {"input": _input, "n": LENGTH, "dim": DIM, "norm": NORM, "out": OUT}
    if _name in ("fft", "ifft"):
        _arguments["order"] = optional(names("natural", "planned"))
    FUNCTIONS[_name] = Function(getattr(trnfft, _name), _arguments, _torchs(_name))
    for _many in (f"{_name}2", f"{_name}n"):
        _arguments = {"input": _input, "s": SIZES, "dim": DIMS, "norm": NORM, "out": OUT}
        FUNCTIONS[_many] = Function(getattr(trnfft, _many), _arguments, _torchs(_many))


def _packed(input: Any, n: Any = None) -> Any:
    return torch.cat(
        [torch.complex(input[..., :1].real, input[..., -1:].real), input[..., 1:-1]], -1
    )


def _unpacked(input: Any) -> Any:
    first, last = input[..., :1].real + 0j, input[..., :1].imag + 0j
    return torch.cat([first, input[..., 1:], last], -1)


FUNCTIONS["pack_spectrum"] = Function(
    trnfft.pack_spectrum, {"input": COMPLEX, "n": optional(ints("8", "14"))}, _packed
)
FUNCTIONS["unpack_spectrum"] = Function(trnfft.unpack_spectrum, {"input": COMPLEX}, _unpacked)


# Signals


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
FUNCTIONS["stft"] = Function(
    trnfft.stft,
    {
        "input": tensors("randn(64)", "randn(2, 40)", "randn(64, dtype=torch.complex64)"),
        **STFT,
        "pad_mode": optional(names("reflect", "constant", "replicate", "circular")),
        "align_to_window": FLAG,
    },
    _stft,
)
FUNCTIONS["istft"] = Function(
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
    """By SciPy's direct sums, for what broadcasts in no dimension and is not extended."""
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
FUNCTIONS["convolve"] = Function(
    trnfft.convolve,
    {**CONVOLVE, "padding": optional(names("zero", "circular", "mirror"))},
    _convolution,
)
FUNCTIONS["oaconvolve"] = Function(trnfft.oaconvolve, CONVOLVE, _convolution)


def _bloom(image: Any, psf: Any, strength: Any = 1.0, padding: str = "zero") -> Any:
    """The double sum of the docstring."""
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
FUNCTIONS["bloom"] = Function(
    trnfft.bloom, {"image": IMAGE, "psf": PSF, "strength": NUMBER, "padding": PADDING}, _bloom
)
FUNCTIONS["BloomFilter"] = Function(
    _filtered,
    {"psf": PSF, "size": SIZE, "image": IMAGE, "padding": PADDING, "strength": NUMBER},
    lambda psf, size, image, **options: _bloom(image, psf, **options),
)
FUNCTIONS["BloomFilter.resampled"] = Function(
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
SIGMA = Argument(("0.5", "2"), NUMBER.hostile)
psfs = trnfft.point_spread_functions
FUNCTIONS["gaussian"] = Function(psfs.gaussian, {"size": SIDE, "sigma": SIGMA}, _is_psf)
FUNCTIONS["star"] = Function(psfs.star, {"size": SIDE, "blades": optional(ints("5", "6"))}, _is_psf)
FUNCTIONS["heart"] = Function(psfs.heart, {"size": SIDE}, _is_psf)


# Layers

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
    """Adds a layer, whose call has the argument `input`, to the table."""

    def call(input: Any, **options: Any) -> Any:
        call.layer = getattr(trnfft.nn, name)(**options)  # type: ignore[attr-defined]
        return call.layer(input)  # type: ignore[attr-defined]

    FUNCTIONS[f"nn.{name}"] = Function(call, arguments, reference, is_layer=True)


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


def _spectral1(layer: Any, input: Any) -> Any:
    spectrum, modes = torch.fft.rfft(input), layer.modes
    kept = torch.einsum("bik,iok->bok", spectrum[..., :modes], _complex("weight", layer))
    return torch.fft.irfft(F.pad(kept, (0, spectrum.shape[-1] - modes)), input.shape[-1])


def _spectral2(layer: Any, input: Any) -> Any:
    spectrum, weight, rows = torch.fft.rfft2(input), _complex("weight", layer), layer.modes1
    y = spectrum.new_zeros((len(input), layer.out_channels, *spectrum.shape[2:]))
    for part in (slice(None, rows), slice(-rows, None)):
        kept = spectrum[..., part, : layer.modes2]
        y[..., part, : layer.modes2] = torch.einsum("bijk,iojk->bojk", kept, weight[:, :, part])
    return torch.fft.irfft2(y, input.shape[-2:])


def _mod_relu(layer: Any, input: Any) -> Any:
    bias = layer.bias.double().view(-1, *(1,) * max(input.ndim - 2, 0))
    return torch.polar(torch.relu(input.abs() + bias), (input + 0j).angle())


def _is_white(layer: Any, input: Any) -> Check | None:
    """Of each channel: mean zero, and half of the numbers' power in each part."""
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
    "SpectralConv1d", {"input": REAL_LINE, **CHANNELS, "modes": ints("3", "5"), **WHERE}, _spectral1
)
_layer(
    "SpectralConv2d",
    {"input": REAL_PLANE, **CHANNELS, "modes1": ints("2"), "modes2": ints("3"), **WHERE},
    _spectral2,
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
    lambda layer, input: layer.to_dense().double()(input),
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
FUNCTIONS["nn.convert_linear"] = Function(
    _converted,
    {"model": MODEL, "block_size": ints("2", "4"), "predicate": PREDICATE},
    lambda **options: lambda result: isinstance(result, torch.nn.Module),
)


# Plans

CHIP = optional(names("trn1", "trn2", "trn3"))
PRECISION = optional(names("fast", "kahan", "double", "bf16"))


def _is_plan(n: Any = None, shape: Any = None, **options: Any) -> Check:
    points = int(n) if n is not None else int(np.prod([int(size) for size in shape]))
    return lambda plan: plan.n == points and plan.choice.predicted_error <= plan.max_error


FUNCTIONS["plan"] = Function(
    trnfft.plan,
    {
        "n": ints("64", "100", "1000", "97", "1", "None"),
        "shape": optional(Argument(("None",), ints("(8, 8)").hostile + ("(8, 8)", "(2, 3, 4)"))),
        "real": FLAG,
        "padded_from": Argument(("",), ints("").hostile + ("(3, 5)",)),
        "batch": optional(ints("16", "1000")),
        "inverse": FLAG,
        "dtype": Argument(("", "torch.float32", "'float64'", "np.float32"), DTYPE.hostile),
        "precision": PRECISION,
        "target": CHIP,
        "cores": optional(ints("1", "2", "None")),
        "max_error": Argument(("", "1e-6", "1e-3"), NUMBER.hostile),
        "algorithms": optional(names("stockham", "seed")),
    },
    _is_plan,
)
FUNCTIONS["next_fast_len"] = Function(
    trnfft.next_fast_len,
    {"target": ints("1", "97", "300", "1000"), "real": FLAG},
    lambda target, **options: lambda length: int(target) <= length <= 2 * int(target),
)
FUNCTIONS["fft_workspace_bytes"] = Function(
    trnfft.fft_workspace_bytes,
    {
        "n_or_shape": ints("64", "1000", "(8, 16)"),
        "real": FLAG,
        "inverse": FLAG,
        "convolution": FLAG,
        "batch": optional(ints("16")),
        "precision": PRECISION,
        "target": CHIP,
    },
    lambda **options: lambda size: size >= 0,
)
POINTS = {"n": ints("8", "1000", "97", "5000")}


def _is_permutation(n: Any) -> Check:
    return lambda order: sorted(order) == list(range(int(n)))


for _name in ("frequencies", "positions", "mirrors"):
    FUNCTIONS[f"order.{_name}"] = Function(getattr(trnfft.order, _name), POINTS, _is_permutation)


# Settings and creation


def _chosen(function: str) -> Callable[..., Any]:
    def call(name: Any) -> Any:
        getattr(trnfft, f"set_{function}")(name)
        return getattr(trnfft, f"get_{function}")()

    return call


def _entered(function: str) -> Callable[..., Any]:
    def call(name: Any) -> Any:
        with getattr(trnfft, function)(name):
            return getattr(trnfft, f"get_{function}")()

    return call


for _name, _known in (
    ("backend", names("torch", "matmul", "auto")),
    ("precision", names("fast", "kahan", "double")),
):
    for _prefix, _make in (("set_", _chosen), ("", _entered)):
        FUNCTIONS[_prefix + _name] = Function(
            _make(_name), {"name": _known}, lambda name: lambda chosen: chosen == name
        )
FUNCTIONS["ComplexTensor"] = Function(
    trnfft.ComplexTensor, {"real": REAL, "imag": REAL}, lambda real, imag: torch.complex(real, imag)
)
