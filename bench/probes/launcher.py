"""Launches of a kernel: in the simulator, by PyTorch-XLA, or on the device "neuron".

The launches on a device never ran. A framework has the name of the package that launches.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nki_sim
from nki_kernels.base.isa import REAL_NKI
from nki_sim import hardware
from nki_sim.rules.device_rules import RULES

SIMULATOR = "simulator"
XLA = "torch_xla"
DEVICE = Path("/dev/neuron0")  # the driver's file of the first device

Launched = Callable[[], Any]


def frameworks() -> list[str]:
    """Returns the frameworks that can launch on a chip here; the simulator where there is none."""
    if not (REAL_NKI and DEVICE.exists()):
        return [SIMULATOR]
    found = []
    launches = _function("wrap_nki") or _function("nki_op")
    if launches is not None:
        found.append(launches.__module__.partition(".")[0])
    if importlib.util.find_spec(XLA) is not None:
        found.append(XLA)
    return found or [SIMULATOR]


def _function(name: str) -> Any:
    """Returns a function by which a package launches on the device "neuron", or None without it."""

    from trnfft.base import neuron_launchers

    return neuron_launchers.launcher(name)


def _caller(kernel: Any, lnc: int) -> Any:
    """Returns a callable that launches a kernel on the device "neuron".

    The callable is the kernel itself where no package has `wrap_nki`.
    """
    wrap_nki = _function("wrap_nki")
    if wrap_nki is not None:
        return wrap_nki(kernel)[(lnc,)]  # torch_neuronx accepts no plain number here
    os.environ[hardware.LNC_VARIABLE] = str(lnc)
    return kernel


def launch(framework: str, kernel: Any, lnc: int, arguments: tuple[Any, ...]) -> Launched:
    """Returns a function that launches the kernel, waits for its end, and returns its result.

    Arrays, also those in tuples, are on the device when `launch` returns.
    """
    if framework == SIMULATOR:
        return functools.partial(simulated, kernel, lnc, arguments)
    # These imports make the devices known to torch before a tensor is moved.
    if framework == XLA:
        import torch_xla

        device, ready = "xla", kernel[lnc]
        wait: Callable[[], Any] = functools.partial(torch_xla.sync, wait=True)
    else:
        import torch

        device, ready, wait = "neuron", _caller(kernel, lnc), torch.accelerator.synchronize
    given = tuple(on_device(argument, device) for argument in arguments)

    def launched() -> Any:
        result = ready(*given)
        wait()
        return result

    return launched


def simulated(kernel: Any, lnc: int, arguments: tuple[Any, ...]) -> Any:
    """Returns the kernel's result in the simulator, whatever rules the kernel breaks."""
    with warnings.catch_warnings(), nki_sim.allow(*RULES):
        warnings.simplefilter("ignore", nki_sim.NkiSimulationWarning)
        return nki_sim.simulate(kernel).with_programs(lnc)(*arguments)


def on_device(argument: Any, device: str) -> Any:
    """Returns an array as a tensor of the device, also in tuples; constants stay as they are."""
    if isinstance(argument, tuple):
        return tuple(on_device(one, device) for one in argument)
    if not isinstance(argument, np.ndarray):
        return argument
    import torch  # the simulator needs no torch

    return torch.from_numpy(argument).to(device)


def on_host(result: Any) -> np.ndarray[Any, Any]:
    """Returns a result as an array."""
    return result if isinstance(result, np.ndarray) else result.cpu().numpy()
