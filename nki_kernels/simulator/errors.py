"""Errors and warnings of the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .instruction_notes import SourceLine


class NkiValidationError(Exception):
    """A documented rule of the hardware or the compiler is broken.

    Attributes: ``instruction``, ``operand``, ``value`` and ``rule``, as in the message; ``name``,
    of the device rule, if it is one; ``source``, the kernel's line where an error that shows only
    at the kernel's end has one.
    """

    name: str = ""
    source: SourceLine | None = None

    def __init__(self, instruction: str, operand: str, value: Any, rule: str) -> None:
        super().__init__(f"{instruction}: {operand} = {value}: {rule}")
        self.instruction = instruction
        self.operand = operand
        self.value = value
        self.rule = rule


class NkiSimulationWarning(UserWarning):
    """Something that costs time or correctness on the chip, but that the chip accepts."""
