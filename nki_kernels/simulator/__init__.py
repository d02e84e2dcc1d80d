"""A CPU simulator with the API of the documented ``nki`` package, of NKI 0.7 and 0.6.

It simulates a kernel on one NeuronCore, or on two that share HBM. Instructions compute with NumPy.
A kernel that breaks a rule of the hardware raises NkiValidationError. ``record`` returns a timeline
with modelled times.

    with simulator.record() as timeline:
        result = simulator.simulate(kernel)(array)
"""

from __future__ import annotations

from . import isa, language, typing
from .device_rules import allow
from .errors import NkiSimulationWarning, NkiValidationError
from .install import install
from .instruction_notes import KernelWarning, SourceLine, sources
from .kernel import Kernel, dry_run, jit, record, simulate
from .schedule import LoopRun
from .session import strict
from .timeline import Event, Timeline

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
    "simulate",
    "sources",
    "strict",
    "typing",
]
