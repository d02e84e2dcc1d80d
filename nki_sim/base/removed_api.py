"""Names and arguments that releases of NKI have removed, and what to write instead.

Sources: nki/migration/index.rst and release-notes/components/nki.rst of the Neuron SDK 2.32, and of
the Neuron SDK 2.33 for NKI 0.7.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from . import releases

_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"
SHORT = {"nki.language": "nl", "nki.isa": "nisa"}


class Removed(NamedTuple):
    """The first release without a name, and what to write there instead."""

    since: str
    instead: str
    until: str = ""  # the release that has the name again, with another meaning

    def __str__(self) -> str:
        return f"removed in NKI {self.since}: write {self.instead}"

    @property
    def is_gone(self) -> bool:
        """Whether the current release does not have the name."""
        current = _numbers(releases.current())
        return _numbers(self.since) <= current and not (
            self.until and _numbers(self.until) <= current
        )


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


_SLICES = Removed("0.2", "slices such as tile[0:128, 0:512], or tensor.ap(pattern)")
_BLOCKS = Removed("0.2", "a list of tiles, or a tile whose first dimension is the partitions")
_MASK = Removed("0.2", "a slice that ends with the tensor, such as x[i : min(i + 128, rows)]")
_DTYPE = Removed("0.2", "dst=nl.ndarray(shape, dtype, buffer=nl.sbuf), whose dtype the result has")
_RMW = Removed("0.3", "nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)")
_DYNAMIC_COPY = Removed("0.4", "nisa.tensor_copy with tensor.ap(pattern, scalar_offset=index)")
_TIMES = Removed("0.2", "nothing in the kernel, and use `nki-sim profile` or the device's profiler")
_CORES = Removed("0.2", f"{_VARIABLE}=2 for two cores, or in NKI 0.6 kernel[2]")
_RUN = Removed("0.2", "nki.simulate(kernel)(...), or call the kernel")
FORI_LOOP = Removed("0.7", "nl.fori_loop(lower, upper, body), which traces the body once")
WHILE_LOOP = Removed(
    "0.7", "nl.while_loop(register, body), as a register has no value at compile time"
)

NAMES = {
    "nki.language.arange": _SLICES,
    "nki.language.mgrid": _SLICES,
    "nki.language.par_dim": _BLOCKS,
    "nki.language.fp32": Removed("0.2", "the number, such as -3.4028235e38"),
    "nki.language.atomic_rmw": _RMW,
    "nki.language.loop_reduce": Removed("0.2", "nisa.tensor_tensor(dst=sum, ...) in a loop"),
    "nki.language.spmd_dim": _CORES,
    "nki.language.nc": _CORES,
    "nki.language.dynamic_range": FORI_LOOP,
    "nki.isa.tensor_copy_dynamic_src": _DYNAMIC_COPY,
    "nki.isa.tensor_copy_dynamic_dst": _DYNAMIC_COPY,
    "nki.benchmark": _TIMES,
    "nki.profile": _TIMES,
    "nki.baremetal": _RUN,
    "nki.simulate_kernel": _RUN,
    "nki.compiler": Removed(
        "0.2", "nl.ndarray(..., address=(partition, byte)), or no address", "0.7"
    ),
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
    ("memset", "shape"): Removed("0.2", "dst=tile, which is filled"),
    ("jit", "platform_target"): Removed(
        "0.3", "NEURON_PLATFORM_TARGET_OVERRIDE=trn2 in the environment"
    ),
}
NEURONXCC = Removed("0.4", "import nki, nki.language as nl, nki.isa as nisa")


def removed_name(path: str) -> Removed | None:
    """Returns what to write for a removed name such as ``nki.language.arange``, or None."""
    found = NAMES.get(path)
    return found if found and found.is_gone else None


def removed_argument(module: str, function: str, keyword: str) -> Removed | None:
    """Returns what to write for a removed keyword of a function, or None."""
    found = _ARGUMENTS.get((function, keyword))
    if found is None and keyword == "mask":
        found = _MASK
    if found is None and keyword == "dtype" and module == "nki.isa":
        found = _DTYPE
    return found


# Names by the release that introduced them.
NEW = {
    "0.7": frozenset(
        [f"nki.language.{name}" for name in ("tiles", "blocks", "alloc_tiles", "alloc_blocks")]
        + [f"nki.language.{name}" for name in ("NkiGrid", "NkiTileGrid", "NkiBlockGrid", "int64")]
        + [f"nki.isa.{name}" for name in ("NkiScalar", "scalar_load", "scalar_store")]
    )
}


def is_new(path: str) -> str:
    """Returns the later release that introduces a name, or "" for all other names."""
    current = _numbers(releases.current())
    later = (release for release, names in NEW.items() if path in names)
    return next((release for release in later if _numbers(release) > current), "")


def is_absent(path: str) -> bool:
    """Returns whether the current release lacks a name that another release has."""
    return removed_name(path) is not None or bool(is_new(path))


def unknown(module: str, name: str, known: list[str]) -> str:
    """Returns the error text about a name that a module of NKI does not have."""
    short = SHORT.get(module, module)
    removed = removed_name(f"{module}.{name}")
    if removed:
        return f"{short}.{name} was {removed}"
    if since := is_new(f"{module}.{name}"):
        return f"NKI {releases.current()} has no {short}.{name}, which exists since NKI {since}"
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {short}.{near[0]}?" if near else ""
    return f"NKI {releases.current()} has no {short}.{name}{hint}"


def public_names(module: ModuleType) -> list[str]:
    """Returns the documented names of a module of the simulator."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (not isinstance(value, ModuleType) or name == "constants")
        and name not in ("Any", "annotations")
    ]


