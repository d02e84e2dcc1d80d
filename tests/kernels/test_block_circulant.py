"""The block circulant kernels, run in the simulator and compared with NumPy in float64.

The tests protect right products, gradients and spectra for any layer, batch, layout and chip, also
in loops over rows, blocks and slots. Rows must not mix, and wide layers must need few instructions.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nki_sim
from nki_kernels.base import counting, launch
from nki_kernels.base.isa import nisa
from nki_kernels.base.packing import pack, packed_spec
from nki_kernels.convolution import circulant_areas, circulant_products
from nki_kernels.convolution.block_circulant import (
    block_circulant,
    block_circulant_gradients,
    block_circulant_specs,
    block_circulant_tables,
    layouts,
    masks_spec,
    most_rows,
    product_masks,
    spectra_shape,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps
from tests.tolerances import contractions, near, together, transforms

from .independence import BAD, check_rows_are_independent, spoiled
from .samples import real
from .turns import on_chips

KERNELS = block_circulant, block_circulant_gradients
SHAPES = [  # rows, p, q, k
    (3, 2, 3, 4),
    (5, 1, 2, 8),
    (4, 3, 2, 7),
    (2, 3, 2, 1),
    (3, 2, 2, 2),
    (130, 2, 5, 16),
    (3, 70, 130, 3),
    (17, 32, 4, 64),
    (5, 2, 1, 100),
    (3, 2, 3, 128),
    (3, 2, 2, 129),
    (3, 2, 2, 255),
    (3, 4, 8, 256),
    (600, 3, 3, 16),
    (1024, 2, 1, 16),
    (4100, 2, 3, 4),  # rows in two parts
    (8200, 65, 66, 1),  # in three, and blocks in two
]


@pytest.fixture
def plan_for():
    """Plans a weight; the planner needs torch, the kernels do not."""
    pytest.importorskip("torch")
    from trnfft.planner.kinds import BlockCirculant
    from trnfft.planner.planner import plan_for

    return lambda *weight, **options: plan_for(BlockCirculant(*weight), **options)


def arguments(p, q, k, layout):
    masks = product_masks(q, layout[0])
    return *pack((*block_circulant_tables(k), masks)), layout


def fitting(rows, p, q, k):
    """Layouts that take so many rows."""
    return [each for each in layouts(p, q, k) if rows <= (most_rows(each) or rows)]


def run(kernel, *given, programs=1):
    with nki_sim.strict(), nki_sim.record() as timeline:
        result = nki_sim.simulate(kernel if programs == 1 else kernel[programs])(*given)
    assert timeline.launches == 1 and not timeline.waived_rules
    return result


def modelled(kernel, rows, shape, programs=1):
    """A dry run with the first layout that takes so many rows."""
    p, q, k = shape
    layout = fitting(rows, *shape)[0]
    specs = *block_circulant_specs(k), masks_spec(layout[0])
    if kernel is block_circulant:
        inputs = [(rows, q, k), shape, (1, p, k)]
    else:
        inputs = [(rows, p, k), spectra_shape(q, k, rows), spectra_shape(q, k, p)]
    given = [(each, "float32") for each in inputs]
    launched = kernel if programs == 1 else kernel[programs]
    with nki_sim.strict():
        return nki_sim.dry_run(launched, *given, *packed_spec(specs), layout)


def spectra(x, k):
    return np.fft.rfft(x.astype(np.float64).reshape(len(x), -1, k))


def assert_right(rows, p, q, k, layout, programs=1):
    x, weight, bias, grad = real(rows, q, k), real(p, q, k), real(1, p, k), real(rows, p, k)
    rest = arguments(p, q, k, layout)
    y, of_x, of_w = run(block_circulant, x, weight, bias, *rest, programs=programs)
    given = grad, of_x, of_w, *rest
    by_x, by_w = run(block_circulant_gradients, *given, programs=programs)
    of_grad, of_x, of_w = spectra(grad, k), spectra(x, k), spectra(weight.reshape(p, -1), k)
    dense = np.fft.irfft(np.einsum("bjf,ijf->bif", of_x, of_w), k) + bias
    near(y, dense.reshape(rows, -1), tolerance(k, q))
    near(by_x, exact_gradient(of_grad, of_w, k), tolerance(k, p))
    exact = np.fft.irfft(np.einsum("bif,bjf->ijf", of_grad, of_x.conj()), k)
    near(by_w.reshape(p, q, k), exact, tolerance(k, rows))


def tolerance(k, terms):
    """Returns that of two transforms and of sums of so many complex products."""
    return together(transforms(k, 2), contractions(2 * terms))


def exact_gradient(of_grad, of_w, k):
    """Returns the gradient of x [rows, q k] from spectra."""
    return np.fft.irfft(np.einsum("bif,ijf->bjf", of_grad, of_w.conj()), k).reshape(
        len(of_grad), -1
    )


LATER = [(130, 2, 5, 16), (3, 2, 2, 129), (32, 8, 16, 16), (3, 70, 66, 3)]


# The last shape takes longer than all others.
@sweeps.some(
    "chip, programs, shape",
    [
        *(("trn1", 1, shape) for shape in SHAPES),
        *itertools.product(("trn2", "trn3"), (1, 2), LATER),
    ],
    [
        *(("trn1", 1, shape) for shape in SHAPES[:-1]),
        *((("trn2", "trn3")[place % 2], 2, shape) for place, shape in enumerate(LATER)),
    ],
).with_args(ids=str)
def test_product_and_gradients(monkeypatch, chip, programs, shape):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    assert_right(*shape, fitting(*shape)[0], programs)


@pytest.mark.parametrize(
    "shape", [(32, 8, 16, 16), (20, 4, 4, 32), sweeps.whole((64, 8, 4, 64)), (200, 2, 2, 8)]
)
def test_every_layout_computes_the_same(shape):
    for layout in fitting(*shape):
        assert_right(*shape, layout)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(1, 257))
def test_every_block_size(k):
    for shape in ((3, 2, 3, k), (33, 4, 1, k)):
        assert_right(*shape, fitting(*shape)[0])


LOOPS = [  # rows, p, q, k, of which a pass or more are loops where a body is short
    (1300, 20, 33, 4),  # over rows
    (2200, 3, 2, 7),
    (5, 70, 150, 32),  # over blocks and slots
    (700, 130, 70, 1),  # over made blocks: there is one slot
]
WIDE = [  # whose passes are loops over several axes
    (150, 150, 131, 6),  # with strips of all axes
    (140, 128, 96, 16),  # without strips
]
MORE_WIDE = [
    (300, 150, 131, 6),
    (700, 256, 130, 1),  # one slot
    (1100, 3, 1100, 8),  # rows and blocks of transforms
    (140, 128, 192, 16),
]
DEGREES = {"trn1": 1, "trn2": 2, "trn3": 1}


@pytest.mark.weekly
@sweeps.some(
    "shape, chip",
    itertools.product(LOOPS + WIDE + MORE_WIDE, DEGREES),
    zip(LOOPS + WIDE, itertools.cycle(("trn1", "trn2"))),
).with_args(ids=str)
def test_loops_on_the_device(monkeypatch, chip, shape):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    whole, share = counted(shape, DEGREES[chip]), 1 if shape in LOOPS else 0.8
    for module in (circulant_areas, circulant_products):
        monkeypatch.setattr(module, "BODY", 10)
    assert counted(shape, DEGREES[chip]) < share * whole
    assert_right(*shape, fitting(*shape)[0], DEGREES[chip])


def counted(shape, programs):
    """Instructions of both kernels, the bodies of loops once."""
    timelines = [modelled(kernel, shape[0], shape[1:], programs) for kernel in KERNELS]
    return sum(len({each.number for each in timeline.events}) for timeline in timelines)


VERY_WIDE = [  # p, q, k, rows, near what fits into HBM
    (256, 256, 64, 32700),
    (512, 512, 64, 16300),
    (1000, 1000, 64, 8190),
    (8000, 8000, 8, 8190),
    (3, 8000, 16, 4000),
]


JUST_FIT = [  # of HBM
    (block_circulant, "trn1", 1, (3, 3, 256, 699050)),
    (block_circulant_gradients, "trn1", 1, (64, 64, 64, 131000)),
]


@pytest.mark.weekly
@sweeps.some(
    "kernel, chip, programs, shape",
    [
        (kernel, *case)
        for kernel in KERNELS
        for case in (*(("trn1", 1, shape) for shape in VERY_WIDE), ("trn2", 2, VERY_WIDE[0]))
    ]
    + JUST_FIT,
    [(block_circulant_gradients, "trn1", 1, VERY_WIDE[4]), JUST_FIT[0]],
).with_args(ids=str)
def test_instructions_of_wide_layers(monkeypatch, kernel, chip, programs, shape):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    *sizes, rows = shape
    assert modelled(kernel, rows, tuple(sizes), programs).launches == 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_programs_share_the_work(kernel):
    chip = hardware.TRN2
    with hardware.select(chip):
        one, two = [modelled(kernel, 2048, (16, 16, 64), degree).total_ns for degree in (1, 2)]
    assert two < 1.1 * one * chip.dma_core_bytes_per_ns / chip.hbm_stack_bytes_per_ns


@on_chips("shape", [(5, 3, 4, 16), (32, 4, 4, 64), (130, 3, 2, 129)], ("trn1", "trn2"))
def test_rows_are_independent(strict_chip, shape):
    rows, p, q, k = shape
    x, weight, grad = real(rows, q, k), real(p, q, k), real(rows, p, k)
    rest = arguments(p, q, k, fitting(*shape)[0])
    bias = np.zeros((1, p, k), np.float32)
    of_x, of_w = spectra(x, k), spectra(weight.reshape(p, -1), k)
    y = np.fft.irfft(np.einsum("bjf,ijf->bif", of_x, of_w), k).reshape(rows, -1)
    by_x = exact_gradient(spectra(grad, k), of_w, k)
    made = run(block_circulant, x, weight, bias, *rest)

    def product(x):
        return run(block_circulant, x, weight, bias, *rest)[0]

    def gradient(grad):
        return run(block_circulant_gradients, grad, made[1], made[2], *rest)[0]

    check_rows_are_independent(product, x, y, tolerance(k, q), [0, rows // 2])
    check_rows_are_independent(gradient, grad, by_x, tolerance(k, p), [rows - 1])


def test_gradients_of_other_rows_than_a_bad_one_of_x():
    """Of the weight they are sums over all rows; a NaN in x is in the spectra that are kept."""
    rows, p, q, k = 9, 2, 3, 16
    x, weight, grad = real(rows, q, k), real(p, q, k), real(rows, p, k)
    rest = arguments(p, q, k, fitting(rows, p, q, k)[0])
    x = spoiled(x, 4, BAD["nan"])
    _, of_x, of_w = run(block_circulant, x, weight, real(1, p, k), *rest)
    by_x, by_w = run(block_circulant_gradients, grad, of_x, of_w, *rest)
    exact = exact_gradient(spectra(grad, k), spectra(weight.reshape(p, -1), k), k)
    near(by_x, exact, tolerance(k, p))
    assert not np.isfinite(by_w).all()


def test_few_blocks_share_products(plan_for):
    plan = plan_for(4, 4, 64, batch=256, target="trn1")
    assert plan.recipe.blocking.side == 16
    alone = [
        c for c in plan.candidates if c.recipe.blocking.side == 1 and c.predicted_ns is not None
    ]
    assert min(c.predicted_ns for c in alone) > 1.1 * plan.predicted_ns


@pytest.mark.parametrize("batch", [32, 2048])
def test_faster_than_reading_a_dense_weight_or_multiplying_by_it(batch, plan_for):
    plan = plan_for(64, 64, 64, batch=batch, target="trn1")
    chip = hardware.TRN1
    cycles = 32 * 32 * chip.fp32_matmul_factor * max(batch, chip.matmul_min_cycles)
    dense = max(4 * 4096**2 / chip.dma_total_bytes_per_ns, cycles / chip.tensor_ghz)
    assert plan.predicted_ns < dense / 2.5


def test_a_count_ends_where_it_is_full():
    def run(instructions):
        for _ in range(instructions):
            nisa.memset(dst=None, value=0.0)

    for instructions, counted in ((3, 3), (4, 4), (100, 4)):
        with counting.counted(most=4) as count:
            run(instructions)
        assert count.instructions == counted and counting.current() is None
