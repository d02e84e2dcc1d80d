"""Transforms of real rows, and back."""
