"""Budgets that timelines must keep."""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl


@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.fixture
def timeline():
    return nki_sim.dry_run(copy, ((128, 256), "float32"))


def test_a_value_that_equals_its_limit_is_within(timeline):
    names = ("total_ns", "hbm_bytes", "hbm_scratch_bytes", "dma_bytes", "dma_descriptors")
    names += ("instructions", "sbuf_peak_bytes", "psum_peak_banks")
    limits = {name: getattr(timeline, name) for name in names}
    assert timeline.assert_within(**limits) is None
    for name, value in limits.items():
        if value:
            with pytest.raises(AssertionError, match=f"^1 of 1 budget exceeded .*\n  {name} is "):
                timeline.assert_within(**{name: value - 1})


def test_numpys_numbers_are_limits(timeline):
    timeline.assert_within(hbm_bytes=np.prod([2, 128, 256]) * 4, total_ns=np.float32(1e9))


def test_the_message_lists_all_that_was_exceeded_and_what_bound_the_time(timeline):
    with pytest.raises(AssertionError) as caught:
        timeline.assert_within(total_ns=0, sbuf_peak_bytes=512, instructions=2)
    first, time, memory, _, *bound = str(caught.value).splitlines()
    assert first == "2 of 3 budgets exceeded on trn1, LNC=1:"
    assert time == f"  total_ns is {timeline.total_ns:,.0f} ns modelled, the limit is 0"
    assert memory == ("  sbuf_peak_bytes is 1,024 bytes a partition, the limit is 512 (100% more)")
    assert bound[0].endswith(" 1 dma_copy on dma")
    assert bound[1].endswith(" 1 dma_copy on dma (operand written by)")


def test_of_a_recorded_run_the_message_has_the_kernels_lines():
    with nki_sim.record() as timeline:
        for _ in range(2):
            nki_sim.simulate(copy)(np.ones((128, 256), np.float32))
    with pytest.raises(AssertionError) as caught:
        timeline.assert_within(total_ns=1)
    lines = str(caught.value).split("modelled:\n")[1].splitlines()
    assert len(lines) == 2
    assert sum(int(line.split()[0].replace(",", "")) for line in lines) == pytest.approx(
        timeline.total_ns, abs=2
    )
    first = copy.func.__code__.co_firstlineno
    loads, stores = (f" 2 dma_copy at test_budget.py:{first + n} on dma" for n in (3, 4))
    assert any(loads in line for line in lines) and any(stores in line for line in lines)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "70", True])
def test_a_limit_is_a_number(timeline, value):
    says = "'total_ns' of assert_within is .*allowed is a number of at least 0"
    with pytest.raises(ValueError, match=says):
        timeline.assert_within(total_ns=value)


def test_a_budget_of_nothing_is_an_error(timeline):
    with pytest.raises(ValueError, match="at least one limit; its limits are total_ns, hbm_bytes"):
        timeline.assert_within()
    with pytest.raises(TypeError, match="ns"):
        timeline.assert_within(ns=70)
    with pytest.raises(ValueError, match="found no recorded kernel"):
        nki_sim.Timeline().assert_within(total_ns=70_000)
