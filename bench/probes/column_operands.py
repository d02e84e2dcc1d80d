"""`nisa.activation` with a column as scale or as bias: is every row scaled by its own number?"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.probes.moves import load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

ROWS, WIDTH, RUNS = 128, 64, 4


@nki.jit
def scaled_by_activation(x, columns):
    """Multiplies x [128, 64] by the first of columns [128, 4], row by row, on ScalarE."""
    data, factors = load(x), load(columns)
    result = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.copy, data=data, scale=factors[:, 0:1])
    return stored(result)


@nki.jit
def scaled_by_tensor_scalar(x, columns):
    """Computes the same on VectorE."""
    data, factors = load(x), load(columns)
    result = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
    multiply(result, data, factors[:, 0:1])
    return stored(result)


@nki.jit
def runs_scaled_by_activation(x, columns):
    """Multiplies each of the 4 runs of x [128, 64] by its own column, and interleaves the runs."""
    data, factors = load(x), load(columns)
    result = nl.ndarray((ROWS, WIDTH // RUNS, RUNS), dtype=data.dtype, buffer=nl.sbuf)
    for run in range(RUNS):
        nisa.activation(
            dst=result[:, :, run],
            op=nl.copy,
            data=run_of(data, run),
            scale=factors[:, run : run + 1],
        )
    return stored(result)


@nki.jit
def runs_scaled_by_tensor_scalar(x, columns):
    """Computes the same on VectorE."""
    data, factors = load(x), load(columns)
    result = nl.ndarray((ROWS, WIDTH // RUNS, RUNS), dtype=data.dtype, buffer=nl.sbuf)
    for run in range(RUNS):
        multiply(result[:, :, run], run_of(data, run), factors[:, run : run + 1])
    return stored(result)


@nki.jit
def shifted_by_activation(x, columns):
    """Computes 2 x plus the first column on ScalarE."""
    data, terms = load(x), load(columns)
    result = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.copy, data=data, bias=terms[:, 0:1], scale=2.0)
    return stored(result)


@nki.jit
def shifted_by_tensor_scalar(x, columns):
    """Computes the same on VectorE."""
    data, terms = load(x), load(columns)
    result = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=result,
        data=data,
        op0=nl.multiply,
        operand0=2.0,
        op1=nl.add,
        operand1=terms[:, 0:1],
        engine=nisa.engine.vector,
    )
    return stored(result)


def run_of(data: Any, run: int) -> Any:
    """Returns a run of sixteen contiguous columns."""
    width = WIDTH // RUNS
    return data[:, run * width : (run + 1) * width]


def multiply(dst: Any, data: Any, column: Any) -> None:
    """Multiplies data by a column on VectorE, and writes to dst."""
    nisa.tensor_scalar(
        dst=dst, data=data, op0=nl.multiply, operand0=column, engine=nisa.engine.vector
    )


def arguments(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, ROWS, WIDTH), normal(generator, ROWS, RUNS)


def exact(x: Array, columns: Array) -> Array:
    return x.astype(float) * columns[:, :1]


def exact_runs(x: Array, columns: Array) -> Array:
    runs = x.astype(float).reshape(ROWS, RUNS, WIDTH // RUNS)
    return (runs * columns[:, :, None]).transpose(0, 2, 1)


def exact_shifted(x: Array, columns: Array) -> Array:
    return 2 * x.astype(float) + columns[:, :1]


RECORD = "BigVGAN's kernel for trn2: wrong with a column as scale; perhaps nl.sin was"


def probe(name: str, question: str, pair: tuple[Any, Any], exact: Any, settles: str = "") -> Probe:
    """Returns a probe of a kernel and its twin."""
    return Probe(
        name=name,
        question=question,
        record=RECORD,
        kernel=pair[0],
        twin=pair[1],
        arguments=arguments,
        exact=exact,
        rule="" if settles else "activation-column-scale",
        settles=settles,
    )


PROBES = (
    probe(
        "activation-column",
        "activation with a column as scale: does each row get its own factor?",
        (scaled_by_activation, scaled_by_tensor_scalar),
        exact,
    ),
    probe(
        "activation-column-views",
        "activation with a column as scale, on runs into a view with strides: right?",
        (runs_scaled_by_activation, runs_scaled_by_tensor_scalar),
        exact_runs,
    ),
    probe(
        "activation-column-bias",
        "activation with a column as bias and a number as scale: right?",
        (shifted_by_activation, shifted_by_tensor_scalar),
        exact_shifted,
        "that a bias of activation may be a column",
    ),
)
