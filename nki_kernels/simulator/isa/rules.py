"""The documented rules an instruction's operands must keep, checked once a signature.

Sources: nki/api/nki/isa/__init__.py, nki/api/nki.api.shared.rst and the architecture guides of
the Neuron SDK. Every broken rule raises NkiValidationError with instruction, operand and value.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np

from nki_kernels import hardware
from nki_kernels.hardware import NeuronCore

from .. import dtypes
from ..enums import ON_CHIP, MemoryRegion, engine, reduce_cmd
from ..errors import NkiValidationError
from ..layout import extent
from ..operators import Operator, operator_of
from ..session import active
from ..tensor import NkiTensor, repeats

SBUF = (MemoryRegion.sbuf,)
PSUM = (MemoryRegion.psum,)
CHIP_MEMORY = (MemoryRegion.sbuf, MemoryRegion.psum)


class Rules:
    """Checks of one instruction."""

    def __init__(self, instruction: str) -> None:
        self.instruction = instruction
        self.chip: NeuronCore = active().chip

    def fail(self, operand: str, value: Any, rule: str) -> NkiValidationError:
        """The error to raise."""
        return NkiValidationError(self.instruction, operand, value, rule)

    # Operands.

    def tensor(self, name: str, t: Any) -> NkiTensor:
        """``t`` must be a tensor."""
        if not isinstance(t, NkiTensor):
            raise self.fail(name, repr(t), "must be a tensor (NkiTensor)")
        return t

    def tile(self, name: str, t: Any, memory: tuple[MemoryRegion, ...] = CHIP_MEMORY) -> NkiTensor:
        """``t`` must be an on-chip tile that an engine can address in one instruction."""
        self.tensor(name, t)
        if t.buffer not in memory:
            allowed = " or ".join(m.value.upper() for m in memory)
            load = "" if t.buffer in ON_CHIP else "; load it with nisa.dma_copy first"
            raise self.fail(name, f"{t.buffer.value} tensor", f"must be in {allowed}{load}")
        self._partitions(name, t)
        free = [(n, s) for n, s in zip(t.shape[1:], t.strides[1:], strict=True)]
        if len(free) > hardware.MAX_FREE_DIMENSIONS:
            rule = f"at most {hardware.MAX_FREE_DIMENSIONS} free dimensions"
            raise self.fail(name, f"shape {t.shape}", rule)
        for n, stride in free:
            if n > 1 and stride > hardware.MAX_ELEMENT_STRIDE:
                rule = f"strides are at most {hardware.MAX_ELEMENT_STRIDE} elements (int16)"
                raise self.fail(name, f"stride {stride}", rule)
            if n > hardware.MAX_ELEMENT_COUNT:
                rule = f"a dimension has at most {hardware.MAX_ELEMENT_COUNT} elements (uint16)"
                raise self.fail(name, f"size {n}", rule)
        return t

    def _partitions(self, name: str, t: NkiTensor) -> None:
        count = t.shape[0]
        if count > hardware.PARTITIONS:
            raise self.fail(name, f"{count} partitions", f"at most {hardware.PARTITIONS}")
        start = start_partition(t)
        allowed = (0,) if count > 64 else (0, 64) if count > 32 else (0, 32, 64, 96)
        if start not in allowed:
            rule = f"{count} partitions must start at one of {allowed}"
            raise self.fail(name, f"start partition {start}", rule)

    def output(
        self, name: str, t: Any, memory: tuple[MemoryRegion, ...] = CHIP_MEMORY
    ) -> NkiTensor:
        """A tile that is written: no element twice."""
        self.tile(name, t, memory)
        self.written_once(name, t)
        return t  # type: ignore[no-any-return]

    def output_or_sink(self, name: str, t: Any, reduce_res: Any) -> NkiTensor:
        """A tile that is written; beside a ``reduce_res`` one element a partition may take all.

        Such a view has steps of 0 in its free dimensions. What its element holds is undefined.
        """
        if reduce_res is None or not is_sink(self.tile(name, t)):
            return self.output(name, t)
        return t  # type: ignore[no-any-return]

    def written_once(self, name: str, t: NkiTensor) -> None:
        """No element of ``t`` has two values: engines write in no documented order."""
        shape, strides = t.shape, t.strides
        if t._dynamic is not None and t._dynamic.kind == "vector":  # rows are data's to choose
            shape, strides = shape[1:], strides[1:]
        if any(n > 1 and s == 0 for n, s in zip(shape, strides, strict=True)):
            raise self.fail(name, "a broadcast view", "cannot be written")
        if repeats(shape, strides):
            rule = "writes an element twice in one instruction: the result is not defined"
            raise self.fail(name, f"access pattern {t.get_pattern()}", rule)

    def same_partitions(self, **tiles: NkiTensor) -> None:
        """All operands cover the same number of partitions."""
        counts = {name: t.shape[0] for name, t in tiles.items()}
        if len(set(counts.values())) > 1:
            raise self.fail("partitions", counts, "all operands cover the same number")

    def same_elements(self, **tiles: NkiTensor) -> None:
        """All operands have the same number of partitions and elements a partition."""
        self.same_partitions(**tiles)
        counts = {name: free_size(t) for name, t in tiles.items()}
        if len(set(counts.values())) > 1:
            raise self.fail("elements a partition", counts, "all operands have the same number")

    def free_size_is(self, name: str, t: NkiTensor, n: int) -> None:
        """``t`` has ``n`` elements a partition."""
        if free_size(t) != n:
            raise self.fail(name, f"{free_size(t)} elements a partition", f"must be {n}")

    def not_both_psum(self, **tiles: NkiTensor) -> None:
        """VectorE reads at most one operand from PSUM."""
        if all(t.buffer is MemoryRegion.psum for t in tiles.values()):
            raise self.fail(" and ".join(tiles), "both in PSUM", "at most one may be in PSUM")

    def scalar_or_vector(self, name: str, value: Any, data: NkiTensor) -> bool:
        """A number (False) or a float32 tile with one element a partition (True)."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return False
        if not isinstance(value, NkiTensor):
            if hasattr(value, "__float__"):
                return False
            raise self.fail(name, repr(value), "must be a number or a (partitions, 1) tile")
        self.tile(name, value)
        self.same_partitions(data=data, **{name: value})
        self.free_size_is(name, value, 1)
        return True

    def accumulated(self, reduce_res: Any, **operand: NkiTensor) -> None:
        """``reduce_res``: a written tile of an engine's accumulators, one a partition."""
        self.output("reduce_res", reduce_res)
        self.same_partitions(**operand, reduce_res=reduce_res)
        self.free_size_is("reduce_res", reduce_res, 1)

    def float32(self, name: str, t: NkiTensor) -> None:
        """``t`` must be float32."""
        self.dtype(name, t, ("float32",))

    def dtype(self, name: str, t: NkiTensor, allowed: Any) -> None:
        """``t.dtype`` must be one of ``allowed``."""
        if t.dtype not in allowed:
            raise self.fail(
                f"{name}.dtype", t.dtype, f"must be one of {', '.join(sorted(allowed))}"
            )

    def same_dtype(self, **tiles: NkiTensor) -> None:
        """All operands have one dtype."""
        found = {name: t.dtype for name, t in tiles.items()}
        if len(set(found.values())) > 1:
            raise self.fail("dtype", found, "must be the same")

    # Settings.

    def member(self, name: str, value: Any, enum: type[Enum]) -> None:
        """``value`` must be a member of ``enum``: raw integers are refused since NKI 0.3.0."""
        if not isinstance(value, enum):
            rule = f"must be a member of nki.isa.{enum.__name__}"
            raise self.fail(name, repr(value), rule)

    def generation(self, name: str, value: Any, first: int) -> None:
        """A feature that only NeuronCore-v``first`` and newer have."""
        if self.chip.generation < first:
            rule = f"needs NeuronCore-v{first}; {self.chip.name} is v{self.chip.generation}"
            raise self.fail(name, value, rule)

    def operator(self, name: str, op: Any, kind: str) -> Operator:
        """The Operator behind ``op``. ``kind``: binary, unary_or_binary, reduction, activation."""
        found = operator_of(op)
        if found is None:
            raise self.fail(name, repr(op), "must be an operator of nki.language, as nl.add")
        if found.unsupported:
            raise self.fail(name, f"nl.{found.name}", found.unsupported)
        binary = found.binary is not None and found.name != "average"
        legal = {
            "binary": binary,
            "unary_or_binary": binary or found.unary is not None,
            "reduction": found.identity is not None,
            "activation": found.activation is not None,
        }[kind]
        if not legal:
            raise self.fail(name, f"nl.{found.name}", f"not a legal {kind.replace('_', ' ')} op")
        self.generation(name, f"nl.{found.name}", found.first_generation)
        return found

    def integers(self, **tiles: NkiTensor) -> None:
        """Bitvec operators work on integer bit patterns of one element size."""
        for name, t in tiles.items():
            if t.dtype not in dtypes.INTEGERS:
                raise self.fail(f"{name}.dtype", t.dtype, "bitvec operators need integer dtypes")

    def choose(
        self, requested: Any, allowed: dict[engine, str], preferred: engine, psum: bool
    ) -> str:
        """Name of the engine to use. ``allowed`` gives the reason where an engine is refused."""
        self.member("engine", requested, engine)
        chosen = preferred if requested is engine.unknown else requested
        engines = ", ".join(one.name for one, reason in allowed.items() if not reason)
        refusal = allowed.get(chosen, f"allowed are {engines}")
        if refusal:
            raise self.fail("engine", chosen.name, refusal)
        if chosen is engine.gpsimd and psum:
            raise self.fail("engine", "gpsimd", "GpSimdE cannot access PSUM")
        return chosen.name


