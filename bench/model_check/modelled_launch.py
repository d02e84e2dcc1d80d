"""Modelled launches of kernels, and times of large sizes from those of small ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from nki_kernels import simulator
from nki_kernels.simulator.device_rules import RULES
from nki_kernels.simulator.timeline import Timeline

Spec = tuple[tuple[int, ...], str]
Modelled = dict[str, float]


def spec(dtype: str, *shape: int) -> Spec:
    """An argument of a launch that is modelled, not run."""
    return shape, dtype


def timeline_of(kernel: Any, *arguments: Any) -> Timeline:
    """The modelled launch. Published kernels stay as they are, whatever rules they break."""
    with warnings.catch_warnings(), simulator.allow(*RULES):
        warnings.simplefilter("ignore", simulator.NkiSimulationWarning)
        return simulator.dry_run(kernel, *arguments)


def total_us(kernel: Any, *arguments: Any) -> float:
    """Modelled microseconds of the launch."""
    return timeline_of(kernel, *arguments).total_ns / 1e3


def continued(quantity: Callable[[int], Modelled], small: int, size: int) -> Modelled:
    """``quantity`` at ``size``, on the line through ``small`` and twice that: loops repeat."""
    first, second = quantity(small), quantity(2 * small)
    steps = (size - 2 * small) / small
    return {key: second[key] + steps * (second[key] - first[key]) for key in second}


def repeated_us(launch_us: Callable[[int], float], few: int, many: int) -> float:
    """Microseconds of one repetition: the slope between launches of ``few`` and of ``many``."""
    return (launch_us(many) - launch_us(few)) / (many - few)
