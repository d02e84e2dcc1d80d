"""A published figure: its value, its source, and its use for the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

HELD_OUT = "held out"  # the model does not use the figure
FITTED = "fitted"  # the constant overhead of a launch was fitted to the figure
# A cost of the model, or the rebuilt kernel, was set or changed because of the figure.
INPUT = "input"


@dataclass(frozen=True)
class Measurement:
    """One published figure.

    ``unit`` is "us" for microseconds, or "x" for a multiple of the reference's time.
    """

    group: str
    name: str
    chip: str
    value: float
    unit: str
    source: str
    use: str = HELD_OUT
    is_whole_kernel: bool = False  # from launch to end, not one engine or a part
    cores: int = 1  # degree of LNC


def whole_kernels(*measurements: Measurement) -> tuple[Measurement, ...]:
    """Returns the same measurements, marked as times of whole kernels."""
    return tuple(replace(measurement, is_whole_kernel=True) for measurement in measurements)
