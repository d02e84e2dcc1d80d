"""The parts of a probe: a question, a kernel, and a twin without the construct in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_sim.hardware import NeuronCore
from nki_sim.rules.device_rules import RULES

Array = np.ndarray[Any, Any]
Arguments = tuple[Any, ...]


def unchanged(arguments: Arguments) -> Arguments:
    """Returns the arguments as they are."""
    return arguments


@dataclass(frozen=True)
class Reading:
    """One way in which a chip may interpret a construct.

    Attributes:
        name: a word or two, for reports.
        exact: the kernel's result under this reading in float64, from its arguments.
        value: the value of the probe's field that describes such a chip; None where no value does.
    """

    name: str
    exact: Callable[..., Array]
    value: Any = None


@dataclass(frozen=True)
class Probe:
    """A question to a chip.

    Attributes:
        name: name of the probe.
        question: the question in words.
        record: the source of the doubt: hardware records or documents.
        kernel: a kernel with the construct in question.
        twin: a kernel with the same result in a way that is known to be right. For times, it
            lacks the work that is timed.
        arguments: returns the arguments of both kernels, for a number of repetitions: arrays,
            which the generator draws, and compile-time constants.
        exact: the result in float64, from the same arguments.
        rule: the rule of `device_rules.RULES` whose verdict an answer settles; "" for none.
        constant: the field of `NeuronCore` that the time settles; "" for none.
        counts: numbers of repetitions. The first is used for correctness, all of them for the time.
        values: the values that the constant can have; empty for any number.
        shown: the field of `NeuronCore` whose value the kernel's result shows; "" for none.
        readings: the possible results, by values of the field `shown`, the right one first.
        settles: what an answer settles, in words, where it settles neither a rule nor a constant.
        packed: turns the twin's arguments into those of the kernel.
        lnc: logical cores of a launch.
        generations: generations of NeuronCores that can be asked.
        per_framework: whether every framework is asked, instead of the first one only.
    """

    name: str
    question: str
    record: str
    kernel: Any
    twin: Any
    arguments: Callable[[np.random.Generator, int], Arguments]
    exact: Callable[..., Array]
    rule: str = ""
    constant: str = ""
    counts: tuple[int, ...] = (1,)
    values: tuple[int, ...] = ()
    shown: str = ""
    readings: tuple[Reading, ...] = ()
    settles: str = ""
    packed: Callable[[Arguments], Arguments] = field(default=unchanged)
    lnc: int = 1
    generations: tuple[int, ...] = (2, 3, 4)
    per_framework: bool = False

    def drawn(self, seed: int, count: int | None = None) -> Arguments:
        """Returns arguments with random arrays, for `count` or else the first of `counts`."""
        return self.arguments(np.random.default_rng(seed), count or self.counts[0])

    def settles_on(self, core: NeuronCore) -> str:
        """Returns in a few words what a chip's answer settles, with today's value."""
        rule = RULES[self.rule].field if self.rule else ""
        fields = [name for name in (rule, self.constant, self.shown) if name]
        today = [f"hardware.{name}, today {getattr(core, name)}" for name in fields]
        return "; ".join(today) or self.settles

    def why_not(self, core: NeuronCore) -> str:
        """Returns why a chip cannot be asked, or "" if it can."""
        if core.generation not in self.generations:
            return f"{core.name} does not have what it asks about"
        if self.lnc > core.programs_per_launch:
            return f"{core.name} has launches on {core.programs_per_launch} core only"
        return ""


def normal(generator: np.random.Generator, *shape: int) -> Array:
    """Returns float32 numbers of a normal distribution."""
    return generator.standard_normal(shape, dtype=np.float32)
