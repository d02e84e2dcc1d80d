"""Virtual registers of the engines' sequencers."""

from __future__ import annotations

import re
import sys

from nki_sim.base.removed_api import WHILE_LOOP
from nki_sim.base.running import active, is_running
from nki_sim.base.source_text import line_of
from nki_sim.errors import NkiValidationError

from .no_arithmetic import NoArithmetic

BITS = 32  # of a physical register, v2 to v4 [isa register_alloc]


def fits(value: int, instruction: str = "VirtualRegister", operand: str = "value") -> int:
    """Returns ``value`` if 32 bits hold it, signed or unsigned; else raises NkiValidationError."""
    if not -(1 << BITS - 1) <= value < 1 << BITS:
        rule = f"a register holds {BITS} bits: from {-(1 << BITS - 1)} to {(1 << BITS) - 1}"
        raise NkiValidationError(instruction, operand, value, rule)
    return value


_WHILE = re.compile(r"\s*while\s+[\w.]+\s*:")
_UNKNOWN = "a register's value is not known while the kernel is built"


class Life:
    """A register's time from a write on: the engines that need it, each with its last use.

    ``since`` is the number of the next instruction. It is None for a value that is computed from
    others, because the engine can compute it when it needs the value.
    """

    __slots__ = ("since", "last", "width")

    def __init__(self, since: int | None, width: int = 1) -> None:
        self.since = since
        self.last: dict[str, int] = {}
        self.width = width  # registers of 32 bits


def _life() -> Life | None:
    return Life(active().count) if is_running() else None


class RunTimeValue(NoArithmetic):
    """An integer that is known only at run time: a register, or an NkiScalar of NKI 0.7."""

    __slots__ = ()
    life: Life | None

    @property
    def value(self) -> int:
        """The value, for the simulator."""
        raise NotImplementedError


class VirtualRegister(RunTimeValue):
    """A 32-bit register whose value is known only at run time.

    ``int(reg)``, ``range(reg)``, ``if reg:`` and comparisons raise TypeError, as in the SDK's
    tracer. In NKI 0.6 ``while reg:`` works, because its parser allows it. A frozen register is a
    loop variable, which the kernel cannot write.
    """

    __slots__ = ("_state", "_frozen", "life")
    _instead = (
        f"{_UNKNOWN}, so it has no arithmetic, no comparisons and no int(): use it as an index, "
        "such as x.ap(pattern, scalar_offset=register, indirect_dim=0), or compute on a tile"
    )

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self._state = state if state is None else fits(state)
        self._frozen = frozen
        self.life = None if state is None else _life()

    @property
    def value(self) -> int:
        """The value, for the simulator."""
        if self._state is None:
            raise NkiValidationError(
                "VirtualRegister",
                "its value",
                "unknown",
                "an instruction reads it: write the register first, by nisa.register_move or "
                "nisa.register_load",
            )
        return self._state

    def set(self, value: int) -> None:
        """Writes the register; raises NkiValidationError if it is a loop variable."""
        if self._frozen:
            raise NkiValidationError(
                "VirtualRegister",
                "the loop variable",
                self._state,
                "a loop variable is read-only: copy it into another register first",
            )
        self._state = fits(value)
        self.life = _life()

    def __bool__(self) -> bool:
        if WHILE_LOOP.is_gone:
            raise TypeError(f"{_UNKNOWN}, so it has no truth value; `while reg:` was {WHILE_LOOP}")
        caller = sys._getframe(1)
        line = line_of(caller.f_code.co_filename, caller.f_lineno)
        if not _WHILE.match(line):
            rule = "so it has a truth value in `while reg:` only: use nl.while_loop"
            raise TypeError(f"{_UNKNOWN}, {rule}")
        # `while reg:` is a loop on the device, which both programs must run alike.
        active().enters_loop("while", int(self.value != 0))
        return self.value != 0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float, VirtualRegister)):
            raise TypeError(f"{_UNKNOWN}, so it cannot be compared: loop by nl.while_loop")
        return NotImplemented

    __hash__ = object.__hash__

    __index__ = NoArithmetic._refuse

    def __repr__(self) -> str:
        return f"VirtualRegister({self._state})"
