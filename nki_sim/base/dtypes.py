"""Data types of NKI: names, NumPy representations and casts.

A dtype is a string, as in the SDK. Casts round to nearest even, and casts to integers saturate
(release notes of NKI 0.6.0). With NKI_PRECISE_FP=0 low-precision types are stored as float32.
"""

from __future__ import annotations

import os
from typing import Any

import ml_dtypes
import numpy as np

from . import releases

Array = np.ndarray[Any, Any]
Number = float | np.generic  # of Python or NumPy
Dtype = str | np.dtype[Any] | type[Any]  # what `canonical` accepts, and dtypes of torch

# name: (bytes of an element, NumPy type that holds it)
_TYPES: dict[str, tuple[int, Any]] = {
    "bool": (1, np.bool_),
    "int8": (1, np.int8),
    "int16": (2, np.int16),
    "int32": (4, np.int32),
    "int64": (8, np.int64),  # for NkiScalars, since NKI 0.7
    "uint8": (1, np.uint8),
    "uint16": (2, np.uint16),
    "uint32": (4, np.uint32),
    "float16": (2, np.float16),
    "float32": (4, np.float32),
    "bfloat16": (2, ml_dtypes.bfloat16),
    "tfloat32": (4, np.float32),
    "float8_e4m3": (1, ml_dtypes.float8_e4m3),
    "float8_e4m3fn": (1, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": (1, ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": (1, ml_dtypes.float8_e8m0fnu),
    "float8_e5m2_x4": (4, np.uint32),
    "float8_e4m3fn_x4": (4, np.uint32),
    "float4_e2m1fn_x4": (2, np.uint16),
}
NAMES = tuple(_TYPES)
INTEGERS = frozenset({"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
PACKED = frozenset({"float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"})
FLOATS = frozenset(NAMES) - INTEGERS - PACKED
_LOW_PRECISION = frozenset(
    {"bfloat16", "float16", "tfloat32", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"}
)
_BY_NUMPY = {np.dtype(t): n for n, (_, t) in _TYPES.items() if n not in PACKED and n != "tfloat32"}

_HELD = {name: np.dtype(held) for name, (_, held) in _TYPES.items()}


def canonical(dtype: Dtype) -> str:
    """Returns the NKI name of an NKI name, NumPy dtype or torch dtype; else raises TypeError."""
    name = _canonical(dtype)
    if name and (name != "int64" or releases.is_traced()):
        return name
    known = ", ".join(n for n in NAMES if n != "int64" or releases.is_traced())
    raise TypeError(f"dtype {dtype!r} is not a dtype of NKI, allowed are {known}")


def _canonical(dtype: Dtype) -> str:
    """Returns the name of a dtype, or "" if no release of NKI has it."""
    if isinstance(dtype, str):
        if dtype in _TYPES:
            return dtype
    elif str(dtype).startswith("torch."):
        name = str(dtype).removeprefix("torch.")
        if name in _TYPES:
            return name
    else:
        try:
            return _BY_NUMPY.get(np.dtype(dtype), "")
        except TypeError:
            return ""
    return ""


def itemsize(name: str) -> int:
    """Returns the bytes of one element on the chip."""
    return _TYPES[name][0]


def is_precise() -> bool:
    """Returns False if NKI_PRECISE_FP=0 asks for float32 in place of low-precision types."""
    return os.environ.get("NKI_PRECISE_FP", "1") != "0"


def numpy_type(name: str, precise: bool = True) -> np.dtype[Any]:
    """Returns the NumPy dtype that holds the dtype ``name`` in the simulator."""
    if not precise and name in _LOW_PRECISION:
        return np.dtype(np.float32)
    return _HELD[name]


def is_exact(name: str) -> bool:
    """Returns whether a dtype is stored as it is, and not as float32 under NKI_PRECISE_FP=0."""
    return name not in _LOW_PRECISION or is_precise()


def fresh_value(name: str) -> Any:
    """Returns the value of unwritten memory: NaN for floats, 4 for integers (nki_simulator.rst)."""
    return 4 if name in INTEGERS or name in PACKED else np.nan


def round_to_tfloat32(array: Array) -> Array:
    """Rounds float32 to 10 bits of mantissa, to nearest even."""
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1)))) & np.uint32(
        0xFFFFE000
    )
    return np.where(np.isfinite(array), rounded.view(np.float32), array)


def to_float32(array: Array) -> Array:
    """Returns an array as float32, in which the engines compute."""
    return array if array.dtype == np.float32 else array.astype(np.float32)


def store(out: Array, value: Array, name: str) -> None:
    """Writes ``value``, float32 or integer, to ``out``, with the cast to the dtype ``name``."""
    kind = out.dtype.kind
    if name == "tfloat32":
        out[...] = round_to_tfloat32(value)
    elif kind in "iu" and value.dtype.kind not in "iub":
        limits = np.iinfo(out.dtype)
        rounded = np.nan_to_num(np.rint(value.astype(np.float64)), nan=0.0)
        out[...] = np.clip(rounded, limits.min, limits.max).astype(out.dtype)
    elif kind in "iu" and value.dtype != out.dtype:
        limits = np.iinfo(out.dtype)
        out[...] = np.clip(value.astype(np.int64), limits.min, limits.max).astype(out.dtype)
    elif kind == "b":
        out[...] = value != 0
    else:
        out[...] = value
