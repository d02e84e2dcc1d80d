"""The choice of the backend that transforms tensors on a device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from trnfft.backends import torch_neuron
from trnfft.backends.backend import Backend
from trnfft.backends.matmul import Matmul
from trnfft.backends.torch_native import TorchNative
from trnfft.base import config

COMPLEX_DEVICES = ("cpu", "cuda", "meta")

# While trnfft.model_check runs a model as a NeuronCore would, this function returns the replacement
# of a backend, for the whole process: compiled code cannot read context-local settings.
STAND_IN: Callable[[Backend], Backend] | None = None


def stores_complex(device: torch.device) -> bool:
    """Returns whether a device is assumed to have storage for complex numbers."""
    if STAND_IN is not None:  # every device stands for a NeuronCore
        return False
    if device.type in COMPLEX_DEVICES:
        return True
    return config.COMPLEX_STORAGE and device.type in config.NEURON_DEVICES


def backend_for(device: torch.device) -> str:
    """Returns the backend's name for tensors on a device: the chosen one, or that of "auto"."""
    name = config.get_backend()
    return name if name != "auto" else choose_backend(device)[0]


def choose_backend(device: torch.device) -> tuple[str, str]:
    """Returns the name of the backend for tensors on a device, and the reason for the choice.

    Raises:
        ValueError, ImportError: as for `config.get_backend`.
    """
    name = config.get_backend()
    if name != "auto":
        return name, "chosen by name"
    if device.type in COMPLEX_DEVICES:
        return "torch", "the device has complex dtypes"
    if device.type not in config.NEURON_DEVICES:
        return "matmul", "no complex storage is assumed, and the device is not a NeuronCore"
    if not config.has_nki():
        return "matmul", "a NeuronCore, but no real nki"
    if device.type != "xla" and not torch_neuron.has_launches():
        return "matmul", "a NeuronCore, but no package launches kernels"
    return "nki", "a NeuronCore, and the real nki is installed"


def backend_of(device: torch.device, precision: str, name: str = "") -> Backend:
    """Returns the backend of a name, or for "" the backend for tensors on a device.

    The precision "double" always uses torch, on the host if necessary.
    """
    return named("torch" if precision == "double" else name or backend_for(device))


def named(name: str) -> Backend:
    """Returns the backend of a name other than "auto".

    Raises:
        ValueError: there is no such backend.
    """
    backend = _made(name)
    return backend if STAND_IN is None else STAND_IN(backend)


def _made(name: str) -> Backend:
    """Returns the backend of a name, without a replacement. Raises as `named`."""
    if name == "torch":
        return TorchNative()
    if name == "matmul":
        return Matmul()
    if name not in config.BACKENDS or name == "auto":
        allowed = ", ".join(f'"{each}"' for each in config.BACKENDS if each != "auto")
        raise ValueError(f"argument 'backend' is {name!r}; allowed here are {allowed}")
    from trnfft.backends.nki import Nki  # here, so that only its users load the kernels

    return Nki(name)
