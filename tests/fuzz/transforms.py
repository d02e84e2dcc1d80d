"""Rows of the table of public functions: transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.fft
import torch

import trnfft
from tests.fuzz.function import Check, Function, plain
from tests.fuzz.values import (
    COMPLEX,
    COMPLEX_NUMBER,
    DEVICE,
    DTYPE,
    FLAG,
    HOSTILE,
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

TRANSFORMS: dict[str, Function] = {}

LENGTH = optional(ints("8", "5", "16", "97", "300", "1"))
DIM = optional(ints("-1", "0"))
NORM = names("backward", "ortho", "forward") | optional(names("backward"))
SIZES = optional(ints("(4, 6)", "[5]", "3", "(-1, 7)"))
DIMS = optional(ints("(0, 1)", "(-1,)", "0", "[-2, -1]", "()"))


def _torchs(name: str) -> Callable[..., Any]:
    def reference(input: Any, *, out: Any = None, order: str = "natural", **options: Any) -> Any:
        options = {key: plain(given) for key, given in options.items()}
        dim = options.get("dim", -1)
        if order == "planned" and name == "ifft":
            n = input.shape[dim]
            input = input.index_select(dim, torch.from_numpy(trnfft.order.positions(n)))
        # torch.fft.fft2 does not accept None, which means all dimensions here.
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
    TRANSFORMS[_name] = Function(getattr(trnfft, _name), _arguments, _torchs(_name))
    for _many in (f"{_name}2", f"{_name}n"):
        _arguments = {"input": _input, "s": SIZES, "dim": DIMS, "norm": NORM, "out": OUT}
        TRANSFORMS[_many] = Function(getattr(trnfft, _many), _arguments, _torchs(_many))


def _packed(input: Any, n: Any = None) -> Any:
    return torch.cat(
        [torch.complex(input[..., :1].real, input[..., -1:].real), input[..., 1:-1]], -1
    )


def _unpacked(input: Any) -> Any:
    first, last = input[..., :1].real + 0j, input[..., :1].imag + 0j
    return torch.cat([first, input[..., 1:], last], -1)


TRANSFORMS["pack_spectrum"] = Function(
    trnfft.pack_spectrum, {"input": COMPLEX, "n": optional(ints("8", "14"))}, _packed
)
TRANSFORMS["unpack_spectrum"] = Function(trnfft.unpack_spectrum, {"input": COMPLEX}, _unpacked)


SHIFT = {"input": TENSOR, "dim": optional(ints("-1", "0", "(0, 1)", "[-1]"))}
for _name in ("fftshift", "ifftshift"):
    TRANSFORMS[_name] = Function(
        getattr(trnfft, _name),
        SHIFT,
        lambda input, dim=None, name=_name: getattr(torch.fft, name)(input, plain(dim)),
    )


def _spaced(n: Any, d: Any = 1.0, is_half: bool = False, **where: Any) -> Check:
    def check(found: Any) -> bool:
        make = np.fft.rfftfreq if is_half else np.fft.fftfreq
        right = torch.from_numpy(np.atleast_1d(make(int(n), float(d)) if n else []))
        return found.device.type == "meta" or torch.allclose(found.double(), right, rtol=1e-2)

    return check


FREQUENCIES = {"n": ints("8", "5"), "d": NUMBER, "dtype": DTYPE, "device": DEVICE}
for _name in ("fftfreq", "rfftfreq"):
    TRANSFORMS[_name] = Function(
        getattr(trnfft, _name),
        FREQUENCIES,
        lambda is_half=_name == "rfftfreq", **given: _spaced(is_half=is_half, **given),
        names_arguments=False,
    )


# Cosine and sine transforms


def _scipys(name: str) -> Callable[..., Any]:
    """Returns SciPy's function, which is applied to both parts of complex data."""

    def reference(x: Any, **options: Any) -> Any:
        options = {key: plain(given) for key, given in options.items()}
        parts = [x.real, x.imag] if x.is_complex() else [x]
        found = [getattr(scipy.fft, name)(part.numpy(), **options) for part in parts]
        return (
            torch.complex(*map(torch.from_numpy, found))
            if x.is_complex()
            else torch.from_numpy(*found)
        )

    return reference


TYPE = optional(ints("1", "2", "3", "4"))
for _name in ("dct", "idct", "dst", "idst"):
    _shared = {"x": TENSOR, "type": TYPE, "norm": NORM, "orthogonalize": optional(FLAG)}
    TRANSFORMS[_name] = Function(
        getattr(trnfft, _name), {**_shared, "n": LENGTH, "axis": DIM}, _scipys(_name)
    )
    _many = f"{_name}n"
    TRANSFORMS[_many] = Function(
        getattr(trnfft, _many), {**_shared, "s": SIZES, "axes": DIMS}, _scipys(_many)
    )


# Chirp z transform


def _z_transform(x: Any, m: Any, axis: Any, log_z: Callable[[Any], Any]) -> Any:
    """Returns the sum of the definition, at the points with these logarithms."""
    x = x.movedim(int(axis), -1)
    m = x.shape[-1] if m is None else int(m)
    k, n = torch.arange(m).double(), torch.arange(x.shape[-1]).double()
    powers = torch.exp(-n[:, None] * log_z(k)[None] if m else torch.zeros(len(n), 0))
    return ((x + 0j) @ powers.to(torch.complex128)).movedim(-1, int(axis))


