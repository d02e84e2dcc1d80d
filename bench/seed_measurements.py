"""Times of the seed article, "trnfft: FFT is a GEMM, and then it isn't", section "Numbers".

Microseconds a transform on trn1.2xlarge, Neuron SDK 2.29.0, NKI 0.3.0, 2026-04-20; DFT-GEMM on SDK
2.24. The article's N = 512 for the butterfly is an estimate of its own and is not here. It names no
batch.
"""

SEED_US = {
    ("DFT-GEMM", 64): 1883.0,
    ("DFT-GEMM", 256): 1882.0,
    ("radix 8", 64): 3402.0,
    ("radix 8", 512): 4483.0,
    ("radix 8", 4096): 5917.0,
    ("radix 4", 64): 4254.0,
    ("radix 4", 256): 5446.0,
    ("radix 4", 1024): 6628.0,
    ("radix 4", 4096): 8424.0,
    ("butterfly", 64): 4767.0,
    ("butterfly", 256): 6067.0,
    ("butterfly", 1024): 7399.0,
    ("butterfly", 4096): 9387.0,
}
