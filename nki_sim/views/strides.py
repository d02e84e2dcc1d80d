"""Arithmetic on shapes and strides."""

from __future__ import annotations

import functools
import math

import numpy as np

MAX_ENUMERATED = 1 << 22  # the most offsets of an access pattern that are compared one by one


def repeats(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Returns True if an access pattern touches an element twice, or is too large to tell."""
    dims = sorted([(s, n) for n, s in zip(shape, strides, strict=True) if n > 1])
    spans, span = [], 0
    for stride, n in dims:
        spans.append(span)
        span += stride * (n - 1)
    # A dimension whose stride exceeds the span of all inner dimensions cannot cause a repetition.
    while dims and dims[-1][0] > spans[-1]:
        dims.pop()
        spans.pop()
    if not dims:
        return False
    if math.prod([n for _, n in dims]) > MAX_ENUMERATED:
        return True
    offsets = np.zeros(1, np.int64)
    for stride, n in dims:
        offsets = (offsets[:, None] + stride * np.arange(n)).reshape(-1)
    return len(np.unique(offsets)) < len(offsets)


def coalesce(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Returns the same access as (count, stride) pairs, with adjacent dimensions merged."""
    return merged_dims([(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]) or [(1, 1)]


def merged_dims(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns (size, stride) pairs with those merged that follow each other in memory."""
    merged: list[tuple[int, int]] = []
    for n, stride in dims:
        if merged and (n == 1 or merged[-1][0] == 1 or merged[-1][1] == n * stride):
            outer, outer_stride = merged[-1]
            merged[-1] = (outer * n, outer_stride if n == 1 and outer != 1 else stride)
        else:
            merged.append((n, stride))
    return merged


@functools.lru_cache(4096)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides of a dense tensor."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def reshaped(
    shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Returns strides of ``target`` over the same elements, or None if a copy is needed."""
    groups = coalesce(shape, strides)
    out: list[int] = []
    remaining, stride = groups.pop()
    for n in reversed(target):
        if n == 1:
            out.append(stride)
            continue
        if remaining == 1 and groups:
            remaining, stride = groups.pop()
        if remaining % n:
            return None
        out.append(stride)
        stride *= n
        remaining //= n
    return tuple(reversed(out))
