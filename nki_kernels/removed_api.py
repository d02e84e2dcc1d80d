"""Names and arguments that earlier releases of NKI had, and what to write instead.

Sources: nki/migration/index.rst and release-notes/components/nki.rst of the Neuron SDK 2.32.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

SHORT = {"nki.language": "nl", "nki.isa": "nisa"}


class Removed(NamedTuple):
    """The first release without it, and what to write there."""

    since: str
    instead: str

    def __str__(self) -> str:
        return f"removed in NKI {self.since}: write {self.instead}"


_SLICES = Removed("0.2", "slices, as tile[0:128, 0:512], or tensor.ap(pattern)")
_BLOCKS = Removed("0.2", "a list of tiles, or a tile whose first dimension is the partitions")
_MASK = Removed("0.2", "a slice that ends with the tensor, as x[i : min(i + 128, rows)]")
_DTYPE = Removed("0.2", "dst=nl.ndarray(shape, dtype, buffer=nl.sbuf): the result has its dtype")
_RMW = Removed("0.3", "nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)")
_DYNAMIC_COPY = Removed("0.4", "nisa.tensor_copy with tensor.ap(pattern, scalar_offset=index)")
_TIMES = Removed("0.2", "nothing in the kernel: `nki-sim profile`, or a profiler on the device")
_RUN = Removed("0.2", "nki.simulate(kernel)(...), or call the kernel")

NAMES = {
    "nki.language.arange": _SLICES,
    "nki.language.mgrid": _SLICES,
    "nki.language.par_dim": _BLOCKS,
    "nki.language.fp32": Removed("0.2", "the number, as -3.4028235e38"),
    "nki.language.atomic_rmw": _RMW,
    "nki.language.loop_reduce": Removed("0.2", "nisa.tensor_tensor(dst=sum, ...) in a loop"),
    "nki.language.spmd_dim": Removed("0.2", "kernel[2] for two cores"),
    "nki.language.nc": Removed("0.2", "kernel[2] for two cores"),
    "nki.isa.tensor_copy_dynamic_src": _DYNAMIC_COPY,
    "nki.isa.tensor_copy_dynamic_dst": _DYNAMIC_COPY,
    "nki.benchmark": _TIMES,
    "nki.profile": _TIMES,
    "nki.baremetal": _RUN,
    "nki.simulate_kernel": _RUN,
    "nki.compiler": Removed("0.2", "nl.ndarray(..., address=(partition, byte)), or no address"),
}
_ARGUMENTS = {
    ("dma_copy", "dst_rmw_op"): _RMW,
    ("dma_copy", "unique_indices"): _RMW,
    ("sendrecv", "use_gpsimd_dma"): Removed("0.3", "dma_engine=nisa.dma_engine.gpsimd_dma"),
    ("register_move", "imm"): Removed("0.3", "src=nisa.register_alloc(42)"),
    ("nc_matmul", "psumAccumulateFlag"): Removed("0.2", "the call without it, or accumulate=True"),
    ("nc_matmul", "is_moving_zero"): Removed("0.2", "is_moving_onezero"),
    ("affine_select", "pred"): Removed("0.2", "pattern, channel_multiplier and cmp_op"),
    ("iota", "expr"): Removed("0.2", "pattern=[[step, count]], offset, channel_multiplier"),
    ("memset", "shape"): Removed("0.2", "dst=tile: its shape is filled"),
    ("jit", "platform_target"): Removed("0.3", "NEURON_PLATFORM_TARGET_OVERRIDE=trn2 outside"),
}
NEURONXCC = Removed("0.4", "import nki, nki.language as nl, nki.isa as nisa")


def removed_argument(module: str, function: str, keyword: str) -> Removed | None:
    """What became of a keyword of ``nki.isa.tensor_copy``, say; None where it never was one."""
    found = _ARGUMENTS.get((function, keyword))
    if found is None and keyword == "mask":
        found = _MASK
    if found is None and keyword == "dtype" and module == "nki.isa":
        found = _DTYPE
    return found


def unknown(module: str, name: str, known: list[str]) -> str:
    """What to say of a name that a module of NKI 0.6 does not have."""
    short = SHORT.get(module, module)
    removed = NAMES.get(f"{module}.{name}")
    if removed:
        return f"{short}.{name} was {removed}"
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {short}.{near[0]}?" if near else ""
    return f"NKI 0.6 has no {short}.{name}{hint}"


def public_names(module: ModuleType) -> list[str]:
    """The names of a module of the simulator that the SDK documents."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (not isinstance(value, ModuleType) or name == "constants")
        and name not in ("Any", "annotations")
    ]


def no_attribute(module: ModuleType | str, called: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module, or of its name: it says what to write instead."""

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {called!r} has no attribute {name!r}")
        found = sys.modules[module] if isinstance(module, str) else module
        raise AttributeError(unknown(called, name, public_names(found)))

    return missing


_KEYWORD = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_MISSING = re.compile(r"(\w+)\(\) missing \d+ required positional argument")


def explain_call(error: TypeError, modules: dict[str, ModuleType]) -> None:
    """Add to an error of Python's what the arguments of a function of NKI are today."""
    text = str(error)
    match = _KEYWORD.match(text) or _MISSING.match(text)
    for called, module in modules.items() if match else ():
        assert match
        function = getattr(module, match[1], None)
        if not inspect.isfunction(function):
            continue
        removed = match.re is _KEYWORD and removed_argument(called, match[1], match[2])
        hint = f"{match[2]} was {removed}" if removed else signature(called, function)
        error.args = (f"{text}; {hint}",)
        return


def signature(called: str, function: Any) -> str:
    """The parameters of a function of ``nki.language`` or ``nki.isa``, in words."""
    names = ", ".join(inspect.signature(function).parameters)
    returns = "; it returns no tensor, dst is the result" if called == "nki.isa" else ""
    return f"NKI 0.6 has {SHORT[called]}.{function.__name__}({names}){returns}"
