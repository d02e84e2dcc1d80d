"""Indices of a tensor's elements: slices, numbers, and values that are known only at run time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import index as as_index
from typing import Any

from nki_sim.errors import NkiValidationError


@dataclass(frozen=True, eq=False, slots=True)
class Indirection:
    """An index of a view that is known only at run time.

    The kind is "scalar" for one index, or "vector" for one index for each partition.
    """

    kind: str
    index: Any  # a register or an SBUF tile
    step: int  # the number of elements that an index of 1 moves the address
    count: int  # legal indices are 0 to count - 1


def fail(operand: str, value: object, rule: str) -> NkiValidationError:
    """Returns the error about an argument of a method of a tensor."""
    return NkiValidationError("NkiTensor", operand, value, rule)


def expanded(key: tuple[object, ...], ndim: int) -> tuple[Any, ...]:
    """Returns an index with one entry for each of ``ndim`` dimensions."""
    spots = [i for i, item in enumerate(key) if item is Ellipsis]
    if len(spots) > 1:
        raise fail("the index", key, "it may contain at most one Ellipsis")
    if not spots:
        return key + (slice(None),) * (ndim - len(key))
    fill = (slice(None),) * (ndim - len(key) + 1)
    return key[: spots[0]] + fill + key[spots[0] + 1 :]


def check_range(start: int, stop: int, n: int, dim: int, shape: tuple[int, ...]) -> None:
    """Raises NkiValidationError unless a range of dimension ``dim``, of size ``n``, is in it."""
    if not 0 <= start < stop <= n:
        rule = f"it is empty or out of bounds for shape {shape}"
        raise fail(f"the index of dimension {dim}", f"{start}:{stop}", rule)


def slice_bounds(item: slice, n: int, dim: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Returns start, stop and step of a slice of dimension ``dim``, which has the size ``n``."""
    try:
        start = 0 if item.start is None else as_index(item.start)
        stop = n if item.stop is None else as_index(item.stop)
        step = 1 if item.step is None else as_index(item.step)
    except TypeError:
        rule = "start, stop and step must be ints: write nl.ds(start, size) if start is a register"
        raise fail(f"the index of dimension {dim}", item, rule) from None
    if start < 0:
        start += n
    if stop < 0:
        stop += n
    if step < 1:
        raise fail(f"the index of dimension {dim}", item, "its step must be at least 1")
    if not 0 <= start < stop <= n:
        check_range(start, stop, n, dim, shape)
    return start, stop, step


def integer_index(
    item: object, n: int, dim: int, shape: tuple[int, ...], lowest: int | None = None
) -> int:
    """Returns a number as an index from 0 to ``n`` - 1 of dimension ``dim``."""
    if not hasattr(item, "__index__"):
        rule = "must be an int, a slice, an Ellipsis or nl.ds(start, size)"
        raise fail(f"the index of dimension {dim}", repr(item), rule)
    index = item.__index__()
    if not (-n if lowest is None else lowest) <= index < n:
        raise fail(f"the index of dimension {dim}", index, f"it is out of bounds for shape {shape}")
    return int(index % n)


def inferred(shape: tuple[int, ...], total: int, what: str) -> tuple[int, ...]:
    """Returns a shape of ``total`` elements, with a size in place of -1."""
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        if known > 0 and total % known == 0:
            shape = tuple([total // known if n == -1 else n for n in shape])
    if any(n < 1 for n in shape) or math.prod(shape) != total:
        raise fail(what, shape, f"the number of elements must stay {total}")
    return shape
