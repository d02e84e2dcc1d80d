"""Instructions that move data: DMA, copies, memset and shuffles of partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.arguments import integers
from nki_sim.base.dtypes import Array, Number
from nki_sim.base.enums import ON_CHIP, MemoryRegion, dge_mode, engine, oob_mode
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue, Run
from nki_sim.instructions.launch_state import LaunchState, active
from nki_sim.instructions.work import Transfer
from nki_sim.rules import device_rules
from nki_sim.views.tensor import NkiTensor

from . import overlaps
from .costs import on_scalar, scalar_speedup, stream, vector_speedup
from .dma_costs import copy_of, set_transfers, transpose_of
from .rules import Operand, Rules, free_size, on_chip

_NOT_PSUM = "DMA cannot access PSUM: copy between PSUM and SBUF by nisa.tensor_copy"


@instruction
def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
) -> Issue:
    """Copies ``src`` to ``dst`` by DMA, each in HBM or SBUF. Other dtypes pass through float32."""
    rules = Rules("nisa.dma_copy")
    _dma_operands(rules, dst, src)
    _dma_settings(rules, dst, src, priority, oob_mode, dge_mode, engine)
    if dst.size != src.size:
        value = f"{src.shape} to {dst.shape}"
        rule = "src and dst must have the same number of elements"
        raise rules.fail("the shape from src to dst", value, rule)
    issue = _dma_issue("nisa.dma_copy", dst, src, _copy_run(dst, src), dge_mode, engine)
    issue.skips_out_of_bounds = oob_mode.name == "skip"
    issue.breaks = device_rules.breaks_of_copy(dst, src)
    if on_chip(dst) == on_chip(src):
        issue.breaks += (overlaps.check_copy,)
    return issue


def _dma_operands(rules: Rules, dst: NkiTensor, src: NkiTensor) -> None:
    for operand, t in (("dst", dst), ("src", src)):
        rules.tensor(operand, t)
        if t.buffer is MemoryRegion.psum:
            raise rules.fail(operand, "a tensor in PSUM", _NOT_PSUM)
        if on_chip(t) and t.shape[0] > hardware.PARTITIONS:
            raise rules.fail_partitions(operand, t, "a tile has at most 128 partitions")
    rules.written_once("dst", dst)


def _dma_settings(
    rules: Rules,
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None,
    oob: oob_mode,
    mode: dge_mode,
    trigger: engine,
) -> None:
    rules.member("oob_mode", oob, oob_mode)
    rules.member("dge_mode", mode, dge_mode)
    rules.member("engine", trigger, engine)
    if priority is not None:
        rules.generation("priority", priority, 4)
        if priority not in (0, 1, 2, 3):
            raise rules.fail("priority", priority, "must be 0, 1, 2 or 3")
    if mode is dge_mode.hwdge:
        rules.generation("dge_mode", "hwdge", 3)
        rules.same_dtype(dst=dst, src=src)
        if any(t._dynamic is not None and t._dynamic.kind == "vector" for t in (dst, src)):
            rule = "the hardware descriptor generator cannot gather or scatter: omit dge_mode"
            raise rules.fail("dge_mode", "hwdge", rule)
    if trigger is not engine.unknown:
        if mode is not dge_mode.hwdge:
            rule = "an engine is only valid with dge_mode=nisa.dge_mode.hwdge"
            raise rules.fail("engine", trigger.name, rule)
        if trigger not in (engine.sync, engine.scalar):
            raise rules.fail("engine", trigger.name, "must be engine.sync or engine.scalar")
    dynamic = dst._dynamic is not None or src._dynamic is not None
    if dynamic and mode is dge_mode.none:
        rule = "a dynamic address needs a descriptor generator: omit dge_mode"
        raise rules.fail("dge_mode", "none", rule)
    if oob is oob_mode.skip and not dynamic:  # not forbidden, and used in kernels of nki-library
        rule = "oob_mode has an effect with a dynamic address only"
        active().warn(rules.instruction, "oob_mode", "skip", rule)


def _copy_run(dst: NkiTensor, src: NkiTensor) -> Any:
    name, same, shape = dst.dtype, dst.dtype == src.dtype, dst.shape
    reshape = src.shape != dst.shape

    def run(outs: list[Array], ins: list[Array]) -> None:
        value = ins[0].reshape(shape) if reshape else ins[0]
        if same:
            outs[0][...] = value
        else:
            dtypes.store(outs[0], dtypes.to_float32(value), name)

    return run


def _dma_issue(
    label: str,
    dst: NkiTensor,
    src: NkiTensor,
    run: Run | None,
    mode: dge_mode,
    trigger: engine,
    work_of: Callable[[Issue, NkiTensor, NkiTensor], tuple[Transfer, ...]] = copy_of,
) -> Issue:
    issue = Issue(label, "dma", 0.0, run, ("dst",), ("src",))
    set_transfers(issue, dst, src, work_of(issue, dst, src), mode, trigger)
    issue.after = _note_dma_write
    return issue


def _note_dma_write(session: LaunchState, writes: Sequence[NkiTensor]) -> None:
    for t in writes:
        t.storage.is_dma_written = True


@instruction
def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: tuple[int, ...] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
) -> Issue:
    """Transposes by DMA with axes (1, 0), (2, 1, 0) or (3, 1, 2, 0). ``dst`` must be in SBUF."""
    rules = Rules("nisa.dma_transpose")
    _dma_operands(rules, dst, src)
    _dma_settings(rules, dst, src, priority, oob_mode, dge_mode, engine.unknown)
    if dge_mode.name in ("none", "swdge"):
        raise rules.fail("dge_mode", dge_mode.name, "must be unknown or hwdge")
    if src._dynamic is not None:
        raise NotImplementedError(
            "nisa.dma_transpose with an indirect address of src is not simulated: copy the rows by "
            "nisa.dma_copy first"
        )
    if axes is not None:
        axes = integers(rules.instruction, "axes", axes)
    expected = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(src.ndim)
    if expected is None or (axes is not None and tuple(axes) != expected):
        value = f"{axes} for {src.ndim} dimensions"
        raise rules.fail("axes", value, "must be (1, 0), (2, 1, 0) or (3, 1, 2, 0)")
    if not on_chip(dst):
        raise rules.fail("dst", f"a tensor in {dst.buffer.value}", "must be in SBUF")
    rules.same_dtype(dst=dst, src=src)
    if dst.shape != tuple(src.shape[a] for a in expected):
        rule = f"must have the shape {src.shape} of src, permuted by {expected}"
        raise rules.fail_shape("dst", dst, rule)
    if dge_mode.name == "hwdge":
        _hardware_transpose(rules, src)

    def run(outs: list[Array], ins: list[Array]) -> None:
        outs[0][...] = ins[0].transpose(expected)

    mode, trigger = dge_mode, engine.unknown
    issue = _dma_issue("nisa.dma_transpose", dst, src, run, mode, trigger, transpose_of)
    issue.breaks = device_rules.breaks_of_transpose(dst)
    if on_chip(src):
        issue.breaks += (overlaps.check_transpose,)
    return issue


def _hardware_transpose(rules: Rules, src: NkiTensor) -> None:
    rows = src.shape[0]
    legal = rows == 16 if src.ndim == 2 else rows in (1, 2, 4, 8, 16)
    if not legal or (src.ndim > 2 and rows * src.shape[-2] % 16):
        rule = (
            "with dge_mode.hwdge it must have 16 rows in 2 dimensions, or else 1, 2, 4, 8 or 16 "
            "rows and src.shape[0] * src.shape[-2] % 16 == 0"
        )
        raise rules.fail("src", f"a tensor of shape {src.shape}", rule)
    if src.shape[-1] > 128:
        rule = "with dge_mode.hwdge it must be at most 128"
        raise rules.fail("src.shape[-1]", src.shape[-1], rule)
    if dtypes.itemsize(src.dtype) != 2:
        raise rules.fail("src.dtype", src.dtype, "dge_mode.hwdge transposes 2-byte dtypes only")


@instruction
def tensor_copy(dst: NkiTensor, src: NkiTensor, engine: engine = engine.unknown) -> Issue:
    """Copies within SBUF and PSUM, bit-exactly if the dtypes are equal. ScalarE of v2 cannot."""
    rules = Rules("nisa.tensor_copy")
    rules.elementwise(dst, src=src)
    scalar = (
        ""
        if rules.chip.generation >= 3
        else "ScalarE of NeuronCore-v2 has no tensor_copy: use nisa.activation(op=nl.copy)"
    )
    chosen = rules.choose(engine, "vector", vector="", scalar=scalar, gpsimd="")
    fast = vector_speedup([src], dst) if chosen == "vector" else 1.0
    if chosen == "scalar":
        fast = scalar_speedup([src], dst)
    issue = stream(rules, chosen, _copy_run(dst, src), 1 / fast)
    if engine.name == "unknown":
        issue.on_scalar = on_scalar(issue, [src], dst)
    return issue


@instruction
def memset(dst: NkiTensor, value: Number, engine: engine = engine.unknown) -> Issue:
    """Fills ``dst`` with a constant, which must be an int if the dtype is an integer."""
    rules = Rules("nisa.memset")
    rules.output("dst", dst)
    if not isinstance(value, (int, float, np.generic)):
        raise rules.fail("value", repr(value), "must be a compile-time number")
    if dst.dtype in dtypes.PACKED and value != 0:
        raise rules.fail("value", value, f"a tile of {dst.dtype} can be set to 0 only")
    if dst.dtype in dtypes.INTEGERS and not isinstance(value, (int, np.integer)):
        raise rules.fail("value", value, f"must be an integer for dtype {dst.dtype}")
    if dst.dtype in dtypes.INTEGERS and dst.dtype != "bool":
        limits = np.iinfo(dst._layout.np_type)
        if not limits.min <= int(value) <= limits.max:
            rule = f"must be from {limits.min} to {limits.max} for dtype {dst.dtype}"
            raise rules.fail("value", value, rule)
    chosen = rules.choose(engine, "vector", vector="", gpsimd="")
    name_, exact = dst.dtype, np.asarray(value)

    def run(outs: list[Array], ins: list[Array]) -> None:
        if name_ in dtypes.INTEGERS:
            outs[0][...] = value
        else:
            dtypes.store(outs[0], exact.astype(np.float32), name_)

    return stream(rules, chosen, run)


@instruction
def nc_stream_shuffle(dst: NkiTensor, src: NkiTensor, shuffle_mask: Sequence[int]) -> Issue:
    """Copies partition mask[i] of each quadrant of ``src`` to partition i of that of ``dst``."""
    rules = Rules("nisa.nc_stream_shuffle")
    rules.output("dst", dst)
    rules.tile("src", src)
    mask = integers(rules.instruction, "shuffle_mask", shuffle_mask, "must be a list of 32 ints")
    if len(mask) != 32 or any(not (0 <= m < 32 or m == 255) for m in mask):
        rule = "must have 32 entries from 0 to 31, or 255 to keep a partition"
        raise rules.fail("shuffle_mask", mask, rule)
    active_partitions = -(-max(dst.shape[0], src.shape[0]) // 32) * 32
    allowed = {32: (0, 32, 64, 96), 64: (0, 64)}.get(active_partitions, (0,))
    rule = f"{active_partitions} active partitions must start at one of {allowed}"
    rules.starts_at("dst", dst, allowed, rule)
    rules.starts_at("src", src, allowed, rule)
    rules.same_dtype(dst=dst, src=src)
    if free_size(dst) != free_size(src):
        value = f"{free_size(dst)} for dst, {free_size(src)} for src"
        rule = "dst and src must have the same number of elements a partition"
        raise rules.fail("the number of elements a partition", value, rule)
    count, sources = dst.shape[0], src.shape[0]
    moves = [(p, p // 32 * 32 + mask[p % 32]) for p in range(count) if mask[p % 32] != 255]
    outside = [q for _, q in moves if q >= sources]
    if outside:
        # A source of one quadrant feeds that quadrant only; partitions that it lacks have no data.
        rule = f"src has {'' if sources > 32 else 'only '}{sources} partitions"
        raise rules.fail("a source partition of shuffle_mask", outside[0], rule)
    to, of = np.array([p for p, _ in moves], int), np.array([q for _, q in moves], int)

    def run(outs: list[Array], ins: list[Array]) -> None:
        outs[0][to] = ins[0][of].reshape((len(to),) + outs[0].shape[1:])

    issue = stream(rules, "vector", run)
    if 255 in mask:
        written = np.zeros(dst.shape, np.bool_)
        written[to] = True
        issue.writes_where = lambda ins: written
    return issue


@instruction
def tensor_copy_predicated(
    dst: NkiTensor,
    src: Operand,
    predicate: NkiTensor,
    reverse_pred: bool = False,
) -> Issue:
    """Copies ``src``, a tile or a number, to ``dst`` where ``predicate`` is nonzero."""
    rules = Rules("nisa.tensor_copy_predicated")
    rules.elementwise(dst, predicate=predicate)
    rules.dtype("predicate", predicate, ("uint8", "uint16", "uint32"))
    if isinstance(src, NkiTensor):
        rules.tile("src", src)
        rules.same_elements(dst=dst, src=src)
        rules.same_dtype(dst=dst, src=src)
        rules.not_both_psum(src=src, predicate=predicate)
    shape = dst.shape

    def where(ins: list[Array]) -> Any:
        return (ins[0].reshape(shape) != 0) != bool(reverse_pred)

    def run(outs: list[Array], ins: list[Array]) -> None:
        chosen = where(ins)
        value = ins[1].reshape(shape)[chosen] if len(ins) > 1 else src
        outs[0][chosen] = value

    issue = stream(rules, "vector", run, float(len(rules.reads)))
    issue.writes_where = where
    return issue


def _assign(tensor: NkiTensor, key: object, value: Operand) -> None:
    """Runs ``tensor[key] = value`` as the instruction that moves such data."""
    target = tensor[key]
    if not isinstance(value, NkiTensor):
        memset(target, value)
    elif target.buffer in ON_CHIP and value.buffer in ON_CHIP:
        tensor_copy(target, value)
    else:
        dma_copy(target, value)


NkiTensor.__setitem__ = _assign  # type: ignore[index]
