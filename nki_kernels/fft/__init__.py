"""Transforms of complex rows."""
