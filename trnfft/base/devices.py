"""Which devices store complex numbers, and the name of the backend that transforms on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trnfft.base import config, neuron_launchers

COMPLEX_DEVICES = ("cpu", "cuda", "meta")

# While trnfft.model_check runs a model as a NeuronCore would, this function returns the replacement
# of a backend, for the whole process: compiled code cannot read context-local settings.
REPLACEMENT: Callable[[Any], Any] | None = None


def stores_complex(device: torch.device) -> bool:
    """Returns whether a device is assumed to have storage for complex numbers."""
    if REPLACEMENT is not None:  # every device stands for a NeuronCore
        return False
    if device.type in COMPLEX_DEVICES:
        return True
    return config.COMPLEX_STORAGE and device.type in config.NEURON_DEVICES


def has_native(device: torch.device, backend: str = "") -> bool:
    """Whether complex results of native tensors on a device are native.

    `backend` is the name of the backend for the device, where the caller knows the name.
    A compiled graph uses the backend that was chosen last when it was compiled. It is compiled
    again for another backend.
    """
    if device.type not in COMPLEX_DEVICES and stores_complex(device):
        return True
    if torch.compiler.is_compiling():
        return device.type in COMPLEX_DEVICES and config.LATEST in ("auto", "torch")
    return (backend or backend_for(device)) == "torch"


def execution_on(device: torch.device, is_in_graph: bool = False) -> str:
    """Returns how launches run on a device, which a plan asks: "eager" or "graph".

    TorchNeuron's eager mode launches each operator by itself. PyTorch/XLA launches graphs. Other
    devices stand for a NeuronCore whose program is compiled.
    """
    launches_graphs = device.type == "xla" or device.type not in config.NEURON_DEVICES
    return "graph" if is_in_graph or launches_graphs else "eager"


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
    if device.type != "xla" and not neuron_launchers.has_launches():
        return "matmul", "a NeuronCore, but no package launches kernels"
    return "nki", "a NeuronCore, and the real nki is installed"
