"""Errors and warnings of the simulator."""

from __future__ import annotations

from dataclasses import dataclass

NO_TENSOR = "must be a tensor (NkiTensor)"
_MOST_CHARACTERS = 100


def brief(value: object) -> str:
    """Returns a value as one line of limited length."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # raised by the value's __repr__, or by an int of thousands of digits
        return "a value without a text"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


@dataclass(frozen=True)
class SourceLine:
    """A line of a kernel: ``file`` as Python names it, ``line`` from 1, and its ``function``."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Break:
    """One break of a rule: the name of the rule, the operand and its value."""

    rule: str
    operand: str
    value: str


class NkiValidationError(Exception):
    """A kernel breaks a documented rule of the hardware or the compiler.

    The message is "instruction: operand is value, but rule".

    Attributes:
        instruction: the function of nki that refuses the operand, such as "nisa.nc_matmul".
        operand: the operand or argument.
        value: its value.
        rule: the rule as a clause; one that begins with "must" is about the operand.
        name: the name of the device rule, "lost-output", or "" if the rule is none of these.
        source: the kernel's line, for errors that are found only when the kernel has ended.
    """

    name: str = ""
    source: SourceLine | None = None

    def __init__(self, instruction: str, operand: str, value: object, rule: str) -> None:
        clause = f"it {rule}" if rule.startswith("must ") else rule
        super().__init__(f"{instruction}: {operand} is {value}, but {clause}")
        self.instruction = instruction
        self.operand = operand
        self.value = value
        self.rule = rule


class NkiSimulationWarning(UserWarning):
    """A kernel does what the chip accepts, but what makes it slow or its result doubtful."""


@dataclass(frozen=True)
class KernelWarning:
    """A warning of the simulator while a kernel was recorded.

    Attributes:
        rule: the key in ``device_rules.RULES``, or the rule in words if it has no key.
        message: the warning's text.
        number: the number of the instruction, as in ``Event.number``. None stands for the whole
            kernel, or for a later iteration of a loop on the device.
        source: the line of the instruction, or None if the launch noted no lines.
        core: 0 or 1.
        launch: the number of the launch in the timeline, from 0.
    """

    rule: str
    message: str
    number: int | None
    source: SourceLine | None
    core: int = 0
    launch: int = 0
