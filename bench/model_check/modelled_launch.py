"""Modelled launches of kernels, and times of large sizes extrapolated from small ones."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import nki_sim
from bench.model_check.measured import Value
from nki_sim import hardware
from nki_sim.report.timeline import Timeline
from nki_sim.rules.device_rules import RULES

Spec = tuple[tuple[int, ...], str]
Kept = TypeVar("Kept")


def spec(dtype: str, *shape: int) -> Spec:
    """Returns shape and dtype of an argument for a launch that is modelled without data."""
    return shape, dtype


def timeline_of(kernel: Any, *arguments: Any) -> Timeline:
    """Returns the modelled launch.

    Published kernels stay as they are, so that they may break rules of the simulator here.
    """
    with warnings.catch_warnings(), nki_sim.allow(*RULES):
        warnings.simplefilter("ignore", nki_sim.NkiSimulationWarning)
        return nki_sim.dry_run(kernel, *arguments)


def readings_us(timeline: Timeline) -> Value:
    """Returns the microseconds of a launch: modelled, low and high."""
    return np.array([timeline.total_ns, timeline.low_ns, timeline.high_ns]) / 1e3


def total_us(kernel: Any, *arguments: Any) -> Value:
    """Returns the microseconds of the launch: modelled, low and high."""
    return readings_us(timeline_of(kernel, *arguments))


def continued(quantity: Callable[[int], Value], small: int, size: int) -> Value:
    """Returns ``quantity`` at ``size`` on the line through ``small`` and 2 * ``small``.

    The line is right where a larger size only repeats a loop more often.
    """
    first, second = quantity(small), quantity(2 * small)
    steps = (size - 2 * small) / small
    return second + steps * (second - first)


def repeated_us(launch_us: Callable[[int], Value], few: int, many: int) -> Value:
    """Returns the microseconds of one repetition, from the slope between ``few`` and ``many``."""
    return (launch_us(many) - launch_us(few)) / (many - few)


def once_a_chip(function: Callable[..., Kept]) -> Callable[..., Kept]:
    """Makes a function keep its results, those of each chip for themselves."""

    @functools.cache
    def kept(chip: str, *arguments: Any) -> Kept:
        return function(*arguments)

    return lambda *arguments: kept(hardware.current().name, *arguments)
