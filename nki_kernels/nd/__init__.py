"""Transforms of several axes."""
