"""The backend of a name, and the backend that transforms tensors on a device."""

from __future__ import annotations

import torch

from trnfft.backends.backend import Backend
from trnfft.backends.matmul import Matmul
from trnfft.backends.torch_native import TorchNative
from trnfft.base import config, devices
from trnfft.base.devices import backend_for


def backend_of(device: torch.device, precision: str, name: str = "") -> Backend:
    """Returns the backend of a name, or for "" the backend for tensors on a device.

    The precision "double" always uses torch, on the host if necessary.
    """
    return named("torch" if precision == "double" else name or backend_for(device))


def named(name: str) -> Backend:
    """Returns the backend of a name other than "auto"."""
    backend = _made(name)
    return backend if devices.REPLACEMENT is None else devices.REPLACEMENT(backend)


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
