"""The functions by which kernels are launched on the device "neuron", from whichever package."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from trnfft.base import cache

# The modules in which each function may be, in the order of preference: TorchNeuron first.
_MODULES = {
    "wrap_nki": ("torch_neuronx", "torch_neuronx.nki_hop", "libtorch_neuronx_lite.nki.nki_hop"),
    "nki_op": ("torch_neuronx", "torch_neuronx.nki_hop", "libtorch_neuronx_lite._compiler"),
}


@cache.cached(len(_MODULES))
def launcher(name: str) -> Callable[..., Any] | None:
    """Returns `wrap_nki` or `nki_op` from the installed packages, or None where none has it."""
    for module in _MODULES[name]:
        try:
            function = getattr(importlib.import_module(module), name, None)
        except (ImportError, OSError):  # OSError: a library that the package loads is missing
            continue
        if function is not None:
            return function
    return None


def has_launches() -> bool:
    """Returns whether kernels can be launched on a device "neuron"."""
    return launcher("wrap_nki") is not None or launcher("nki_op") is not None
