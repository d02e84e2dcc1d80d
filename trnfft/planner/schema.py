"""Rows of files of plans: their fields, and the values that each field may have.

msgspec checks a row while it reads it, and raises ValueError with the name of what is wrong. No row
contains a row of its own kind, so that nothing nests more deeply than the classes below.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from nki_kernels.convolution.block_circulant import Blocking
from trnfft.planner.kinds import Kind, Part
from trnfft.planner.kinds.kind import Count, Counts
from trnfft.planner.problem import Execution

Number = Annotated[int, Meta(ge=0, le=2**62)]
Amount = Annotated[float, Meta(ge=0)]  # JSON has neither NaN nor infinity
Name = Annotated[str, Meta(max_length=64)]
Engine = Literal["", "dma", "tensor", "vector", "scalar", "gpsimd"]
Precision = Literal["fast", "kahan", "double", "bf16", "bf16_refined"]


def as_json(row: Struct) -> dict[str, Any]:
    """Returns a row as JSON types."""
    return msgspec.json.decode(msgspec.json.encode(row), type=dict[str, Any])


class WisdomHeader(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="wisdom"):
    """The first line of an exported file."""

    format: Number
    fingerprint: Name


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A row, or a part of one, in which fields with default values are left out."""


class StepRow(Row, frozen=True, kw_only=True):
    """A transform of rows of one length that is part of another recipe."""

    algorithm: Name
    n: Count
    part: Part = "c2c"
    radices: Counts = ()


class PassRow(Row, frozen=True, kw_only=True):
    """A `Pass` of a recipe."""

    axis: Number
    recipe: StepRow
    kept: Count


class RecipeRow(Row, frozen=True, kw_only=True):
    """A `Recipe`; without a kind, its kind is that of the plan."""

    algorithm: Name
    kind: Kind | None = None
    radices: Counts = ()
    inner: StepRow | None = None
    passes: Annotated[tuple[PassRow, ...], Meta(max_length=64)] = ()
    blocking: Blocking | None = None


class CandidateRow(RecipeRow, frozen=True, kw_only=True):
    """A `Candidate`: the fields of its recipe, and fields of its own."""

    predicted_ns: Amount | None
    predicted_error: Amount | None
    bound: Engine
    launches: Number
    rejected: Annotated[str, Meta(max_length=10_000)]
    least_ns: Amount | None = None
    low_ns: Amount | None = None
    high_ns: Amount | None = None
    operators: Number = 0


class PlanRow(Row, frozen=True, kw_only=True):
    """A `Plan`: the fields of its problem, and its candidates."""

    kind: Kind
    batch: Count
    inverse: bool
    precision: Precision
    target: Name
    max_error: Annotated[float, Meta(gt=0)]
    cores: Count = 1
    execution: Execution = "graph"
    # printed by `trnfft plan --json`; it follows from other fields
    with_launches_ns: Amount | None = None
    candidates: Annotated[tuple[CandidateRow, ...], Meta(min_length=1, max_length=1000)]
