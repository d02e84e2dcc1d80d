"""Settings of the library. They are context-local: a thread or task changes its own settings only.

A new thread starts with the defaults. An asyncio task starts with the settings of its creator.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from nki_sim.base.neuron_packages import how_to_install
from trnfft.base.checks import brief

BACKENDS = {
    "auto": "torch on devices with complex dtypes, nki on NeuronCores, else matmul",
    "torch": "torch.fft, for devices that have complex dtypes",
    "matmul": "real matrix products in torch, for any device",
    "nki": "the NKI kernels on a NeuronCore, for XLA and Neuron devices",
    "nki-sim": "the NKI kernels in the CPU simulator of a NeuronCore",
}
BACKEND_VARIABLE = "TRNFFT_BACKEND"
FROM_ENVIRONMENT = os.environ.get(BACKEND_VARIABLE)  # read once, because each transform needs it
NEURON_DEVICES = ("xla", "neuron", "privateuseone")

PRECISIONS = {
    "fast": "float32, relative errors below 1e-6",
    "kahan": "float32 with compensated sums, relative errors below 5e-8",
    "double": "float64 on the host",
    "bf16": "bfloat16 operands with float32 sums where that is faster, below 1e-2",
    "bf16_refined": "pairs of bfloat16 operands where that is faster, below 2e-5 by documents",
}

# What was chosen last in this process, in any context. Compiled code cannot read context-local
# settings but can read these variables; torch.compile compiles again when they change.
LATEST = FROM_ENVIRONMENT or "auto"  # the backend
LATEST_PRECISION = "fast"
COMPLEX_STORAGE = False  # what set_complex_storage was given last

_backend: ContextVar[str | None] = ContextVar("trnfft_backend", default=None)
_precision: ContextVar[str] = ContextVar("trnfft_precision", default="fast")


def get_backend() -> str:
    """Returns the name of the backend that transforms use in this context.

    Without `set_backend`, it is the backend that the environment variable TRNFFT_BACKEND named when
    trnfft was imported, or "auto".

    Returns:
        One of the names that `set_backend` accepts.

    Raises:
        ValueError, ImportError: TRNFFT_BACKEND names an unknown backend, or one that is not
            installed.

    Examples:
        >>> import trnfft
        >>> with trnfft.backend("matmul"):
        ...     trnfft.get_backend()
        'matmul'
    """
    chosen = _backend.get()
    if chosen is not None:
        return chosen
    if not FROM_ENVIRONMENT:
        return "auto"
    return _checked_backend(FROM_ENVIRONMENT, f"environment variable {BACKEND_VARIABLE}")


def set_backend(name: str) -> None:
    """Chooses what computes the transforms of this thread or task from now on.

    See `docs/pytorch_devices.md`.

    Args:
        name: "auto" (the default) is "torch" on devices with complex dtypes, "nki" on other devices
            where it is available, and otherwise "matmul". "torch" is torch.fft. "matmul" computes
            the same plans as real matrix products, on any device. "nki" runs the NKI kernels on XLA
            and Neuron devices. "nki-sim" runs the NKI kernels in the CPU simulator.

    Raises:
        ValueError: `name` is unknown.
        ImportError: `name` is "nki", and the real nki package is not installed.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.set_backend("matmul")
        >>> type(trnfft.fft(torch.ones(4))).__name__  # "matmul" returns a ComplexTensor
        'ComplexTensor'
        >>> trnfft.set_backend("auto")
    """
    global LATEST
    _backend.set(_checked_backend(name, "argument 'name'"))
    LATEST = name


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Uses another backend inside a `with` block, and then the previous one again.

    Args:
        name: as for `set_backend`.

    Examples:
        >>> import torch, trnfft
        >>> with trnfft.backend("nki-sim"):  # the kernel runs in the simulator
        ...     trnfft.fft(torch.ones(4))
        ComplexTensor([4.+0.j, 0.+0.j, 0.+0.j, 0.+0.j])
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
    """Returns the name of the precision mode that transforms use in this context.

    Examples:
        >>> import trnfft
        >>> trnfft.get_precision()
        'fast'
    """
    return _precision.get()


def is_of_torch() -> bool:
    """Whether torch.fft computes tensors on the CPU and on CUDA, in their own dtype."""
    chosen = _backend.get() or FROM_ENVIRONMENT or "auto"
    return chosen in ("auto", "torch") and _precision.get() not in ("kahan", "double")


def set_precision(name: str) -> None:
    """Chooses how accurate the transforms of this thread or task are from now on.

    Results have the dtype of the input in every mode. See `docs/precision.md`.

    Args:
        name: "fast" (the default) is float32, with relative errors below 1e-6. "kahan" is float32
            with compensated sums, below 5e-8. "double" is float64 on the host. "bf16" allows
            bfloat16 operands with float32 sums, below 1e-2. "bf16_refined" allows operands that are
            sums of two bfloat16 numbers, below 2e-5 by documents and 5e-3 by one record. The last
            two modes use such kernels only where they are faster. torch.fft computes both in
            float32.

    Raises:
        ValueError: `name` is unknown.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.set_precision("double")
        >>> trnfft.fft(torch.ones(4)).real.dtype  # computed in float64, returned in float32
        torch.float32
        >>> trnfft.set_precision("fast")
    """
    global LATEST_PRECISION
    check_precision(name)
    _precision.set(name)
    LATEST_PRECISION = name


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Uses another precision mode inside a `with` block, and then the previous one again.

    Args:
        name: as for `set_precision`.

    Examples:
        >>> import trnfft
        >>> with trnfft.precision("kahan"):
        ...     trnfft.get_precision()
        'kahan'
    """
    global LATEST_PRECISION
    check_precision(name)
    token = _precision.set(name)
    LATEST_PRECISION, before = name, LATEST_PRECISION
    try:
        yield
    finally:
        _precision.reset(token)
        LATEST_PRECISION = before


