"""Launches of a kernel: in the simulator, by PyTorch-XLA, or on the device "neuron".

On a device this never ran. Frameworks are named by the package that launches.
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

from nki_kernels import hardware, simulator
from nki_kernels.nki_api import REAL_NKI
from nki_kernels.simulator.device_rules import RULES

SIMULATOR = "simulator"
XLA = "torch_xla"
DEVICE = Path("/dev/neuron0")  # where the driver shows the first device

Launched = Callable[[], Any]


def frameworks() -> list[str]:
    """What can launch on a chip here; the simulator alone where nothing can."""
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
    """One of the functions by which packages launch on the device "neuron"; None without it."""
    from trnfft.backends import torch_neuron  # here: the simulator does without torch

    return torch_neuron.found(name)


def _caller(kernel: Any, lnc: int) -> Any:
    """What launches a kernel there: its caller, or itself where no package has `wrap_nki`."""
    wrap_nki = _function("wrap_nki")
    if wrap_nki is not None:
        return wrap_nki(kernel)[(lnc,)]  # a tuple: torch_neuronx takes no plain number there
    os.environ[hardware.LNC_VARIABLE] = str(lnc)
    return kernel


def launch(framework: str, kernel: Any, lnc: int, arguments: tuple[Any, ...]) -> Launched:
    """A function that launches the kernel, waits for the end and returns what it computed.

    Arrays are on the device when this returns, in tuples, too.
    """
    if framework == SIMULATOR:
        return functools.partial(simulated, kernel, lnc, arguments)
    # Before any tensor is moved: the packages tell torch of their devices.
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
    """The kernel's result by the simulator, whatever rules it breaks."""
    with warnings.catch_warnings(), simulator.allow(*RULES):
        warnings.simplefilter("ignore", simulator.NkiSimulationWarning)
        return simulator.simulate(kernel).with_programs(lnc)(*arguments)


def on_device(argument: Any, device: str) -> Any:
    """Arrays as tensors of the device, in tuples, too; constants as they are."""
    if isinstance(argument, tuple):
        return tuple(on_device(one, device) for one in argument)
    if not isinstance(argument, np.ndarray):
        return argument
    import torch  # the simulator does without

    return torch.from_numpy(argument).to(device)


def on_host(result: Any) -> np.ndarray[Any, Any]:
    """A result as an array."""
    return result if isinstance(result, np.ndarray) else result.cpu().numpy()
