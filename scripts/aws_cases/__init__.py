"""Cases of scripts/aws_kernels.py: launches of AWS's public kernels, each with a reference.

The shapes are small ones among those that the kernels' own tests use. The references are written in
NumPy for this project.
"""

from __future__ import annotations

from . import (
    attention,
    decoding,
    elementwise,
    examples,
    layers,
    microscaling,
    norms,
    searches,
)
from .case import Case

CASES: list[Case] = [
    *attention.CASES,
    *decoding.CASES,
    *layers.CASES,
    *microscaling.CASES,
    *norms.CASES,
    *elementwise.CASES,
    *searches.CASES,
    *examples.CASES,
]
