"""Instructions that generate index patterns, and that select elements by a predicate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.arguments import integers
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import reduce_cmd
from nki_sim.base.operators import Op, Operator, operator_of
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.views.tensor import NkiTensor

from .accumulators import REDUCING, accumulator, store_result
from .costs import stream
from .rules import SBUF, Operand, Rules, column_of, free_size, lanes_of

Pattern = Sequence[Sequence[int]]  # [step, count] of each dimension
_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
_FLOAT32_MIN = float(np.finfo(np.float32).min)
_MAXIMUM = Operator("maximum", binary=np.maximum, identity=-math.inf)
_EQUAL = Operator("equal", binary=np.equal)


@instruction
def iota(
    dst: NkiTensor,
    pattern: Pattern,
    offset: int = 0,
    channel_multiplier: int = 0,
) -> Issue:
    """Computes ``offset + partition * channel_multiplier + pattern`` in int32, cast to ``dst``."""
    rules = Rules("nisa.iota")
    rules.output("dst", dst, SBUF)
    values = _affine(rules, pattern, offset, channel_multiplier, dst)
    name_ = dst.dtype

    def run(outs: list[Array], ins: list[Array]) -> None:
        dtypes.store(outs[0], values if name_ in dtypes.INTEGERS else values.astype("f4"), name_)

    return stream(rules, "gpsimd", run)


def _affine(
    rules: Rules, pattern: Pattern, offset: int, channel_multiplier: int, dst: NkiTensor
) -> Any:
    """Returns the affine values in the shape of ``dst``."""
    for label, value in (("offset", offset), ("channel_multiplier", channel_multiplier)):
        if not isinstance(value, (int, np.integer)) or not -(1 << 31) <= value < 1 << 31:
            raise rules.fail(label, value, "must be an int32")
    rule = "must be a list of 1 to 4 pairs [step, count] of ints"
    is_list = isinstance(pattern, (list, tuple))
    if not is_list or any(not isinstance(p, (list, tuple)) or len(p) != 2 for p in pattern):
        raise rules.fail("pattern", repr(pattern), rule)
    pairs = [integers(rules.instruction, "pattern", pair, rule) for pair in pattern]
    if not 1 <= len(pairs) <= 4:
        raise rules.fail("pattern", pattern, rule)
    total = math.prod(count for _, count in pairs)
    if total != free_size(dst):
        rule = f"its counts multiply to {total}, and dst has {free_size(dst)} elements a partition"
        raise rules.fail("pattern", pattern, rule)
    flat = np.zeros(1, np.int64)
    for step, count in pairs:
        flat = (flat[:, None] + step * np.arange(count)).reshape(-1)
    rows = offset + channel_multiplier * np.arange(dst.shape[0])
    return (rows[:, None] + flat).astype(np.int32).reshape(dst.shape)


@instruction
def affine_select(
    dst: NkiTensor,
    pattern: Pattern,
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Op = _EQUAL,
    offset: int = 0,
) -> Issue:
    """Selects ``on_true_tile`` where ``affine <cmp_op> 0``, else ``on_false_value``. GpSimdE."""
    rules = Rules("nisa.affine_select")
    rules.elementwise(dst, memory=SBUF, on_true_tile=on_true_tile)
    compare = _comparison(rules, "cmp_op", cmp_op)
    if not isinstance(on_false_value, (int, float, np.floating)):
        raise rules.fail("on_false_value", repr(on_false_value), "must be a float32 number")
    keep = compare.binary(_affine(rules, pattern, offset, channel_multiplier, dst), 0)
    name_, shape, same = dst.dtype, dst.shape, dst.dtype == on_true_tile.dtype

    def run(outs: list[Array], ins: list[Array]) -> None:
        value = ins[0].reshape(shape)
        if not same or outs[0].dtype == np.float32:
            chosen = np.where(keep, dtypes.to_float32(value), np.float32(on_false_value))
            dtypes.store(outs[0], chosen, name_)
        else:
            fill = np.empty(1, outs[0].dtype)
            dtypes.store(fill, np.array([on_false_value], np.float32), name_)
            outs[0][...] = np.where(keep, value, fill)

    return stream(rules, "gpsimd", run)


def _comparison(rules: Rules, name: str, op: Op) -> Any:
    operator = rules.operator(name, op, "binary")
    if operator.name not in _COMPARISONS:
        rule = "must be a comparison, such as nl.equal or nl.less"
        raise rules.fail(name, f"nl.{operator.name}", rule)
    return operator


@instruction
def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Op,
    comp_op1: Op,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Op | None = _MAXIMUM,
    range_start: int = 0,
    on_false_value: float = _FLOAT32_MIN,
) -> Issue:
    """Keeps elements whose index satisfies both comparisons with the bounds (v3 and newer)."""
    rules = Rules("nisa.range_select")
    rules.generation("instruction", "range_select", 3)
    rules.elementwise(dst, reduce_res, on_true_tile=on_true_tile)
    rules.dtype("on_true_tile", on_true_tile, dtypes.FLOATS)
    for label, bound in (("bound0", bound0), ("bound1", bound1)):
        rules.tile(label, bound, dtype=("float32",))
        rules.same_partitions(dst=dst, **{label: bound})
        rules.free_size_is(label, bound, 1)
    first = _comparison(rules, "comp_op0", comp_op0)
    second = _comparison(rules, "comp_op1", comp_op1)
    if "not_equal" in (first.name, second.name):
        rule = "must be nl.equal, nl.less, nl.less_equal, nl.greater or nl.greater_equal"
        raise rules.fail("comp_op", "nl.not_equal", rule)
    if float(np.float32(on_false_value)) != _FLOAT32_MIN:  # which may have fewer digits
        raise rules.fail("on_false_value", on_false_value, f"must be {_FLOAT32_MIN} (FP32_MIN)")
    if range_start + free_size(dst) > 1 << 24:
        rule = "all indices must be below 2^24, so that float32 holds them exactly"
        raise rules.fail("range_start", range_start, rule)
    _max_result(rules, dst, reduce_op, reduce_res, reduce_cmd)
    indices = (range_start + np.arange(free_size(dst))).astype(np.float32)
    name_, shape, cmd = dst.dtype, dst.shape, reduce_cmd
    lanes = lanes_of(on_true_tile)

    def run(outs: list[Array], ins: list[Array]) -> None:
        low, high = (b.reshape(-1, 1) for b in ins[1:3])
        keep = first.binary(indices, low) & second.binary(indices, high)
        flat = dtypes.to_float32(ins[0]).reshape(shape[0], -1)
        value = np.where(keep, flat, np.float32(_FLOAT32_MIN))
        dtypes.store(outs[0], value.reshape(shape), name_)
        _reduce_max(rules.instruction, cmd, value, lanes, outs, reduce_res)

    return stream(rules, "vector", run)


@instruction
def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: Operand,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Op | None = _MAXIMUM,
    reverse_pred: bool = False,
) -> Issue:
    """Selects ``on_true`` or ``on_false``, and on request the maximum over the free axes."""
    rules = Rules("nisa.select_reduce")
    rules.elementwise(dst, reduce_res, predicate=predicate, on_true=on_true)
    rules.not_both_psum(predicate=predicate, on_true=on_true)
    rules.dtype("predicate", predicate, ("int8", "uint8", "int16", "uint16"))
    if on_true.dtype in ("tfloat32", "int32", "uint32"):
        raise rules.fail("on_true.dtype", on_true.dtype, "must not be tfloat32, int32 or uint32")
    other = rules.column_or_number("on_false", on_false, on_true)
    _max_result(rules, dst, reduce_op, reduce_res, reduce_cmd)
    name_, shape, cmd = dst.dtype, dst.shape, reduce_cmd
    lanes = lanes_of(on_true)

    def run(outs: list[Array], ins: list[Array]) -> None:
        rows = shape[0]
        keep = (ins[0].reshape(rows, -1) != 0) != bool(reverse_pred)
        value = np.where(keep, dtypes.to_float32(ins[1]).reshape(rows, -1), column_of(other, ins))
        dtypes.store(outs[0], value.reshape(shape), name_)
        _reduce_max(rules.instruction, cmd, value, lanes, outs, reduce_res)

    return stream(rules, "vector", run, 2.0)


def _max_result(
    rules: Rules,
    dst: NkiTensor,
    reduce_op: Op | None,
    reduce_res: NkiTensor | None,
    cmd: reduce_cmd,
) -> None:
    """Checks the settings of the reduction, and the operand that receives its result."""
    rules.command(cmd, "this instruction")
    operator = operator_of(reduce_op)
    if operator is None or operator.name != "maximum":
        raise rules.fail("reduce_op", repr(reduce_op), "must be nl.maximum")
    rules.accumulated(reduce_res, dst=dst)
    if reduce_res is not None:
        rules.dtype("reduce_res", reduce_res, dtypes.FLOATS)


def _reduce_max(
    instruction: str,
    cmd: reduce_cmd,
    value: Array,
    lanes: slice,
    outs: list[Array],
    reduce_res: NkiTensor | None,
) -> None:
    """Reduces into VectorE's accumulator registers, and writes them to ``reduce_res``."""
    if cmd is reduce_cmd.idle and reduce_res is None:
        return
    registers = accumulator(instruction, "vector", cmd, lanes, -np.inf, -np.inf)
    if cmd in REDUCING:
        np.maximum(registers, value.max(axis=1), out=registers)
    store_result(outs, registers, reduce_res)
