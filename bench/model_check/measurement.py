"""A published figure: what was measured, where, and what the model made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

HELD_OUT = "held out"  # the model does not know it
FITTED = "fitted"  # a constant of a launch, beside the chip's time, comes from it
INPUT = "input"  # a cost in nki_kernels, or the rebuilt kernel, was set or changed with it


@dataclass(frozen=True)
class Measurement:
    """One published figure. ``unit``: us, or x for times as long as the reference."""

    group: str
    name: str
    chip: str
    value: float
    unit: str
    source: str
    use: str = HELD_OUT
    is_whole_kernel: bool = False  # from launch to end, no engine or part of it alone
    cores: int = 1  # degree of LNC


def whole_kernels(*measurements: Measurement) -> tuple[Measurement, ...]:
    """The same measurements, marked as those of whole kernels."""
    return tuple(replace(measurement, is_whole_kernel=True) for measurement in measurements)
