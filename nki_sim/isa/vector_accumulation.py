"""Instructions of VectorE that use its accumulator registers, of which each lane has one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import engine, reduce_cmd
from nki_sim.base.operators import Op
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.views.tensor import NkiTensor

from .accumulators import accumulator, store_result
from .costs import stream
from .elementwise import scalar_run, scalar_step
from .reductions import reduce_last
from .rules import Column, Operand, Rules, column_of, lanes_of

_VECTOR = engine.vector.name
_IDENTITIES = {"add": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf}
_NO_32_BIT_INTEGERS = frozenset(dtypes.FLOATS | dtypes.INTEGERS) - {"int32", "uint32"}
_EXPONENTIAL_OUT = (
    {"float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"}
    | {"int8", "int16", "int32", "uint8", "uint16"}  # fmt: skip
)
_EXPONENTIAL_IN = (_EXPONENTIAL_OUT | {"uint32"}) - {"tfloat32"}
_COMMANDS = reduce_cmd
_EXPONENTIAL_SPEED = 4  # relative to an activation on ScalarE [v4, fast exponential]


@instruction
def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Op,
    operand0: Operand,
    reduce_op: Op,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: Operand | None = None,
    reduce_res_negate: bool = False,
) -> Issue:
    """Computes ``dst = data <op0> operand0``, and its reduction over the free axes. VectorE."""
    rules = Rules("nisa.tensor_scalar_reduce")
    rules.elementwise(dst, reduce_res, data=data)
    operator = rules.arithmetic("op0", op0, "unary_or_binary")
    if reverse0:
        rule = "NKI does not support it yet: choose an operator for the order (data, operand0)"
        raise rules.fail("reverse0", reverse0, rule)
    step = scalar_step(rules, data, 0, operator, operand0, False)
    reduction = rules.operator("reduce_op", reduce_op, "reduction")
    if reduction.name not in _IDENTITIES:
        allowed = ", ".join(f"nl.{n}" for n in _IDENTITIES)
        raise rules.fail("reduce_op", f"nl.{reduction.name}", f"must be one of {allowed}")
    load = _loaded(rules, "reduce_init", reduce_init, data, reduce_cmd)
    rules.accumulated(reduce_res, data=data)
    compute = scalar_run([step], dst, False)
    cmd, lanes, name_ = reduce_cmd, lanes_of(data), dst.dtype
    sign = np.float32(-1 if reduce_res_negate else 1)

    def run(outs: list[Array], ins: list[Array]) -> None:
        value = np.empty(outs[0].shape, np.float32)
        compute([value], ins)
        dtypes.store(outs[0], value, name_)
        total = reduce_last(reduction, value.reshape(len(value), -1))
        registers = _start(rules, cmd, _IDENTITIES[reduction.name], load, lanes, ins)
        assert reduction.binary is not None
        registers[...] = reduction.binary(registers, total)
        store_result(outs, sign * registers, reduce_res)

    # As tensor_scalar at float32.
    return stream(rules, _VECTOR, run, reads_result=reduce_res is not None)


def _loaded(
    rules: Rules, name: str, init: Operand | None, data: NkiTensor, cmd: reduce_cmd
) -> np.float32 | Column | None:
    """Returns the initial value of load_reduce: a number, a column, or None."""
    rules.member("reduce_cmd", cmd, reduce_cmd)
    if cmd not in (reduce_cmd.reset_reduce, reduce_cmd.reduce, reduce_cmd.load_reduce):
        raise rules.fail("reduce_cmd", cmd.name, "must be reset_reduce, reduce or load_reduce")
    if cmd is not reduce_cmd.load_reduce:
        if init is not None:
            raise rules.fail(name, repr(init), "must be None, except with reduce_cmd.load_reduce")
        return None
    if init is None:
        raise rules.fail(name, None, "must be given with reduce_cmd.load_reduce")
    return rules.float32_column(name, init, data)


def _start(
    rules: Rules,
    cmd: reduce_cmd,
    identity: float,
    load: np.float32 | Column | None,
    lanes: slice,
    ins: list[Array],
) -> Any:
    """Returns the registers, which hold the initial values of the reduction."""
    loaded = None if load is None else column_of(load, ins).reshape(-1)
    return accumulator(rules.instruction, _VECTOR, cmd, lanes, identity, load=loaded)


@instruction
def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Op,
    op1: Op,
    imm0: Operand,
    imm1: Operand | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
) -> Issue:
    """Computes ``r[i] = (src[i] <op0> imm0) <op1> r[i-1]`` along the free axes. VectorE."""
    rules = Rules("nisa.tensor_scalar_cumulative")
    rules.elementwise(dst, src=src)
    for label, t in (("dst", dst), ("src", src)):
        if t.dtype not in _NO_32_BIT_INTEGERS:
            rule = "must not be a 32-bit integer or a packed dtype"
            raise rules.fail(f"{label}.dtype", t.dtype, rule)
    first = rules.arithmetic("op0", op0, "binary")
    second = rules.operator("op1", op1, "binary")
    if second.name not in (*_IDENTITIES, "subtract"):
        rule = "must be nl.add, nl.subtract, nl.multiply, nl.maximum or nl.minimum"
        raise rules.fail("op1", f"nl.{second.name}", rule)
    operand = rules.float32_column("imm0", imm0, src)
    load = _loaded(rules, "imm1", imm1, src, reduce_cmd)
    cmd, lanes, name_, shape = reduce_cmd, lanes_of(src), dst.dtype, dst.shape
    identity = _IDENTITIES.get(second.name, 0.0)
    assert first.binary is not None and second.binary is not None
    binary0, binary1 = first.binary, second.binary

    def run(outs: list[Array], ins: list[Array]) -> None:
        column = column_of(operand, ins)
        flat = dtypes.to_float32(ins[0]).reshape(shape[0], -1)
        value = np.asarray(binary0(flat, column), np.float32)
        state = _start(rules, cmd, identity, load, lanes, ins)
        for i in range(value.shape[1]):
            state[...] = value[:, i] = binary1(value[:, i], state)
        dtypes.store(outs[0], value.reshape(shape), name_)

    # The cost is that of tensor_tensor_scan, halved, as this instruction reads one tile, not two.
    return stream(rules, _VECTOR, run)


@instruction
def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: Operand = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: Operand = 0.0,
) -> Issue:
    """Computes ``exp(src - max_value)``, and on request its sum over the free axes (v4)."""
    rules = Rules("nisa.exponential")
    rules.generation("instruction", "exponential", 4)
    rules.elementwise(dst, reduce_res, src=src)
    rules.dtype("dst", dst, _EXPONENTIAL_OUT)
    rules.dtype("src", src, _EXPONENTIAL_IN)
    highest = rules.float32_column("max_value", max_value, src)
    rules.member("reduce_cmd", reduce_cmd, _COMMANDS)
    cmd = reduce_cmd.name
    if cmd == "reset":
        raise rules.fail("reduce_cmd", cmd, "must be idle, reset_reduce, reduce or load_reduce")
    load = None
    if cmd == "load_reduce":
        load = rules.float32_column("reduce_init", reduce_init, src)
    elif isinstance(reduce_init, NkiTensor) or reduce_init != 0:
        rule = "must be 0, except with reduce_cmd.load_reduce"
        raise rules.fail("reduce_init", repr(reduce_init), rule)
    rules.accumulated(reduce_res, data=src)
    if reduce_res is not None:
        rules.dtype("reduce_res", reduce_res, _EXPONENTIAL_OUT & dtypes.FLOATS)
    name_, shape, lanes = dst.dtype, dst.shape, lanes_of(src)

    def run(outs: list[Array], ins: list[Array]) -> None:
        column = column_of(highest, ins)
        value = np.exp(dtypes.to_float32(ins[0]).reshape(shape[0], -1) - column)
        dtypes.store(outs[0], value.reshape(shape), name_)
        is_unused = cmd == "idle" and len(outs) == 1
        start = _COMMANDS.reset if is_unused else reduce_cmd
        registers = _start(rules, start, 0.0, load, lanes, ins)
        if cmd == "idle":  # documents do not say what the registers hold afterwards
            registers[...] = np.nan
        registers += value.sum(axis=1, dtype=np.float32)
        store_result(outs, registers, reduce_res)

    is_read = reduce_res is not None
    return stream(rules, _VECTOR, run, 1 / _EXPONENTIAL_SPEED, reads_result=is_read)
