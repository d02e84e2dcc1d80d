"""The points of the check: pairs of a measured and a modelled value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.model_check import (
    launch_overhead,
    modelled_autocomp,
    modelled_convolution,
    modelled_labs,
    modelled_measurements,
    modelled_nkibench,
    modelled_records,
    modelled_small_copies,
)
from bench.model_check.measurement import FITTED, HELD_OUT, Measurement
from bench.model_check.modelled_launch import Value
from bench.model_check.published_measurements import PUBLISHED, SEED
from bench.seed_article.figures import TRANSFORM_US

GROUPS = {
    **modelled_measurements.GROUPS,
    **modelled_records.GROUPS,
    **modelled_labs.GROUPS,
    **modelled_small_copies.GROUPS,
    **modelled_autocomp.GROUPS,
    **modelled_nkibench.GROUPS,
    **modelled_convolution.GROUPS,
}
SEED_SOURCE = 'the article "trnfft: FFT is a GEMM, and then it isn\'t", section "Numbers"'


@dataclass(frozen=True)
class Point:
    """A measurement and its modelled value, in the same unit.

    ``low`` and ``high`` are the values with the cheapest and the dearest readings of the records.
    ``low`` is None for values without a range.
    """

    measurement: Measurement
    modelled: float
    low: float | None = None
    high: float = math.inf

    @classmethod
    def of(cls, measurement: Measurement, value: Value) -> Point:
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


def seed_overhead() -> launch_overhead.Overhead:
    """Returns the overhead of the seed's launches, fitted to the points in FITTED only."""
    return launch_overhead.fit({key: TRANSFORM_US[key] for key in launch_overhead.FITTED})


def seed_points() -> list[Point]:
    """Returns the seed article's transforms with their predicted times."""
    overhead = seed_overhead()
    points = []
    for (algorithm, n), measured in TRANSFORM_US.items():
        use = FITTED if (algorithm, n) in launch_overhead.FITTED else HELD_OUT
        name = f"{algorithm}, N = {n}"
        measurement = Measurement(SEED, name, "trn1", measured, "us", SEED_SOURCE, use)
        points.append(Point(measurement, overhead.predict((algorithm, n))))
    return points


def check() -> list[Point]:
    """Returns every published measurement with its modelled value."""
    points = []
    for group, model in GROUPS.items():
        modelled = model()
        for measurement in PUBLISHED:
            if measurement.group == group:
                points.append(Point.of(measurement, modelled[measurement.name]))
    return points + seed_points()
