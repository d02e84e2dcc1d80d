"""Which backend transforms tensors on a device."""

from __future__ import annotations

import torch

from trnfft import config
from trnfft.backends import torch_neuron
from trnfft.backends.backend import Backend
from trnfft.backends.matmul import Matmul
from trnfft.backends.torch_native import TorchNative

COMPLEX_DEVICES = ("cpu", "cuda", "meta")


def stores_complex(device: torch.device) -> bool:
    """Whether a device is taken to have storage for complex numbers."""
    if device.type in COMPLEX_DEVICES:
        return True
    return config.COMPLEX_STORAGE and device.type in config.NEURON_DEVICES


def backend_for(device: torch.device) -> str:
    """The name of the backend for tensors on a device: the chosen one, or what "auto" takes."""
    return choose_backend(device)[0]


def choose_backend(device: torch.device) -> tuple[str, str]:
    """The name of the backend for tensors on a device, and the reason for it.

    Raises:
        ValueError, ImportError: as `config.get_backend`.
    """
    name = config.get_backend()
    if name != "auto":
        return name, "chosen by name"
    if device.type in COMPLEX_DEVICES:
        return "torch", "the device has complex dtypes"
    if device.type not in config.NEURON_DEVICES:
        return "matmul", "no complex storage is assumed, and it is no NeuronCore"
    if not config.has_nki():
        return "matmul", "a NeuronCore, but no real nki"
    if device.type != "xla" and not torch_neuron.has_launches():
        return "matmul", "a NeuronCore, but no package launches kernels"
    return "nki", "a NeuronCore, and the real nki is installed"


def backend_of(device: torch.device, precision: str, name: str = "") -> Backend:
    """The backend of a name, "" for the one for tensors on a device.

    Float64 is torch's in any case, on the host if it must be.
    """
    return named("torch" if precision == "double" else name or backend_for(device))


def named(name: str) -> Backend:
    """The backend of a name other than "auto". ValueError for what is no such name."""
    if name == "torch":
        return TorchNative()
    if name == "matmul":
        return Matmul()
    if name not in config.BACKENDS or name == "auto":
        raise ValueError(f"argument 'backend' is {name!r}, which is no backend that computes")
    from trnfft.backends.nki import Nki  # here, so that only its users load the kernels

    return Nki(name)
