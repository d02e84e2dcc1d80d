"""NKI kernels of trnfft, and a CPU simulator of the chip they run on. Needs NumPy, not torch."""
