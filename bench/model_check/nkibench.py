"""Whole kernels of NKIBench on trn1: their times, and how they are modelled.

`nkibench_kernels` rebuilds the kernels. NKIBench is the set of kernels that AccelOpt starts from.
The times are means of the profiler's total times, on one core, in float32. The compiler was told
not to use DGE, and it optimised the kernels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check import nkibench_kernels as kernels
from bench.model_check.measured import INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import once_a_chip, readings_us, spec, timeline_of
from nki_sim.report.timeline import Timeline

SOURCE = (
    "github.com/zhang677/AccelOpt 47e29a7 (2026-07-28), NKIBench/kernels and "
    "experiments/full_complete_local/profile_results.csv: trn1.32xlarge"
)

NKIBENCH = Group(
    "NKIBench, trn1",
    "AdamW, a rotary embedding, and three matrix products M x K x N, in float32",
)
ENGINES = Group("NKIBench: engines, trn1", "busy times of VectorE and ScalarE, added")

ADAMW = "AdamW, 10944 x 2048"
ROPE = "rotation, 128 x 262144"
BMM = "16 of 4096 x 64 x 4096"
NORM = "norm, 4096 x 1024 x 2048"
MATMUL = "4096 x 5120 x 12288"

LAUNCHES: dict[str, tuple[Any, ...]] = {  # kernels, and the shapes of their arguments
    ADAMW: (kernels.adamw, *[(10_944, 2048)] * 4),
    ROPE: (kernels.rotate, (128, 262_144), (64, 262_144), (64, 262_144)),
    BMM: (kernels.batched_matmul, (16, 4096, 64), (16, 64, 4096)),
    NORM: (kernels.norm_matmul, (4096, 1024), (1024, 2048)),
    MATMUL: (kernels.matmul_transposing, (4096, 5120), (5120, 12_288)),
}


@once_a_chip
def launch(name: str) -> Timeline:
    """Returns the modelled launch of a kernel in full size."""
    kernel, *shapes = LAUNCHES[name]
    return timeline_of(kernel, *[spec("float32", *shape) for shape in shapes])


def whole_us(name: str) -> Value:
    """Returns the microseconds of a kernel."""
    return readings_us(launch(name))


def busy_us(name: str) -> Value:
    """Returns for how many microseconds VectorE and ScalarE are busy, added."""
    return sum(launch(name).engine_busy_ns[engine] for engine in ("vector", "scalar")) / 1e3


def _whole(name: str, us: float, **others: Any) -> Measured:
    model = partial(whole_us, name)
    return Measured(NKIBENCH, "trn1", SOURCE, name, us, model, is_whole_kernel=True, **others)


def _busy(name: str, us: float, **others: Any) -> Measured:
    return Measured(ENGINES, "trn1", SOURCE, name, us, partial(busy_us, name), **others)


# The profiles show what the compiler changed. HBM bytes in MB, as the source of a kernel has them
# and as measured (read, written), and the measured busy fractions of VectorE and ScalarE:
#
#            source         measured       VectorE  ScalarE
#   ADAMW    358.6,   89.7  358.6,   89.7   0.9002   0.6162
#   ROPE     268.4,  134.2  268.4,  134.2   0.7164   0.1411
#   BMM       84.0, 1073.7   67.4, 1086.3   0.0000   0.3726
#   NORM      67.2,   33.6   39.4,   33.6   0.0388   0.1775
#   MATMUL  1258.4,  201.3 9059.8,  201.3   0.0000   0.0680
#
# In ADAMW, ScalarE computes more than the square root. In BMM, the operand on the left is loaded
# and transposed once instead of four times; 12.6 MB are spilt and 33.8 MB are reloaded. In NORM,
# most repeated loads are gone. In MATMUL, the operand on the right does not stay in SBUF: without
# the identity, the bytes read are 32 times its bytes plus 12 times those of the other operand.
# GpSimdE is busy for less than 3%. ADAMW and BMM show that rows with gaps, a power of two apart,
# are moved at full rate. vector_reciprocal_factor comes from another profile of the benchmark, in
# which VectorE is busy for 985 us with silu of [4096, 7168], and was compared with ADAMW.
RECORDS = (
    _whole(ADAMW, 2000, use=INPUT),
    _whole(ROPE, 4333),
    _whole(BMM, 4611, use=INPUT),
    _whole(NORM, 1056),
    _whole(MATMUL, 35_200),
    # The compiler chose between the two engines, so that only their sum can be compared.
    _busy(ADAMW, (0.9002 + 0.6162) * 1999.8, use=INPUT),
    _busy(ROPE, (0.7164 + 0.1411) * 4333.0),
    _busy(BMM, 0.3726 * 4610.9),
    _busy(NORM, (0.0388 + 0.1775) * 1055.8),
    _busy(MATMUL, 0.0680 * 35_199.7),
)

LEFT_OUT: dict[str, str] = {}
