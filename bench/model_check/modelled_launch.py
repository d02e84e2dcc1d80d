"""Modelled launches of kernels, and times of large sizes extrapolated from small ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import nki_sim
from nki_sim.report.timeline import Timeline
from nki_sim.rules.device_rules import RULES

Spec = tuple[tuple[int, ...], str]
# A value is one number, or an array: as modelled, with the cheapest and with the dearest reading.
Value = Any
Modelled = dict[str, Value]


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


def continued(quantity: Callable[[int], Modelled], small: int, size: int) -> Modelled:
    """Returns ``quantity`` at ``size`` on the line through ``small`` and 2 * ``small``.

    The line is right where a larger size only repeats a loop more often.
    """
    first, second = quantity(small), quantity(2 * small)
    steps = (size - 2 * small) / small
    return {key: second[key] + steps * (second[key] - first[key]) for key in second}


def repeated_us(launch_us: Callable[[int], Value], few: int, many: int) -> Value:
    """Returns the microseconds of one repetition, from the slope between ``few`` and ``many``."""
    return (launch_us(many) - launch_us(few)) / (many - few)