def settings_of_now() -> Callable[[], AbstractContextManager[None]]:
    """Returns what enters the backend and the precision again that this context has now."""
    chosen = _backend.get(), _precision.get()

    @contextmanager
    def enter() -> Iterator[None]:
        tokens = _backend.set(chosen[0]), _precision.set(chosen[1])
        try:
            yield
        finally:
            _precision.reset(tokens[1])
            _backend.reset(tokens[0])

    return enter


def get_complex_storage() -> bool:
    """Returns whether NeuronCores are assumed to store complex numbers.

    Examples:
        >>> import trnfft
        >>> trnfft.get_complex_storage()
        False
    """
    return COMPLEX_STORAGE


def set_complex_storage(stored: bool) -> None:
    """Says whether NeuronCores store complex numbers, for the whole process.

    By default, trnfft assumes no complex storage on the devices "neuron" and "xla", because it is
    not known whether PyTorch's complex64 tensors have storage there. With True, complex results of
    native tensors on these devices are native tensors, as on a CPU. Native complex inputs are
    accepted in both cases. Complex storage is a property of the device, so this setting, unlike the
    others, holds in all threads. Compiled functions are compiled again when it changes. See
    `docs/pytorch_devices.md`.

    Args:
        stored: whether NeuronCores store complex numbers.

    Raises:
        TypeError: `stored` is not a bool.

    Examples:
        >>> import trnfft
        >>> trnfft.set_complex_storage(True)
        >>> trnfft.get_complex_storage()
        True
        >>> trnfft.set_complex_storage(False)
    """
    global COMPLEX_STORAGE
    COMPLEX_STORAGE = _checked_bool("stored", stored)


def _checked_bool(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"argument '{name}' is {brief(value)}, allowed is True or False")
    return value


def check_precision(name: str, argument: str = "name") -> None:
    """Raises ValueError where `name`, the value of `argument`, is not a precision mode."""
    _checked(name, f"argument '{argument}'", "precision", PRECISIONS)


def has_nki() -> bool:
    """Whether the real nki package is installed."""
    from nki_kernels.base import isa  # imported here: it loads the simulator where nki is absent

    return isa.REAL_NKI


def _checked_backend(name: str, source: str) -> str:
    _checked(name, source, "backend", BACKENDS)
    if name == "nki" and not has_nki():
        raise ImportError(
            f"{source} is 'nki', but the real nki package is not installed (the one on the public "
            f"index is an empty placeholder): {how_to_install('nki', 'neuronx-cc')}; or use "
            f'"nki-sim" for the simulator, "matmul" for any device'
        )
    return name


def _checked(name: str, source: str, kind: str, known: dict[str, str]) -> None:
    if not isinstance(name, str) or name not in known:
        choices = "; ".join(f'"{key}": {meaning}' for key, meaning in known.items())
        raise ValueError(f"{source} is {brief(name)}, which is not a {kind}; use one of {choices}")
