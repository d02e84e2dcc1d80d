"""NKI kernels of trnfft, with the parts and the tables that they share; needs NumPy, not torch.

The simulator in which they run without a chip is the package nki_sim.
"""
