"""Convolution of signals and images, bloom, and its point spread functions."""