def is_sink(t: NkiTensor) -> bool:
    """Whether a tile has one element a partition, which stands for several."""
    free = zip(t.shape[1:], t.strides[1:], strict=True)
    return free_size(t) > 1 and all(n == 1 or stride == 0 for n, stride in free)


def start_partition(t: NkiTensor) -> int:
    """First physical partition of an on-chip view."""
    return t.offset // t._free + int(t.storage.start_partition)


def lanes_of(t: NkiTensor) -> slice:
    """The lanes of an engine that a tile goes through: its partitions."""
    start = start_partition(t)
    return slice(start, start + t.shape[0])


def accumulator(instruction: str, engine_name: str, cmd: reduce_cmd, initial: float) -> Any:
    """The 128 accumulator registers of an engine, one a lane, for an instruction that uses them.

    Warns where they hold what other kernels left, as nothing has reset or loaded them.
    """
    session = active()
    registers = session.accumulators
    if engine_name not in registers:
        if cmd in (reduce_cmd.idle, reduce_cmd.reduce):
            rule = "nothing has reset the accumulators; use reduce_cmd.reset_reduce"
            session.warn(instruction, "reduce_cmd", cmd.name, rule)
        registers[engine_name] = np.full(hardware.PARTITIONS, initial, np.float32)
    return registers[engine_name]


def free_size(t: NkiTensor) -> int:
    """Elements a partition."""
    return math.prod(t.shape[1:])


def bank_span(t: NkiTensor, bank_bytes: int) -> int:
    """PSUM banks that a view touches."""
    size = dtypes.itemsize(t.dtype)
    first = (t.offset % t._free) * size + (t.storage.address or 0)
    last = first + extent(t.shape[1:], t.strides[1:]) * size - 1
    return last // bank_bytes - first // bank_bytes + 1


def on_chip(t: NkiTensor) -> bool:
    """True for SBUF and PSUM."""
    return t.buffer in ON_CHIP
