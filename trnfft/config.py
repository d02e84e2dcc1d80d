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

_backend: ContextVar[str] = ContextVar("trnfft_backend", default="auto")


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
    _backend.set(_checked(name))


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Use the backend `name` inside a `with` block, then the previous one again.

    Args:
        name: as for `set_backend`.

    Raises:
        ValueError: `name` is not a known backend.
    """
    token = _backend.set(_checked(name))
    try:
        yield
    finally:
        _backend.reset(token)


def _checked(name: str) -> str:
    # A tuple, because looking up an unhashable name in the dictionary would be a TypeError.
    if name not in tuple(BACKENDS):
        known = "; ".join(f'"{key}": {meaning}' for key, meaning in BACKENDS.items())
        raise ValueError(f"argument 'name' is {name!r}, which is no backend; use one of {known}")
    return name
