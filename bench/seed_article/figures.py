"""The figures that the article "trnfft: FFT is a GEMM, and then it isn't" published.

Source: the article's section "Numbers", measured by its authors on trn1.2xlarge with Neuron SDK
2.29.0 and NKI 0.3.0, 2026-04-20. Each time is that of one transform with its launches. DFT-GEMM has
one launch; the other algorithms have a kernel launch, a permute and a twiddle product for every
stage. The article's butterfly of 512 points is left out, because the article extrapolated it.
"""

from __future__ import annotations

SOURCE = (
    'the article "trnfft: FFT is a GEMM, and then it isn\'t", measured on trn1.2xlarge, SDK 2.29 '
    "(DFT-GEMM: 2.24); times of one transform with its launches, errors of its butterfly"
)

TIMES_US = {  # by algorithm and length
    "DFT-GEMM": {64: 1883.0, 256: 1882.0},  # the article rounds them
    "radix-8 Stockham": {64: 3402.0, 512: 4483.0, 4096: 5917.0},
    "radix-4 Stockham": {64: 4254.0, 256: 5446.0, 1024: 6628.0, 4096: 8424.0},
    "butterfly": {64: 4767.0, 256: 6067.0, 1024: 7399.0, 4096: 9387.0},
}
TRANSFORM_US = {(way, n): time for way, times in TIMES_US.items() for n, time in times.items()}

# Relative forward error of the article's butterfly, in float32 and with compensated products.
ERRORS = {
    "fast": {256: 1.41e-6, 512: 2.15e-6, 1024: 2.04e-6, 4096: 3.60e-6},
    "kahan": {256: 1.92e-7, 512: 2.69e-7, 1024: 3.02e-7, 4096: 4.55e-7},
}
