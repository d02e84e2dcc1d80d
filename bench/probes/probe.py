"""The parts of a probe: a question, a kernel, and a twin without the construct in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_sim.hardware import NeuronCore
from nki_sim.rules.device_rules import RULES

Array = np.ndarray[Any, Any]
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Reading:
    """One way in which a chip may interpret a construct.

    Attributes:
        name: a word or two, for reports.
        exact: the kernel's result under this reading in float64, from the probe's arguments.
        value: the value of the probe's field that describes such a chip; None where no value does.
    """

    name: str
    exact: Callable[..., Array]
    value: Any = None


@dataclass(frozen=True)
class Probe:
    """A question to a chip.

    The arguments of a launch are random arrays and compile-time constants. Where there is no
    `twin`, the kernel gets one more argument, ``asks``: True with the construct in question, and
    False for the same result in a way that is known to be right, or for times without the work that
    is timed.

    Attributes:
        name: name of the probe.
        question: the question in words.
        record: the source of the doubt: hardware records or documents.
        kernel: the kernel.
        exact: the result in float64, from the arguments without ``asks``.
        shapes: shapes of random normal float32 arrays.
        constants: the arguments after the arrays; `COUNT` stands for the number of repetitions.
        draw: draws the arrays from a generator and the number of repetitions, instead of `shapes`.
        rule: the rule of `device_rules.RULES` whose verdict an answer settles; "" for none.
        constant: the field of `NeuronCore` that the time settles; "" for none.
        counts: numbers of repetitions. The first is used for correctness, all of them for the time.
        values: the values that the constant can have; empty for any number.
        shown: the field of `NeuronCore` whose value the kernel's result shows; "" for none.
        readings: the possible results, by values of the field `shown`, the right one first.
        settles: what an answer settles, in words, where it settles neither a rule nor a constant.
        twin: another kernel in the place of the one with ``asks``, because a compiler may refuse
            the construct wherever the source has it.
        packed: turns the twin's arguments into those of the kernel.
        lnc: logical cores of a launch.
        generations: generations of NeuronCores that can be asked.
        per_framework: whether every framework is asked, instead of the first one only.
    """

    name: str
    question: str
    record: str
    kernel: Any
    exact: Callable[..., Array]
    shapes: tuple[tuple[int, ...], ...] = ()
    constants: Arguments = ()
    draw: Callable[[np.random.Generator, int], Arguments] | None = None
    rule: str = ""
    constant: str = ""
    counts: tuple[int, ...] = (1,)
    values: tuple[int, ...] = ()
    shown: str = ""
    readings: tuple[Reading, ...] = ()
    settles: str = ""
    twin: Any = None
    packed: Callable[[Arguments], Arguments] | None = None
    lnc: int = 1
    generations: tuple[int, ...] = (2, 3, 4)
    per_framework: bool = False

    def drawn(self, seed: int, count: int | None = None) -> Arguments:
        """Returns arguments with random arrays, for `count` or else the first of `counts`."""
        generator, count = np.random.default_rng(seed), count or self.counts[0]
        if self.draw is not None:
            arrays = self.draw(generator, count)
        else:
            arrays = tuple(normal(generator, *shape) for shape in self.shapes)
        return *arrays, *(count if one is COUNT else one for one in self.constants)

    def both(self, arguments: Arguments) -> tuple[tuple[Any, Arguments], tuple[Any, Arguments]]:
        """Returns the kernel and its twin, each with its arguments."""
        if self.twin is None:
            return (self.kernel, (*arguments, True)), (self.kernel, (*arguments, False))
        packed = arguments if self.packed is None else self.packed(arguments)
        return (self.kernel, packed), (self.twin, arguments)

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


COUNT = object()  # among the constants of a probe: the number of repetitions


def normal(generator: np.random.Generator, *shape: int) -> Array:
    """Returns float32 numbers of a normal distribution."""
    return generator.standard_normal(shape, dtype=np.float32)
