"""Settings of the library. They are context-local: a thread or task changes them for itself.

A new thread starts with the defaults; an asyncio task starts with the settings of its creator.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nki_kernels.neuron_packages import how_to_install
from trnfft.checks import shown

BACKENDS = {
    "auto": "torch on devices with complex dtypes, nki on NeuronCores, else matmul",
    "torch": "torch.fft, for devices that have complex dtypes",
    "matmul": "real matrix products in torch, for any device",
    "nki": "the NKI kernels on a NeuronCore, for XLA and Neuron devices",
    "nki-sim": "the NKI kernels in the CPU simulator of a NeuronCore",
}
BACKEND_VARIABLE = "TRNFFT_BACKEND"
FROM_ENVIRONMENT = os.environ.get(BACKEND_VARIABLE)  # once, as every transform needs it
NEURON_DEVICES = ("xla", "neuron", "privateuseone")

PRECISIONS = {
    "fast": "float32, relative errors below 1e-6",
    "kahan": "float32 with compensated sums, relative errors below 5e-8",
    "double": "float64 on the host",
    "bf16": "bfloat16 operands with float32 sums where that is faster, below 1e-2",
    "bf16_refined": "pairs of bfloat16 operands where that is faster, below 2e-5",
}

# The backend that was chosen last in this process, whatever the context. Compiled code cannot look
# into context-local settings; this it can, and torch.compile compiles anew where it has changed.
LATEST = FROM_ENVIRONMENT or "auto"
COMPLEX_STORAGE = False  # whether NeuronCores are taken to have it: see set_complex_storage

_backend: ContextVar[str | None] = ContextVar("trnfft_backend", default=None)
_precision: ContextVar[str] = ContextVar("trnfft_precision", default="fast")


def get_backend() -> str:
    """The name of the backend that transforms use in this context.

    Where none was chosen, it is the one that the environment variable TRNFFT_BACKEND named when
    trnfft was imported, else "auto".

    Raises:
        ValueError, ImportError: TRNFFT_BACKEND names none, or one that is not installed.
    """
    chosen = _backend.get()
    if chosen is not None:
        return chosen
    if not FROM_ENVIRONMENT:
        return "auto"
    return _checked_backend(FROM_ENVIRONMENT, f"environment variable {BACKEND_VARIABLE}")


def set_backend(name: str) -> None:
    """Choose what runs the transforms of this thread or task from now on.

    Args:
        name: "auto" (the default: "torch" on devices that have complex dtypes, on others "nki"
            where it can be had, else "matmul"), "torch" (torch.fft), "matmul" (the same plans as
            real matrix products, on any device), "nki" (the NKI kernels on XLA and Neuron devices)
            or "nki-sim" (the NKI kernels in the CPU simulator).

    Raises:
        ValueError: `name` is not one of these.
        ImportError: it is "nki", and the real nki package is not installed.
    """
    global LATEST
    _backend.set(_checked_backend(name, "argument 'name'"))
    LATEST = name


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Use the backend `name` inside a `with` block, then the previous one again.

    Args:
        name: as for `set_backend`.

    Raises:
        ValueError, ImportError: as `set_backend`.
    """
    global LATEST
    token = _backend.set(_checked_backend(name, "argument 'name'"))
    LATEST, before = name, LATEST
    try:
        yield
    finally:
        _backend.reset(token)
        LATEST = before


def get_precision() -> str:
    """The name of the precision mode that transforms use in this context."""
    return _precision.get()


def is_of_torch() -> bool:
    """Whether torch.fft computes what tensors on the CPU and on CUDA hold, in their own dtype."""
    chosen = _backend.get() or FROM_ENVIRONMENT or "auto"
    return chosen in ("auto", "torch") and _precision.get() not in ("kahan", "double")


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


def get_complex_storage() -> bool:
    """Whether NeuronCores are taken to store complex numbers."""
    return COMPLEX_STORAGE


def set_complex_storage(stored: bool) -> None:
    """Say whether NeuronCores store complex numbers, for the whole process.

    By default no complex storage is assumed on devices "neuron" and "xla": whether PyTorch's
    tensors of complex64 have it there is not known. With True, complex results of native tensors
    on these devices are native tensors, as on a CPU. Native complex inputs are taken either way.
    It is a matter of the device, so unlike other settings it holds in all threads. Compiled
    functions are compiled anew where it changes.

    Args:
        stored: whether they do.

    Raises:
        TypeError: `stored` is no bool.
    """
    global COMPLEX_STORAGE
    COMPLEX_STORAGE = _checked_bool("stored", stored)


def _checked_bool(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"argument '{name}' is {shown(value)}, allowed is True or False")
    return value


def check_precision(name: str, argument: str = "name") -> None:
    """ValueError where `name`, which is the argument called `argument`, is no precision mode."""
    _checked(name, f"argument '{argument}'", "precision", PRECISIONS)


def has_nki() -> bool:
    """Whether the real nki package is installed."""
    from nki_kernels import nki_api  # here, because it loads the simulator where nki is absent

    return nki_api.REAL_NKI


def _checked_backend(name: str, source: str) -> str:
    _checked(name, source, "backend", BACKENDS)
    if name == "nki" and not has_nki():
        raise ImportError(
            f"{source} is 'nki', but the real nki package is not installed (the one on the public "
            f"index is an empty placeholder): {how_to_install('nki', 'neuronx-cc')}; or use "
            f'"nki-sim" for the simulator, "matmul" for any device'
        )
    return name


def _checked(name: str, source: str, kind: str, known: dict[str, str]) -> str:
    if not isinstance(name, str) or name not in known:
        choices = "; ".join(f'"{key}": {meaning}' for key, meaning in known.items())
        raise ValueError(f"{source} is {shown(name)}, which is no {kind}; use one of {choices}")
    return name
