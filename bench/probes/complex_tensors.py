"""Complex tensors of PyTorch on the device "neuron": which operations are right there?

trnfft assumes no complex storage on that device, unless `set_complex_storage` says so. TorchNeuron
reads a variable when it is imported: with 1, the default of PyTorch 2.13 and later, its graphs have
complex operations decomposed into real ones; with 0 the compiler lowers those that AWS has
verified. So every operation is asked eagerly and compiled, with both values, in a process of its
own. No kernel of NKI takes part.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.probes.asking import SECONDS, SHOWN, TOLERANCE, in_a_process, relative
from bench.probes.probe import Array
from bench.probes.report import (
    DECOMPOSE,
    MODES,
    REFUSED,
    RIGHT,
    SETTINGS,
    UNANSWERED,
    WRONG,
    Mode,
    Setting,
    TensorAnswer,
)
from bench.results import ResultsError, load_as
from trnfft.backends import torch_neuron

DEVICE = "neuron"  # and the name of its compiler as a backend of torch.compile
SIDE = 32  # of the matrices, which are symmetric in nothing
# How warnings and logs say that the CPU computed.
FALLBACK = re.compile(r"fall(s|en|ing)?[ _-]?back", re.IGNORECASE)


@dataclass(frozen=True)
class Operation:
    """What is asked.

    Attributes:
        compute: from tensors on the device to one that is complex, or has parts as last dimension.
        exact: the complex result in NumPy, of a complex matrix.
        inputs: on the host, from the real and the imaginary part.
    """

    compute: Callable[..., Any]
    exact: Callable[[Array], Array]
    inputs: Callable[..., tuple[Any, ...]]


def parts(re: Any, im: Any) -> tuple[Any, ...]:
    return re, im


def whole(re: Any, im: Any) -> tuple[Any, ...]:
    return (torch.complex(re, im),)


def product(re: Any, im: Any) -> Any:
    z = torch.complex(re, im)
    return torch.view_as_real(torch.mm(z, z))


def fft_r2c(re: Any, im: Any) -> Any:
    return torch.view_as_real(torch.ops.aten._fft_r2c(re, [1], 0, True))


def fft_c2c(re: Any, im: Any) -> Any:
    return torch.view_as_real(torch.ops.aten._fft_c2c(torch.complex(re, im), [1], 0, True))


OPERATIONS: dict[str, Operation] = {
    "complex": Operation(torch.complex, lambda z: z, parts),  # its result is stored
    "view_as_real": Operation(torch.view_as_real, lambda z: z, whole),  # what it takes is stored
    "mm": Operation(product, lambda z: z @ z, parts),
    "_fft_r2c": Operation(fft_r2c, lambda z: np.fft.rfft(z.real, axis=1), parts),
    "_fft_c2c": Operation(fft_c2c, lambda z: np.fft.fft(z, axis=1), parts),
}


def ask(
    name: str, mode: Mode, setting: Setting, device: str = DEVICE, backend: str = DEVICE
) -> TensorAnswer:
    """The answer of a device, here and now; the process has the variable's value already."""
    operation = OPERATIONS[name]
    generator = np.random.default_rng(0)
    re, im = generator.standard_normal((2, SIDE, SIDE), dtype=np.float32)
    compute = operation.compute
    try:
        if device == DEVICE:
            torch_neuron.found("wrap_nki")  # its package tells torch of the device
        if mode == "compiled":
            compute = torch.compile(compute, backend=backend, fullgraph=True, dynamic=False)
        given = operation.inputs(torch.from_numpy(re), torch.from_numpy(im))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = compute(*[tensor.to(device) for tensor in given])
            host = result.cpu()
    except Exception as problem:  # the framework, the compiler or the runtime refuses
        return answer(name, mode, setting, REFUSED, first_line(problem))
    said = [str(warning.message) for warning in caught if FALLBACK.search(str(warning.message))]
    error = relative(as_parts(host), np.stack(parts_of(operation.exact(re + 1j * im)), axis=-1))
    where = "" if result.device.type == device else f"its result is on {result.device.type}"
    return TensorAnswer(
        operation=name,
        mode=mode,
        setting=setting,
        verdict=RIGHT if error <= TOLERANCE else WRONG,
        reason=(where or " ".join(said))[:SHOWN],
        relative_error=error,
        fell_back=bool(where or said),
    )


def answer(name: str, mode: Mode, setting: Setting, verdict: Any, reason: str) -> TensorAnswer:
    """An answer without a result."""
    return TensorAnswer(operation=name, mode=mode, setting=setting, verdict=verdict, reason=reason)


def first_line(problem: BaseException) -> str:
    """The first line of an error; of what a compiler raised, where torch.compile wraps that."""
    cause = getattr(problem, "inner_exception", problem)
    lines = str(cause).strip().splitlines() or [""]
    return f"{type(cause).__name__}: {lines[0]}"[:SHOWN]


def as_parts(host: Any) -> Array:
    """A result as an array whose last dimension is the real and the imaginary part."""
    return (torch.view_as_real(host) if host.is_complex() else host).numpy()


def parts_of(z: Array) -> tuple[Array, Array]:
    return z.real, z.imag


def ask_apart(name: str, mode: Mode, setting: Setting, seconds: float = SECONDS) -> TensorAnswer:
    """The answer of a process of its own, whatever becomes of it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "answer.json")
        try:
            words = ["tensor", name, mode, setting]
            done = in_a_process(words, out, seconds, {DECOMPOSE: setting})
        except subprocess.TimeoutExpired:
            reason = f"it did not end within {seconds:.0f} s"
            return answer(name, mode, setting, UNANSWERED, reason)
        try:
            found = load_as(TensorAnswer, out, "a tensor's answer")
        except ResultsError:
            last = " ".join(done.stderr.split())[-SHOWN:]
            reason = f"its process ended with exit code {done.returncode}: {last}"
            return answer(name, mode, setting, UNANSWERED, reason)
    logged = [line for line in done.stderr.splitlines() if FALLBACK.search(line)]
    if found.verdict in (RIGHT, WRONG) and not found.fell_back and logged:
        return found.model_copy(update={"fell_back": True, "reason": logged[0].strip()[:SHOWN]})
    return found


def ask_all() -> Iterator[TensorAnswer]:
    """Every operation, eager and compiled, with both values of the variable."""
    for name in OPERATIONS:
        for mode in MODES:
            for setting in SETTINGS:
                yield ask_apart(name, mode, setting)
