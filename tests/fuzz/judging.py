"""Verdicts on calls of public functions."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map

import trnfft
from tests.fuzz.child import REFUSED, RIGHT, UNCHECKED
from tests.fuzz.function import Function
from tests.fuzz.functions import FUNCTIONS
from tests.fuzz.values import OMIT, value

TYPES = (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError)
OTHERS = ("input", "window")  # arguments of a layer's call, and the result of its window function
MOST_ELEMENTS = 2**20  # of tensors that are compared
SMALLEST, LARGEST = (
    1e-30,
    1e30,
)  # of the numbers in compared tensors, so that float32 can hold their sums


@dataclass(frozen=True)
class Case:
    """A call: the arguments that are given, as text."""

    function: str
    backend: str
    arguments: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={text}" for name, text in self.arguments)
        return f"{self.function}({given}) on {self.backend}"


def judge(case: Case) -> str:
    """Returns RIGHT, REFUSED, UNCHECKED without a reference, or a description of the fault."""
    function = FUNCTIONS[case.function]
    arguments = {name: value(text) for name, text in case.arguments if text != OMIT}
    try:
        with trnfft.backend(case.backend), trnfft.precision("fast"):
            result = function.call(**arguments)
    except BaseException as error:  # noqa: BLE001 a panic is a finding, too
        return _judged_error(error, function)
    arguments = {name: value(text) for name, text in case.arguments if text != OMIT}
    return _judged_result(result, function, arguments)


def _judged_error(error: BaseException, function: Function) -> str:
    text = str(error)
    shown = f"{type(error).__name__}: {text[:200]}"
    if isinstance(error, OSError) and "path" in function.arguments:  # the error names the file
        return REFUSED
    types = (
        TYPES if function.names_arguments else (*TYPES, AssertionError, MemoryError, OverflowError)
    )
    if not isinstance(error, types) or isinstance(error, (RecursionError, UnicodeError)):
        return f"raises {shown}"
    named = re.findall(r"arguments? '(\w+)'", text)
    is_limit = isinstance(error, NotImplementedError) and re.search(r"N = |shape|precision", text)
    if (
        function.names_arguments
        and not is_limit
        and not set(named) & {*function.arguments, *OTHERS}
    ):
        return f"names no argument: {shown}"
    return REFUSED


def _judged_result(result: Any, function: Function, arguments: dict[str, Any]) -> str:
    if not _is_comparable(result) or not all(map(_is_comparable, arguments.values())):
        return UNCHECKED
    wide = tree_map(_widened, arguments)
    if function.is_layer:
        wide = {"layer": function.call.layer, "input": wide["input"]}  # type: ignore[attr-defined]
    try:
        expected = function.reference(**wide)
    except Exception as error:  # noqa: BLE001 torch does not accept the arguments
        return f"answers what the reference refuses: {type(error).__name__}: {str(error)[:200]}"
    if expected is None:
        return UNCHECKED
    if callable(expected):
        return RIGHT if expected(result) else f"the result {str(result)[:200]} fails its check"
    part = result.real.dtype  # may be bfloat16 or int8
    rounding = torch.finfo(part).eps if part.is_floating_point else 0.0
    return _compared(_widened(result), expected.detach(), max(function.tolerance, 2 * rounding))


def _compared(result: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str:
    if result.shape != expected.shape:
        return f"has shape {tuple(result.shape)}, right is {tuple(expected.shape)}"
    if not bool(expected.isfinite().all()) or bool((expected.abs() > LARGEST).any()):
        return UNCHECKED
    size = float(torch.linalg.vector_norm(expected)) or 1.0
    error = float(torch.linalg.vector_norm(result - expected)) / size
    return RIGHT if error <= tolerance else f"has the relative error {error:.2g}"


def _is_comparable(x: Any) -> bool:
    """Returns whether a reference can compute with a value.

    A tensor has to be small and ordinary, with finite numbers. An empty tensor is not comparable,
    because torch's transforms refuse it.
    """
    if not isinstance(x, (torch.Tensor, trnfft.ComplexTensor)):
        return True
    with contextlib.suppress(Exception):
        part = x.real if isinstance(x, trnfft.ComplexTensor) else x
        is_plain = part.device.type == "cpu" and part.layout == torch.strided
        if is_plain and 0 < part.numel() <= MOST_ELEMENTS:
            largest = float(_widened(x).abs().max())
            return largest == 0 or SMALLEST < largest < LARGEST
    return False


def _widened(x: Any) -> Any:
    """Returns a tensor of numbers in float64 or complex128, detached; anything else as it is."""
    if isinstance(x, trnfft.ComplexTensor):
        return torch.complex(x.real.detach().double(), x.imag.detach().double())
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().resolve_conj().resolve_neg()
    return x.to(torch.complex128 if x.is_complex() else torch.float64)
