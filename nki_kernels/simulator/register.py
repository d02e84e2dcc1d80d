"""Virtual registers of the engines' sequencers."""

from __future__ import annotations

import linecache
import re
import sys
from typing import Any

from nki_kernels.removed_api import WHILE_LOOP

from .errors import NkiValidationError
from .no_arithmetic import NoArithmetic

BITS = 32  # of a physical register, v2 to v4 [isa register_alloc]


def fits(value: int, instruction: str = "VirtualRegister", operand: str = "value") -> int:
    """``value`` if a register can hold it, signed or unsigned; raises NkiValidationError."""
    if not -(1 << BITS - 1) <= value < 1 << BITS:
        rule = f"a register holds {BITS} bits"
        raise NkiValidationError(instruction, operand, value, rule)
    return value


_WHILE = re.compile(r"\s*while\s+[\w.]+\s*:")
_UNKNOWN = "a register's value is not known while the kernel is built"


def _note_test(goes_on: bool) -> None:
    """A `while reg:` is a loop on the device: two programs must make as many trips."""
    from .session import active

    active().enters_loop("while", int(goes_on))


class RunTimeValue(NoArithmetic):
    """An integer that is known at run time only: a register, or an NkiScalar of NKI 0.7."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The value, for the simulator."""
        raise NotImplementedError


class VirtualRegister(RunTimeValue):
    """A 32-bit register whose value is known at run time only.

    ``int(reg)``, ``range(reg)``, ``if reg:`` and comparisons raise TypeError, as the SDK's tracer
    does. In NKI 0.6 ``while reg:`` works, as its parser allows. Frozen registers are loop
    variables.
    """

    __slots__ = ("_state", "_frozen")
    _instead = (
        f"{_UNKNOWN}: no arithmetic, comparison or int(); index with it, as "
        "x.ap(pattern, scalar_offset=register, indirect_dim=0), or compute on a tile"
    )

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self._state = state if state is None else fits(state)
        self._frozen = frozen

    @property
    def value(self) -> int:
        """The value, for the simulator."""
        if self._state is None:
            raise NkiValidationError(
                "VirtualRegister", "value", "unknown", "the register was never written"
            )
        return self._state

    def set(self, value: int) -> None:
        """Write the register; loop variables refuse."""
        if self._frozen:
            raise NkiValidationError(
                "VirtualRegister", "loop variable", self._state, "a loop variable is read-only"
            )
        self._state = fits(value)

    def __bool__(self) -> bool:
        if WHILE_LOOP.is_gone:
            raise TypeError(f"{_UNKNOWN}: it has no truth value; `while reg:` was {WHILE_LOOP}")
        caller = sys._getframe(1)
        line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)
        if not _WHILE.match(line):
            rule = "no truth value but in `while reg:`; use nl.while_loop"
            raise TypeError(f"{_UNKNOWN}: {rule}")
        _note_test(self.value != 0)
        return self.value != 0

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, (int, float, VirtualRegister)):
            raise TypeError(f"{_UNKNOWN}: it cannot be compared")
        return NotImplemented

    __hash__ = object.__hash__

    __index__ = NoArithmetic._refuse

    def __repr__(self) -> str:
        return f"VirtualRegister({self._state})"
