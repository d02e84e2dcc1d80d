"""Convolution of signals and images, and the point spread functions of bloom."""
