"""What a case of a kernel is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

FLOAT32_ERROR = 2e-5  # sums of float32 in another order, and ScalarE's functions
BFLOAT16_ERROR = 2e-2  # operands or results of 8 bits


@dataclass(frozen=True)
class Launch:
    """One launch.

    Attributes:
        kernel: what `nki.jit` made.
        arguments: of the kernel, by position.
        named: arguments by keyword.
        expected: reference of each output, in float64 or as exact integers; None for an output
            that is not compared.
        outputs: what to compare of what the kernel returns, in the order of ``expected``; by
            default all of it. For kernels that write into their arguments.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)
    outputs: Callable[[Any], tuple[Any, ...]] | None = None


@dataclass(frozen=True)
class Case:
    """A launch of a kernel of AWS's.

    Attributes:
        name: of the case, unique.
        module: that holds the kernel: dotted for nki-library, a file of the other checkouts.
        kernel: its name there.
        shows: what is special about the case, in a few words.
        build: makes the launch from the imported module.
        tolerance: largest error, relative to the largest value of the reference.
        chip: trn2 or trn3.
        cores: programs of the launch, as in ``kernel[2]``.
        refused: pattern of the error that is expected; empty for a case that should match.
        because: why the refusal is right, a sentence for the page.
        waives: device rules that the kernel breaks and that are waived.
        names_modes: whether the constants of the library that are raw integers for a dge_mode,
            which NKI refuses since 0.3.0, are replaced by its members.
    """

    name: str
    module: str
    kernel: str
    shows: str
    build: Callable[[ModuleType], Launch]
    tolerance: float = FLOAT32_ERROR
    chip: str = "trn2"
    cores: int = 1
    refused: str = ""
    because: str = ""
    waives: tuple[str, ...] = ()
    names_modes: bool = False


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Standard normal numbers, rounded to ``dtype``."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(np.float32).astype(dtype)


def uniform(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Numbers from -1 to 1, rounded to ``dtype``."""
    values = np.random.default_rng(seed).uniform(-1, 1, shape)
    return values.astype(np.float32).astype(dtype)


def wide(array: Any) -> np.ndarray:
    """The same values in float64."""
    return np.asarray(array).astype(np.float64)


def to_torch(value: Any) -> Any:
    """A NumPy array as a float32 or integer tensor; anything else as it is."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    exact = value.dtype.kind in "iub" and value.dtype.itemsize <= 8
    return torch.from_numpy(np.array(value if exact else value.astype(np.float32)))


def with_reference(kernel: Any, reference: Any, given: dict[str, Any], *outputs: str) -> Launch:
    """A launch that is compared with a torch function of nki-library, of the same arguments.

    ``outputs`` name its results, where it returns a dict; else its one result is taken.
    """
    found = reference(**{name: to_torch(value) for name, value in given.items()})
    chosen = [found[name] for name in outputs] if outputs else [found]
    expected = tuple([t.detach().double().numpy() for t in chosen])
    return Launch(kernel, (), expected, given)
