"""The seed article, "FFT is a GEMM, and then it isn't": its figures, its structure rebuilt."""
