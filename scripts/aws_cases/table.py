"""All cases, in the order of the page."""

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
