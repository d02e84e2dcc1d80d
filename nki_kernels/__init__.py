"""NKI kernels of trnfft, and a CPU simulator of the chip they run on. Needs NumPy, not torch.

PYTEST_DONT_REWRITE: `nki-sim run -m pytest` imports it first, and pytest would warn of that.
"""
