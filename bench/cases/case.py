"""A benchmark case as data: the inputs, the call, and the exact result.

The same cases run on every backend: `inputs` makes NumPy arrays, `call` receives them as tensors on
any device and uses the public API of trnfft, and `reference` computes the result with NumPy in
float64.
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
# The backends that can run the kernel of an algorithm by its name.
KERNEL_BACKENDS = ("nki", "nki-sim")


@dataclass(frozen=True)
class Case:
    """One call to measure.

    Attributes:
        operation: name of the operation, a key of `bench.cases.OPERATIONS`.
        name: the case in words.
        shape: shape of one transform, row, image or weight.
        batch: number of transforms, rows or images.
        inputs: `inputs(rng)` returns arrays of float32 or complex64.
        call: computes the result from tensors.
        reference: computes the result from the arrays in float64 or complex128; returns an
            array, or a tuple of arrays, as `call` does.
        candidate: `candidate()` returns the planner's choice for the current chip, with its price
            and its predicted error; None where the planner has no price for the whole call.
        algorithm: name of a planner's algorithm; "" leaves the choice to the planner.
        precision: the precision mode.
    """

    operation: str
    name: str
    shape: tuple[int, ...]
    batch: int
    inputs: Callable[[np.random.Generator], Arrays]
    call: Callable[..., Any]
    reference: Callable[..., Any]
    candidate: Callable[[], Candidate] | None = None
    algorithm: str = ""
    precision: str = "fast"

    @property
    def asked(self) -> dict[str, Any]:
        """The request, by the names of the fields of `results.Row` and `results.Missing`."""
        return {
            "operation": self.operation,
            "case": self.name,
            "algorithm": self.algorithm,
            "shape": self.shape,
            "batch": self.batch,
            "precision": self.precision,
        }

    def why_not(self, backend: str) -> str:
        """Returns why the case does not run on a backend, or "" where it runs."""
        if self.algorithm and backend not in KERNEL_BACKENDS:
            return f'backend "{backend}" has no choice of algorithms'
        return ""

    def arrays(self) -> Arrays:
        """Returns the inputs, which are the same in every run."""
        return self.inputs(np.random.default_rng(0))

    def exact(self, arrays: Arrays) -> Any:
        """Returns `reference` of the inputs, in float64."""
        return self.reference(*(array.astype(wide(array)) for array in arrays))


def wide(array: np.ndarray) -> type:
    """Returns the dtype in which the reference of an array is computed."""
    return np.complex128 if np.iscomplexobj(array) else np.float64


def on_device(array: np.ndarray, device: str) -> torch.Tensor | trnfft.ComplexTensor:
    """Returns the array as a tensor on the device.

    On a device other than the CPU a complex array becomes a ComplexTensor, because such a device
    may have no complex storage.
    """
    tensor = torch.from_numpy(array)
    if not tensor.is_complex() or device == "cpu":
        return tensor.to(device)
    real, imag = (part.contiguous().to(device) for part in (tensor.real, tensor.imag))
    return trnfft.ComplexTensor(real, imag)


def on_host(result: Any) -> Any:
    """Returns the result of `call` as an array, or as a tuple of arrays."""
    if isinstance(result, tuple):
        return tuple(map(on_host, result))
    if isinstance(result, trnfft.ComplexTensor):
        return on_host(result.real) + 1j * on_host(result.imag)
    return result.detach().cpu().numpy()


def relative_error(actual: Any, exact: Any) -> float:
    """Returns ||actual - exact|| / ||exact|| in the L2 norm, over all arrays together.

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
    """Returns the bytes of an array, or of all arrays of a tuple."""
    if isinstance(result, tuple):
        return sum(map(byte_count, result))
    return result.nbytes


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Returns random normal numbers in float32."""
    return rng.standard_normal(shape, dtype=np.float32)


def complex_(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Returns random normal numbers in complex64."""
    return real(rng, *shape) + np.complex64(1j) * real(rng, *shape)
