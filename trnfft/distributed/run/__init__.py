"""Transforms of DTensors as they run: exchanges, blocks, and what processes agree on."""
