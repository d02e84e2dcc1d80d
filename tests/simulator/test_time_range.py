"""The range of a modelled time: the same launch with the cheapest and the dearest costs."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.base.time_range import time_range
from nki_sim.hardware import UNEXPLAINED
from nki_sim.rules.device_rules import RULES
from simulator_cases import all_cases
from tests import sweeps

CHIPS = [hardware.chip(name) for name in hardware.NAMES]
CASES = {case.name: case for case in all_cases()}


@sweeps.some(
    "name, chip",
    itertools.product(CASES, hardware.NAMES),
    zip(CASES, itertools.cycle(hardware.NAMES)),  # each kernel on one chip
)
def test_the_range_contains_both_orders_and_the_dearest_costs(name, chip):
    case = CASES[name]

    def timeline(core):
        with hardware.select(core), nki_sim.allow(*RULES):
            return nki_sim.dry_run(case.kernel, *case.arguments())

    core = hardware.chip(chip)
    found = timeline(core)
    # The order as written is the same for all costs; the compiler's order depends on them.
    dearest = timeline(core.dearest).written_ns
    assert found.low_ns <= found.total_ns / UNEXPLAINED
    assert found.high_ns >= max(found.total_ns, found.written_ns, dearest) * UNEXPLAINED


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs()

    def body(i):
        tile = nl.load(x.select(0, nl.program_id() * rows + i))
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, engine=nisa.engine.vector)
        nisa.dma_copy(out.select(0, nl.program_id() * rows + i), tile)

    nl.fori_loop(0, rows, body)
    return out


@pytest.mark.parametrize("programs", [1, 2])
def test_loops_and_two_cores_have_ranges(programs):
    x = np.ones((8, 128, 64), np.float32)

    def timeline(core):
        with hardware.select(core), nki_sim.record() as found:
            nki_sim.simulate(doubled).with_programs(programs)(x)
        return found

    found = timeline(hardware.TRN2)
    cheapest, dearest = timeline(hardware.TRN2.cheapest), timeline(hardware.TRN2.dearest)
    assert found.low_ns == pytest.approx(cheapest.total_ns / UNEXPLAINED)
    assert found.high_ns == pytest.approx(dearest.total_ns * UNEXPLAINED)
    assert found.low_ns < found.total_ns < found.high_ns
    assert found.events == timeline(hardware.TRN2).events  # reading a range changes nothing


def test_launches_add_their_ranges_and_a_core_without_ranges_has_none():
    x = np.ones((2, 128, 64), np.float32)
    with hardware.select(hardware.TRN2), nki_sim.record() as both:
        nki_sim.simulate(doubled)(x)
        nki_sim.simulate(doubled)(x)
    with hardware.select(replace(hardware.TRN2, ranges=())), nki_sim.record() as certain:
        nki_sim.simulate(doubled)(x)
    assert both.total_ns == pytest.approx(2 * certain.total_ns)
    assert certain.low_ns == certain.total_ns / UNEXPLAINED
    assert certain.high_ns == certain.total_ns * UNEXPLAINED
    assert nki_sim.Timeline().low_ns == 0


@pytest.mark.parametrize("chip", CHIPS, ids=hardware.NAMES)
def test_ranges_are_of_costs_and_contain_the_modelled_value(chip):
    names = [one.field for one in chip.ranges]
    assert len(set(names)) == len(names)
    for one in chip.ranges:
        low, high = sorted((one.cheapest, one.dearest))
        assert low < high and low <= getattr(chip, one.field) <= high
        is_rate = one.field.endswith(("_per_ns", "_ghz"))  # a higher rate is cheaper
        assert (one.cheapest > one.dearest) == is_rate
    assert chip.cheapest.ranges == chip.dearest.ranges == ()


@pytest.mark.parametrize(
    ("ns", "low", "high", "text"),
    [
        (95_240, 80_000, 140_000, "95.24 us (80 to 140)"),
        (5_777, 5_208.4, 6_551, "5.777 us (5.21 to 6.55)"),
        (999_960, 990_000, 2_000_000, "1 ms (0.99 to 2)"),
        (999.7, 900, 1200, "0.9997 us (0.9 to 1.2)"),
        (480.4, 320.2, 499.9, "480 ns (320 to 500)"),
        (12_345_678_900, 9e9, 123_456e9, "12.35 s (9 to 123456)"),
        (0.0, None, None, "0 ns"),
        (213_800, 213_600, 214_400, "213.8 us"),  # both ends show as 214
    ],
)
def test_times_in_words(ns, low, high, text):
    assert time_range(ns, low, high) == text


def test_a_unit_can_be_given():
    assert time_range(15_000_000, 14e6, 16.04e6, "us") == "15000 us (14000 to 16040)"
    for unit, size in zip(("s", "ms", "us", "ns"), (1e9, 1e6, 1e3, 1), strict=True):
        assert time_range(3 * size, unit=unit) == f"3 {unit}"
