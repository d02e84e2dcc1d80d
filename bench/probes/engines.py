"""VectorE, ScalarE and GpSimdE: columns as scale and bias, and float32 on GpSimdE.

The functions that return tiles name their engine, unlike those of `bench.model_check.tiles`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check.tiles import load, stored
from bench.probes.probe import Array, Probe
from nki_kernels.base.isa import nisa, nki, nl

ROWS, WIDTH, RUNS = 128, 64, 4


def copied(source: Any, dtype: Any) -> Any:
    """Copies a view to a new SBUF tile of a dtype, by VectorE."""
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=source, engine=nisa.engine.vector)
    return tile


def combined(a: Any, b: Any, op: Any, engine: Any) -> Any:
    """Returns a op b in a new SBUF tile."""
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=a, data2=b, op=op, engine=engine)
    return tile


@nki.jit
def computed(a, b, asks):
    """Returns (a - b) b, by GpSimdE or by VectorE."""
    engine = nisa.engine.gpsimd if asks else nisa.engine.vector
    left, right = load(a), load(b)
    return stored(combined(combined(left, right, nl.subtract, engine), right, nl.multiply, engine))


# `nisa.activation` on ScalarE with a column as scale or as bias, against VectorE: is every row
# scaled by its own number?


@nki.jit
def scaled(x, columns, asks):
    """Multiplies x [128, 64] by the first of columns [128, 4], row by row."""
    data, factors = load(x), load(columns)
    result = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
    scale(result, data, factors[:, 0:1], asks)
    return stored(result)


@nki.jit
def scaled_runs(x, columns, asks):
    """Multiplies each of the 4 runs of x [128, 64] by its own column, and interleaves the runs."""
    data, factors, width = load(x), load(columns), WIDTH // RUNS
    result = nl.ndarray((ROWS, width, RUNS), dtype=data.dtype, buffer=nl.sbuf)
    for run in range(RUNS):
        columns_of_run = data[:, run * width : (run + 1) * width]
        scale(result[:, :, run], columns_of_run, factors[:, run : run + 1], asks)
    return stored(result)


def scale(dst: Any, data: Any, column: Any, on_scalar: bool) -> None:
    """Multiplies data by a column on ScalarE or VectorE, and writes to dst."""
    if on_scalar:
        nisa.activation(dst=dst, op=nl.copy, data=data, scale=column)
    else:
        nisa.tensor_scalar(
            dst=dst, data=data, op0=nl.multiply, operand0=column, engine=nisa.engine.vector
        )


@nki.jit
def shifted(x, columns, asks):
    """Computes 2 x plus the first column."""
    data, terms = load(x), load(columns)
    result = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
    if asks:
        nisa.activation(dst=result, op=nl.copy, data=data, bias=terms[:, 0:1], scale=2.0)
    else:
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


def exact_runs(x: Array, columns: Array) -> Array:
    runs = x.astype(float).reshape(ROWS, RUNS, WIDTH // RUNS)
    return (runs * columns[:, :, None]).transpose(0, 2, 1)


of_columns = partial(
    Probe,
    record="BigVGAN's kernel for trn2: wrong with a column as scale; perhaps nl.sin was",
    shapes=((ROWS, WIDTH), (ROWS, RUNS)),
)

PROBES = (
    of_columns(
        "activation-column",
        "activation with a column as scale: does each row get its own factor?",
        kernel=scaled,
        exact=lambda x, columns: x.astype(float) * columns[:, :1],
        rule="activation-column-scale",
    ),
    of_columns(
        "activation-column-views",
        "activation with a column as scale, on runs into a view with strides: right?",
        kernel=scaled_runs,
        exact=exact_runs,
        rule="activation-column-scale",
    ),
    of_columns(
        "activation-column-bias",
        "activation with a column as bias and a number as scale: right?",
        kernel=shifted,
        exact=lambda x, columns: 2 * x.astype(float) + columns[:, :1],
        settles="that a bias of activation may be a column",
    ),
    Probe(
        "gpsimd-float32",
        "tensor_tensor in float32 on GpSimdE: does it compile, and is it right?",
        "hardware records 2: NCC_IXCG965, by kiln on trn1; no record of trn2 and trn3",
        computed,
        lambda a, b: (a.astype(float) - b) * b,
        ((ROWS, WIDTH), (ROWS, WIDTH)),
        rule="gpsimd-float32",
    ),
)
