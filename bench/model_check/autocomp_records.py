"""Times of kernels that Autocomp's search produced on trn1; `autocomp_kernels` rebuilds them.

Each kernel is one candidate of a trace, which has its code and its time. The times are 99th
percentiles on the NeuronCore, without what the host does.
"""

from __future__ import annotations

from bench.model_check.measurement import Measurement, whole_kernels

AUTOCOMP = "Autocomp, trn1"

ABOUT = {AUTOCOMP: "matmul and attention in bfloat16, convolutions and Mamba in float32"}

_COMMIT = "github.com/ucb-bar/autocomp dd26a565 (2026-06-29), examples"
_GEMM = f"{_COMMIT}/trn-tutorial/2_gemm_trace.py"
_CONVOLUTION = f"{_COMMIT}/trn-advanced/4_conv1d_trace.py"
_MAMBA = f"{_COMMIT}/trn-tutorial/3_mamba_trace.py, candidate 3"
_ATTENTION = f"{_COMMIT}/trn-tutorial/4_attention_trace.py, candidate 9"

# Candidates are counted from 1, the code that the search starts from. Their sizes are those of
# harnesses/trn-tutorial-nki1 and harnesses/trn-advanced-nki1. A block of the products is m by n
# tiles. Attention would be modelled with 1134 us if it negated the maxima before every exp, as its
# source does.
RECORDS = whole_kernels(
    Measurement(AUTOCOMP, "matmul, blocks of 1, 2", "trn1", 28_680, "us", f"{_GEMM}, candidate 2"),
    Measurement(AUTOCOMP, "matmul, blocks of 4, 2", "trn1", 8070, "us", f"{_GEMM}, candidate 4"),
    Measurement(
        AUTOCOMP, "matmul, blocks of 4, 2, pairs", "trn1", 7620, "us", f"{_GEMM}, candidate 5"
    ),
    Measurement(AUTOCOMP, "convolution", "trn1", 7934, "us", f"{_CONVOLUTION}, candidate 4"),
    Measurement(
        AUTOCOMP,
        "convolution, filter in PSUM",
        "trn1",
        4955,
        "us",
        f"{_CONVOLUTION}, candidate 6",
    ),
    Measurement(AUTOCOMP, "Mamba, 256 x 2048, hoisted", "trn1", 539, "us", _MAMBA),
    Measurement(AUTOCOMP, "attention, 4096 positions", "trn1", 411, "us", _ATTENTION),
)

LEFT_OUT = {"Autocomp: other candidates of these kernels": "not rebuilt"}
