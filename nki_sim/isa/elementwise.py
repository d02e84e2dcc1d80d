"""Elementwise instructions of VectorE, ScalarE and GpSimdE. All arithmetic is in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import engine, reduce_cmd
from nki_sim.base.operators import Op, Operator
from nki_sim.errors import NkiValidationError
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active
from nki_sim.rules import device_rules
from nki_sim.views.tensor import NkiTensor

from .accumulators import REDUCING, accumulator, store_result
from .costs import on_scalar, scalar_speedup, stream, vector_speedup
from .rules import Column, Operand, Rules, column_of, lanes_of, stored

# Operator, number or column, and whether the operand comes first.
Step = tuple[Operator, Any, bool]
_INT32 = ("int32", "uint32")
_SHIFTS = (np.left_shift, np.right_shift)
# From float32 operands these compute float32, so they can write their result in place.
_DIRECT = (np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.power)


@instruction
def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Op,
    engine: engine = engine.unknown,
) -> Issue:
    """Computes ``dst = data1 <op> data2``, element by element, on VectorE or GpSimdE."""
    rules = Rules("nisa.tensor_tensor")
    operator = rules.operator("op", op, "binary")
    rules.elementwise(dst, data1=data1, data2=data2)
    rules.not_both_psum(data1=data1, data2=data2)
    tiles = (dst, data1, data2)
    power = operator.name == "power"
    exact = all(t.dtype in _INT32 for t in tiles) and not operator.bitvec and not power
    if power and rules.in_psum:
        rule = "nl.power runs on GpSimdE, which cannot access PSUM: copy the operands to SBUF"
        raise rules.fail("op", "nl.power", rule)
    preferred = "gpsimd" if power or (exact and not rules.in_psum) else "vector"
    vector = "nl.power runs on GpSimdE only" if power else ""
    chosen = rules.choose(engine, preferred, vector=vector, gpsimd="")
    if operator.bitvec:
        rules.integers(dst=dst, data1=data1, data2=data2)
    integer = operator.bitvec or (exact and chosen == "gpsimd")
    run = _binary_run(operator, dst, integer, data1.shape != dst.shape, data2.shape != dst.shape)
    fast = vector_speedup([data1, data2], dst) if chosen == "vector" else 1.0
    issue = stream(rules, chosen, run, 2.0 / fast)
    if chosen == "gpsimd" and not power:  # no other engine computes powers
        issue.breaks = device_rules.breaks_of_gpsimd(tiles)
    return issue


def _binary_run(
    operator: Operator, dst: NkiTensor, integer: bool, reshape1: bool, reshape2: bool
) -> Any:
    function, name, shape = operator.binary, dst.dtype, dst.shape
    assert function is not None
    direct = name == "float32" and function in _DIRECT

    def run(outs: list[Array], ins: list[Array]) -> None:
        a, b = ins
        if reshape1:
            a = a.reshape(shape)
        if reshape2:
            b = b.reshape(shape)
        if operator.bitvec:
            if function in _SHIFTS:
                _check_shifts("nisa.tensor_tensor", "data2", b, a.itemsize)
            a, b = _bits(a), _bits(b)
        if integer:
            _store_integer(outs[0], function(a.astype(np.int64), b.astype(np.int64)))
        elif direct and a.dtype == np.float32 and b.dtype == np.float32:
            function(a, b, out=outs[0])
        else:
            value = function(dtypes.to_float32(a), dtypes.to_float32(b))
            dtypes.store(outs[0], np.asarray(value, dtype=np.float32), name)

    return run


def _bits(array: Array) -> Any:
    # Unsigned, so that a right shift fills with zeros.
    return array if array.dtype.kind == "b" else array.view(f"u{array.itemsize}")


def _check_shifts(instruction: str, operand: str, amounts: Array | int, size: int) -> None:
    """Checks that elements of ``size`` bytes are shifted by fewer bits than they have."""
    amounts = np.asarray(amounts)
    outside = amounts[(amounts < 0) | (amounts >= 8 * size)]
    if outside.size:
        rule = f"elements of {8 * size} bits can be shifted by 0 to {8 * size - 1} bits"
        raise NkiValidationError(instruction, operand, f"a shift by {outside[0]} bits", rule)


def _store_integer(out: Array, value: Array) -> None:
    # Integers wrap around at the element size.
    out[...] = value.astype(out.dtype)


@instruction
def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Op,
    operand0: Operand,
    reverse0: bool = False,
    op1: Op | None = None,
    operand1: Operand | None = None,
    reverse1: bool = False,
    engine: engine = engine.unknown,
) -> Issue:
    """Computes ``(data <op0> operand0) <op1> operand1``.

    The operands are numbers or (partitions, 1) tiles.
    """
    rules = Rules("nisa.tensor_scalar")
    rules.elementwise(dst, data=data)
    first = rules.operator("op0", op0, "unary_or_binary")
    second = None if op1 is None else rules.operator("op1", op1, "unary_or_binary")
    if second is None and operand1 is not None:
        raise rules.fail("operand1", operand1, "must be None where op1 is None")
    steps = [scalar_step(rules, data, 0, first, operand0, reverse0)]
    if second is not None:
        if second.bitvec != first.bitvec:
            value = f"(nl.{first.name}, nl.{second.name})"
            rule = "both must be bitvec operators, or both arithmetic operators"
            raise rules.fail("(op0, op1)", value, rule)
        steps.append(scalar_step(rules, data, 1, second, operand1, reverse1))
    if first.bitvec:
        rules.integers(dst=dst, data=data)
    chosen = _tensor_scalar_engine(rules, engine, first, second)
    run = scalar_run(steps, dst, first.bitvec)
    factor = 1.0
    if chosen == "vector":
        factor /= vector_speedup([data], dst)
    if chosen == "scalar":
        factor /= scalar_speedup([data], dst)
    if chosen == "gpsimd":
        factor *= rules.chip.gpsimd_rsqrt_factor
    issue = stream(rules, chosen, run, factor)
    is_affine = _is_affine(first, second) or (first.name, second) == ("subtract", None)
    is_open = engine.name == "unknown"  # the compiler chooses
    if is_open and is_affine and not (reverse0 and first.name == "subtract"):
        issue.on_scalar = on_scalar(issue, [data], dst)
    return issue


def scalar_step(
    rules: Rules,
    data: NkiTensor,
    index: int,
    operator: Operator,
    operand: Operand | None,
    reverse: bool,
) -> Step:
    """Returns (operator, number or position of the tile among the reads, reverse)."""
    label = f"operand{index}"
    if operator.binary is None:
        if operand is not None and not (isinstance(operand, (int, float)) and operand == 0):
            rule = f"must be None or 0, as nl.{operator.name} has one operand"
            raise rules.fail(label, operand, rule)
        if operator.name in ("square", "relu"):
            rules.generation(f"op{index}", f"nl.{operator.name}", 4)
        return operator, None, False
    if rules.is_column(operand, label, data):
        if operator.bitvec:
            rules.integers(**{label: operand})
        else:
            rules.float32(label, operand)
        return operator, Column(len(rules.reads) - 1), bool(reverse)
    if operator.bitvec and not isinstance(operand, (int, np.integer)):
        raise rules.fail(label, operand, f"must be an int for nl.{operator.name}")
    if isinstance(operand, (int, np.integer)) and operator.binary in _SHIFTS and not reverse:
        _check_shifts(rules.instruction, label, int(operand), dtypes.itemsize(data.dtype))
    return operator, operand, bool(reverse)


def _tensor_scalar_engine(
    rules: Rules, requested: engine, first: Operator, second: Operator | None
) -> str:
    rsqrt = "rsqrt" in (first.name, second.name if second else None)
    scalar = ""
    if first.bitvec:
        scalar = "bitvec operators run on VectorE only"
    elif rules.chip.generation < 4 and not _is_affine(first, second):
        scalar = "ScalarE computes nl.multiply then nl.add, nl.multiply, or nl.add only"
    elif rules.chip.generation < 3:
        scalar = "ScalarE has no tensor_scalar on NeuronCore-v2: use nisa.activation"
    return rules.choose(
        requested,
        "gpsimd" if rsqrt else "vector",
        vector="nl.rsqrt runs on GpSimdE only" if rsqrt else "",
        scalar=scalar,
        gpsimd="" if rsqrt else "GpSimdE runs tensor_scalar with nl.rsqrt only",
    )


def _is_affine(first: Operator, second: Operator | None) -> bool:
    # ScalarE computes data * scale + bias.
    names = (first.name, second.name if second else None)
    return names in (("multiply", "add"), ("multiply", None), ("add", None))


def _bit_operand(step: Step, value: Array, ins: list[Array], column: tuple[int, ...]) -> Any:
    """Returns the operand of a bitvec step as bits. Checks shifts whose amounts are data."""
    operator, operand, reverse = step
    is_tile = isinstance(operand, Column)
    if is_tile:
        operand = ins[operand.position].reshape(column)
    else:
        operand = value.dtype.type(int(operand) & ((1 << 8 * value.itemsize) - 1))
    if operator.binary in _SHIFTS and (is_tile or reverse):
        amounts, shifted = (value, operand) if reverse else (operand, value)
        name = "data" if reverse else "operand"
        _check_shifts("nisa.tensor_scalar", name, amounts, shifted.itemsize)
    return _bits(operand)


def scalar_run(steps: list[Step], dst: NkiTensor, bitvec: bool) -> Any:
    """Returns the arithmetic of steps that follow each other; ``bitvec`` steps are on bits."""
    name, shape = dst.dtype, dst.shape
    column = (-1,) + (1,) * (len(shape) - 1)

    def apply(step: Step, value: Array, ins: list[Array], out: Array | None) -> Any:
        operator, operand, reverse = step
        if operator.unary is not None:
            return operator.unary(value)
        if bitvec:
            operand = _bit_operand(step, value, ins, column)
        elif isinstance(operand, Column):
            operand = ins[operand.position].reshape(column)
        else:
            operand = np.float32(operand)
        a, b = (operand, value) if reverse else (value, operand)
        assert operator.binary is not None
        if out is not None and operator.binary in _DIRECT:
            return operator.binary(a, b, out=out)
        return operator.binary(a, b)

    def run(outs: list[Array], ins: list[Array]) -> None:
        value = ins[0].reshape(shape)
        if bitvec:
            value = _bits(value)
            for step in steps:
                value = apply(step, value, ins, None)
            _store_integer(outs[0], value)
            return
        value = dtypes.to_float32(value)
        for step in steps[:-1]:
            value = np.asarray(apply(step, value, ins, None), dtype=np.float32)
        value = apply(steps[-1], value, ins, outs[0] if name == "float32" else None)
        if value is not outs[0]:
            dtypes.store(outs[0], np.asarray(value, dtype=np.float32), name)

    return run


@instruction
def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Op,
    operand0: Operand,
    op1: Op,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
) -> Issue:
    """Computes ``(data <op0> operand0) <op1> operand1`` on VectorE.

    ``operand0`` is a number or a (partitions, 1) tile, ``operand1`` is a tile.
    """
    rules = Rules("nisa.scalar_tensor_tensor")
    first = rules.arithmetic("op0", op0, "binary")
    second = rules.arithmetic("op1", op1, "binary")
    rules.elementwise(dst, data=data, operand1=operand1)
    rules.not_both_psum(data=data, operand1=operand1)
    operand = rules.column_or_number("operand0", operand0, data)
    rows = dst.shape[0]
    binary0, binary1 = first.binary, second.binary
    assert binary0 is not None and binary1 is not None

    def value_of(ins: list[Array]) -> Any:
        a = dtypes.to_float32(ins[0].reshape(rows, -1))
        c = dtypes.to_float32(ins[1].reshape(rows, -1))
        b = column_of(operand, ins)
        value = np.asarray(binary0(b, a) if reverse0 else binary0(a, b), dtype=np.float32)
        return np.asarray(binary1(c, value) if reverse1 else binary1(value, c), dtype=np.float32)

    return stream(rules, "vector", stored(dst, value_of), 2.0)


@instruction
def reciprocal(dst: NkiTensor, data: NkiTensor) -> Issue:
    """Computes ``dst = 1 / data`` on VectorE."""
    rules = Rules("nisa.reciprocal")
    rules.elementwise(dst, data=data)
    run = stored(dst, lambda ins: np.float32(1) / dtypes.to_float32(ins[0]))
    return stream(rules, "vector", run, rules.chip.vector_reciprocal_factor)


@instruction
def activation(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    bias: Operand | None = None,
    scale: Operand = 1.0,
    reduce_op: Op | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
) -> Issue:
    """Computes ``dst = op(data * scale + bias)`` on ScalarE, and on request its sum.

    ``scale`` and ``bias`` are numbers or (partitions, 1) tiles. The sum is over the free axes.
    """
    rules = Rules("nisa.activation")
    return _activation(rules, dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd)


@instruction
def activation_reduce(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    reduce_op: Op | None,
    reduce_res: NkiTensor,
    bias: Operand | None = None,
    scale: Operand = 1.0,
) -> Issue:
    """Computes an ``activation``, and writes its sum over the free axes to ``reduce_res``."""
    rules = Rules("nisa.activation_reduce")
    cmd = reduce_cmd.reset_reduce
    return _activation(rules, dst, op, data, bias, scale, reduce_op, reduce_res, cmd)


def _activation(
    rules: Rules,
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    bias: Operand | None,
    scale: Operand,
    reduce_op: Op | None,
    reduce_res: NkiTensor | None,
    cmd: reduce_cmd,
) -> Issue:
    operator = rules.operator("op", op, "activation")
    rules.elementwise(dst, reduce_res, data=data)
    scales = rules.float32_column("scale", scale, data)
    biases = None if bias is None else _activation_bias(rules, operator, bias, data)
    _activation_reduction(rules, reduce_op, cmd)
    rules.accumulated(reduce_res, data=data)
    function, name, shape = operator.activation, dst.dtype, dst.shape
    column = (-1,) + (1,) * (len(shape) - 1)
    lanes = lanes_of(data)
    assert function is not None

    def run(outs: list[Array], ins: list[Array]) -> None:
        value = dtypes.to_float32(ins[0].reshape(shape))
        if scales != 1:
            value = value * column_of(scales, ins).reshape(column)
        if biases is not None:
            value = value + column_of(biases, ins).reshape(column)
        if operator.valid is not None:
            check_range(rules.instruction, operator, value)
        if operator.name != "copy":
            value = np.asarray(function(value), dtype=np.float32)
        dtypes.store(outs[0], value, name)
        if cmd is reduce_cmd.idle and reduce_res is None:
            return
        total = accumulator(rules.instruction, "scalar", cmd, lanes)
        if cmd in REDUCING:
            total += value.reshape(len(value), -1).sum(axis=1, dtype=np.float32)
        store_result(outs, total, reduce_res)

    issue = stream(rules, "scalar", run, reads_result=reduce_res is not None)
    issue.breaks = device_rules.breaks_of_activation(scale)
    issue.table = "" if operator.name == "copy" else operator.name
    return issue


def check_range(instruction: str, operator: Operator, value: Array) -> None:
    """Warns of values outside of the range on which ScalarE's polynomials are fitted."""
    assert operator.valid is not None
    low, high = (np.float32(bound) for bound in operator.valid)
    seen = np.abs(value) if operator.valid_magnitude else value
    outside = (seen < low) | (seen > high)
    if outside.any():
        what = "|x|" if operator.valid_magnitude else "x"
        rule = f"nl.{operator.name}(x) on ScalarE is valid for {what} in [{low:g}, {high:g}] only"
        active().warn(instruction, "an element of data", value[outside][0], rule)


def _activation_bias(
    rules: Rules, operator: Operator, bias: Operand, data: NkiTensor
) -> Column | np.float32:
    if operator.name == "reciprocal":
        rules.generation("bias", "given for nl.reciprocal", 3)
    found = rules.column_or_number("bias", bias, data)
    if not isinstance(bias, NkiTensor):
        rules.generation("bias", f"the number {bias}, not a (partitions, 1) tile", 3)
    elif bias.dtype == "tfloat32":
        raise rules.fail("bias.dtype", bias.dtype, "must be another dtype than tfloat32")
    return found


def _activation_reduction(rules: Rules, reduce_op: Op | None, cmd: reduce_cmd) -> None:
    rules.command(cmd, "activation")
    if reduce_op is not None:
        operator = rules.operator("reduce_op", reduce_op, "reduction")
        if operator.name != "add":
            raise rules.fail("reduce_op", f"nl.{operator.name}", "must be nl.add")
    elif cmd in REDUCING:
        raise rules.fail("reduce_op", None, f"must be nl.add with reduce_cmd.{cmd.name}")
