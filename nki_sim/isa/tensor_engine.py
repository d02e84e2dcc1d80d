"""Instructions of the Tensor engine. VectorE can also run one of them, nc_transpose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import MemoryRegion, engine, matmul_perf_mode
from nki_sim.errors import Break
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active
from nki_sim.instructions.work import ArrayPass
from nki_sim.rules import device_rules
from nki_sim.views import shadow
from nki_sim.views.shadow import Marks
from nki_sim.views.tensor import NkiTensor

from .costs import is_slow, set_work, stream
from .rules import PSUM, SBUF, Rules, bank_span, free_size

_MATMUL_DTYPES = (
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "bfloat16",
    "float16",
    "tfloat32",
    "float32",
)
_WIDE = ("float32", "tfloat32")


@instruction
def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
) -> Issue:
    """Computes ``dst[M, N] = stationary[K, M].T @ moving[K, N]`` in PSUM, with sums in float32."""
    rules = Rules("nisa.nc_matmul")
    double = _mode(rules, perf_mode, stationary, moving)
    if double and is_transpose:
        rule = "is_transpose cannot be combined with perf_mode double_row"
        raise rules.fail("is_transpose", True, rule)
    rules.output("dst", dst, PSUM)
    rules.tile("stationary", stationary, SBUF)
    rules.tile("moving", moving, SBUF)
    _matmul_dtypes(rules, dst, stationary, moving, is_transpose)
    rows, columns = _array_tile(rules, tile_position, tile_size, stationary, moving)
    if double and columns != (0, 4):
        rule = "perf_mode double_row needs all columns of the array: use (rows, 128)"
        raise rules.fail("tile_size", tile_size, rule)
    k, m = stationary.shape[0], free_size(stationary) // (2 if double else 1)
    n = free_size(moving) // (2 if double else 1)
    _matmul_sizes(rules, dst, moving, (k, m, n), tile_size)
    transposes = is_transpose and rules.chip.native_transpose
    if transposes and n != k:
        rule = f"is_transpose needs an identity matrix, {k}x{k}"
        raise rules.fail("moving", f"a tile of {k}x{n}", rule)
    claims = _claims(
        is_stationary_onezero and stationary.dtype == "float32",
        is_moving_onezero and moving.dtype == "float32",
        transposes,
    )
    issue = Issue("nisa.nc_matmul", "tensor", 0.0, None, ("dst",), ("stationary", "moving"))
    onezero = is_stationary_onezero or is_moving_onezero or transposes
    _matmul_cost(issue, stationary, moving, m, n, onezero)
    issue.macs = 0 if is_transpose else (2 if double else 1) * k * m * n
    issue.rows, issue.columns = rows, columns
    issue.is_transpose = is_transpose
    issue.may_overtake = issue.may_overtake or (rows, columns) != ((0, 4), (0, 4))
    issue.takes_banks = (rows, columns) != ((0, 4), (0, 4)) and not rules.chip.tiles_share_bank
    rounded = _rounding(rules.chip, {stationary.dtype, moving.dtype})
    product = _matmul_run(rules, transposes, double, claims, rounded)
    issue.run, issue.onto = _with_accumulation(rules, product, accumulate, dst)
    _note_device_rules(rules, issue, (stationary, k, m), tile_size, accumulate)
    if moving.dtype == "float32" and rules.chip.misaligned_moving_factor != 1.0:
        _price_misaligned(issue, moving)
    return issue


def _price_misaligned(issue: Issue, moving: NkiTensor) -> None:
    """Adds the price for a float32 moving operand that begins anywhere in 16 bytes.

    If its rows have such a distance, most of them do so wherever the first one begins.
    """
    misaligned = copy.copy(issue)
    set_work(misaligned, replace(issue.work, is_misaligned=True))
    rows = zip(moving.shape[1:-1], moving.strides[1:-1], strict=True)
    if any(size > 1 and stride % hardware.MOVING_ALIGNMENT for size, stride in rows):
        set_work(issue, misaligned.work)
    issue.misaligned = misaligned


def _note_device_rules(
    rules: Rules,
    issue: Issue,
    loaded: tuple[NkiTensor, int, int],
    tile_size: tuple[int, ...],
    accumulate: bool | None,
) -> None:
    """Notes the device rules that the session checks, for (stationary operand, k, m)."""
    chip = rules.chip
    allowed = chip.stationary_free_dimensions
    issue.breaks = device_rules.breaks_of_matmul(*loaded, tuple(tile_size), allowed)
    issue.after = device_rules.note_group(accumulate, chip.psum_bank_bytes)


def _mode(
    rules: Rules, perf_mode: matmul_perf_mode, stationary: NkiTensor, moving: NkiTensor
) -> bool:
    rules.member("perf_mode", perf_mode, matmul_perf_mode)
    if perf_mode is matmul_perf_mode.none:
        return False
    rules.generation("perf_mode", perf_mode.name, 3)
    for operand, t in (("stationary", stationary), ("moving", moving)):
        rules.tensor(operand, t)
        rules.dtype(operand, t, ("float8_e4m3", "float8_e4m3fn", "float8_e5m2"))
        if t.ndim < 3 or t.shape[1] != 2:
            rule = "must have a shape (K, 2, ...) with perf_mode double_row"
            raise rules.fail_shape(operand, t, rule)
    return True


def _matmul_dtypes(
    rules: Rules, dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, transpose: bool
) -> None:
    for operand, t in (("stationary", stationary), ("moving", moving)):
        rules.dtype(operand, t, _MATMUL_DTYPES)
        if t.dtype == "float8_e4m3fn":
            rules.generation(f"{operand}.dtype", t.dtype, 4)
    found = {stationary.dtype, moving.dtype}
    if len(found & set(_WIDE)) and not found <= set(_WIDE):
        value = f"{stationary.dtype} for stationary, {moving.dtype} for moving"
        rule = "float32 and tfloat32 can be multiplied with float32 and tfloat32 only"
        raise rules.fail("dtype", value, rule)
    if found == {"float8_e4m3", "float8_e4m3fn"}:
        value = f"{stationary.dtype} for stationary, {moving.dtype} for moving"
        raise rules.fail("dtype", value, "these two dtypes cannot be mixed")
    allowed = ["float32"]
    if rules.chip.generation >= 4:
        allowed.append("bfloat16")
    if transpose and rules.chip.native_transpose:
        allowed = [stationary.dtype]
    rules.dtype("dst", dst, allowed)


def _array_tile(
    rules: Rules,
    position: tuple[int, ...],
    size: tuple[int, ...],
    stationary: NkiTensor,
    moving: NkiTensor,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the rows and the columns of the systolic array in use, in groups of 32."""
    if not position and not size:
        return (0, 4), (0, 4)
    if not position or not size:
        rule = "both or neither of them must be set"
        raise rules.fail("(tile_position, tile_size)", (position, size), rule)
    if len(position) != 2 or len(size) != 2:
        rule = "both must be pairs (row, column)"
        raise rules.fail("(tile_position, tile_size)", (position, size), rule)
    spans = []
    smallest = rules.chip.smallest_row_tile
    legal = tuple(n for n in (32, 64, 128) if n >= smallest)
    for axis, (start, length) in enumerate(zip(position, size, strict=True)):
        if length not in legal:
            raise rules.fail(f"tile_size[{axis}]", length, f"must be one of {legal}")
        if start % length or not 0 <= start < 128:
            rule = f"must be a multiple of {length} below 128"
            raise rules.fail(f"tile_position[{axis}]", start, rule)
        spans.append((start // 32, (start + length) // 32))
    for operand, t in (("stationary", stationary), ("moving", moving)):
        if size[0] < 128:
            rule = f"must start at partition {position[0]}, the row of tile_position"
            rules.starts_at(operand, t, position[:1], rule)
    return spans[0], spans[1]


def _matmul_sizes(
    rules: Rules,
    dst: NkiTensor,
    moving: NkiTensor,
    sizes: tuple[int, int, int],
    tile_size: tuple[int, ...],
) -> None:
    k, m, n = sizes
    rows, columns = tile_size if tile_size else (128, 128)
    if moving.shape[0] != k:
        value = f"{k} for stationary, {moving.shape[0]} for moving"
        rule = "both must have the same number of partitions"
        raise rules.fail("the number of partitions", value, rule)
    if k > rows:
        rule = f"must have at most {rows} partitions, the rows of the array tile"
        raise rules.fail("stationary", f"a tile of {k} partitions", rule)
    if m > columns:
        rule = f"must be at most {columns}, the columns of the array tile"
        raise rules.fail("the free size of stationary", m, rule)
    chip = rules.chip
    limit = chip.matmul_moving_max
    if chip.generation >= 4 and dst.dtype == "bfloat16":
        limit *= 2
    if n > limit:
        rule = f"must be at most {limit} on {chip.name}: split the columns into several products"
        raise rules.fail("the free size of moving", n, rule)
    if dst.shape[0] != m or free_size(dst) != n:
        raise rules.fail_shape("dst", dst, f"must have {m} partitions of {n} elements")
    if chip.generation < 4 and bank_span(dst, chip.psum_bank_bytes) > 1:
        rule = f"must stay within one PSUM bank ({chip.psum_bank_bytes} bytes a partition)"
        value = f"a tile of shape {dst.shape} at offset {dst.offset % dst._free}"
        raise rules.fail("dst", value, rule)


def _matmul_cost(
    issue: Issue,
    stationary: NkiTensor,
    moving: NkiTensor,
    m: int,
    n: int,
    onezero: bool,
) -> None:
    """Notes the time of one pass. ``onezero`` halves it in float32.

    ``onezero`` is for operands of zeros and ones, and for native transposes.
    """
    chip = active().chip
    factor = chip.fp32_matmul_factor if moving.dtype == "float32" else 1
    if moving.dtype == "float32" and onezero:
        factor //= chip.onezero_speedup
    load = chip.fp32_matmul_factor if stationary.dtype == "float32" else 1
    moving_slow = 2 if is_slow(moving) else 1
    stationary_slow = 2 if is_slow(stationary) else 1
    stationary_cycles = load * m * stationary_slow / chip.load_stationary_speedup
    set_work(issue, ArrayPass(n * moving_slow, factor, stationary_cycles))
    issue.may_overtake = chip.background_transposes


_IDENTITY = np.eye(128, dtype=np.float32)


def _is_identity(array: Array) -> bool:
    k = len(array)
    return bool((array.reshape(k, k) == _IDENTITY[:k, :k]).all())


# Operand, its place among the reads, a value that breaks the claim, the check, and the rule.
Claim = tuple[str, int, str, Callable[[Array], bool], str]


def _claims(stationary_onezero: bool, moving_onezero: bool, transposes: bool) -> list[Claim]:
    """Returns what the arguments claim of the data: (operand, its place, value, check, rule).

    A hint about an operand that is not float32 has no effect (nki.isa.nc_matmul, parameters).
    """
    wrong = "a tile with other values than zeros and ones"
    onezero = (wrong, lambda array: bool(((array == 0) | (array == 1)).all()))
    found: list[Claim] = []
    if stationary_onezero:
        rule = "is_stationary_onezero claims so, and the chip would skip passes of float32"
        found.append(("stationary", 0, *onezero, rule))
    if transposes:  # an identity consists of zeros and ones
        rule = "is_transpose needs an identity matrix, by which the chip does not multiply"
        found.append(("moving", 1, "a tile that is not an identity", _is_identity, rule))
    elif moving_onezero:
        rule = "is_moving_onezero claims so, and the chip would skip passes of float32"
        found.append(("moving", 1, *onezero, rule))
    return found


def _rounding(chip: hardware.NeuronCore, dtypes_of_operands: set[str]) -> str:
    """Returns the dtype to which the chip rounds products of these operands, or ""."""
    if dtypes_of_operands == {"bfloat16"} and chip.rounds_bf16_products:
        return "bfloat16"
    if dtypes_of_operands == {"tfloat32"} and chip.rounds_tfloat32_products:
        return "tfloat32"
    return ""


def _sum_of_rounded(left: Array, right: Array, dtype: str, out: Array | None) -> Any:
    """Computes left.T @ right, with each product rounded to a dtype before the float32 sum."""
    total = np.zeros((left.shape[1], right.shape[1]), np.float32) if out is None else out
    total[...] = 0
    product = np.empty(total.shape, dtypes.numpy_type(dtype))
    for row, other in zip(left, right, strict=True):
        dtypes.store(product, np.multiply.outer(row, other), dtype)
        total += dtypes.to_float32(product)
    return total


def _matmul_run(
    rules: Rules, exact: bool, double: bool, claims: list[Claim], rounded: str = ""
) -> Any:
    def run(ins: list[Array], out: Array | None = None) -> Any:
        for operand, place, wrong, holds, rule in claims:
            if not holds(ins[place]):
                raise rules.fail(operand, wrong, rule)
        stationary, moving = ins
        k = stationary.shape[0]
        if double:
            stationary = np.concatenate([stationary[:, 0], stationary[:, 1]])
            moving = np.concatenate([moving[:, 0], moving[:, 1]])
            k *= 2
        if exact:
            value = stationary.reshape(k, -1).T
            return value if out is None else np.copyto(out, value)
        left = dtypes.to_float32(stationary.reshape(k, -1))
        right = dtypes.to_float32(moving.reshape(k, -1))
        if rounded:
            return _sum_of_rounded(left, right, rounded, out)
        return np.matmul(left.T, right, out=out)

    return run


def _with_accumulation(
    rules: Rules, product: Callable[..., Any], accumulate: bool | None, dst: NkiTensor
) -> tuple[Any, Any]:
    """Returns two functions, which write a product to PSUM, and find where it is accumulated.

    If ``accumulate`` is None, each element is overwritten or accumulated, depending on which
    instruction wrote the element of PSUM before.
    """
    shape, name = dst.shape, dst.dtype
    onto_others = rules.chip.accumulates_onto_others == hardware.FINE
    is_first = accumulate is not None and not accumulate
    is_direct = is_first and name == "float32" and len(shape) == 2

    def run(outs: list[Array], ins: list[Array], target: NkiTensor) -> None:
        if is_direct:
            product(ins, outs[0])
            shadow.note_matmul(target)
            return
        value = product(ins).reshape(shape)
        mask = onto(target)
        if mask is False:
            dtypes.store(outs[0], value, name)
        elif mask is True or mask.all():
            dtypes.store(outs[0], dtypes.to_float32(outs[0]) + value, name)
        else:
            base = np.where(mask, dtypes.to_float32(outs[0]), np.float32(0))
            dtypes.store(outs[0], base + value, name)
        shadow.note_matmul(target)

    def onto(target: NkiTensor) -> Any:
        mask = shadow.written_by_matmul(target)
        if accumulate:
            _check_accumulation(rules, target, mask)
            return True
        if is_first:
            return False
        if onto_others:
            return _written(target)
        if mask is not True and np.any(_written(target) & ~np.asarray(mask)):
            rule = "another instruction wrote this PSUM: pass accumulate=False to the first product"
            value = f"None for {target.storage.describe()}"
            active().warn(rules.instruction, "accumulate", value, rule)
        return mask

    return run, onto


def _written(t: NkiTensor) -> Any:
    return shadow.marks(t.storage.written, t)


def _check_accumulation(rules: Rules, target: NkiTensor, mask: Marks) -> None:
    if mask is True or (mask is not False and mask.all()):
        return
    value = f"True for {target.storage.describe()}"
    if not np.all(_written(target)):
        rule = "nothing has initialised this PSUM: pass accumulate=False to the first product"
        raise rules.fail("accumulate", value, rule)
    broken = Break("accumulate-onto-others", "accumulate", value)
    active().broke(rules.instruction, broken)


@instruction
def nc_transpose(dst: NkiTensor, data: NkiTensor, engine: engine = engine.unknown) -> Issue:
    """Swaps the partition axis and the flattened free axis.

    TensorE transposes up to 128x128 from SBUF to PSUM, and VectorE up to 32x32.
    """
    rules = Rules("nisa.nc_transpose")
    rules.output("dst", dst)
    rules.tile("data", data)
    p, f = data.shape[0], free_size(data)
    if dst.shape[0] != f or free_size(dst) != p:
        raise rules.fail_shape("dst", dst, f"must have {f} partitions of {p} elements")
    chosen = _transpose_engine(rules, dst, data, engine)
    into_float32 = chosen == "tensor" and dst.dtype == "float32" != data.dtype
    if not into_float32:
        rules.same_dtype(dst=dst, data=data)
    shape = dst.shape

    def run(outs: list[Array], ins: list[Array]) -> None:
        outs[0][...] = ins[0].reshape(p, f).T.reshape(shape)

    if chosen == "vector":
        return stream(rules, "vector", run)
    issue = Issue("nisa.nc_transpose", "tensor", 0.0, run, ("dst",), ("data",))
    _matmul_cost(issue, data, data, f, p, rules.chip.native_transpose)
    issue.is_transpose = True
    _note_device_rules(rules, issue, (data, p, f), (), False)
    if into_float32:
        issue.breaks += (Break("transpose-dtype", "dst", f"a tile of {dst.dtype}"),)
    if not rules.chip.native_transpose:
        issue.run = _inexact_transpose(dst, p, f)
    return issue


def _transpose_engine(rules: Rules, dst: NkiTensor, data: NkiTensor, requested: engine) -> str:
    rules.member("engine", requested, engine)
    p, f = data.shape[0], free_size(data)
    chosen = requested
    if requested is engine.unknown:
        array = dst.buffer is MemoryRegion.psum and data.buffer is MemoryRegion.sbuf
        chosen = engine.tensor if array else engine.vector
    if chosen is engine.vector:
        if p > 32 or f > 32:
            rule = "VectorE transposes at most 32x32: use TensorE, with dst in PSUM"
            raise rules.fail("data", f"a tile of {p}x{f}", rule)
    elif chosen is engine.tensor:
        rules.tile("data", data, SBUF)
        rules.output("dst", dst, PSUM)
        if f > 128:
            rule = "TensorE transposes at most 128x128: transpose it in parts"
            raise rules.fail("data", f"a tile of {p}x{f}", rule)
        if bank_span(dst, rules.chip.psum_bank_bytes) > 1:
            raise rules.fail_shape("dst", dst, "must stay within one PSUM bank")
    else:
        raise rules.fail("engine", chosen.name, "must be engine.tensor or engine.vector")
    return str(chosen.name)


def _inexact_transpose(dst: NkiTensor, p: int, f: int) -> Any:
    """Returns the transpose of NeuronCore-v2, which multiplies by an identity.

    So NaN and infinities spread along the contraction.
    """
    name, shape = dst.dtype, dst.shape

    def run(outs: list[Array], ins: list[Array]) -> None:
        data = ins[0].reshape(p, f)
        if name in dtypes.FLOATS and not np.isfinite(dtypes.to_float32(data)).all():
            spread = dtypes.to_float32(data).T @ np.eye(p, dtype=np.float32)
            dtypes.store(outs[0], spread.reshape(shape), name)
        else:
            outs[0][...] = data.T.reshape(shape)

    return run
