"""Every kernel computes the same, however a compiler reads `.ap` of a view, or without data.

AWS's documents contradict each other: see nki_sim/views/access_patterns.py. Strict mode, in
which all other tests run kernels, refuses patterns on which the two readings differ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

import nki_sim
from nki_kernels.base import launch
from nki_kernels.convolution import image_convolution
from nki_kernels.fft import split_four_step
from nki_kernels.nd import strided_stockham
from nki_sim import hardware
from tests import sweeps
from tests.registry import REGISTRY
from trnfft.planner.algorithms import STRIDED_STOCKHAM

from .samples import real

SHAPES = ((2, 3, 4), (16, 16), (3, 4, 5, 6))  # of kernels for shapes, those they take
LENGTHS = (12, 64, 100, 131, 1000, 1024, 4096)  # of the others, the shortest
ROWS = 3  # two of what is large


@pytest.fixture
def loops(monkeypatch):
    """Device loops at the sizes of these tests."""
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 1)
    monkeypatch.setattr(strided_stockham, "_INSTRUCTIONS", 1)
    monkeypatch.setattr(image_convolution, "_INSTRUCTIONS", 1)
    monkeypatch.setattr(split_four_step, "_UNROLLED", 0)
    monkeypatch.setattr(split_four_step, "_PIECE", 130)


def recipes(algorithm):
    """The likeliest recipe of a small size or, for shapes, of each."""
    if algorithm.short:
        return list(algorithm.short)
    if not algorithm.takes_shapes:
        n = next(n for n in LENGTHS if not algorithm.why_not(n))
        return algorithm.recipes(n)[:1]
    found = []
    sample = algorithm.samples[0]
    shaped = [structs.replace(sample, lengths=shape) for shape in SHAPES if hasattr(sample, "data")]
    for kind in (*shaped, sample):
        try:
            found += algorithm.recipes_for(kind)[:1]
        except NotImplementedError:  # another number of axes, or another size
            continue
    return found


def run(kernel, inputs, arguments, chip):
    """All outputs, with what the readings differ on allowed, and the timeline."""
    waiver = nki_sim.allow("ap-of-views")
    with hardware.select(chip), nki_sim.strict(), waiver, nki_sim.record() as timeline:
        result = kernel(*inputs, *arguments)
    return result if isinstance(result, (tuple, list)) else [result], timeline


@pytest.mark.weekly
@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), sweeps.whole("trn2", 2)])
@pytest.mark.parametrize("name", REGISTRY)
def test_both_readings_give_the_same_and_dry_runs_take_as_long(loops, name, chip, cores):
    algorithm = REGISTRY[name]
    kernel, found = nki_sim.simulate(algorithm.kernel).with_programs(cores), recipes(algorithm)
    assert found
    for recipe in found:
        shapes = algorithm.inputs(recipe, ROWS if recipe.n < 2**16 else 2)
        if algorithm is STRIDED_STOCKHAM:
            shapes = [(2, recipe.n, ROWS)] * 2
        inputs = [real(*shape) for shape in shapes]
        results = []
        for reading in (hardware.RELATIVE, hardware.ABSOLUTE):
            core = replace(hardware.chip(chip), reading_of_ap=reading)
            outputs, timeline = run(kernel, inputs, algorithm.arguments(recipe), core)
            assert "ap-of-views" not in timeline.waived_rules
            results.append(outputs)
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
        specs = [(x.shape, "float32") for x in inputs]
        with hardware.select(core), nki_sim.strict(), nki_sim.allow("ap-of-views"):
            dry = nki_sim.dry_run(kernel, *specs, *algorithm.specs(recipe))
        assert dry.total_ns == timeline.total_ns  # prices and limits rely on dry runs
