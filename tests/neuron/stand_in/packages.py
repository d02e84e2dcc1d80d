"""The packages with TorchNeuron's functions, as modules with the functions of the stand-in."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trnfft.backends import torch_neuron
from trnfft.base import neuron_launchers

from . import nki_hop

# The modules of each package with their functions, and whether the bracket needs a tuple.
PACKAGES = {
    "torch_neuronx": ({"torch_neuronx": ("wrap_nki", "nki_op")}, True),
    "torch_neuronx without wrap_nki": ({"torch_neuronx": ("nki_op",)}, True),
    "libtorch_neuronx_lite": (
        {
            "libtorch_neuronx_lite": (),
            "libtorch_neuronx_lite.nki": (),
            "libtorch_neuronx_lite.nki.nki_hop": ("wrap_nki",),
            "libtorch_neuronx_lite._compiler": ("nki_op",),
        },
        False,
    ),
}


@contextmanager
def installed(name: str) -> Iterator[None]:
    """Makes one of the packages importable inside a `with` block, and no other one."""
    modules, wants_tuple = PACKAGES[name]
    made: dict[str, Any] = {module: types.ModuleType(module) for module in modules}
    for module, functions in modules.items():
        made[module].__path__ = []
        for function in functions:
            setattr(made[module], function, getattr(nki_hop, function))
    with absent():
        sys.modules.update(made)
        neuron_launchers.launcher.cache_clear()
        nki_hop.wants_tuple = wants_tuple
        try:
            with nki_hop.kernels_are_called():
                yield
        finally:
            for module in made:
                del sys.modules[module]


@contextmanager
def absent() -> Iterator[None]:
    """Makes all of the packages unimportable inside a `with` block."""
    known = {name for modules, _ in PACKAGES.values() for name in modules}
    names = [name for name in known if name in sys.modules]
    before = {name: sys.modules.pop(name) for name in names}, nki_hop.wants_tuple
    forget()
    try:
        yield
    finally:
        sys.modules.update(before[0])
        nki_hop.wants_tuple = before[1]
        forget()


def forget() -> None:
    """Clears what trnfft has found in packages, so that trnfft searches again."""
    neuron_launchers.launcher.cache_clear()
    torch_neuron._wrapped.cache_clear()
