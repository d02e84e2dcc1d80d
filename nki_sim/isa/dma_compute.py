"""nisa.dma_compute, which adds tensors in the DMA engines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import dge_mode, engine, oob_mode
from nki_sim.base.operators import Op, operator_of
from nki_sim.instructions.instruction import NkiInstruction, instruction
from nki_sim.instructions.issue import Issue
from nki_sim.views.tensor import NkiTensor

from . import overlaps
from .data_movement import _dma_operands, _note_dma_write
from .dma_costs import copy_of, set_transfers
from .rules import Rules, on_chip

_MOST_SOURCES = 16


def dma_compute(
    dst: NkiTensor,
    srcs: list[NkiTensor],
    reduce_op: Op | None,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Computes ``dst = srcs[0] + srcs[1] + ...`` in float32 by DMA.

    With two sources the instruction can also gather or scatter by index. To scatter, ``dst`` in HBM
    has a vector_offset, and one source is the same view as ``dst``. To gather, ``dst`` in SBUF is
    one of the sources, and the other source is in HBM and has a vector_offset.
    """
    rules = Rules("nisa.dma_compute")
    if not isinstance(srcs, (list, tuple)) or not 1 <= len(srcs) <= _MOST_SOURCES:
        rule = f"must be a list of 1 to {_MOST_SOURCES} tensors"
        is_list = isinstance(srcs, (list, tuple))
        raise rules.fail("srcs", f"{len(srcs)} tensors" if is_list else repr(srcs), rule)
    found = operator_of(reduce_op)
    if found is None or found.name != "add":
        raise rules.fail("reduce_op", repr(reduce_op), "must be nl.add")
    if scales is not None and (len(scales) != len(srcs) or any(s != 1.0 for s in scales)):
        raise rules.fail("scales", scales, "must be None, or 1.0 for each source")
    if unique_indices is not True:
        raise rules.fail("unique_indices", unique_indices, "must be True, the only supported value")
    _check_indirect(rules, dst, srcs)
    return _compute(dst, oob_mode, *srcs, name=name)


def _check_indirect(rules: Rules, dst: NkiTensor, srcs: Sequence[NkiTensor]) -> None:
    """Checks addresses that depend on data, for a gather or a scatter with two sources."""
    for operand, t in (("dst", dst), *((f"srcs[{i}]", t) for i, t in enumerate(srcs))):
        rules.tensor(operand, t)
        if t._dynamic is not None and t._dynamic.kind != "vector":
            rule = "must have an address known at compile time, or a vector_offset"
            raise rules.fail(operand, "a view with a scalar_offset", rule)
    indirect = [t for t in srcs if t._dynamic is not None]
    if not indirect and dst._dynamic is None:
        return
    if len(srcs) != 2 or len(indirect) != 1:
        value = f"{len(srcs)} tensors, {len(indirect)} of them with a vector_offset"
        rule = "a gather or scatter needs two sources, one of them with a vector_offset"
        raise rules.fail("srcs", value, rule)
    other = next(t for t in srcs if t._dynamic is None)
    if dst._dynamic is not None and not _is_same(dst, indirect[0]):
        rule = "must be the same view as dst, to which a scatter adds"
        raise rules.fail("the indirect source", indirect[0].storage.describe(), rule)
    if dst._dynamic is None and not (on_chip(dst) and _is_same(dst, other)):
        rule = "must be the same view as dst, in SBUF, to which a gather adds"
        raise rules.fail("the other source", other.storage.describe(), rule)


def _is_same(a: NkiTensor, b: NkiTensor) -> bool:
    """Returns whether two views are the same, with the same indices."""
    if (a.storage, a.dtype, a.offset) != (b.storage, b.dtype, b.offset):
        return False
    if (a.shape, a.strides) != (b.shape, b.strides):
        return False
    if a._dynamic is None or b._dynamic is None:
        return a._dynamic is b._dynamic
    return _is_same(a._dynamic.index, b._dynamic.index)


@instruction
def _compute(
    dst: NkiTensor,
    oob: oob_mode,
    *src: NkiTensor,
) -> Issue:
    rules = Rules("nisa.dma_compute")
    rules.member("oob_mode", oob, oob_mode)
    for t in src:
        _dma_operands(rules, dst, t)
        if t.size != dst.size:
            value = f"{t.shape} to {dst.shape}"
            rule = "each source and dst must have the same number of elements"
            raise rules.fail("the shape from a source to dst", value, rule)
    is_indirect = any(t._dynamic is not None for t in (dst, *src))
    if oob is oob_mode.skip and not is_indirect:
        raise rules.fail("oob_mode", "skip", "oob_mode.skip is allowed with a dynamic address only")
    name_, shape = dst.dtype, dst.shape

    def run(outs: list[Array], ins: list[Array]) -> None:
        total = dtypes.to_float32(ins[0].reshape(shape))
        for value in ins[1:]:
            total = total + dtypes.to_float32(value.reshape(shape))
        dtypes.store(outs[0], np.asarray(total, np.float32), name_)

    reads = tuple([f"src{i}" for i in range(len(src))])
    issue = Issue(rules.instruction, "dma", 0.0, run, ("dst",), reads)
    # A dma_copy for each source, as no document times the sums.
    copies = tuple([one for t in src for one in copy_of(issue, dst, t)])
    source = next((t for t in src if t._dynamic is not None), src[0])
    mode = dge_mode.swdge if is_indirect else dge_mode.none
    set_transfers(issue, dst, source, copies, mode, engine.unknown)
    issue.skips_out_of_bounds = oob is oob_mode.skip
    issue.after = _note_dma_write
    if not is_indirect:
        issue.breaks = (overlaps.check_sum,)
    return issue