def defined_in(names: Mapping[str, Any]) -> list[str]:
    """Returns the public functions that a file defines, given its ``globals()``."""
    file = names["__name__"]
    found = [name for name, value in names.items() if getattr(value, "__module__", "") == file]
    return [name for name in found if not name.startswith("_")]


def no_attribute(
    module: ModuleType | str, called: str, new: Mapping[str, object] | None = None
) -> Callable[[str], Any]:
    """Returns a ``__getattr__`` for a module, whose errors say what to write instead.

    ``module`` is the module or its name, ``called`` its name in NKI. ``new`` holds names that exist
    since a later release only.
    """
    later = new or {}

    def missing(name: str) -> Any:
        if name in later and not is_new(f"{called}.{name}"):
            return later[name]
        if name == "__all__" and later:  # for `from nki.language import *`
            found = sys.modules[module] if isinstance(module, str) else module
            return [*public_names(found), *(n for n in later if not is_new(f"{called}.{n}"))]
        if name.startswith("__"):
            raise AttributeError(f"module {called!r} has no attribute {name!r}")
        found = sys.modules[module] if isinstance(module, str) else module
        known = [n for n in later if not is_new(f"{called}.{n}")]
        raise AttributeError(unknown(called, name, public_names(found) + known))

    return missing


_KEYWORD = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_MISSING = re.compile(r"(\w+)\(\) missing \d+ required positional argument")


def explain_call(error: TypeError, modules: dict[str, ModuleType]) -> None:
    """Adds the arguments of a function of NKI to Python's error about a wrong call."""
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


def signature(called: str, function: Callable[..., object]) -> str:
    """Returns a text about the parameters of a function of ``nki.language`` or ``nki.isa``."""
    parameters = inspect.signature(function).parameters
    names = ", ".join(parameters)
    has_result = called == "nki.isa" and "dst" in parameters
    returns = "; it returns no tensor, but writes the result to dst" if has_result else ""
    release = releases.current()
    return f"NKI {release} has {SHORT[called]}.{function.__name__}({names}){returns}"
