"""The table of public functions: the kinds of their arguments, and a reference for each."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import trnfft
from tests.fuzz.function import Check, Function
from tests.fuzz.layers import LAYERS
from tests.fuzz.signals import SIGNALS
from tests.fuzz.transforms import TRANSFORMS
from tests.fuzz.values import (
    ARRAY,
    FLAG,
    PATH,
    REAL,
    TENSOR,
    Argument,
    ints,
    names,
    optional,
)

FUNCTIONS: dict[str, Function] = {**TRANSFORMS, **SIGNALS, **LAYERS}

# Public names without a row, with the reason.
EXCEPTIONS = {
    "__version__": "no function",
    "as_complex_tensor": "computes nothing: tests/trnfft/test_kinds.py",
    "as_native": "computes nothing: tests/trnfft/test_kinds.py",
    "forget_wisdom": "takes no argument",
    "get_backend": "takes no argument",
    "get_complex_storage": "takes no argument",
    "set_complex_storage": "a setting of one bool: tests/trnfft/test_config.py",
    "get_precision": "takes no argument",
    **dict.fromkeys(
        ("backend", "set_backend", "precision", "set_precision"),
        "a setting of one name: tests/trnfft/test_config.py",
    ),
    "patch_torch": "takes no argument, and errors inside are torch's: tests/trnfft/test_patch.py",
    "scipy_backend": "its errors are SciPy's: tests/trnfft/test_scipy_backend.py",
    "distributed": "a module, of groups of processes: tests/trnfft/distributed",
    "nn": "a module, whose layers have rows",
    "order": "a module, whose functions have rows",
    "point_spread_functions": "a module, whose functions have rows",
}

# Plans

CHIP = optional(names("trn1", "trn2", "trn3"))
PRECISION = optional(names("fast", "kahan", "double", "bf16"))


def _is_plan(n: Any = None, shape: Any = None, **options: Any) -> Check:
    points = int(n) if n is not None else int(np.prod([int(size) for size in shape]))
    return lambda plan: plan.n == points and plan.choice.predicted_error <= plan.max_error


FUNCTIONS["plan"] = Function(
    trnfft.plan,
    {
        "n": ints("64", "100", "1000", "97", "1", "None"),
        "shape": optional(ints("None", "(8, 8)", "(2, 3, 4)")),
        "real": FLAG,
        "padded_from": ints(""),
        "batch": optional(ints("16", "1000")),
        "inverse": FLAG,
        "dtype": Argument(("", "torch.float32", "'float64'", "np.float32")),
        "precision": PRECISION,
        "target": CHIP,
        "cores": optional(ints("1", "2", "None")),
        "max_error": Argument(("", "1e-6", "1e-3")),
        "algorithms": optional(names("stockham", "seed")),
    },
    _is_plan,
)
FUNCTIONS["next_fast_len"] = Function(
    trnfft.next_fast_len,
    {"target": ints("1", "97", "300", "1000"), "real": FLAG},
    lambda target, **options: lambda length: int(target) <= length <= 2 * int(target),
)
FUNCTIONS["fft_workspace_bytes"] = Function(
    trnfft.fft_workspace_bytes,
    {
        "n_or_shape": ints("64", "1000", "(8, 16)"),
        "real": FLAG,
        "inverse": FLAG,
        "convolution": FLAG,
        "batch": optional(ints("16")),
        "precision": PRECISION,
        "target": CHIP,
    },
    lambda **options: lambda size: size >= 0,
)
FUNCTIONS["plan_layer"] = Function(
    lambda inputs, **options: trnfft.plan_layer(trnfft.nn.FNetMixer(), inputs, **options),
    {
        "inputs": ints("(66, 128)", "(2, 100, 96)", "(7, 5)"),
        "backward": FLAG,
        "target": CHIP,
        "cores": optional(ints("1", "2", "None")),
    },
    lambda inputs, **options: lambda report: report.launch_count("forward") == 1,
)
POINTS = {"n": ints("8", "1000", "97", "5000")}


def _is_permutation(n: Any) -> Check:
    return lambda order: sorted(order) == list(range(int(n)))


for _name in ("frequencies", "positions", "mirrors"):
    FUNCTIONS[f"order.{_name}"] = Function(getattr(trnfft.order, _name), POINTS, _is_permutation)


# Creation


FUNCTIONS["ComplexTensor"] = Function(
    trnfft.ComplexTensor, {"real": REAL, "imag": REAL}, lambda real, imag: torch.complex(real, imag)
)
FUNCTIONS["ComplexTensor.from_complex"] = Function(
    trnfft.ComplexTensor.from_complex, {"z": TENSOR}, lambda z: z + 0j
)
FUNCTIONS["ComplexTensor.from_polar"] = Function(
    trnfft.ComplexTensor.from_polar,
    {"abs": REAL, "angle": REAL},
    lambda abs, angle: abs * torch.exp(1j * angle),
)
FUNCTIONS["ComplexTensor.from_numpy"] = Function(
    trnfft.ComplexTensor.from_numpy,
    {"array": ARRAY},
    lambda array: torch.from_numpy(array.astype(np.complex128)),
)


# Files of wisdom


def _exchanged(path: Any, exports: bool) -> tuple[int, int]:
    """Returns how many plans are written, and how many of them are read again.

    exports: whether the path is that of the file that is written; otherwise it is read.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        trnfft.plan(94, batch=4, target="trn1")
        written = trnfft.export_wisdom(path if exports else "a")
        trnfft.forget_wisdom()
        for name in () if exports else ("b", "é b"):
            Path(name).write_bytes(Path("a").read_bytes())
        return written, trnfft.import_wisdom(path)


for _name, _exports in (("export_wisdom", True), ("import_wisdom", False)):
    FUNCTIONS[_name] = Function(
        functools.partial(_exchanged, exports=_exports),
        {"path": PATH},
        lambda path: lambda counts: counts[0] == counts[1] > 0,
    )
