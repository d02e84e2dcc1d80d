"""What a probe is: a question, a kernel, and a twin without the hazard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_kernels.hardware import NeuronCore
from nki_kernels.simulator.device_rules import RULES

Array = np.ndarray[Any, Any]
Arguments = tuple[Any, ...]


def unchanged(arguments: Arguments) -> Arguments:
    """The arguments as they are."""
    return arguments


@dataclass(frozen=True)
class Reading:
    """One thing that a construct may mean to a chip.

    Attributes:
        name: a word or two, for reports.
        exact: what the kernel computes then, in float64, from its arguments.
        value: what the probe's field has on such a chip; None where no value of it says so.
    """

    name: str
    exact: Callable[..., Array]
    value: Any = None


@dataclass(frozen=True)
class Probe:
    """A question to a chip.

    Attributes:
        name: of the probe.
        question: what is asked, in a sentence.
        record: where the doubt comes from: hardware records, documents.
        kernel: has the construct in question.
        twin: the same result, by a way known to be right; for times, without what is timed.
        arguments: arrays and compile-time constants of both kernels, for so many repetitions.
            Arrays are drawn from the generator.
        exact: the result in float64, from the same arguments.
        rule: of `device_rules.RULES`, whose verdict an answer settles; "" for none.
        constant: field of `NeuronCore` that the time settles; "" where times settle nothing.
        counts: repetitions: the first for correctness, all of them for the time.
        values: those that the constant can have; any number where empty.
        shown: field of `NeuronCore` whose value the kernel's result shows; "" for none.
        readings: what the result may be, by values of that field, the right one first.
        settles: in words, where it is neither a rule nor a constant.
        packed: how the kernel, other than its twin, takes the arguments.
        lnc: logical cores of a launch.
        generations: of NeuronCores that can be asked.
        per_framework: whether every framework is asked, instead of the first that is there.
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
        """Arguments with random arrays; those of the first count unless one is given."""
        return self.arguments(np.random.default_rng(seed), count or self.counts[0])

    def settles_on(self, core: NeuronCore) -> str:
        """What an answer of a chip settles, with what is believed today, in a few words."""
        rule = RULES[self.rule].field if self.rule else ""
        fields = [name for name in (rule, self.constant, self.shown) if name]
        today = [f"hardware.{name}, today {getattr(core, name)}" for name in fields]
        return "; ".join(today) or self.settles

    def why_not(self, core: NeuronCore) -> str:
        """Why a chip cannot be asked; "" if it can."""
        if core.generation not in self.generations:
            return f"{core.name} does not have what it asks about"
        if self.lnc > core.programs_per_launch:
            return f"{core.name} has launches on {core.programs_per_launch} core only"
        return ""


def normal(generator: np.random.Generator, *shape: int) -> Array:
    """Float32 numbers of a normal distribution."""
    return generator.standard_normal(shape, dtype=np.float32)
