"""The row guard: the rows that it sets aside, their replacements, and marks of their results."""

from __future__ import annotations

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_kernels.base.row_guard import RowGuard, set_rows_aside
from nki_sim import hardware

RNG = np.random.default_rng(11)
# Short rows, which are squared together, and in groups; rows of one piece; rows of several.
SHAPES = [
    (128, 5, 2, 16),
    (2, 70, 2, 16),
    (3, 2, 2, 100),
    (100, 1, 2, 1500),
    (128, 1, 1, 1),
    (2, 3, 1, 2500),
]


@nki.jit
def guarded(x, growth):
    """The data without bad rows, and what their results become."""
    clean = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    marked = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    data = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    marks = set_rows_aside(data, growth)
    nisa.dma_copy(dst=clean, src=data)
    free = x.shape[2] * x.shape[3]
    repeated = marks.ap([[x.shape[1], x.shape[0]], [1, x.shape[1]], [0, free]])
    nisa.tensor_tensor(dst=data, data1=data, data2=repeated, op=nl.add)
    nisa.dma_copy(dst=marked, src=data)
    return clean, marked


@nki.jit
def guarded_in_steps(x, growth):
    """The first result of ``guarded``, one step at a time."""
    clean = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    data = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    for step in RowGuard(data, growth).steps():
        step.run()
    nisa.dma_copy(dst=clean, src=data)
    return clean


def spoiled(shape):
    """Rows, and which of them are bad."""
    x = RNG.standard_normal(shape).astype(np.float32)
    bad = np.zeros(shape[:2], bool)
    for row, value in ((0, np.nan), (1, -np.inf), (2, 3e38)):
        place = row % shape[0], row % shape[1]
        x[place][..., -1] = value
        bad[place] = True
    return x, bad


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bad_rows_become_zeros_and_their_results_nan(shape, chip):
    x, bad = spoiled(shape)
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        clean, marked = nki_sim.simulate(guarded)(x, float(shape[-1]))
        stepped = nki_sim.simulate(guarded_in_steps)(x, float(shape[-1]))
    assert (clean[bad] == 0).all() and np.isnan(marked[bad]).all()
    np.testing.assert_array_equal(clean[~bad], x[~bad])
    np.testing.assert_array_equal(marked[~bad], x[~bad])
    np.testing.assert_array_equal(stepped, clean)


@pytest.mark.parametrize("magnitude", [0.0, 1e-45, 1e-38, 1e-20, 1.0, 1e20, 1e34])
def test_finite_rows_that_cannot_overflow_stay(magnitude):
    x = np.full((4, 2, 2, 64), magnitude, np.float32)
    clean, marked = nki_sim.simulate(guarded)(x, 64.0)
    np.testing.assert_array_equal(clean, x)
    np.testing.assert_array_equal(marked, x)
