"""A benchmark case as data: what to build, what to call, and what the result has to be.

The same cases run on every backend: `inputs` makes NumPy arrays, `call` takes them as tensors on
any device through the public API of trnfft, `reference` computes the result in float64 with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import trnfft
from trnfft.planner.plan import Candidate

Arrays = tuple[np.ndarray, ...]
KERNEL_BACKENDS = ("nki", "nki-sim")  # those that run the kernel of an algorithm by its name


@dataclass(frozen=True)
class Case:
    """One call to measure.

    `shape` is that of one transform, row, image or weight; `batch` how many of them. `inputs(rng,
    batch)` returns arrays of float32 or complex64, `reference` takes them in float64 or complex128
    and returns an array, or a tuple of them, as `call` does. `algorithm` names one that the
    planner knows, "" leaves the choice to it. `candidate(batch)` is what the planner predicts for
    the chip selected, with its own price and error; None where it prices no such call as a whole.
    """

    operation: str
    name: str
    shape: tuple[int, ...]
    batch: int
    inputs: Callable[[np.random.Generator, int], Arrays]
    call: Callable[..., Any]
    reference: Callable[..., Any]
    candidate: Callable[[int], Candidate] | None = None
    algorithm: str = ""
    precision: str = "fast"

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked for, as `results.Row` and `results.Missing` name it."""
        return {
            "operation": self.operation,
            "case": self.name,
            "algorithm": self.algorithm,
            "shape": self.shape,
            "batch": self.batch,
            "precision": self.precision,
        }

    def why_not(self, backend: str) -> str:
        """Why it does not run on a backend; "" where it does."""
        if self.algorithm and backend not in KERNEL_BACKENDS:
            return f'backend "{backend}" has no choice of algorithms'
        return ""

    def arrays(self) -> Arrays:
        """The inputs, the same in every run."""
        return self.inputs(np.random.default_rng(0), self.batch)

    def exact(self, arrays: Arrays) -> Any:
        """`reference` of the inputs, in float64."""
        return self.reference(*(array.astype(wide(array)) for array in arrays))


def wide(array: np.ndarray) -> type:
    """The dtype in which references are computed."""
    return np.complex128 if np.iscomplexobj(array) else np.float64


def on_device(array: np.ndarray, device: str) -> torch.Tensor | trnfft.ComplexTensor:
    """The array as a tensor; a complex one is split where complex storage is not assumed."""
    tensor = torch.from_numpy(array)
    if not tensor.is_complex() or device == "cpu":
        return tensor.to(device)
    real, imag = (part.contiguous().to(device) for part in (tensor.real, tensor.imag))
    return trnfft.ComplexTensor(real, imag)


def on_host(result: Any) -> Any:
    """What `call` returned as an array, or as a tuple of them."""
    if isinstance(result, tuple):
        return tuple(map(on_host, result))
    if isinstance(result, trnfft.ComplexTensor):
        return on_host(result.real) + 1j * on_host(result.imag)
    return result.detach().cpu().numpy()


def relative_error(actual: Any, exact: Any) -> float:
    """||actual - exact|| / ||exact|| in the L2 norm, over all arrays together.

    Raises:
        ValueError: the shapes differ.
        ArithmeticError: `actual` has numbers that are not finite.
    """
    if not isinstance(exact, tuple):
        actual, exact = (actual,), (exact,)
    pairs = list(zip(actual, exact, strict=True))
    for part, reference in pairs:
        if part.shape != reference.shape:
            raise ValueError(f"a result has shape {part.shape}, its reference {reference.shape}")
    distance = math.hypot(*(float(np.linalg.norm((a - e).ravel())) for a, e in pairs))
    if not math.isfinite(distance):
        raise ArithmeticError("a result has numbers that are not finite")
    return distance / math.hypot(*(float(np.linalg.norm(e.ravel())) for _, e in pairs))


def byte_count(result: Any) -> int:
    """Bytes of an array, or of all in a tuple."""
    if isinstance(result, tuple):
        return sum(map(byte_count, result))
    return result.nbytes


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random normal float32 numbers."""
    return rng.standard_normal(shape, dtype=np.float32)


def complex_(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random normal complex64 numbers."""
    return real(rng, *shape) + np.complex64(1j) * real(rng, *shape)
