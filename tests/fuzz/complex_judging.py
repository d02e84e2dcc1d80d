"""Whether a ComplexTensor program does what complex128 does, or refuses with an error."""

from __future__ import annotations

import warnings
from typing import Any

import torch

import trnfft
from trnfft import ComplexTensor

from .complex_programs import NATIVE, SPLIT, Program, held

# What may be refused where torch does not, by a part of the message: docs/complex_tensor.md.
REFUSALS = (
    "allowed is",
    "allowed are",
    "is not allowed",
    "modified by an inplace operation",
    "modified inplace",
    "modified in-place",
    "refers to a single memory location",
)
# What torch refuses because its operator keeps its result for its derivative, which is not written
# into here, or because it writes number by number into what it reads.
KEPT = ("modified by an inplace operation", "refer to a single memory location")
TYPED = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)


def judged(program: Program) -> str:
    """ "same", "refused: ..." with the message, or "different: ..." with what differs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        native = _outcome(program, NATIVE)
        split = _outcome(program, SPLIT)
    if isinstance(split, Exception):
        if isinstance(native, Exception):
            return "same"
        text = f"{type(split).__name__}: {str(split).splitlines()[0] if str(split) else ''}"
        is_clear = isinstance(split, TYPED) and any(part in str(split) for part in REFUSALS)
        return f"refused: {text}" if is_clear else f"different: {text}"
    if isinstance(native, Exception):
        if any(part in str(native) for part in KEPT):
            return "allowed: torch keeps a result, or finds that memory overlaps"
        return f"different: no error, where torch has {str(native)[:100]}"
    return _compared(native, split)


def _outcome(program: Program, names: dict[str, Any]) -> Any:
    try:
        return program.run(names)
    except Exception as error:
        return error


def _compared(native: dict[str, Any], split: dict[str, Any]) -> str:
    for name, expected in held(native).items():
        x = split[name]
        if not isinstance(x, torch.Tensor):
            return f"different: {name} is no tensor"
        if expected.is_complex() != isinstance(x, ComplexTensor):
            return f"different: {name} is a {type(x).__name__}"
        for what in ("requires_grad", "is_leaf", "shape", "dtype"):
            found, wanted = _attribute(x, what), _attribute(expected, what)
            if found == "an error":
                return "refused: torch reads no part after the whole was written"
            if found != wanted:
                return f"different: {name}.{what} is {found}, not {wanted}"
        if not _are_close(x.detach(), expected.detach()):
            return f"different: {name} is {x}, not {expected}"
        gradients = _gradient(x), _gradient(expected)
        if (gradients[0] is None) != (gradients[1] is None):
            return f"different: {name}.grad is {gradients[0]}, not {gradients[1]}"
        if gradients[0] is not None and not _are_close(*gradients):
            return f"different: {name}.grad is {gradients[0]}, not {gradients[1]}"
    return "same"


def _attribute(x: torch.Tensor, name: str) -> Any:
    try:
        return getattr(x, name)
    except RuntimeError:  # of views that torch refuses to read
        return "an error"


def _gradient(x: torch.Tensor) -> Any:
    if _attribute(x, "is_leaf") is not True and not x.retains_grad:
        return None
    return x.grad


def _are_close(x: torch.Tensor, expected: torch.Tensor) -> bool:
    with torch.no_grad():
        x, expected = (trnfft.as_native(y).resolve_conj().resolve_neg() for y in (x, expected))
        return x.shape == expected.shape and torch.allclose(
            x, expected, rtol=1e-9, atol=1e-9, equal_nan=True
        )
