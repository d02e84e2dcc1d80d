"""Times of whole kernels of NKIBench on trn1; `nkibench_kernels` rebuilds the kernels.

NKIBench is the set of kernels that AccelOpt starts from. The times are means of the profiler's
total times, on one core, in float32. The compiler was told not to use DGE, and it optimised the
kernels.
"""

from __future__ import annotations

from bench.model_check.measurement import INPUT, Measurement, whole_kernels

SOURCE = (
    "github.com/zhang677/AccelOpt 47e29a7 (2026-07-28), NKIBench/kernels and "
    "experiments/full_complete_local/profile_results.csv: trn1.32xlarge"
)

NKIBENCH = "NKIBench, trn1"
ENGINES = "NKIBench: engines, trn1"

ABOUT = {
    NKIBENCH: "AdamW, a rotary embedding, and three matrix products M x K x N, in float32",
    ENGINES: "busy times of VectorE and ScalarE, added",
}

ADAMW = "AdamW, 10944 x 2048"
ROPE = "rotation, 128 x 262144"
BMM = "16 of 4096 x 64 x 4096"
NORM = "norm, 4096 x 1024 x 2048"
MATMUL = "4096 x 5120 x 12288"

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
_TIMES = whole_kernels(
    Measurement(NKIBENCH, ADAMW, "trn1", 2000, "us", SOURCE, INPUT),
    Measurement(NKIBENCH, ROPE, "trn1", 4333, "us", SOURCE),
    Measurement(NKIBENCH, BMM, "trn1", 4611, "us", SOURCE, INPUT),
    Measurement(NKIBENCH, NORM, "trn1", 1056, "us", SOURCE),
    Measurement(NKIBENCH, MATMUL, "trn1", 35_200, "us", SOURCE),
)

# The compiler chose between the two engines, so that only their sum can be compared.
_BUSY = (
    Measurement(ENGINES, ADAMW, "trn1", (0.9002 + 0.6162) * 1999.8, "us", SOURCE, INPUT),
    Measurement(ENGINES, ROPE, "trn1", (0.7164 + 0.1411) * 4333.0, "us", SOURCE),
    Measurement(ENGINES, BMM, "trn1", 0.3726 * 4610.9, "us", SOURCE),
    Measurement(ENGINES, NORM, "trn1", (0.0388 + 0.1775) * 1055.8, "us", SOURCE),
    Measurement(ENGINES, MATMUL, "trn1", 0.0680 * 35_199.7, "us", SOURCE),
)

RECORDS = (*_TIMES, *_BUSY)
