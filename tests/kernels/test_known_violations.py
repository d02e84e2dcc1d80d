"""known_violations.json lists the device rules that kernels break today, no more and no less."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from nki_kernels import hardware, simulator
from nki_kernels.kernels.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.simulator import device_rules, dma_written
from trnfft.planner.algorithms import ALGORITHMS, STRIDED_STOCKHAM
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import CIRCULANT, CIRCULANT_GRADIENTS, CONVOLUTION

# Lengths and shapes at which every rule that a kernel breaks is broken by one of its recipes.
LENGTHS = (7, 12, 64, 100, 200, 257, 1000, 1009, 4096, 6208, 8192, 65536, 600000, 1048576)
SHAPES = {
    CONVOLUTION: ((64, 64), (12, 64), (256, 200), (600, 300)),
    None: ((64, 64), (33, 100), (64, 200), (16, 300), (16, 16), (4, 64)),
}
BLOCKS = ((2, 3, 16), (64, 64, 64), (3, 3, 256))
COUNTED = (64, 1000, 4096)  # lengths whose instructions are counted
BATCHES = (1, 5, 130)
POINTS = 2**16  # of a batch, and one transform alone
HBM_NUMBERS = hardware.HBM_TENSOR_BYTES // 4

# Shorter than the planner takes them: those of the kernels' own tests.
SHORT = {
    "split_four_step": [
        Recipe("split_four_step", 32, (2, 4, 4)),
        Recipe("split_four_step", 6144, (4, 16, 3, 32)),
    ],
    "split_bluestein": [
        Recipe("split_bluestein", 37, inner=Recipe("split_four_step", 80, (4, 5, 4))),
        Recipe("split_bluestein", 1009, inner=Recipe("split_four_step", 2080, (4, 20, 2, 13))),
    ],
}

# Enough of a batch for loads to run far ahead: what is transformed, batch, chip.
AHEAD = {
    "dft_gemm": (256, 4096, "trn1"),
    "stockham": (4096, 128, "trn1"),
    "four_step": (262144, 1, "trn1"),
    "split_four_step": (600000, 1, "trn3"),
    "butterfly": (8192, 1, "trn3"),
    "bluestein": (1009, 1, "trn1"),
    "long_bluestein": (65537, 1, "trn1"),
    "split_bluestein": (300007, 1, "trn3"),
    "real_stockham": (8192, 256, "trn1"),
    "inverse_real_stockham": (8192, 256, "trn1"),
    "convolve_rows": (5120, 200, "trn1"),
    "convolve_images": ((1024, 1024), 1, "trn1"),
    "block_circulant": ((3, 3, 256), 4096, "trn3"),
    "block_circulant_gradients": ((3, 3, 256), 4096, "trn1"),
    "axes": ((1024, 1024), 1, "trn1"),
    "real_axes": ((4096, 640), 1, "trn3"),
    "axes_to_real": ((4096, 640), 1, "trn1"),
    "strided_stockham": (1024, 1024, "trn1"),
}

KERNELS = {}
for each in (*ALGORITHMS.values(), STRIDED_STOCKHAM):
    KERNELS.setdefault(each.kernel.__name__, []).append(each)


def recipes(algorithm):
    """The likeliest recipe of every size above, and the last one."""
    if not algorithm.takes_shapes:
        found = [algorithm.recipes(n) for n in LENGTHS if not algorithm.why_not(n)]
    elif algorithm.kind in (CIRCULANT, CIRCULANT_GRADIENTS):
        found = [algorithm.orders(shape, shape)[:1] for shape in BLOCKS]
    else:
        shapes = SHAPES.get(algorithm.kind, SHAPES[None])
        found = [algorithm.orders(shape, shape)[:1] for shape in shapes]
    chosen = [recipe for each in found for recipe in {each[0], each[-1]}]
    return chosen + SHORT.get(algorithm.name, [])


def dry_run(algorithm, recipe, batch):
    shapes = algorithm.inputs(recipe, batch)
    if algorithm is STRIDED_STOCKHAM:
        shapes = [(2, recipe.n, batch)] * 2
    inputs = [(shape, "float32") for shape in shapes]
    with simulator.allow(*device_rules.RULES):
        return simulator.dry_run(algorithm.kernel, *inputs, *algorithm.specs(recipe))


def broken_rules(algorithm):
    """The rules that any recipe breaks on trn1, where all of them have a verdict."""
    broken = set()
    for recipe in recipes(algorithm):
        for batch in BATCHES:
            if batch == 1 or recipe.n * batch <= POINTS:
                broken |= dry_run(algorithm, recipe, batch).waived_rules
    if algorithm.name in AHEAD:
        broken |= broken_ahead(algorithm, *AHEAD[algorithm.name])
    return broken | broken_by_count(algorithm)


def broken_by_count(algorithm):
    """Rules on instructions that the batch breaks that just fits into HBM."""
    sizes = counted_recipes(algorithm)
    module = sys.modules[algorithm.kernel.__module__]
    if hasattr(module, "share_rows") or hasattr(module, "multiply_rows"):  # loops over blocks
        recipe = sizes[-1]
        return dry_run(algorithm, recipe, most_rows(algorithm, recipe)).waived_rules
    broken = set()
    count = max(most_instructions(algorithm, recipe) for recipe in sizes)
    if count > device_rules.MANY_INSTRUCTIONS:
        broken.add("instruction-count")
    if count > device_rules.MOST_INSTRUCTIONS:
        broken.add("instruction-limit")
    return broken


def broken_ahead(algorithm, size, batch, chip):
    """Of the likeliest recipes of one size: the first that breaks the rule on loads tells."""
    found = algorithm.orders(size, size) if isinstance(size, tuple) else algorithm.recipes(size)
    with hardware.select(hardware.chip(chip)):
        for recipe in found[:4]:
            broken = dry_run(algorithm, recipe, batch).waived_rules
            if "dma-written-ahead" in broken:
                return broken
    return set()


def counted_recipes(algorithm):
    found = {recipe.n: recipe for recipe in recipes(algorithm)}
    return [found[n] for n in COUNTED if n in found] or list(found.values())[:1]


def most_rows(algorithm, recipe):
    """Of an input, or of a transform's output, that just fits into HBM."""
    return HBM_NUMBERS // max(math.prod(algorithm.inputs(recipe, 1)[0][1:]), recipe.n)


