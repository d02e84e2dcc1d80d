"""A CPU simulator with the API of the documented ``nki`` package, of NKI 0.7 and 0.6.

It simulates a kernel on one NeuronCore, or on two that share HBM. Instructions compute with NumPy.
A kernel that breaks a rule of the hardware raises NkiValidationError. ``record`` returns a timeline
with modelled times.

    with nki_sim.record() as timeline:
        result = nki_sim.simulate(kernel)(array)

Facts about the chips are in `nki_sim.hardware`, and `nki_sim.lint` checks a kernel's source. The
package needs NumPy, and neither torch nor any kernel. NumPy and the simulator load when one of the
names below is used, so that a finder of ``nki`` costs nothing where no kernel runs.

PYTEST_DONT_REWRITE: `nki-sim run -m pytest` imports this package before pytest starts. Without this
word pytest would warn that it cannot rewrite the package's assertions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import isa, language, typing
    from .base import releases
    from .base.running import strict
    from .errors import KernelWarning, NkiSimulationWarning, NkiValidationError, SourceLine
    from .import_nki.nki_finder import install
    from .instructions.instruction_notes import sources
    from .launch.kernel import Kernel, jit
    from .launch.recorded import record
    from .launch.simulation import dry_run, simulate
    from .report.timeline import Timeline
    from .rules.device_rules import allow
    from .timeline.placed import LoopRun
    from .timeline.recording import Event

__all__ = [
    "Event",
    "Kernel",
    "KernelWarning",
    "LoopRun",
    "NkiSimulationWarning",
    "NkiValidationError",
    "SourceLine",
    "Timeline",
    "allow",
    "dry_run",
    "install",
    "isa",
    "jit",
    "language",
    "record",
    "releases",
    "simulate",
    "sources",
    "strict",
    "typing",
]

_HOMES = {
    **dict.fromkeys(("KernelWarning", "NkiSimulationWarning"), "errors"),
    **dict.fromkeys(("NkiValidationError", "SourceLine"), "errors"),
    **dict.fromkeys(("Kernel", "jit"), "launch.kernel"),
    **dict.fromkeys(("dry_run", "simulate"), "launch.simulation"),
    "Event": "timeline.recording",
    "LoopRun": "timeline.placed",
    "Timeline": "report.timeline",
    "allow": "rules.device_rules",
    "install": "import_nki.nki_finder",
    "record": "launch.recorded",
    "sources": "instructions.instruction_notes",
    "strict": "base.running",
}
_MODULES = {name: name for name in ("isa", "language", "typing")} | {"releases": "base.releases"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{_MODULES[name]}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
