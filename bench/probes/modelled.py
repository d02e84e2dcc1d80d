"""The model's time of a probe, and the value of a constant that gives a measured time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nki_sim
from bench.model_check.modelled_launch import timeline_of
from bench.probes.probe import Probe
from nki_sim import hardware
from nki_sim.hardware import NeuronCore

STEPS = 12  # of the search for a constant; the model is piecewise linear in it
NEAR = 1e-3  # relative error at which the search ends


def times_us(probe: Probe, core: NeuronCore, count: int | None = None) -> tuple[float, float]:
    """Returns the modelled microseconds of the kernel and of its twin on a chip."""
    with hardware.select(core):
        kernel, twin = (
            timeline_of(nki_sim.simulate(kernel).with_programs(probe.lnc), *given).total_ns / 1e3
            for kernel, given in probe.both(probe.drawn(0, count))
        )
    return kernel, twin


def extra_ns(probe: Probe, core: NeuronCore) -> float:
    """Returns modelled nanoseconds by which a repetition lengthens the kernel beyond its twin."""
    few, many = probe.counts[0], probe.counts[1]
    (first, first_twin), (last, last_twin) = (times_us(probe, core, n) for n in (few, many))
    return 1e3 * ((last - last_twin) - (first - first_twin)) / (many - few)


def constant_for(probe: Probe, core: NeuronCore, measured_ns: float) -> float | None:
    """Returns the value of the probe's constant at which the model gives the measured time.

    The value is None where there is no such constant, because something else bounds the time in the
    model or on the chip.
    """

    def missed(value: float) -> float:
        changed: dict[str, Any] = {probe.constant: value}
        return extra_ns(probe, replace(core, **changed)) - measured_ns

    if probe.values:
        return min(probe.values, key=lambda value: abs(missed(value)))
    value = float(getattr(core, probe.constant))
    other = 1.25 * value
    error, other_error = missed(value), missed(other)
    for _ in range(STEPS):
        if abs(other_error) <= NEAR * abs(measured_ns):
            return other
        if error == other_error:
            return None
        step = other_error * (other - value) / (other_error - error)
        value, error, other = other, other_error, other - step
        if other <= 0:
            return None
        other_error = missed(other)
    return None
