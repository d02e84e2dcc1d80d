"""The kernels. Each file describes one algorithm: its mathematics, layout, kernel and tables."""
