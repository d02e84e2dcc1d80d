"""The device "neuron" of the tests, built from device.cpp by the C++ compiler of the machine.

The device has two modes, because it is unknown whether TorchNeuron's device stores complex numbers.
In the first mode the device refuses complex dtypes. In the second mode it stores complex64, and
`compile_backend` decomposes complex operations as PyTorch's flag `enable_complex_wrapper` does.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension

SOURCE = Path(__file__).with_name("device.cpp")
MODE_VARIABLE = "TRNFFT_STAND_IN_COMPLEX"  # 1 selects the second mode


def stores_complex() -> bool:
    """Returns whether the device is in the second mode."""
    return os.environ.get(MODE_VARIABLE) == "1"


@dataclass
class Counts:
    """Transfers over the bus, and the CPU's computations for the device, in a `with` block."""

    to_host: int = 0
    to_device: int = 0
    to_host_bytes: int = 0
    to_device_bytes: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)


def install(folder: Path) -> Any:
    """Builds the device in a folder, and registers it as "neuron" in this process for good.

    Raises:
        RuntimeError: the machine has no C++ compiler, or the compiler fails.
    """
    # Ninja, which builds the device, may be installed beside the interpreter only.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # Without optimisation the device compiles in half the time; the simulator needs most of the run
    # time anyway.
    library = cpp_extension.load(
        "neuron_device", [str(SOURCE)], extra_cflags=["-O0"], build_directory=str(folder)
    )
    library.store_complex(stores_complex())
    torch.utils.rename_privateuse1_backend("neuron")
    module = types.ModuleType("torch.neuron")
    module.__dict__.update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda device: None,
        device=nullcontext,
        synchronize=lambda device=None: None,
        manual_seed_all=lambda seed: None,
        _is_in_bad_fork=lambda: False,
        get_amp_supported_dtype=lambda: [torch.bfloat16],
    )
    torch._register_device_module("neuron", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    sys.modules["torch.neuron"] = module
    return library


@contextmanager
def counted(library: Any) -> Iterator[Counts]:
    """Yields Counts, which are filled in at the end of the block."""
    library.reset_counts()
    counts = Counts()
    yield counts
    for name, value in library.read_counts().items():
        setattr(counts, name, value)
