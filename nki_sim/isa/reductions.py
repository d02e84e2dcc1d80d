"""Reductions, statistics and scans along the free axes, and one reduction across partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.arguments import Axes, integers
from nki_sim.base.dtypes import Array
from nki_sim.base.operators import Op, Operator
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.views.tensor import NkiTensor

from .costs import stream
from .rules import SBUF, Operand, Rules, column_of, free_size, stored

_GPSIMD_TREE_STEPS = 8  # log2 of 128 partitions, plus the write: an estimate, not documented


@instruction
def tensor_reduce(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    axis: Axes,
    negate: bool = False,
    keepdims: bool = False,
) -> Issue:
    """Reduces the last free axes of ``data``; ``axis`` is an int or a list up to the last axis."""
    rules = Rules("nisa.tensor_reduce")
    operator = rules.operator("op", op, "reduction")
    if operator.name == "average":
        raise rules.fail("op", "nl.average", "only nisa.tensor_partition_reduce can average")
    rules.output("dst", dst)
    rules.tile("data", data)
    axes = reduction_axes(rules, axis, data.ndim)
    rules.same_partitions(dst=dst, data=data)
    kept = data.shape[: axes[0]]
    outputs = int(np.prod(kept[1:]))
    rules.free_size_is("dst", dst, outputs)
    if operator.bitvec:
        rules.integers(dst=dst, data=data)
        if negate:
            raise rules.fail("negate", True, "a bitvec operator cannot negate its result")

    def value_of(ins: list[Array]) -> Any:
        flat = ins[0].reshape(len(ins[0]), outputs, -1)
        value = reduce_last(operator, flat)
        return -value if negate else value

    return stream(rules, "vector", stored(dst, value_of))


def reduction_axes(rules: Rules, axis: Axes, ndim: int) -> list[int]:
    """Returns the sorted axes, which must be the last ones and exclude the partition axis."""
    single = (axis,) if isinstance(axis, int) else axis
    given = integers(rules.instruction, "axis", single, "must be an int or a list of ints")
    axes = sorted(a % ndim for a in given if -ndim <= a < ndim)
    if len(axes) != len(given) or not axes or axes != list(range(axes[0], ndim)) or axes[0] == 0:
        free = "axis 1" if ndim == 2 else f"the last ones of the axes 1 to {ndim - 1}"
        rule = (
            f"must be {free}: the instruction reduces each partition by itself; to reduce across "
            f"the partitions, axis 0, multiply by a column of ones (nisa.nc_matmul), or transpose "
            f"(nisa.nc_transpose) first"
        )
        raise rules.fail("axis", axis, rule)
    return axes


def reduce_last(operator: Operator, values: Array) -> Any:
    """Reduces the last axis in float32; bitvec operators reduce the integers."""
    if operator.bitvec:
        assert isinstance(operator.binary, np.ufunc)
        return operator.binary.reduce(values, axis=-1)
    values = dtypes.to_float32(values)
    if operator.name == "subtract":
        return values[..., 0] - values[..., 1:].sum(axis=-1, dtype=np.float32)
    if isinstance(operator.binary, np.ufunc):
        return operator.binary.reduce(values, axis=-1, dtype=np.float32)
    logical = {"logical_and": np.all, "logical_or": np.any}.get(operator.name)
    if logical is not None:
        return logical(values != 0, axis=-1).astype(np.float32)
    return (np.count_nonzero(values, axis=-1) % 2).astype(np.float32)


@instruction
def tensor_partition_reduce(dst: NkiTensor, op: Op, data: NkiTensor) -> Issue:
    """Reduces across partitions on GpSimdE; ``dst`` has one partition."""
    rules = Rules("nisa.tensor_partition_reduce")
    operator = rules.operator("op", op, "reduction")
    if operator.name not in ("add", "average", "maximum", "bitwise_or", "bitwise_and"):
        rule = "must be nl.add, nl.average, nl.maximum, nl.bitwise_or or nl.bitwise_and"
        raise rules.fail("op", f"nl.{operator.name}", rule)
    rules.output("dst", dst, SBUF)
    rules.tile("data", data, SBUF)
    if dst.shape[0] != 1:
        raise rules.fail_partitions("dst", dst, "must have 1 partition")
    rules.free_size_is("dst", dst, free_size(data))
    if operator.bitvec:
        rules.integers(dst=dst, data=data)
    count = data.shape[0]

    def value_of(ins: list[Array]) -> Any:
        value = reduce_last(operator, np.moveaxis(ins[0], 0, -1))
        if operator.name == "average":
            value = value / np.float32(count)
        return value

    return stream(rules, "gpsimd", stored(dst, value_of), _GPSIMD_TREE_STEPS)


@instruction
def bn_stats(dst: NkiTensor, data: NkiTensor) -> Issue:
    """Computes count, mean and variance*count of the even and of the odd elements.

    ``dst`` has 6 numbers a partition, those of the even elements first.
    """
    rules = Rules("nisa.bn_stats")
    rules.operands(dst, data=data)
    rules.free_size_is("dst", dst, 6)
    if free_size(data) > 512:
        raise rules.fail_free_size("data", data, "must have at most 512 elements a partition")

    def value_of(ins: list[Array]) -> Any:
        flat = dtypes.to_float32(ins[0]).reshape(ins[0].shape[0], -1)
        parts = []
        for half in (flat[:, 0::2], flat[:, 1::2]):
            count = half.shape[1]
            mean = half.mean(axis=1) if count else np.zeros(len(half), np.float32)
            spread = ((half - mean[:, None]) ** 2).sum(axis=1)
            parts += [np.full(len(half), count, np.float32), mean, spread]
        return np.stack(parts, axis=1).astype(np.float32)

    return stream(rules, "vector", stored(dst, value_of))


@instruction
def bn_aggr(dst: NkiTensor, data: NkiTensor) -> Issue:
    """Computes mean and variance from (count, mean, variance*count) triples of ``bn_stats``."""
    rules = Rules("nisa.bn_aggr")
    rules.operands(dst, data=data)
    rules.free_size_is("dst", dst, 2)
    if free_size(data) % 3:
        raise rules.fail_free_size("data", data, "must have a multiple of 3 elements a partition")

    def value_of(ins: list[Array]) -> Any:
        triples = dtypes.to_float32(ins[0]).reshape(ins[0].shape[0], -1, 3)
        count, mean, spread = np.moveaxis(triples, -1, 0)
        total = count.sum(axis=1)
        average = (count * mean).sum(axis=1) / total
        shift = count * (mean - average[:, None]) ** 2
        variance = (spread + shift).sum(axis=1) / total
        return np.stack([average, variance], axis=1).astype(np.float32)

    return stream(rules, "vector", stored(dst, value_of))


@instruction
def max8(dst: NkiTensor, src: NkiTensor) -> Issue:
    """Finds the 8 largest values of each partition, in descending order."""
    rules = Rules("nisa.max8")
    rules.operands(dst, src=src)
    if src.ndim > 3:
        value = f"a tile of {src.ndim} dimensions"
        raise rules.fail("src", value, "must have at most 3 dimensions")
    if dst.ndim != 2 or dst.shape[1] != 8:
        raise rules.fail_shape("dst", dst, "must have the shape (partitions, 8)")
    if not 8 <= free_size(src) <= 16384:
        raise rules.fail_free_size("src", src, "must have 8 to 16384 elements a partition")

    def value_of(ins: list[Array]) -> Any:
        flat = dtypes.to_float32(ins[0]).reshape(ins[0].shape[0], -1)
        return -np.sort(-flat, axis=1)[:, :8]

    return stream(rules, "vector", stored(dst, value_of))


@instruction
def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: Operand,
    op0: Op,
    op1: Op,
    reverse0: bool = False,
    reverse1: bool = False,
) -> Issue:
    """Computes ``r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i]`` along the free axis."""
    rules = Rules("nisa.tensor_tensor_scan")
    first = rules.operator("op0", op0, "binary")
    second = rules.operator("op1", op1, "binary")
    for label, operator in (("op0", first), ("op1", second)):
        if operator.bitvec:
            raise rules.fail(label, f"nl.{operator.name}", "must be an arithmetic operator")
    rules.elementwise(dst, data0=data0, data1=data1)
    rules.not_both_psum(data0=data0, data1=data1)
    first_state = rules.column_or_number("initial", initial, data0)
    binary0, binary1 = first.binary, second.binary
    assert binary0 is not None and binary1 is not None

    def value_of(ins: list[Array]) -> Any:
        rows = len(ins[0])
        a = dtypes.to_float32(ins[0]).reshape(rows, -1)
        b = dtypes.to_float32(ins[1]).reshape(rows, -1)
        state = np.broadcast_to(column_of(first_state, ins).reshape(-1), rows)
        value = np.empty_like(a)
        for i in range(a.shape[1]):
            step = binary0(state, a[:, i]) if reverse0 else binary0(a[:, i], state)
            step = binary1(b[:, i], step) if reverse1 else binary1(step, b[:, i])
            state = value[:, i] = np.asarray(step, dtype=np.float32)
        return value

    return stream(rules, "vector", stored(dst, value_of), 2.0)
