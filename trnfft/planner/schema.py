"""Rows of files of plans: their fields, and the values that each field may have.

msgspec checks a row while it reads it, and raises ValueError with the name of what is wrong. No row
contains a row of its own kind, so that nothing nests more deeply than the classes below.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1, le=2**62)]
Counts = Annotated[tuple[Count, ...], Meta(max_length=64)]
Number = Annotated[int, Meta(ge=0, le=2**62)]
Amount = Annotated[float, Meta(ge=0)]  # JSON has neither NaN nor infinity
Name = Annotated[str, Meta(max_length=64)]
Kind = Literal[
    "c2c",
    "r2c",
    "c2r",
    "convolution",
    "block_circulant",
    "block_circulant_gradients",
    "spectral_convolution",
    "spectral_convolution_kept",
    "spectral_gradients",
    "frame_spectra",
    "frame_powers",
    "frame_bands",
    "real_planes",
]
Engine = Literal["", "dma", "tensor", "vector", "scalar", "gpsimd"]
Precision = Literal["fast", "kahan", "double", "bf16", "bf16_refined"]


class WisdomHeader(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="wisdom"):
    """The first line of an exported file."""

    format: Number
    fingerprint: Name


class StepRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transform of one length that is part of another recipe."""

    algorithm: Name
    n: Count
    radices: Counts = ()


class PassRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `Pass` of a recipe."""

    axis: Number
    recipe: StepRow
    kept: Count


class RecipeRow(StepRow, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `Recipe`."""

    inner: StepRow | None = None
    passes: Annotated[tuple[PassRow, ...], Meta(max_length=64)] = ()
    held: Counts = ()
    layout: Counts = ()


class CandidateRow(RecipeRow, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `Candidate`: the fields of its recipe, and fields of its own."""

    predicted_ns: Amount | None
    predicted_error: Amount | None
    bound: Engine
    launches: Number
    rejected: Annotated[str, Meta(max_length=10_000)]
    least_ns: Amount | None = None
    low_ns: Amount | None = None
    high_ns: Amount | None = None


class PlanRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `Plan`: the fields of its problem, and its candidates."""

    n: Count
    batch: Count
    inverse: bool
    precision: Precision
    target: Name
    max_error: Annotated[float, Meta(gt=0)]
    kind: Kind = "c2c"
    shape: Counts = ()
    padded_from: Counts = ()
    cores: Count = 1
    # printed by `trnfft plan --json`; it follows from other fields
    with_launches_ns: Amount | None = None
    candidates: Annotated[tuple[CandidateRow, ...], Meta(min_length=1, max_length=1000)]
