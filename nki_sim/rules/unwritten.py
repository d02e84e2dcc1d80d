"""Which part of a tensor an instruction reads although nothing has written it, in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import ON_CHIP
from nki_sim.errors import SourceLine
from nki_sim.instructions.instruction_notes import user_line
from nki_sim.instructions.origins import name_and_text, short_place
from nki_sim.views.shadow import Marks
from nki_sim.views.storage import Storage

_MOST_RUNS = 4


def sentence(
    storage: Storage, lost: Marks, created: SourceLine | None, is_return: bool
) -> tuple[str, str]:
    """Returns the tensor and the rule that a read breaks, as an error and a warning show them."""
    name, tensor = name_and_text(storage, created)
    part = _part(storage, lost, name)
    if is_return:
        rule = f"the kernel returns memory that nothing has written, {part}: write all of it"
        return tensor, rule
    line = user_line()
    at = f" at {short_place(line)}" if line else ""
    rule = f"the instruction{at} reads memory that nothing has written, {part}: write it first"
    return tensor, rule


def _part(storage: Storage, lost: Marks, name: str) -> str:
    """Returns the rows of a part in words, and the part as an index of the tensor."""
    found = _elements(storage, lost)
    noun = "partition" if storage.buffer in ON_CHIP else "row"
    if found.all():
        return f"all {len(found)} {noun}s" if len(found) > 1 else f"its {noun}"
    axes = range(found.ndim)
    hits = [np.flatnonzero(found.any(axis=tuple(a for a in axes if a != k))) for k in axes]
    bounds = [(int(hit[0]), int(hit[-1]) + 1) for hit in hits]
    inside = math.prod([stop - start for start, stop in bounds])
    while len(bounds) > 1 and bounds[-1] == (0, found.shape[len(bounds) - 1]):
        bounds.pop()
    index = f"{name}[{', '.join([f'{start}:{stop}' for start, stop in bounds])}]"
    count = int(found.sum())
    parts = index if count == inside else f"{count} elements of {index}"
    return f"{noun}{'s' if len(hits[0]) > 1 else ''} {_runs(hits[0])} ({parts})"


def _elements(storage: Storage, lost: Marks) -> Any:
    """Returns an array of the tensor's shape that says which elements are marked."""
    if isinstance(lost, bool):
        return np.full(storage.shape, lost)
    units = dtypes.itemsize(storage.dtype) * lost.size // storage.size_bytes
    return lost.reshape(-1, units).any(axis=1).reshape(storage.shape)


def _runs(rows: Array) -> str:
    """Returns row numbers as "0 to 3, 8 and 10 to 12"."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    texts = [*texts[:_MOST_RUNS], *(["others"] if len(texts) > _MOST_RUNS else [])]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