def _spiral(x: Any, m: Any = None, w: Any = None, a: Any = 1, axis: Any = -1) -> Any:
    """Returns the transform for points on the circle, where errors do not grow."""
    m = x.shape[int(axis)] if m is None else int(m)
    w = np.exp(-2j * np.pi / m) if w is None else complex(w)
    if abs(abs(w) - 1) > 1e-9 or not 0.5 < abs(complex(a)) < 2:
        return None
    log_a, log_w = (complex(np.log(complex(number))) for number in (a, w))
    return _z_transform(x, m, axis, lambda k: log_a - log_w * k)


def _zoomed(
    x: Any, fn: Any, m: Any = None, fs: Any = 2, endpoint: Any = False, axis: Any = -1
) -> Any:
    fn = list(fn) if isinstance(fn, Iterable) else [fn]
    first, last = map(float, (0.0, *fn)[-2:])
    if max(abs(first), abs(last)) > 100 * abs(fs):
        return None
    m = x.shape[int(axis)] if m is None else int(m)
    step = (last - first) / (max(m - 1, 1) if endpoint else m)
    return _z_transform(x, m, axis, lambda k: 2j * np.pi * (first + step * k) / float(fs))


POINTS = optional(ints("8", "5", "30"))
TRANSFORMS["czt"] = Function(
    trnfft.czt,
    {"x": TENSOR, "m": POINTS, "w": COMPLEX_NUMBER, "a": COMPLEX_NUMBER, "axis": DIM},
    _spiral,
    tolerance=1e-4,
)
RANGE = Argument(
    ("0.5", "[0.1, 0.9]", "(0.2, 1)", "[1]"),
    (*HOSTILE, "[0.1, nan]", "(-3, 1e-300)", "range(2**60)", "randn(1).expand(2**40)"),
)
TRANSFORMS["zoom_fft"] = Function(
    trnfft.zoom_fft,
    {"x": TENSOR, "fn": RANGE, "m": POINTS, "fs": NUMBER, "endpoint": FLAG, "axis": DIM},
    _zoomed,
)


# Hankel transforms


def _hankel(name: str, a: Any, **numbers: Any) -> Any:
    """Returns SciPy's result where powers keep the digits of float32."""
    numbers = {key: float(number) for key, number in numbers.items()}
    dln, bias = numbers["dln"], numbers.get("bias", 0.0)
    if abs(bias * dln) * a.shape[-1] > 4 or not 0.05 <= abs(dln) < 10 or abs(numbers["mu"]) > 10:
        return None
    if abs(numbers.get("offset", 0)) > 10:
        return None
    return torch.from_numpy(getattr(scipy.fft, name)(a.numpy(), **numbers).copy())


DISTANCE = Argument(("0.1", "0.05", "1"))
ORDER = Argument(("0", "0.5", "1", "2"))
BIAS = Argument(("", "0.1", "-0.1"))
HANKEL = {"dln": DISTANCE, "mu": ORDER, "offset": NUMBER, "bias": BIAS}
TRANSFORMS["fht"] = Function(
    trnfft.fht, {"a": REAL, **HANKEL}, lambda **given: _hankel("fht", **given), tolerance=1e-3
)
TRANSFORMS["ifht"] = Function(
    trnfft.ifht,
    {"A": REAL, **HANKEL},
    lambda A, **given: _hankel("ifht", A, **given),
    tolerance=1e-3,
)


def _is_offset(dln: Any, mu: Any, initial: Any = 0.0, bias: Any = 0.0) -> Check:
    dln, mu, initial, bias = map(float, (dln, mu, initial, bias))

    def check(offset: Any) -> bool:
        if max(abs(mu), abs(initial), abs(bias)) > 10 or not 0.01 < abs(dln) < 10:
            return isinstance(offset, float)
        right = scipy.fft.fhtoffset(dln, mu, initial, bias)
        turns = (offset - right) / dln  # either of two values that are equally near
        return abs(turns - round(turns)) < 1e-6 and abs(offset - initial) < 0.501 * abs(dln)

    return check


TRANSFORMS["fhtoffset"] = Function(
    trnfft.fhtoffset,
    {"dln": DISTANCE, "mu": ORDER, "initial": NUMBER, "bias": BIAS},
    _is_offset,
)


# Plans that are called

_OF_KIND = {
    ("c2c", False): "fft",
    ("c2c", True): "ifft",
    ("r2c", False): "rfft",
    ("r2c", True): "ihfft",
    ("c2r", False): "hfft",
    ("c2r", True): "irfft",
}


def _planned(x_spec: Any, **options: Any) -> Any:
    plan = trnfft.plan_fft(x_spec, **options)
    return plan(
        x_spec if x_spec.device == plan.device else torch.zeros_like(x_spec, device=plan.device)
    )


def _of_kind(
    x_spec: Any, kind: Any = "c2c", inverse: Any = None, device: Any = None, **options: Any
) -> Any:
    inverse = kind == "c2r" if inverse is None else bool(inverse)
    return _torchs(_OF_KIND[kind, inverse])(x_spec, **options)


TRANSFORMS["plan_fft"] = Function(
    _planned,
    {
        "x_spec": TENSOR,
        "kind": optional(names("c2c", "r2c", "c2r")),
        "n": LENGTH,
        "dim": DIM,
        "norm": NORM,
        "inverse": optional(FLAG),
        "device": DEVICE,
    },
    _of_kind,
)
TRANSFORMS["FftPlan"] = Function(
    lambda x: trnfft.plan_fft(torch.empty(3, 8, dtype=torch.complex64))(x),
    {"x": tensors("randn(3, 8, dtype=torch.complex64)", "ComplexTensor(randn(3, 8), randn(3, 8))")},
    lambda x: torch.fft.fft(x),
)
