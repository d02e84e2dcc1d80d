"""The parts of a case: a launch of a kernel, and the expected result."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from nki_sim.base.releases import NEWEST

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

FLOAT32_ERROR = 2e-5  # another order of sums in float32, and ScalarE's approximate functions
BFLOAT16_ERROR = 2e-2  # operands or results with 8 bits


@dataclass(frozen=True)
class Launch:
    """One launch.

    Attributes:
        kernel: the kernel, decorated by `nki.jit`.
        arguments: positional arguments of the kernel.
        named: keyword arguments of the kernel.
        expected: reference of each output, in float64 or as exact integers; None for an output
            that is not compared.
        outputs: returns the outputs to compare from the kernel's result, in the order of
            ``expected``. None for all of the result. Kernels that write into their arguments need
            it.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)
    outputs: Callable[[Any], tuple[Any, ...]] | None = None


@dataclass(frozen=True)
class Case:
    """A launch of one of AWS's kernels.

    Attributes:
        name: unique name of the case.
        module: the module that holds the kernel: a dotted name in nki-library, a file elsewhere.
        kernel: name of the kernel in the module.
        shows: what is special about the case, in a few words.
        build: makes the launch from the imported module.
        tolerance: largest error, relative to the largest value of the reference.
        chip: trn2 or trn3.
        cores: programs of the launch, as in ``kernel[2]``.
        refused: pattern of the expected error; empty for a case that should match.
        because: why the refusal is right, a sentence for the page.
        waives: rules about devices that the kernel breaks and that are waived.
        release: the release of NKI that is simulated: PARSED where the kernel calls what NKI 0.7
            has removed.
        names_modes: whether the library's integer constants for a dge_mode, which NKI refuses
            since 0.3.0, are replaced by members of nki.isa.dge_mode.
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
    release: str = NEWEST


Build = Callable[[ModuleType], Launch]


def builder(function: Callable[..., Launch]) -> Callable[..., Build]:
    """Makes a function of a module and more one of the rest, which returns a `Build`."""
    return lambda *given, **named: lambda module: function(module, *given, **named)


def common_types() -> Any:
    """Returns the module of nki-library with the enumerations that kernels take."""
    return importlib.import_module("nkilib.core.utils.common_types")


def language() -> tuple[Any, Any, Any]:
    """Returns the simulated nki, nki.language and nki.isa."""
    names = ("nki", "nki.language", "nki.isa")
    nki, nl, nisa = (importlib.import_module(name) for name in names)
    return nki, nl, nisa


def cases_of(module: str, kernel: str, **common: Any) -> Callable[..., Case]:
    """Returns a function that makes a case of a kernel from its name, words and launch."""

    def case(name: str, shows: str, build: Build, **others: Any) -> Case:
        return Case(name, module, kernel, shows, build, **{**common, **others})

    return case


def on_both(case: Case, **others: Any) -> tuple[Case, Case]:
    """Returns a case on one core, and the same case on two."""
    return case, replace(case, name=f"{case.name} two cores", cores=2, **others)


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Returns standard normal numbers, rounded to ``dtype``."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(np.float32).astype(dtype)


def uniform(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Returns numbers from -1 to 1, rounded to ``dtype``."""
    values = np.random.default_rng(seed).uniform(-1, 1, shape)
    return values.astype(np.float32).astype(dtype)


def wide(array: Any) -> np.ndarray:
    """Returns the same values in float64."""
    return np.asarray(array).astype(np.float64)


def rms_normalised(x: Any, gamma: Any, eps: float = 1e-6) -> np.ndarray:
    """Returns the rows of x over their root mean squares, times gamma, in float64."""
    x = wide(x)
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * wide(gamma)


def to_torch(value: Any) -> Any:
    """Returns a NumPy array as a float32 or integer tensor, and anything else as it is."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    exact = value.dtype.kind in "iub" and value.dtype.itemsize <= 8
    return torch.from_numpy(np.array(value if exact else value.astype(np.float32)))


def with_reference(kernel: Any, reference: Any, given: dict[str, Any], *outputs: str) -> Launch:
    """Returns a launch that is compared with a torch function of nki-library, on equal arguments.

    ``outputs`` names the results where the function returns a dict; otherwise its only result is
    used.
    """
    found = reference(**{name: to_torch(value) for name, value in given.items()})
    chosen = [found[name] for name in outputs] if outputs else [found]
    expected = tuple([t.detach().double().numpy() for t in chosen])
    return Launch(kernel, (), expected, given)
