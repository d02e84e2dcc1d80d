"""The seed article, "FFT is a GEMM, and then it isn't": its figures, and its structure, rebuilt."""
