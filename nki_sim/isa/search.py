"""Searches along the free axes: for the largest values, for given values, and for nonzeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.arguments import integer
from nki_sim.base.dtypes import Array
from nki_sim.instructions.instruction import NkiInstruction, instruction
from nki_sim.instructions.issue import Issue
from nki_sim.views.tensor import NkiTensor

from .costs import stream
from .rules import SBUF, Rules, free_size

_CORE_PARTITIONS = 16  # that each of GpSimdE's eight cores reaches [isa local_gather]
# Cycles of GpSimdE for an element: topk documents 4, nonzero_with_count has no documented cost.
_SEARCH_CYCLES = 4
_INDICES = ("uint16", "uint32")


@instruction
def nc_find_index8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor) -> Issue:
    """Finds the index of each of 8 values in its partition of ``data``.

    A value that occurs n times in ``vals`` is given its first n indices, in ascending order. The
    result is all ones where ``data`` does not contain the value.
    """
    rules = Rules("nisa.nc_find_index8")
    rules.output("dst", dst, dtype=_INDICES)
    _searched(rules, data, vals)
    rules.same_partitions(dst=dst, data=data, vals=vals)
    if dst.ndim != 2 or dst.shape[1] != 8:
        raise rules.fail_shape("dst", dst, "must have the shape (partitions, 8)")

    def run(outs: list[Array], ins: list[Array]) -> None:
        outs[0][...] = np.iinfo(outs[0].dtype).max
        for row, line, values in _lines(outs[0], ins):
            for value in np.unique(values):
                slots, places = np.flatnonzero(values == value), np.flatnonzero(line == value)
                count = min(len(slots), len(places))
                row[slots[:count]] = places[:count]

    return stream(rules, "vector", run)


def _searched(rules: Rules, data: NkiTensor, vals: NkiTensor) -> None:
    """Checks the operands of a search for 8 values."""
    for label, t in (("data", data), ("vals", vals)):
        rules.tile(label, t)
        if t.ndim > 3:
            rule = "must have at most 3 dimensions"
            raise rules.fail(label, f"a tile of {t.ndim} dimensions", rule)
    if not 8 <= free_size(data) <= 16384:
        raise rules.fail_free_size("data", data, "must have 8 to 16384 elements a partition")
    rules.free_size_is("vals", vals, 8)


def _lines(out: Array, ins: list[Array]) -> Any:
    # Row of the result, elements, values.
    rows = len(ins[0])
    data, values = (dtypes.to_float32(t).reshape(rows, -1) for t in ins[:2])
    return zip(out, data, values, strict=True)


@instruction
def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
) -> Issue:
    """Copies ``data``, with the first occurrence of each of 8 values replaced by ``imm``.

    ``dst_idx`` receives the indices of these occurrences, or all ones for a value that does not
    occur. Values are searched from the last to the first, so that the indices of a repeated value
    are in descending order.
    """
    rules = Rules("nisa.nc_match_replace8")
    rules.output("dst", dst)
    _searched(rules, data, vals)
    rules.same_elements(dst=dst, data=data)
    rules.same_partitions(data=data, vals=vals)
    if isinstance(imm, bool) or not isinstance(imm, (int, float, np.number)):
        raise rules.fail("imm", repr(imm), "must be a compile-time number")
    if dst_idx is not None:
        rules.output("dst_idx", dst_idx, dtype=_INDICES)
        rules.same_partitions(data=data, dst_idx=dst_idx)
        rules.free_size_is("dst_idx", dst_idx, 8)
    name_, shape = dst.dtype, dst.shape

    def run(outs: list[Array], ins: list[Array]) -> None:
        rows = len(ins[0])
        found = dtypes.to_float32(ins[0]).reshape(rows, -1).copy()
        searched = found.copy()
        indices = np.full((rows, 8), np.iinfo(np.uint32).max, np.uint32)
        for row, line, values in _lines(indices, [searched, ins[1]]):
            for slot in range(7, -1, -1):
                places = np.flatnonzero(line == values[slot])
                if len(places):
                    row[slot], line[places[0]] = places[0], np.nan
        found[np.isnan(searched)] = np.float32(imm)
        dtypes.store(outs[0], found.reshape(shape), name_)
        if len(outs) > 1:
            outs[1][...] = indices.astype(outs[1].dtype).reshape(outs[1].shape)

    return stream(rules, "vector", run)


def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> NkiInstruction:
    """Finds the indices of nonzero elements, followed by padding and their number (v3 and newer).

    Each core of GpSimdE reads and writes its first partition only: 0, 16, 32 and so on to 112.
    """
    rules = Rules("nisa.nonzero_with_count")
    rules.generation("instruction", "nonzero_with_count", 3)
    for label, t in (("dst", dst), ("src", src)):
        rules.tile(label, t, SBUF)
        first = range(0, hardware.PARTITIONS, _CORE_PARTITIONS)
        rules.starts_at(label, t, first, "must start at a multiple of 16")
    rules.same_partitions(dst=dst, src=src)
    tiles = [_first_of_cores(t) for t in (dst, src)]
    return _nonzero(*tiles, index_offset, padding_val, name=name)


def _first_of_cores(t: NkiTensor) -> NkiTensor:
    # The first partition of each core of GpSimdE, which no index of a kernel selects.
    count, stride = -(-t.shape[0] // _CORE_PARTITIONS), t.strides[0] * _CORE_PARTITIONS
    return t._view((count, *t.shape[1:]), (stride, *t.strides[1:]), t.offset)


@instruction
def _nonzero(dst: NkiTensor, src: NkiTensor, index_offset: int, padding_val: int) -> Issue:
    rules = Rules("nisa.nonzero_with_count")
    rules.output("dst", dst, SBUF, ("int32",))
    rules.reads["src"] = src
    rules.dtype("src", src, ("float32", "int32"))
    count = free_size(src)
    rules.free_size_is("dst", dst, count + 1)
    numbers = []
    for label, value in (("index_offset", index_offset), ("padding_val", padding_val)):
        number = integer(rules.instruction, label, value, "must be an int32")
        if not -(1 << 31) <= number < 1 << 31:
            raise rules.fail(label, value, "must be an int32")
        numbers.append(number)
    shape = dst.shape

    def run(outs: list[Array], ins: list[Array]) -> None:
        found = np.full((shape[0], count + 1), numbers[1], np.int32)
        for row, line in zip(found, ins[0].reshape(shape[0], -1), strict=True):
            places = np.flatnonzero(line)
            row[: len(places)] = places + numbers[0]
            row[count] = len(places)
        outs[0][...] = found.reshape(shape)

    return stream(rules, "gpsimd", run, _SEARCH_CYCLES)


@instruction
def topk(val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int) -> Issue:
    """Finds the k largest of ``n`` values in each group of 16 partitions, and their indices.

    GpSimdE sorts them in ascending order. Element i of a group is in its partition i % 16, column
    i // 16. Every partition of the group receives the same result. The order of equal values is not
    documented.
    """
    rules = Rules("nisa.topk")
    rules.output("val_dst", val_dst, SBUF, ("bfloat16",))
    rules.output("idx_dst", idx_dst, SBUF, ("uint32",))
    rules.tile("src", src, SBUF, ("bfloat16",))
    rules.same_partitions(val_dst=val_dst, idx_dst=idx_dst, src=src)
    n, k = integer(rules.instruction, "n", n), free_size(val_dst)
    rules.free_size_is("idx_dst", idx_dst, k)
    if not 8 <= n < 65536 or not 1 <= k < 32768 or k > n:
        raise rules.fail("(n, k)", (n, k), "must satisfy 8 <= n < 65536, 1 <= k < 32768 and k <= n")
    if free_size(src) < math.ceil(n / _CORE_PARTITIONS):
        rule = f"must have {math.ceil(n / _CORE_PARTITIONS)} elements a partition for n = {n}"
        raise rules.fail_free_size("src", src, rule)
    rules.partitions_in("src", src, _CORE_PARTITIONS)

    def run(outs: list[Array], ins: list[Array]) -> None:
        rows = len(ins[0])
        for start in range(0, rows, _CORE_PARTITIONS):
            group = slice(start, start + _CORE_PARTITIONS)
            snake = ins[0][group].reshape(_CORE_PARTITIONS, -1).T.reshape(-1)[:n]
            order = np.argsort(dtypes.to_float32(snake), kind="stable")[-k:]
            outs[0][group] = snake[order].reshape((1, *outs[0].shape[1:]))
            outs[1][group] = order.reshape((1, *outs[1].shape[1:]))

    # 4 n + k cycles "per partition" [isa topk]. Lanes are assumed to work in parallel.
    return stream(rules, "gpsimd", run, elements=_SEARCH_CYCLES * n + k)
