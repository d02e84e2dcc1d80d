"""NKI kernels of trnfft and a CPU simulator of the chip they run on; needs NumPy, not torch.

PYTEST_DONT_REWRITE: `nki-sim run -m pytest` imports this package before pytest starts. Without this
word pytest would warn that it cannot rewrite the package's assertions.
"""
