"""Instructions between the two NeuronCores of a launch with LNC = 2."""

from __future__ import annotations

from dataclasses import dataclass

from nki_sim.base import dtypes
from nki_sim.base.arguments import integer, integers
from nki_sim.base.enums import MemoryRegion, dge_mode, dma_engine, engine
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active
from nki_sim.views.tensor import NkiTensor

from .data_movement import _dma_issue
from .rules import Rules, free_size

PROGRAMS = 2  # of a launch whose programs meet, one on each core
_BARRIER_ENGINES = (engine.gpsimd, engine.vector, engine.scalar, engine.tensor)
_GPSIMD_ELEMENTS = 256  # a partition, whatever the size of an element [isa sendrecv]


@dataclass(frozen=True)
class Sendrecv:
    """The arguments of sendrecv on which the two programs must agree."""

    pipe_id: int
    send_to_rank: int
    recv_from_rank: int
    dma_engine: str


@instruction
def core_barrier(data: NkiTensor, cores: tuple[int, int], engine: engine = engine.gpsimd) -> Issue:
    """Waits for the other core. Then both see earlier writes to ``data``, in shared HBM."""
    rules = Rules("nisa.core_barrier")
    _check_cores(rules)
    rules.tensor("data", data)
    if data.buffer is not MemoryRegion.shared_hbm:
        raise rules.fail("data", data.storage.describe(), "must be in shared HBM")
    _check_static(rules, "data", data)
    if integers(rules.instruction, "cores", cores) != (0, 1):
        raise rules.fail("cores", cores, "must be (0, 1), both cores of the launch")
    issue = Issue(rules.instruction, _barrier_engine(rules, engine), 0.0, None, ("data",))
    issue.cost_ns = rules.chip.core_barrier_ns
    issue.meets = "barrier"
    return issue


def _barrier_engine(rules: Rules, chosen: engine) -> str:
    rules.member("engine", chosen, engine)
    if chosen is engine.unknown:
        return engine.gpsimd.name
    if chosen is engine.sync:
        raise NotImplementedError(
            "nisa.core_barrier on the Sync engine is not simulated: choose another engine"
        )
    if chosen not in _BARRIER_ENGINES:
        allowed = ", ".join([one.name for one in _BARRIER_ENGINES])
        rule = f"must be an engine that runs instructions: {allowed}"
        raise rules.fail("engine", chosen.name, rule)
    return chosen.name


def _check_cores(rules: Rules) -> None:
    rules.generation("the chip", rules.chip.name, 3)
    if active().programs != PROGRAMS:
        rule = (
            f"the instruction works between {PROGRAMS} programs only: set "
            f"NEURON_LOGICAL_NC_CONFIG={PROGRAMS}"
        )
        raise rules.fail("the number of programs", active().programs, rule)


def _check_static(rules: Rules, name: str, t: NkiTensor) -> None:
    if t._dynamic is not None:
        raise rules.fail(name, t.storage.describe(), "must have an address known at compile time")


@instruction
def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engine = dma_engine.dma,
) -> Issue:
    """Sends ``src`` to the ``dst`` of a core, and receives the ``src`` of a core in ``dst``."""
    rules = Rules("nisa.sendrecv")
    _check_cores(rules)
    for operand, t in (("src", src), ("dst", dst)):
        rules.tensor(operand, t)
        if t.buffer is not MemoryRegion.sbuf:
            raise rules.fail(operand, t.storage.describe(), "must be in SBUF")
        _check_static(rules, operand, t)
    rules.same_dtype(src=src, dst=dst)
    if src.shape != dst.shape:
        value = f"{src.shape} for src, {dst.shape} for dst"
        raise rules.fail("the shape", value, "src and dst must have the same shape")
    rules.written_once("dst", dst)
    ranks = []
    for operand, rank in (("send_to_rank", send_to_rank), ("recv_from_rank", recv_from_rank)):
        rule = "must be 0 or 1"
        if isinstance(rank, bool) or integer(rules.instruction, operand, rank, rule) not in (0, 1):
            raise rules.fail(operand, rank, rule)
        ranks.append(int(rank))
    pipe = integer(rules.instruction, "pipe_id", pipe_id)
    issue = _transfer(rules, dst, src, pipe, dma_engine)
    issue.meets = Sendrecv(pipe, ranks[0], ranks[1], dma_engine.name)
    return issue


def _transfer(rules: Rules, dst: NkiTensor, src: NkiTensor, pipe: int, by: dma_engine) -> Issue:
    """Returns a transfer on a DMA queue of its pipe, or by GpSimdE's own DMA engines."""
    rules.member("dma_engine", by, dma_engine)
    if by is dma_engine.dma:
        issue = _dma_issue(rules.instruction, dst, src, None, dge_mode.unknown, engine.unknown)
        issue.queue = f"dma pipe {pipe}"
        return issue
    size = dtypes.itemsize(dst.dtype)
    if free_size(dst) > _GPSIMD_ELEMENTS:
        rule = (
            f"dma_engine.gpsimd_dma moves at most {_GPSIMD_ELEMENTS * size} bytes a partition of "
            f"this dtype: use dma_engine.dma"
        )
        value = f"a tile of {free_size(src) * size} bytes of {src.dtype} a partition"
        raise rules.fail("src", value, rule)
    chip = rules.chip
    moved = dst.size * size
    start_up = chip.gpsimd_start_cycles / chip.gpsimd_ghz + chip.core_barrier_ns
    cost = start_up + moved / chip.gpsimd_dma_bytes_per_ns
    issue = Issue(rules.instruction, "gpsimd", cost, None, ("dst",), ("src",))
    issue.dma_bytes = moved
    return issue
