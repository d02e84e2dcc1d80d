"""Runs a case in a process where the simulator answers `import nki`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import nki_sim
from nki_sim.import_nki.nki_finder import install

from .case import Case


def answer_imports(library: Path) -> None:
    """Makes the simulator answer `import nki`, and the checkout answer `import nkilib`.

    The compiler's package contains `neuronxcc.nki.typing`, which two modules import for
    annotations. Where the compiler is absent, nki.typing takes the place of that module.
    """
    install()
    sys.path.insert(0, str(library))
    if importlib.util.find_spec("neuronxcc") is not None:
        return
    names = ("neuronxcc", "neuronxcc.nki", "neuronxcc.nki.typing")
    modules = [types.ModuleType(name) for name in names]
    tensor = sys.modules["nki.typing"].tensor
    vars(modules[2]).update(tensor=tensor, mutable_tensor=tensor)
    vars(modules[1]).update(typing=modules[2])
    vars(modules[0]).update(nki=modules[1])
    sys.modules.update(zip(names, modules, strict=True))


def import_module(name: str, checkouts: list[Path]) -> ModuleType:
    """Returns a module of nkilib by its name, or a file of one of the other checkouts."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    file = next(folder / name for folder in checkouts if (folder / name).is_file())
    sys.path.insert(0, str(file.parent))
    return importlib.import_module(file.stem)


def run_case(case: Case, checkouts: list[Path]) -> dict[str, Any]:
    """Returns the largest error and the modelled microseconds.

    Errors of the simulator pass through.
    """
    module = import_module(case.module, checkouts)
    if case.names_modes:
        name_modes()
    launch = case.build(module)
    found = launch.kernel
    kernel = found if isinstance(found, nki_sim.Kernel) else nki_sim.jit(found)
    kernel = kernel[case.cores] if case.cores > 1 else kernel
    warnings.simplefilter("ignore")
    with nki_sim.allow(*case.waives), nki_sim.record() as timeline:
        result = nki_sim.simulate(kernel)(*launch.arguments, **launch.named)
    if launch.outputs is not None:
        outputs = launch.outputs(result)
    else:
        outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(outputs) != len(launch.expected):
        raise AssertionError(f"{len(outputs)} outputs, expected are {len(launch.expected)}")
    errors = [
        largest_error(np.asarray(found), np.asarray(reference))
        for found, reference in zip(outputs, launch.expected, strict=True)
        if reference is not None
    ]
    return {"largest_error": max(errors), "modelled_us": timeline.total_ns / 1000}


def name_modes() -> None:
    """Replaces nki-library's integers _DGE_MODE_... by members of nki.isa.dge_mode."""
    mode = sys.modules["nki.isa"].dge_mode
    for module in [m for name, m in sys.modules.items() if name.startswith("nkilib.")]:
        for name, value in list(vars(module).items()):
            if name.startswith("_DGE_MODE") and isinstance(value, int):
                setattr(module, name, mode(value))


def largest_error(found: np.ndarray, reference: np.ndarray) -> float:
    """Returns the largest difference over the largest value of the reference, in float64."""
    if found.shape != reference.shape:
        raise AssertionError(f"shape {found.shape}, expected is {reference.shape}")
    difference = np.abs(found.astype(np.float64) - reference)
    if not np.isfinite(difference).all():
        raise AssertionError(f"{np.sum(~np.isfinite(difference))} elements are not finite")
    return float(difference.max() / (np.abs(reference).max() or 1.0))
