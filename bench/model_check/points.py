"""The points of the check: pairs of a measured and a modelled value."""

from __future__ import annotations

import functools
import math
import statistics
from dataclasses import dataclass

import numpy as np

from bench.model_check import (
    autocomp,
    convolution,
    device,
    documentation,
    labs,
    launch_overhead,
    nkibench,
    small_copies,
)
from bench.model_check.measured import FITTED, Measured, Value

SOURCES = (
    documentation,
    device,
    labs,
    small_copies,
    autocomp,
    nkibench,
    convolution,
    launch_overhead,
)
RECORDS: tuple[Measured, ...] = tuple(one for source in SOURCES for one in source.RECORDS)
LEFT_OUT = {what: why for source in SOURCES for what, why in source.LEFT_OUT.items()}


@dataclass(frozen=True)
class Point:
    """A measurement and its modelled value, in the same unit.

    ``low`` and ``high`` are the values with the cheapest and the dearest readings of the records.
    ``low`` is None for values without a range.
    """

    measurement: Measured
    modelled: float
    low: float | None = None
    high: float = math.inf

    @classmethod
    def of(cls, measurement: Measured, value: Value) -> Point:
        """Returns the point of a value: one number, or modelled, low and high."""
        numbers = [float(number) for number in np.atleast_1d(value)]
        if len(numbers) == 1:
            return cls(measurement, *numbers)
        return cls(measurement, numbers[0], min(numbers), max(numbers))

    @property
    def is_in_range(self) -> bool:
        """Whether the measured value lies between the low and the high one."""
        return self.low is not None and self.low <= self.measurement.value <= self.high

    @property
    def ratio(self) -> float:
        """The modelled value divided by the measured value."""
        return self.modelled / self.measurement.value


@dataclass(frozen=True)
class Overhead:
    """Microseconds beside the time on the chip: of a whole figure, and of each of its launches."""

    once: float
    per_launch: float


@functools.cache
def overhead(name: str) -> Overhead:
    """Returns the overhead of the figures with this name, fitted to those marked for the fit.

    Where these have equal numbers of launches, the launches have all of it.
    """
    fitted = [one for one in RECORDS if one.overhead == name and one.use == FITTED]
    rest = [one.value - float(np.atleast_1d(one.on_chip())[0]) for one in fitted]
    launches = [one.launches for one in fitted]
    if len(set(launches)) == 1:
        return Overhead(0.0, statistics.fmean(rest) / launches[0])
    per_launch, once = np.polyfit(launches, rest, 1)
    return Overhead(float(once), float(per_launch))


def point_of(measurement: Measured) -> Point:
    """Returns the point of a figure: its modelled value with the launches that it contains."""
    value = measurement.on_chip()
    if measurement.launches:
        beside = overhead(measurement.overhead)
        value = value + beside.once + measurement.launches * beside.per_launch
    return Point.of(measurement, value)


def check() -> list[Point]:
    """Returns every published measurement with its modelled value."""
    return [point_of(measurement) for measurement in RECORDS]
