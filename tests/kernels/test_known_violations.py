"""No kernel breaks a device rule: in strict mode, on every chip, on one core or two."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from nki_kernels import hardware, simulator
from nki_kernels.kernels.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.row_blocks import LAUNCH_INSTRUCTIONS
from nki_kernels.simulator import device_rules, dma_written
from tests import sweeps
from trnfft.planner.algorithms import ALGORITHMS, STRIDED_STOCKHAM
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import CIRCULANT, CIRCULANT_GRADIENTS, CONVOLUTION

# Lengths and shapes at which kernels broke rules before they were made for these.
LENGTHS = (7, 12, 64, 100, 200, 257, 1000, 1009, 4096, 6208, 8192, 65536, 600000, 1048576)
SHAPES = {
    CONVOLUTION: ((64, 64), (12, 64), (256, 200), (600, 300)),
    None: ((64, 64), (33, 100), (64, 200), (16, 300), (16, 16), (4, 64)),
    "resident_planes": ((256, 128), (512, 256)),
    "resident_volumes": ((64, 64, 64), (128, 64, 64)),
    "resident_real_volumes": ((64, 64, 64), (64, 128, 128)),
}
BLOCKS = ((2, 3, 16), (64, 64, 64), (3, 3, 256))
COUNTED = (64, 1000, 4096)  # lengths whose instructions are counted
BATCHES = (1, 5, 130)
POINTS = 2**16  # of a batch, and one transform alone
HBM_NUMBERS = hardware.HBM_TENSOR_BYTES // 4

# Shorter than the planner takes them: those of the kernels' own tests.
SHORT = {
    "split_four_step": [
        Recipe("split_four_step", 4096, (16, 16, 16)),
        Recipe("split_four_step", 11520, (6, 16, 3, 40)),
    ],
    "split_bluestein": [
        Recipe("split_bluestein", 601, inner=Recipe("split_four_step", 2730, (65, 3, 14))),
    ],
}

# Enough of a batch for loads to run far ahead: what is transformed, batch, chip.
AHEAD = {
    "dft_gemm": (256, 4096, "trn1"),
    "stockham": (4096, 128, "trn1"),
    "folded_dft": (2039, 256, "trn1"),
    "four_step": (262144, 1, "trn1"),
    "split_four_step": (600000, 1, "trn3"),
    "butterfly": (8192, 1, "trn3"),
    "bluestein": (1009, 1, "trn1"),
    "long_bluestein": (65537, 1, "trn1"),
    "split_bluestein": (300007, 1, "trn3"),
    "real_dft_gemm": (256, 4096, "trn1"),
    "inverse_real_dft_gemm": (256, 4096, "trn1"),
    "real_stockham": (8192, 256, "trn1"),
    "inverse_real_stockham": (8192, 256, "trn1"),
    "real_four_step": (524288, 2, "trn1"),
    "inverse_real_four_step": (524288, 2, "trn1"),
    "convolve_rows": (5120, 200, "trn1"),
    "convolve_images": ((1024, 1024), 1, "trn1"),
    "block_circulant": ((3, 3, 256), 4096, "trn3"),
    "block_circulant_gradients": ((3, 3, 256), 4096, "trn1"),
    "axes": ((1024, 1024), 1, "trn1"),
    "real_axes": ((4096, 640), 1, "trn3"),
    "axes_to_real": ((4096, 640), 1, "trn1"),
    "resident_planes": ((512, 2048), 2, "trn1"),
    "resident_volumes": ((64, 64, 64), 4, "trn1"),
    "resident_real_volumes": ((128, 128, 128), 2, "trn1"),
    "strided_stockham": (1024, 1024, "trn1"),
}

KERNELS = {}
for each in (*ALGORITHMS.values(), STRIDED_STOCKHAM):
    KERNELS.setdefault(each.kernel.__name__, []).append(each)


def recipes(algorithm, places=(0, -1)):
    """The likeliest recipe of every size above, and the last one."""
    if not algorithm.takes_shapes:
        found = [algorithm.recipes(n) for n in LENGTHS if not algorithm.why_not(n)]
    elif algorithm.kind in (CIRCULANT, CIRCULANT_GRADIENTS):
        found = [algorithm.orders(shape, shape)[:1] for shape in BLOCKS]
    else:
        shapes = SHAPES.get(algorithm.name) or SHAPES.get(algorithm.kind, SHAPES[None])
        found = [algorithm.orders(shape, shape)[:1] for shape in shapes]
    chosen = [recipe for each in found for recipe in {each[place] for place in places}]
    return chosen + SHORT.get(algorithm.name, [])


def dry_run(algorithm, recipe, batch, cores=1):
    shapes = algorithm.inputs(recipe, batch)
    if algorithm is STRIDED_STOCKHAM:
        shapes = [(2, recipe.n, batch)] * 2
    inputs = [(shape, "float32") for shape in shapes]
    kernel = algorithm.kernel[cores] if cores > 1 else algorithm.kernel
    with simulator.strict():
        return simulator.dry_run(kernel, *inputs, *algorithm.specs(recipe))


def most_rows(algorithm, recipe):
    """Of an input, or of a transform's output, that just fits into HBM."""
    members = 2 if algorithm is STRIDED_STOCKHAM else 1  # as in dry_run
    numbers = max(math.prod(algorithm.inputs(recipe, 1)[0][1:]), recipe.n)
    return HBM_NUMBERS // (members * numbers)


def counted_recipe(algorithm):
    """The recipe whose instructions are counted."""
    found = {recipe.n: recipe for recipe in recipes(algorithm)}
    return next((found[n] for n in COUNTED if n in found), next(iter(found.values())))


@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), ("trn2", 2), sweeps.whole("trn3", 1)])
@pytest.mark.parametrize("place", [0, sweeps.whole(-1)], ids=["likeliest", "last"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_recipe_breaks_a_rule(monkeypatch, name, place, chip, cores):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for algorithm in KERNELS[name]:
        for recipe in recipes(algorithm, [place]):
            for batch in BATCHES if chip == "trn1" else BATCHES[1:2]:
                if batch == 1 or recipe.n * batch <= POINTS:
                    assert dry_run(algorithm, recipe, batch, cores).launches == 1


@pytest.mark.parametrize("name", AHEAD)
def test_loads_do_not_run_too_far_ahead(monkeypatch, name):
    size, batch, chip = AHEAD[name]
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    algorithm = STRIDED_STOCKHAM if name == STRIDED_STOCKHAM.name else ALGORITHMS[name]
    found = algorithm.orders(size, size) if isinstance(size, tuple) else algorithm.recipes(size)
    for recipe in found[:2]:
        assert dry_run(algorithm, recipe, batch).launches == 1


# By default those kernels whose own tests do not count the instructions of such a batch.
NOT_COUNTED = {
    "bluestein",
    "convolve_images",
    "folded_dft",
    "resident_planes",
    "resident_real_volumes",
    "resident_volumes",
    "transform_axes",
    "transform_axes_to_real",
    "transform_real_axes",
}


@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), sweeps.whole("trn2", 2)])
@sweeps.some("name", KERNELS, NOT_COUNTED)
def test_the_largest_batch_compiles(monkeypatch, name, chip, cores):
    """A launch has at most 30,000 instructions at the batch that just fits into HBM."""
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", LAUNCH_INSTRUCTIONS)
    for algorithm in KERNELS[name]:
        recipe = counted_recipe(algorithm)
        assert dry_run(algorithm, recipe, most_rows(algorithm, recipe), cores).launches == 1


def test_no_kernel_is_listed():
    assert device_rules.known_violations() == {}


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