def most_instructions(algorithm, recipe):
    """Instructions of the batch that just fits into HBM, where its blocks are unrolled."""
    batch = max(min(2 * algorithm.rows, 256), POINTS // 2 // recipe.n)
    once, twice = (dry_run(algorithm, recipe, n).instructions for n in (batch, 2 * batch))
    return (twice - once) / batch * most_rows(algorithm, recipe)


@pytest.mark.parametrize("name", KERNELS)
def test_the_list_is_that_of_the_rules_that_a_kernel_breaks(name):
    listed = set(json.loads(device_rules.KNOWN_VIOLATIONS.read_text())[name])
    assert set().union(*map(broken_rules, KERNELS[name])) == listed


def test_every_kernel_is_listed():
    assert set(device_rules.known_violations()) == set(KERNELS)


@pytest.fixture
def listed(monkeypatch):
    """The kernel dft_gemm is listed as breaking two rules, and does so on a chip."""
    rules = frozenset(["stationary-dimensions", "dma-written-ahead"])
    monkeypatch.setattr(device_rules, "known_violations", lambda: {"dft_gemm": rules})
    monkeypatch.setattr(dma_written, "DMA_WRITTEN_BYTES", 1024)
    with hardware.select(replace(hardware.TRN1, stationary_free_dimensions=0)):
        yield


def test_a_listed_kernel_warns_and_runs(listed):
    x = np.ones((130, 60), np.float32)
    broken = "kernel dft_gemm.*stationary-dimensions"
    with pytest.warns(simulator.NkiSimulationWarning, match=broken):
        simulator.simulate(dft_gemm)(x, x, dft_gemm_matrix(60))


def test_a_recorded_run_warns_of_what_the_schedule_shows(listed):
    x = np.ones((4096, 256), np.float32)
    found = "kernel dft_gemm.*dma-written-ahead"
    with pytest.warns(simulator.NkiSimulationWarning, match=found), simulator.record():
        simulator.simulate(dft_gemm)(x, x, dft_gemm_matrix(256))
