"""Names and arguments that a release of NKI has no longer, and what to write instead.

Sources: nki/migration/index.rst and release-notes/components/nki.rst of the Neuron SDK 2.32 and,
for NKI 0.7, of 2.33.
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
    """The first release without it, and what to write there."""

    since: str
    instead: str
    until: str = ""  # the release that has the name again, for another thing

    def __str__(self) -> str:
        return f"removed in NKI {self.since}: write {self.instead}"

    @property
    def is_gone(self) -> bool:
        """Whether the current release is without it."""
        current = _numbers(releases.current())
        return _numbers(self.since) <= current and not (
            self.until and _numbers(self.until) <= current
        )


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


_SLICES = Removed("0.2", "slices, as tile[0:128, 0:512], or tensor.ap(pattern)")
_BLOCKS = Removed("0.2", "a list of tiles, or a tile whose first dimension is the partitions")
_MASK = Removed("0.2", "a slice that ends with the tensor, as x[i : min(i + 128, rows)]")
_DTYPE = Removed("0.2", "dst=nl.ndarray(shape, dtype, buffer=nl.sbuf): the result has its dtype")
_RMW = Removed("0.3", "nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)")
_DYNAMIC_COPY = Removed("0.4", "nisa.tensor_copy with tensor.ap(pattern, scalar_offset=index)")
_TIMES = Removed("0.2", "nothing in the kernel: `nki-sim profile`, or a profiler on the device")
_CORES = Removed("0.2", f"{_VARIABLE}=2 for two cores, which NKI 0.6 takes as kernel[2], too")
_RUN = Removed("0.2", "nki.simulate(kernel)(...), or call the kernel")
FORI_LOOP = Removed("0.7", "nl.fori_loop(lower, upper, body), which traces its body once")
WHILE_LOOP = Removed("0.7", "nl.while_loop(register, body), as a register has no value yet")

NAMES = {
    "nki.language.arange": _SLICES,
    "nki.language.mgrid": _SLICES,
    "nki.language.par_dim": _BLOCKS,
    "nki.language.fp32": Removed("0.2", "the number, as -3.4028235e38"),
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
    "nki.compiler": Removed("0.2", "nl.ndarray(..., address=(partition, byte)), or none", "0.7"),
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


def removed_name(path: str) -> Removed | None:
    """What became of a full name, as ``nki.language.arange``; None where the release has it."""
    found = NAMES.get(path)
    return found if found and found.is_gone else None


def removed_argument(module: str, function: str, keyword: str) -> Removed | None:
    """What became of a keyword of ``nki.isa.tensor_copy``, say; None where it never was one."""
    found = _ARGUMENTS.get((function, keyword))
    if found is None and keyword == "mask":
        found = _MASK
    if found is None and keyword == "dtype" and module == "nki.isa":
        found = _DTYPE
    return found


# Names that came with a release.
NEW = {
    "0.7": frozenset(
        [f"nki.language.{name}" for name in ("tiles", "blocks", "alloc_tiles", "alloc_blocks")]
        + [f"nki.language.{name}" for name in ("NkiGrid", "NkiTileGrid", "NkiBlockGrid", "int64")]
        + [f"nki.isa.{name}" for name in ("NkiScalar", "scalar_load", "scalar_store")]
    )
}


def is_new(path: str) -> str:
    """The release that brings a name which the current one has not; "" for all other names."""
    current = _numbers(releases.current())
    later = (release for release, names in NEW.items() if path in names)
    return next((release for release in later if _numbers(release) > current), "")


def is_absent(path: str) -> bool:
    """Whether the current release lacks a name that another one has."""
    return removed_name(path) is not None or bool(is_new(path))


def unknown(module: str, name: str, known: list[str]) -> str:
    """What to say of a name that a module of NKI does not have in the current release."""
    short = SHORT.get(module, module)
    removed = removed_name(f"{module}.{name}")
    if removed:
        return f"{short}.{name} was {removed}"
    if since := is_new(f"{module}.{name}"):
        return f"NKI {releases.current()} has no {short}.{name}, which came with NKI {since}"
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {short}.{near[0]}?" if near else ""
    return f"NKI {releases.current()} has no {short}.{name}{hint}"


def public_names(module: ModuleType) -> list[str]:
    """The names of a module of the simulator that the SDK documents."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (not isinstance(value, ModuleType) or name == "constants")
        and name not in ("Any", "annotations")
    ]


def no_attribute(
    module: ModuleType | str, called: str, new: Mapping[str, Any] | None = None
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module, or of its name: it says what to write instead.

    ``new`` holds names that came with a release: they are there in that one and later.
    """
    later = new or {}

    def missing(name: str) -> Any:
        if name in later and not is_new(f"{called}.{name}"):
            return later[name]
        if name == "__all__" and later:  # of `from nki.language import *`
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
    parameters = inspect.signature(function).parameters
    names = ", ".join(parameters)
    has_result = called == "nki.isa" and "dst" in parameters
    returns = "; it returns no tensor, dst is the result" if has_result else ""
    release = releases.current()
    return f"NKI {release} has {SHORT[called]}.{function.__name__}({names}){returns}"
