"""Costs of a dma_copy: the time of its descriptors, and its time on each DMA engine.

The rows of a transfer to or from SBUF are distributed in order to the 16 engines, at least four
rows to each. An engine needs bytes / rate, plus the time of a descriptor for every contiguous run
in HBM. Rows that follow each other in memory form one run, whatever the number of partitions to
which they go (nki/get-started/about/nki-dma-overview.rst: 8 rows of 256 bytes are "a single 2KiB
read", 4 rows of 8 KiB take 1416 ns at 23.1 B/ns). A gap inside of a partition also ends a run.

If a kernel leaves the choice to the compiler, the host has written the descriptors of copies on
trn1, unless a register holds an address. On trn2 and trn3 GpSimdE writes the descriptors of all
copies but those of few rows: the profiles of kernel-optimization.rst count no hardware packets, and
nki-dma-overview.rst shows the queue qGpSimdDynamic.
"""

from __future__ import annotations

import math

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.enums import dge_mode, engine
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active
from nki_sim.instructions.work import Transfer, Transfers
from nki_sim.views.strides import coalesce
from nki_sim.views.tensor import NkiTensor

from .costs import set_work
from .rules import on_chip, start_partition

TRANSPOSED_RUN = 16  # adjacent elements that the DMA engines write [trainium2_arch.rst]


Shares = tuple[tuple[float, float], ...]  # of the engines: descriptors, fraction of the bytes


def copy_of(
    issue: Issue, dst: NkiTensor, src: NkiTensor, speed: float = 1.0
) -> tuple[Transfer, ...]:
    """Returns a copy at ``speed`` times the engines' rate; its bytes are added to the issue's."""
    tile = dst if on_chip(dst) else src if on_chip(src) else None
    shares = _between_hbm(dst, src) if tile is None else _of_rows(tile, dst, src)
    return _counted(issue, dst, src, shares, speed)


def transpose_of(issue: Issue, dst: NkiTensor, src: NkiTensor) -> tuple[Transfer, ...]:
    """Returns a transposing copy, whose bytes are added to the issue's.

    On NeuronCore-v2 each element is a run of its own. Later DMA engines reach 90 % of the copy rate
    from HBM and 50 % from SBUF (trainium2_arch.rst, DMA transpose), if they write 128 partitions in
    rows of 16 adjacent elements.
    """
    chip = active().chip
    engines = chip.dma_engines
    fits = dst.shape[0] % hardware.PARTITIONS == 0 and dst.shape[-1] % TRANSPOSED_RUN == 0
    if chip.native_transpose and fits:
        return copy_of(issue, dst, src, 0.5 if on_chip(src) else 0.9)
    return _counted(issue, dst, src, ((src.size / engines, 1 / engines),) * engines)


def _counted(
    issue: Issue,
    dst: NkiTensor,
    src: NkiTensor,
    shares: Shares,
    speed: float = 1.0,
) -> tuple[Transfer, ...]:
    sizes = [t.size * dtypes.itemsize(t.dtype) for t in (dst, src)]
    issue.hbm_bytes += sum(n for n, t in zip(sizes, (dst, src), strict=True) if not on_chip(t))
    issue.dma_bytes += max(sizes)
    issue.dma_descriptors += math.ceil(sum(n for n, _ in shares))
    return (Transfer(shares, max(sizes), speed),)


def set_fill(issue: Issue, dst: NkiTensor) -> None:
    """Sets the work of a write of a whole tensor in HBM, which all engines share."""
    chip = active().chip
    size = dst.size * dtypes.itemsize(dst.dtype)
    issue.dma_bytes = issue.hbm_bytes = size
    issue.dma_descriptors = chip.dma_engines
    issue.queue = "dma store"
    write = Transfer(((1.0, 1 / chip.dma_engines),) * chip.dma_engines, size)
    written_by = dge_mode.none if chip.static_descriptors else dge_mode.swdge
    set_work(issue, Transfers((write,), written_by))


def _between_hbm(dst: NkiTensor, src: NkiTensor) -> Shares:
    """Returns equal shares, because transfers between HBM tensors are cut for all engines."""
    engines = active().chip.dma_engines
    a, b = _run(dst), _run(src)
    runs = max(_pieces(dst.size, a, b), engines)
    return ((runs / engines, 1 / engines),) * engines


def _of_rows(tile: NkiTensor, dst: NkiTensor, src: NkiTensor) -> Shares:
    chip = active().chip
    engines = chip.dma_engines
    rows = tile.shape[0]
    used = min(engines, -(-rows // chip.dma_partitions_per_engine))
    first = 0 if tile._dynamic is not None else start_partition(tile)
    shares = [(0.0, 0.0)] * engines
    for n in range(used):
        taken = rows * (n + 1) // used - rows * n // used
        engine = (first * engines // hardware.PARTITIONS + n) % engines
        shares[engine] = (_descriptors(taken, rows, dst, src), taken / rows)
    return tuple(shares)


def _descriptors(taken: int, rows: int, dst: NkiTensor, src: NkiTensor) -> float:
    """Returns the number of runs of ``taken`` adjacent rows out of ``rows``, on one engine."""
    row = dst.size // rows
    runs = [_run(t) for t in (dst, src)]
    inside = [min(run, row) for run in runs]
    if inside != [row, row]:
        return taken * _pieces(row, *inside)
    outside = [run for run, t in zip(runs, (dst, src), strict=True) if not on_chip(t)]
    if not outside:  # from partition to partition
        return taken
    return max(1.0, taken * row / outside[0])


def _pieces(total: int, a: int, b: int) -> int:
    # Of ``total`` elements, which are cut after every ``a`` and every ``b``.
    return total // a + total // b - total // math.lcm(a, b)


def _run(t: NkiTensor) -> int:
    # In SBUF a partition ends a run.
    first = 1 if on_chip(t) else 0
    inner = coalesce(t.shape[first:], t.strides[first:])[-1]
    return inner[0] if inner[1] == 1 else 1


def set_transfers(
    issue: Issue,
    dst: NkiTensor,
    src: NkiTensor,
    copies: tuple[Transfer, ...],
    mode: dge_mode,
    trigger: engine,
) -> None:
    """Sets the work: the queue that triggers the copies, and who writes their descriptors.

    Loads do not queue behind waiting stores: a kernel that loads and stores tile by tile needs no
    more time than its descriptors (trainium-agent-labs, copy_tiled on trn2).
    """
    issue.queue = "dma load" if on_chip(dst) else "dma store"
    if trigger is not engine.unknown:
        issue.queue = f"dma {trigger.name}"
    written_by = _chosen(dst, src) if mode is dge_mode.unknown else mode
    set_work(issue, Transfers(copies, written_by))


def _chosen(dst: NkiTensor, src: NkiTensor) -> dge_mode:
    """Returns what writes the descriptors if the kernel leaves the choice to the compiler.

    Before trn2 descriptors were "generated statically on the host" or dynamically by GpSimdE
    (trainium2_arch.rst). On trn2 a copy of 4 rows uses a queue with descriptors of the host
    (qSyncIO0), a copy of 128 rows the queue of GpSimdE (figures 3 and 5 of nki-dma-overview.rst).
    """
    chip = active().chip
    if any(t._dynamic is not None for t in (dst, src)):
        return dge_mode.swdge
    if chip.static_descriptors:
        return dge_mode.none
    rows = [t.shape[0] for t in (dst, src) if on_chip(t)]
    is_small = rows and max(rows) < chip.host_descriptor_rows
    return dge_mode.none if is_small else dge_mode.swdge
