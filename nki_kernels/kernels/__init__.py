"""The kernels, one algorithm a file: its mathematics, its layout, its kernel and its tables."""
