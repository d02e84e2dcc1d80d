"""nisa.activate2: two tensor-scalar steps, an activation and a reduction on ScalarE (v4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import reduce_cmd
from nki_sim.base.operators import OPERATORS, Op, Operator, operator_of
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.views.tensor import NkiTensor

from .accumulators import REDUCING, accumulator, store_result
from .costs import stream
from .elementwise import check_range
from .rules import Operand, Rules, column_of, lanes_of

# The allowed pairs (op0, op1) of the two steps [isa activate2].
_STEPS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
_IDENTITIES = {
    "add": 0.0,
    "maximum": -math.inf,
    "minimum": math.inf,
    "abs_max": 0.0,
    "abs_min": math.inf,
}


@instruction
def activate2(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    imm0: Operand,
    imm1: Operand,
    op0: Op,
    op1: Op,
    relu_param: Operand = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Op | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
) -> Issue:
    """Computes ``dst = op((data <op0> imm0) <op1> imm1)`` and optionally a reduction (v4)."""
    rules = Rules("nisa.activate2")
    rules.generation("instruction", "activate2", 4)
    rules.elementwise(dst, reduce_res, data=data)
    function = _function(rules, op)
    steps = _steps(rules, data, (op0, op1), (imm0, imm1), (reverse0, reverse1))
    slope = rules.column_or_number("relu_param", relu_param, data)
    reduction = _reduction(rules, reduce_op, reduce_cmd)
    rules.accumulated(reduce_res, data=data)
    name_, shape, lanes, cmd = dst.dtype, dst.shape, lanes_of(data), reduce_cmd

    def run(outs: list[Array], ins: list[Array]) -> None:
        value = dtypes.to_float32(ins[0].reshape(shape[0], -1))
        for binary, operand, reverse in steps:
            pair = (column_of(operand, ins), value) if reverse else (value, column_of(operand, ins))
            value = np.asarray(binary(*pair), np.float32)
        if function.valid is not None:
            check_range(rules.instruction, function, value)
        if function.name == "prelu":
            value = np.where(value > 0, value, column_of(slope, ins) * value)
        else:
            assert function.activation is not None
            value = np.asarray(function.activation(value), np.float32)
        dtypes.store(outs[0], value.reshape(shape), name_)
        if reduction is not None or reduce_res is not None:
            store_result(outs, _accumulated(cmd, reduction, value, lanes), reduce_res)

    issue = stream(rules, "scalar", run, reads_result=reduce_res is not None)
    issue.table = "" if function.name == "copy" else function.name
    return issue


def _function(rules: Rules, op: Op) -> Operator:
    """Returns the activation. Only this instruction accepts nl.prelu."""
    found = operator_of(op)
    if found is not None and found.name == "prelu":
        return found
    return rules.operator("op", op, "activation")


def _steps(
    rules: Rules,
    data: NkiTensor,
    ops: tuple[Op, Op],
    operands: tuple[Operand, Operand],
    reverses: tuple[bool, bool],
) -> list[tuple[Any, Any, bool]]:
    """Returns (function, operand, whether the operand comes first) of steps other than bypass."""
    names = []
    for index, op in enumerate(ops):
        operator = operator_of(op)
        if operator is None:
            rule = "must be an operator of nki.language, or nl.bypass for no operation"
            raise rules.fail(f"op{index}", repr(op), rule)
        names.append(operator.name)
    if tuple(names) not in _STEPS:
        allowed = ", ".join(f"({a}, {b})" for a, b in _STEPS)
        raise rules.fail("(op0, op1)", tuple(names), f"must be one of {allowed}")
    tiles = [t.dtype for t in operands if isinstance(t, NkiTensor)]
    if len(set(tiles)) > 1:
        rule = "both tiles must have the same dtype"
        raise rules.fail("dtype of (imm0, imm1)", tuple(tiles), rule)
    found = []
    for index, (name, operand, reverse) in enumerate(zip(names, operands, reverses, strict=True)):
        if name == "bypass":
            if reverse:
                rule = f"there is nothing to reverse, as op{index} is nl.bypass"
                raise rules.fail(f"reverse{index}", reverse, rule)
            continue
        held = rules.column_or_number(f"imm{index}", operand, data)
        found.append((OPERATORS[name].binary, held, bool(reverse)))
    return found


def _reduction(rules: Rules, reduce_op: Op | None, cmd: reduce_cmd) -> Operator | None:
    rules.command(cmd, "activate2")
    if reduce_op is None:
        if cmd is not reduce_cmd.idle:
            raise rules.fail("reduce_op", None, f"must be given with reduce_cmd.{cmd.name}")
        return None
    found = operator_of(reduce_op)
    if found is None or found.name not in _IDENTITIES:
        allowed = ", ".join(f"nl.{n}" for n in _IDENTITIES)
        raise rules.fail("reduce_op", repr(reduce_op), f"must be one of {allowed}")
    return found


def _accumulated(cmd: reduce_cmd, operator: Operator | None, value: Array, lanes: slice) -> Any:
    """Returns ScalarE's reduce registers after ``cmd``."""
    identity = 0.0 if operator is None else _IDENTITIES[operator.name]
    registers = accumulator("nisa.activate2", "scalar", cmd, lanes, identity)
    if operator is not None and cmd in REDUCING:
        assert operator.binary is not None
        if operator.name == "add":
            registers += value.sum(axis=1, dtype=np.float32)
        else:
            for column in value.T:
                registers[...] = operator.binary(registers, column)
    return registers
