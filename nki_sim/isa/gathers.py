"""Instructions of GpSimdE that gather elements by index, and that find segments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nki_sim.base.arguments import integer
from nki_sim.base.dtypes import Array
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.views.tensor import NkiTensor

from .costs import set_work, stream
from .rules import SBUF, Rules, free_size

_CORE_PARTITIONS = 16  # of SBUF that each of the eight cores reaches
_RUNS = (1, 2, 4, 8, 16, 32)  # how many elements local_gather can read for an index
_MOST_INDICES = 4096  # for one core
_GATHERED_AT_ONCE = 512  # elements a partition in one instruction of nc_n_gather


@instruction
def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
) -> Issue:
    """Gathers columns in each group of 16 partitions, by indices that the group shares.

    Index number i of a group is in its partition i % 16, column i // 16. Each index stands for
    ``num_elem_per_idx`` elements, from the element at the index on.
    """
    rules = Rules("nisa.local_gather")
    rules.operands(dst, SBUF, src_buffer=src_buffer, index=index)
    rules.dtype("index", index, ("uint16",))
    rules.same_dtype(dst=dst, src_buffer=src_buffer)
    rules.partitions_in("src_buffer", src_buffer, _CORE_PARTITIONS)
    run_length = integer(rules.instruction, "num_elem_per_idx", num_elem_per_idx)
    if run_length not in _RUNS:
        raise rules.fail("num_elem_per_idx", num_elem_per_idx, f"must be one of {_RUNS}")
    most = free_size(index) * _CORE_PARTITIONS
    valid = most
    if num_valid_indices is not None:
        valid = integer(rules.instruction, "num_valid_indices", num_valid_indices)
    if not 1 <= valid <= min(most, _MOST_INDICES):
        rule = f"must be from 1 to {min(most, _MOST_INDICES)}, the indices of 16 partitions"
        raise rules.fail("num_valid_indices", valid, rule)
    rules.free_size_is("dst", dst, valid * run_length)

    def run(outs: list[Array], ins: list[Array]) -> None:
        for start in range(0, len(ins[0]), _CORE_PARTITIONS):
            group = slice(start, start + _CORE_PARTITIONS)
            flat = ins[1][group].reshape(_CORE_PARTITIONS, -1).T.reshape(-1)[:valid]
            places = (flat.astype(np.int64)[:, None] + np.arange(run_length)).reshape(-1)
            source = ins[0][group].reshape(_CORE_PARTITIONS, -1)
            _check_indices(rules, "index", places, source.shape[1])
            outs[0][group] = source[:, places].reshape(outs[0][group].shape)

    return stream(rules, "gpsimd", run, elements=valid * run_length)


def _check_indices(rules: Rules, name: str, places: Array, count: int) -> None:
    if places.size and (places.min() < 0 or places.max() >= count):
        wrong = places[(places < 0) | (places >= count)][0]
        rule = f"must be from 0 to {count - 1}: other indices gather undefined values"
        raise rules.fail(f"an entry of {name}", int(wrong), rule)


@instruction
def nc_n_gather(dst: NkiTensor, data: NkiTensor, indices: NkiTensor) -> Issue:
    """Computes ``dst[p, i] = data[p, indices[p, i]]`` with flat free axes, 512 at a time."""
    rules = Rules("nisa.nc_n_gather")
    rules.operands(dst, SBUF, data=data, indices=indices)
    rules.dtype("indices", indices, ("uint32",))
    rules.same_dtype(dst=dst, data=data)
    rules.same_elements(dst=dst, indices=indices)

    def run(outs: list[Array], ins: list[Array]) -> None:
        rows = len(ins[0])
        source, places = ins[0].reshape(rows, -1), ins[1].reshape(rows, -1).astype(np.int64)
        _check_indices(rules, "indices", places, source.shape[1])
        outs[0][...] = np.take_along_axis(source, places, axis=1).reshape(outs[0].shape)

    count = free_size(dst)
    issue = stream(rules, "gpsimd", run, elements=count)
    # "n groups of instructions, n = ceil(elements a partition / 512)": each has a start-up time.
    more = -(-count // _GATHERED_AT_ONCE) - 1
    set_work(issue, replace(issue.work, more_starts=more))
    return issue


@instruction
def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor) -> Issue:
    """Finds where the segment of each element begins and ends: (1, 2, n) for ids of (1, n).

    The end is the index after the segment's last element. Padding has the id 0, the start n and the
    end -1. Runs on GpSimdE.
    """
    rules = Rules("nisa.sequence_bounds")
    rules.output("dst", dst, SBUF, ("float32", "int32"))
    rules.tile("segment_ids", segment_ids, SBUF, ("float32", "int32"))
    for label, t in (("dst", dst), ("segment_ids", segment_ids)):
        if t.shape[0] != 1:
            raise rules.fail_partitions(label, t, "must have 1 partition")
    n = free_size(segment_ids)
    if dst.shape != (1, 2, n):
        raise rules.fail_shape("dst", dst, f"must have the shape (1, 2, {n})")

    def run(outs: list[Array], ins: list[Array]) -> None:
        ids = ins[0].reshape(-1)
        if (ids < 0).any() or (ids != np.rint(ids)).any():
            wrong = ids[(ids < 0) | (ids != np.rint(ids))][0]
            raise rules.fail("an entry of segment_ids", wrong, "must be an integer of at least 0")
        changes = np.flatnonzero(np.diff(ids)) + 1
        edges = np.concatenate([[0], changes, [n]])
        which = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        starts, ends = edges[which], edges[which + 1]
        padding = ids == 0
        outs[0][0, 0] = np.where(padding, n, starts)
        outs[0][0, 1] = np.where(padding, -1, ends)

    return stream(rules, "gpsimd", run, elements=n)
