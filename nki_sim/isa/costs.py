"""Costs of instructions on VectorE, ScalarE and GpSimdE. Figures: nki_sim.hardware."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.enums import MemoryRegion
from nki_sim.instructions.issue import Issue, Run
from nki_sim.instructions.launch_state import LaunchState, active
from nki_sim.instructions.work import ArrayPass, Stream, Transfers
from nki_sim.views.tensor import NkiTensor

from .rules import Rules, free_size, is_sink


def stream(
    rules: Rules,
    engine: str,
    run: Run,
    factor: float = 1.0,
    elements: int | None = None,
    reads_result: bool = False,
) -> Issue:
    """Returns the issue of an instruction on VectorE, ScalarE or GpSimdE, on checked operands.

    The engine is busy for max(factor * elements + start-up, 64) cycles, where ``factor`` is 2 with
    two inputs in SBUF. The result takes max(factor * elements, 64) + start-up cycles, so that a
    chain of small instructions takes longer than small instructions that follow each other. A
    stride of more than 16 bytes in the innermost dimension doubles ``factor``. With
    ``reads_result`` a second, short instruction reads the engine's accumulators.
    """
    writes, reads = rules.writes, rules.reads
    tiles = list(writes.values()) + list(reads.values())
    count = elements if elements is not None else max(free_size(t) for t in tiles)
    if any(is_slow(t) for t in tiles):
        factor *= 2
    issue = Issue(rules.instruction, engine, 0.0, run, tuple(writes), tuple(reads))
    set_work(issue, Stream(engine, factor * count, reads_result=reads_result))
    issue.undefined = tuple([i for i, t in enumerate(writes.values()) if is_sink(t)])
    issue.ports += _ports(engine, tiles)
    issue.takes_banks = rules.in_psum and not rules.chip.shared_psum_port
    if engine != "gpsimd":
        _check_sizes(rules, issue)
    return issue


def set_work(issue: Issue, work: Stream | ArrayPass | Transfers) -> None:
    """Sets the work of an issue, and its price on the chip of the launch."""
    issue.work = work
    work.price(issue, active().chip)


def _check_sizes(rules: Rules, issue: Issue) -> None:
    """Checks the size of each operand of VectorE or ScalarE.

    An allocation may fill all banks of PSUM, but an operand may not.
    """
    chip = rules.chip
    for name, t in {**rules.writes, **rules.reads}.items():
        psum = t.buffer is MemoryRegion.psum
        limit = hardware.MAX_PSUM_OPERAND if psum else hardware.MAX_SBUF_OPERAND
        if free_size(t) > limit:
            rule = (
                f"must have at most {limit} elements a partition of {t.buffer.value.upper()}: "
                f"compute it in parts"
            )
            raise rules.fail_free_size(name, t, rule)
        held = math.prod([n for n, s in zip(t.shape[1:], t.strides[1:], strict=True) if s])
        size = held * dtypes.itemsize(t.dtype)
        if psum and size > chip.psum_operand_banks * chip.psum_bank_bytes:
            issue.after = _warn_of_banks(issue.instruction, name, size)


def _warn_of_banks(instruction: str, name: str, size: int) -> Callable[..., None]:
    """Returns a function that warns of the operand, on which documents disagree."""

    def warn(session: LaunchState, writes: Sequence[NkiTensor]) -> None:
        bank = session.chip.psum_bank_bytes
        rule = f"an operand in PSUM should have at most the {bank} bytes of a bank"
        session.warn(instruction, name, f"a tile of {size} bytes a partition", rule)

    return warn


def is_slow(t: NkiTensor) -> bool:
    """Returns whether the innermost stride exceeds 16 bytes."""
    for n, stride in zip(reversed(t.shape[1:]), reversed(t.strides[1:]), strict=True):
        if n > 1:
            return stride * dtypes.itemsize(t.dtype) > hardware.SLOW_STRIDE_BYTES
    return False


def vector_speedup(inputs: list[NkiTensor], out: NkiTensor) -> float:
    """Returns how many times faster VectorE is than at float32 in SBUF: 1, 2 or 4.

    If one of two inputs is in PSUM, both are read at once in N cycles instead of 2N (cost table of
    nki.isa.tensor_tensor in the API reference of neuronxcc.nki, for trn1 and trn2; the profile
    in nki/guides/tutorials/kernel-optimization.rst agrees). The other speeds are those of modes for
    bfloat16 and float16 (trainium2_arch.rst).
    """
    tiles = [*inputs, out]
    if len({t.buffer for t in inputs}) == 2:
        return 2.0
    if not active().chip.fast_16_bit_vector:
        return 1.0
    if any(t.dtype not in ("bfloat16", "float16") for t in tiles):
        return 1.0
    in_sbuf = [t.buffer is MemoryRegion.sbuf for t in tiles]
    dense = all(t.shape[-1] == 1 or t.strides[-1] == 1 for t in tiles)
    if len(inputs) == 2:
        return 2.0 if all(in_sbuf[:2]) else 1.0
    if all(in_sbuf):
        return 4.0 if dense else 2.0
    return 2.0 if dense and sum(in_sbuf) == 1 else 1.0


def scalar_speedup(inputs: list[NkiTensor], out: NkiTensor) -> float:
    """Returns how many times faster ScalarE copies and scales than at float32: 1 or 2 [v4]."""
    return min(2.0, vector_speedup(inputs, out)) if active().chip.fast_16_bit_scalar else 1.0


def on_scalar(issue: Issue, inputs: list[NkiTensor], out: NkiTensor) -> Issue | None:
    """Returns an instruction of VectorE as ScalarE runs it, which scales, shifts and copies, too.

    On NeuronCore-v2 the compiler makes it an activation: in the profiles of NKIBench ScalarE runs
    products with numbers and copies of PSUM. The result is None for integers, which ScalarE would
    compute in float32.
    """
    if any(t.dtype in dtypes.INTEGERS for t in (*inputs, out)):
        return None
    found = copy.copy(issue)
    found.engine = found.queue = "scalar"
    found.ports = _ports("scalar", [*inputs, out])
    count = max(free_size(t) for t in (*inputs, out))
    factor = 2.0 if any(is_slow(t) for t in (*inputs, out)) else 1.0
    set_work(found, Stream("scalar", factor / scalar_speedup(inputs, out) * count))
    return found


def _ports(engine: str, tiles: list[NkiTensor]) -> tuple[str, ...]:
    chip = active().chip
    memories = {t.buffer for t in tiles}
    ports = []
    if chip.shared_sbuf_port and engine in ("vector", "gpsimd") and MemoryRegion.sbuf in memories:
        ports.append("sbuf")
    if chip.shared_psum_port and engine in ("vector", "scalar") and MemoryRegion.psum in memories:
        ports.append("psum")
    return tuple(ports)
