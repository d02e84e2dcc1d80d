"""Complex tensors of PyTorch on the device "neuron": which operations are right there?

trnfft assumes that the device has no complex storage, unless `set_complex_storage` says otherwise.
TorchNeuron reads the variable TORCH_NEURONX_COMPLEX_DECOMPOSE when it is imported. With 1, the
default of PyTorch 2.13 and later, its graphs decompose complex operations into real ones; with 0
the compiler lowers those operations that AWS has verified. So each operation is run eagerly and
compiled, with both values, in a process of its own. No NKI kernel takes part.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bench.probes.asking import SECONDS, SHOWN, TOLERANCE, apart, relative
from bench.probes.probe import Array
from bench.probes.report import COMPLEX, REFUSED, RIGHT, UNANSWERED, WRONG, Answer, Tried, Verdict
from trnfft.base import neuron_launchers

DECOMPOSE = "TORCH_NEURONX_COMPLEX_DECOMPOSE"
MODES, SETTINGS = ("eager", "compiled"), ("0", "1")  # of the code, and of the variable
STORED = "trnfft.set_complex_storage(True)"  # about which the answers inform
DEVICE = "neuron"  # also the name of its compiler as a backend of torch.compile
SIDE = 32  # of the matrices, which have no symmetry
# Words by which warnings and logs say that the CPU computed.
FALLBACK = re.compile(r"fall(s|en|ing)?[ _-]?back", re.IGNORECASE)


@dataclass(frozen=True)
class Operation:
    """An operation on complex tensors.

    Attributes:
        compute: from tensors on the device to a tensor that is complex, or whose last dimension
            has the real and the imaginary part.
        exact: the complex result by NumPy, from a complex matrix.
        inputs: tensors on the host, from the real and the imaginary part.
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
    "complex": Operation(torch.complex, lambda z: z, parts),  # stores its result
    "view_as_real": Operation(torch.view_as_real, lambda z: z, whole),  # needs a stored operand
    "mm": Operation(product, lambda z: z @ z, parts),
    "_fft_r2c": Operation(fft_r2c, lambda z: np.fft.rfft(z.real, axis=1), parts),
    "_fft_c2c": Operation(fft_c2c, lambda z: np.fft.fft(z, axis=1), parts),
}


def ask(name: str, mode: str, setting: str, device: str = DEVICE, backend: Any = DEVICE) -> Answer:
    """Runs an operation on a device in this process, and returns the answer.

    The process must already have the variable's value. A result that the CPU computed counts as
    refused; a silent fallback is not detected.
    """
    operation = OPERATIONS[name]
    generator = np.random.default_rng(0)
    re, im = generator.standard_normal((2, SIDE, SIDE), dtype=np.float32)
    compute = operation.compute
    try:
        if device == DEVICE:
            neuron_launchers.launcher("wrap_nki")  # its package makes the device known to torch
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
    if result.device.type != device:
        said = [f"its result is on {result.device.type}"]
    z = operation.exact(re + 1j * im)
    error = relative(as_parts(host), np.stack((z.real, z.imag), axis=-1))
    verdict: Verdict = RIGHT if error <= TOLERANCE else WRONG
    found = answer(name, mode, setting, verdict, "", Tried(relative_error=error))
    return by_the_cpu(found, " ".join(said)) if said else found


def answer(
    name: str, mode: str, setting: str, verdict: Verdict, reason: str, tried: Tried | None = None
) -> Answer:
    """Returns the answer to one operation."""
    return Answer(
        probe=f"{COMPLEX}: {name}",
        question="",
        record="",
        settles=STORED,
        framework=f"{mode} code with {DECOMPOSE}={setting}",
        lnc=1,
        counts=(1,),
        verdict=verdict,
        reason=reason,
        kernel=tried or Tried(),
    )


def by_the_cpu(found: Answer, said: str) -> Answer:
    """Returns the answer where a warning or a log says that the CPU computed."""
    return found.model_copy(
        update={"verdict": REFUSED, "reason": f"the CPU computed: {said}"[:SHOWN]}
    )


def first_line(problem: BaseException) -> str:
    """Returns the first line of an error.

    Where torch.compile wraps the error of a compiler, the line is that of the compiler's error.
    """
    cause = getattr(problem, "inner_exception", problem)
    lines = str(cause).strip().splitlines() or [""]
    return f"{type(cause).__name__}: {lines[0]}"[:SHOWN]


def as_parts(host: Any) -> Array:
    """Returns a result as an array whose last dimension has the real and the imaginary part."""
    return (torch.view_as_real(host) if host.is_complex() else host).numpy()


def ask_apart(name: str, mode: str, setting: str, seconds: float = SECONDS) -> Answer:
    """Runs an operation in a process of its own, and returns the answer.

    The answer is "unanswered" where the process takes longer than ``seconds`` or fails.
    """
    words = ["tensor", name, mode, setting]
    found, said = apart(Answer, words, seconds, {DECOMPOSE: setting})
    if found is None:
        return answer(name, mode, setting, UNANSWERED, said)
    logged = [line for line in said.splitlines() if FALLBACK.search(line)]
    if found.verdict in (RIGHT, WRONG) and logged:
        return by_the_cpu(found, logged[0].strip())
    return found


def ask_all() -> Iterator[Answer]:
    """Yields the answer of each operation, eager and compiled, with both values of the variable."""
    for name, mode, setting in itertools.product(OPERATIONS, MODES, SETTINGS):
        yield ask_apart(name, mode, setting)
