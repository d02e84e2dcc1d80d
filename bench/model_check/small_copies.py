"""Kernels with many small copies, and a small instruction: rebuilt, their times, and their model.

The vector adds belong to assignment 4 of CS149 of Stanford. Its first kernel adds chunks of
``rows`` numbers, one number a partition, and the other adds tiles [128, columns] that follow each
other in HBM. Their times are those of whole launches, so that they contain a launch; a public
write-up of 2024 has the times on trn1, one of 2025 those on trn2. The compiler of 2024 optimised
the kernels, that of 2025 was told not to. `turbulence_kernels` rebuilds the simulation of
turbulence.
"""

from __future__ import annotations

from bench.model_check.measured import FITTED, HELD_OUT, INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import continued, spec, timeline_of, total_us
from bench.model_check.tiles import load, new_like
from bench.model_check.turbulence_kernels import turbulence_stage
from nki_kernels.base.isa import nisa, nki, nl


@nki.jit
def add_chunks(a, b, rows):
    """Returns a + b of vectors, by chunks of ``rows`` numbers in as many partitions."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    chunks = (a.shape[0] // rows, rows, 1)
    left, right, sums = a.reshape(chunks), b.reshape(chunks), out.reshape(chunks)
    for i in range(chunks[0]):
        total, other = new_like(left[i]), load(right[i])
        nisa.tensor_scalar(dst=total, data=load(left[i]), op0=nl.add, operand0=other)
        nisa.dma_copy(dst=sums[i], src=total)
    return out


@nki.jit
def add_tiles(a, b):
    """Returns a + b of [tiles, 128, columns], by one instruction for each tile."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(a.shape[0]):
        total = new_like(a[i])
        nisa.tensor_tensor(dst=total, data1=load(a[i]), data2=load(b[i]), op=nl.add)
        nisa.dma_copy(dst=out[i], src=total)
    return out


@nki.jit
def add_often(x, count):
    """Returns x * 2, computed ``count`` times by instructions that do not depend on each other."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    totals = [new_like(x) for _ in range(count)]
    for total in totals:
        nisa.tensor_tensor(dst=total, data1=tile, data2=tile, op=nl.add, engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=totals[-1])
    return out


# The figures, and how they are modelled.

ADD = Group("vector adds", "in chunks or tiles of float32")
TURBULENCE = Group("turbulence, trn1", "a Runge-Kutta step, float32")
SMALL = Group("small instructions, trn1", "time on the engine")

COURSE = "Stanford CS149, assignment 4, float32, one core, p99 of a launch: a public write-up of"
SPECTRAL = (
    "github.com/aws-samples/sample-spectral-dns-on-aws-neuron 5a408ab1 (2026-09-18), "
    "docs/results.md, section 4: three launches"
)
BLOG = "charleshong3.github.io/blog/autocomp_trainium.html (2025-11-03): 65,536 in 3.84 ms"

NUMBERS = 25_600  # of the adds of chunks


def by_chunks(rows: int, numbers: int = NUMBERS) -> Value:
    """Returns the microseconds of the add of vectors by chunks of so many rows."""
    vector = spec("float32", numbers)
    return total_us(add_chunks, vector, vector, rows)


def by_tiles(count: int, columns: int) -> Value:
    """Returns the microseconds of the add of tiles [128, columns]."""
    tile = spec("float32", count, 128, columns)
    return total_us(add_tiles, tile, tile)


def step_us(n: int) -> Value:
    """Returns the microseconds of a step, whose last of three stages also applies the decay."""
    field, matrix = spec("float32", n, n, n), spec("float32", n, n)
    given = (field,) * 6, (field,) * 6, (matrix,) * 3, (field,) * 5
    stage, last = (total_us(turbulence_stage, *given, decay) for decay in (None, field))
    return 2 * stage + last


def small_us() -> Value:
    """Returns the microseconds of VectorE for a product of few elements."""
    busy = timeline_of(add_often, spec("float32", 128, 3), 64).engine_busy_ns["vector"]
    return busy / 64 / 1e3


# dma_copy_ns comes from the adds of one number, and on trn1 also from those of 128. The launch is
# fitted to one tile [128, 200], for each chip. The times of the tiles [128, 1] and [128, 2] on trn2
# are part of the range from which software_dge_ns was chosen.
_ADDS = {
    "25,600 of [1, 1]": lambda: continued(lambda numbers: by_chunks(1, numbers), 400, NUMBERS),
    "200 of [128, 1]": lambda: by_chunks(128),
    "100 of [128, 2]": lambda: by_tiles(100, 2),
    "one of [128, 200]": lambda: by_tiles(1, 200),
    "one of [128, 2000]": lambda: by_tiles(1, 2000),
    "two of [128, 1000]": lambda: by_tiles(2, 1000),
}


def _add(name: str, chip: str, year: int, us: float, use: str = HELD_OUT) -> Measured:
    source = f"{COURSE} {year}"
    return Measured(
        ADD,
        chip,
        source,
        f"{name}, {chip}",
        us,
        _ADDS[name],
        use,
        is_whole_kernel=True,
        overhead=f"course, {chip}",
        launches=1,
    )


RECORDS = (
    _add("25,600 of [1, 1]", "trn1", 2024, 27_404, INPUT),
    _add("200 of [128, 1]", "trn1", 2024, 206, INPUT),
    _add("100 of [128, 2]", "trn1", 2024, 53),
    _add("one of [128, 200]", "trn1", 2024, 19, FITTED),
    _add("one of [128, 2000]", "trn1", 2024, 34),
    _add("two of [128, 1000]", "trn1", 2024, 29),
    _add("25,600 of [1, 1]", "trn2", 2025, 37_318, INPUT),
    _add("200 of [128, 1]", "trn2", 2025, 378, INPUT),
    _add("100 of [128, 2]", "trn2", 2025, 186, INPUT),
    _add("one of [128, 200]", "trn2", 2025, 15, FITTED),
    _add("one of [128, 2000]", "trn2", 2025, 28),
    _add("two of [128, 1000]", "trn2", 2025, 26),
    Measured(
        TURBULENCE,
        "trn1",
        SPECTRAL,
        "64 x 64 x 64",
        5200,
        lambda: step_us(64),
        is_whole_kernel=True,
    ),
    Measured(
        TURBULENCE,
        "trn1",
        SPECTRAL,
        "128 x 128 x 128",
        20_400,
        lambda: step_us(128),
        is_whole_kernel=True,
    ),
    # The time showed that a small instruction's start-up is hidden behind the one before.
    Measured(SMALL, "trn1", BLOG, "tensor_tensor, [128, 3]", 3840 / 65_536, small_us, INPUT),
)

LEFT_OUT = {
    "Autocomp: depthwise convolution, 8.0 ms": "two candidates of its search are rebuilt instead",
}
