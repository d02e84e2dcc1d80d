"""Settings of the library. They are context-local: a thread or task changes them for itself.

A new thread starts with the defaults; an asyncio task starts with the settings of its creator.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

BACKENDS = {
    "auto": "torch.fft on devices that have complex dtypes",
    "torch": "torch.fft, on any device",
    "nki-sim": "the NKI kernels in the CPU simulator of a NeuronCore",
}

PRECISIONS = {
    "fast": "float32, relative errors below 1e-6",
    "kahan": "float32 with compensated sums, relative errors below 5e-8",
    "double": "float64 on the host",
    "bf16": "bfloat16 operands with float32 sums where that is faster, below 1e-2",
    "bf16_refined": "pairs of bfloat16 operands where that is faster, below 2e-5",
}

_backend: ContextVar[str] = ContextVar("trnfft_backend", default="auto")
_precision: ContextVar[str] = ContextVar("trnfft_precision", default="fast")


def get_backend() -> str:
    """The name of the backend that transforms use in this context."""
    return _backend.get()


def set_backend(name: str) -> None:
    """Choose what runs the transforms of this thread or task from now on.

    Args:
        name: "auto" (the default: torch.fft on devices that have complex dtypes), "torch"
            (torch.fft on any device) or "nki-sim" (the NKI kernels in the CPU simulator).

    Raises:
        ValueError: `name` is not one of these.
    """
    _backend.set(_checked(name, "backend", BACKENDS))


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Use the backend `name` inside a `with` block, then the previous one again.

    Args:
        name: as for `set_backend`.

    Raises:
        ValueError: `name` is not a known backend.
    """
    token = _backend.set(_checked(name, "backend", BACKENDS))
    try:
        yield
    finally:
        _backend.reset(token)


def get_precision() -> str:
    """The name of the precision mode that transforms use in this context."""
    return _precision.get()


def set_precision(name: str) -> None:
    """Choose how accurate the transforms of this thread or task are from now on.

    Results keep the dtype of the input in every mode.

    Args:
        name: "fast" (the default: float32, relative errors below 1e-6), "kahan" (float32 with
            compensated sums, below 5e-8), "double" (float64 on the host), "bf16" (bfloat16
            operands with float32 sums, below 1e-2) or "bf16_refined" (every operand as the sum
            of two bfloat16, below 2e-5). The last two allow these kernels and take them where
            they are faster; torch.fft computes both in float32.

    Raises:
        ValueError: `name` is not one of these.
    """
    check_precision(name)
    _precision.set(name)


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Use the precision mode `name` inside a `with` block, then the previous one again.

    Args:
        name: as for `set_precision`.

    Raises:
        ValueError: `name` is not a known mode.
    """
    check_precision(name)
    token = _precision.set(name)
    try:
        yield
    finally:
        _precision.reset(token)


def check_precision(name: str) -> None:
    """ValueError where `name` is no precision mode."""
    _checked(name, "precision", PRECISIONS)


def _checked(name: str, kind: str, known: dict[str, str]) -> str:
    # A tuple, because looking up an unhashable name in the dictionary would be a TypeError.
    if name not in tuple(known):
        choices = "; ".join(f'"{key}": {meaning}' for key, meaning in known.items())
        raise ValueError(f"argument 'name' is {name!r}, which is no {kind}; use one of {choices}")
    return name
