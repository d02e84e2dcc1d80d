"""Launches of kernels on TorchNeuron's device "neuron": by `wrap_nki`, or by a call of the kernel.

`torch_neuronx` is TorchNeuron (2.13 and 2.14 in SDK 2.33); `libtorch_neuronx_lite` is its part in
the inference stack of SDK 2.32. Both accept only top-level tensors as operands, and hash every
other argument. A caller from `wrap_nki` is indexed with the degree of LNC, which must be the
runtime's degree, as a tuple: in torch_neuronx 2.14.3 a tuple works (hardware records). Where
`wrap_nki` is missing, AWS's guide calls the kernel itself, and NKI 0.7 reads the degree from
NEURON_LOGICAL_NC_CONFIG. This variable is therefore set before such a launch.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from nki_sim import hardware
from nki_sim.base.neuron_packages import how_to_install
from trnfft.base import cache, neuron_launchers

KERNELS = 256  # wrapped kernels that are kept
TARGET_COST = "each launch forks neuron-ls, which takes 52 ms"  # NKI 0.5 on trn2


class Kernel(Protocol):
    """What `nki.jit` returns: a function whose operands are tensors on a device."""

    __name__: str

    def __call__(self, **named: object) -> Any: ...


def launch(
    kernel: Kernel, cores: int, operands: Sequence[torch.Tensor], arguments: Sequence[object]
) -> Any:
    """Launches a kernel and returns its results, tensors on the device of its operands."""
    caller, names = _wrapped(kernel)
    _check_runtime(cores)
    # Arguments are passed by name, as AWS documents; the caller accepts them by position, too.
    named = dict(zip(names, (*operands, *arguments), strict=False))
    if caller is not None:
        return caller[(cores,)](**named)
    if not os.environ.get(hardware.LNC_VARIABLE):
        os.environ[hardware.LNC_VARIABLE] = str(cores)
    return kernel(**named)


@cache.cached(KERNELS)  # because every call of wrap_nki registers the kernel once more
def _wrapped(kernel: Kernel) -> tuple[Any, tuple[str, ...]]:
    """Returns a kernel's caller, or None for the kernel itself, and its arguments' names."""
    wrap_nki = neuron_launchers.launcher("wrap_nki")
    if wrap_nki is None and not neuron_launchers.has_launches():
        raise ImportError(
            "no package launches kernels on a device 'neuron': install torch-neuronx 2.13 or later "
            f"(TorchNeuron): {how_to_install('nrtpy', 'torch-neuronx')}"
        )
    names = tuple(inspect.signature(getattr(kernel, "func", kernel)).parameters)
    return None if wrap_nki is None else wrap_nki(kernel), names


_first_degree: list[int] = []


def _check_runtime(cores: int) -> None:
    """Warns once of a setting that makes launches slow, and checks the degree of LNC."""
    if not _first_degree:
        _first_degree.append(cores)
        if not os.environ.get(hardware.TARGET_VARIABLE):
            name = hardware.current().name
            warnings.warn(
                f"{hardware.TARGET_VARIABLE} is not set: {TARGET_COST}. Plans are for {name}, by "
                f"{hardware.current_and_why()[1]}. Do: export {hardware.TARGET_VARIABLE}={name}",
                RuntimeWarning,
                stacklevel=2,
            )
    if cores != _first_degree[0]:
        raise RuntimeError(
            f"the degree of LNC is {cores} by {hardware.degree_and_why()[1]}, but this process's "
            f"first launch had {_first_degree[0]}, and the Neuron runtime keeps it: set "
            f"{hardware.LNC_VARIABLE} before the process starts"
        )
