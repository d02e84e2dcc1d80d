"""Checks of the documented rules on the operands of instructions, once for each signature.

Sources: nki/api/nki/isa/__init__.py, nki/api/nki.api.shared.rst and the architecture guides of
the Neuron SDK. A broken rule raises NkiValidationError, which names the instruction, the operand
and its value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array, Number
from nki_sim.base.enums import ON_CHIP, MemoryRegion, engine, reduce_cmd
from nki_sim.base.operators import Op, Operator, operator_of
from nki_sim.errors import NO_TENSOR, NkiValidationError, brief
from nki_sim.hardware import NeuronCore
from nki_sim.instructions.issue import Run
from nki_sim.instructions.launch_state import active
from nki_sim.views.layout import extent
from nki_sim.views.strides import repeats
from nki_sim.views.tensor import NkiTensor

Memories = tuple[MemoryRegion, ...]
SBUF: Memories = (MemoryRegion.sbuf,)
PSUM: Memories = (MemoryRegion.psum,)
CHIP_MEMORY = SBUF + PSUM


_KINDS = {
    "binary": "an operator of two operands",
    "unary_or_binary": "an operator of one or two operands",
    "reduction": "an operator that can reduce",
    "activation": "an activation function",
}


if TYPE_CHECKING:
    from typing_extensions import TypeIs

Tiles = dict[str, NkiTensor]  # operands by their parameters
Operand = NkiTensor | Number  # a (partitions, 1) tile, or a number


class Column(NamedTuple):
    """A (partitions, 1) tile that an instruction reads, by its position among the reads."""

    position: int


class Rules:
    """Checks of one instruction, and the operands that were checked, by their parameters.

    Every method raises NkiValidationError for a broken rule. ``writes`` and ``reads`` are in the
    order in which an instruction's arithmetic takes them.
    """

    def __init__(self, instruction: str) -> None:
        self.instruction = instruction
        self.chip: NeuronCore = active().chip
        self.writes: Tiles = {}
        self.reads: Tiles = {}

    @property
    def in_psum(self) -> bool:
        """Whether an operand is in PSUM."""
        tiles = (*self.writes.values(), *self.reads.values())
        return any(t.buffer is MemoryRegion.psum for t in tiles)

    def fail(self, operand: str, value: object, rule: str) -> NkiValidationError:
        """Returns the error to raise."""
        return NkiValidationError(self.instruction, operand, value, rule)

    # Operands.

    def tensor(self, name: str, t: object) -> NkiTensor:
        """Checks that ``t`` is a tensor."""
        if not isinstance(t, NkiTensor):
            raise self.fail(name, brief(t), NO_TENSOR)
        return t

    def tile(
        self, name: str, t: object, memory: Memories = CHIP_MEMORY, dtype: Iterable[str] = ()
    ) -> NkiTensor:
        """Checks a tile that an instruction reads, in a memory and of a dtype that are allowed."""
        t = self.reads[name] = self._addressed(name, t, memory)
        if dtype:
            self.dtype(name, t, dtype)
        return t

    def _addressed(self, name: str, t: object, memory: Memories = CHIP_MEMORY) -> NkiTensor:
        """Checks that ``t`` is a tile that an engine can address in one instruction."""
        t = self.tensor(name, t)
        if t.buffer not in memory:
            allowed = " or ".join(m.value.upper() for m in memory)
            load = "load it by nisa.dma_copy first"
            if name == "dst":
                load = "write to a tile, and copy the tile to HBM by nisa.dma_copy"
            rule = f"must be in {allowed}" + ("" if t.buffer in ON_CHIP else f": {load}")
            raise self.fail(name, f"a tensor in {t.buffer.value}", rule)
        self._partitions(name, t)
        if t.buffer is MemoryRegion.psum:
            self._psum_start(name, t)
        free = [(n, s) for n, s in zip(t.shape[1:], t.strides[1:], strict=True)]
        if len(free) > hardware.MAX_FREE_DIMENSIONS:
            rule = f"must have at most {hardware.MAX_FREE_DIMENSIONS} free dimensions"
            raise self.fail_shape(name, t, rule)
        for n, stride in free:
            if n > 1 and stride > hardware.MAX_ELEMENT_STRIDE:
                rule = f"strides are at most {hardware.MAX_ELEMENT_STRIDE} elements (int16)"
                raise self.fail(name, f"a tile with stride {stride}", rule)
            if n > hardware.MAX_ELEMENT_COUNT:
                rule = f"a dimension has at most {hardware.MAX_ELEMENT_COUNT} elements (uint16)"
                raise self.fail(name, f"a tile with a dimension of size {n}", rule)
        return t

    def _partitions(self, name: str, t: NkiTensor) -> None:
        count = t.shape[0]
        if count > hardware.PARTITIONS:
            rule = f"a tile has at most {hardware.PARTITIONS} partitions"
            raise self.fail_partitions(name, t, rule)
        allowed = (0,) if count > 64 else (0, 64) if count > 32 else (0, 32, 64, 96)
        self.starts_at(name, t, allowed, f"{count} partitions must start at one of {allowed}")

    def _psum_start(self, name: str, t: NkiTensor) -> None:
        """Checks that a tile in PSUM begins at a multiple of 4 bytes.

        This is nl.tile_size.psum_min_align (nki/api/nki.language.tile_size.rst). The verifier of
        neuronx-cc refuses other destinations of nc_transpose (vllm-neuron, functional/glue). AWS's
        nki-library pads its slots to 4 bytes (core/subkernels/norm_tkg_utils.py).
        """
        byte = t.offset % t._free * dtypes.itemsize(t.dtype)
        if byte % hardware.PSUM_ALIGNMENT_BYTES:
            rule = (
                f"an access to PSUM begins at a multiple of {hardware.PSUM_ALIGNMENT_BYTES} bytes "
                f"(nl.tile_size.psum_min_align): pad each slot of {t.dtype} to such a multiple"
            )
            value = f"a view that begins at byte {byte} of {t.storage.describe()}"
            raise self.fail(name, value, rule)

    def output(
        self, name: str, t: object, memory: Memories = CHIP_MEMORY, dtype: Iterable[str] = ()
    ) -> NkiTensor:
        """Checks a tile that an instruction writes, which must not write an element twice."""
        t = self.writes[name] = self._addressed(name, t, memory)
        self.written_once(name, t)
        if dtype:
            self.dtype(name, t, dtype)
        return t

    def elementwise(
        self,
        dst: NkiTensor,
        reduce_res: object = None,
        memory: Memories = CHIP_MEMORY,
        **tiles: NkiTensor,
    ) -> None:
        """Checks ``dst`` and the tiles that are combined into it, element by element.

        Where ``reduce_res`` is given, ``dst`` may be a sink: a view with strides of 0 in its free
        dimensions, so that one element for each partition receives all results. Its final value is
        undefined.
        """
        if reduce_res is None or not is_sink(self._addressed("dst", dst)):
            self.output("dst", dst, memory)
        self.writes["dst"] = dst
        for name, t in tiles.items():
            self.tile(name, t, memory)
        self.same_elements(dst=dst, **tiles)

    def operands(self, dst: NkiTensor, memory: Memories = CHIP_MEMORY, **tiles: NkiTensor) -> None:
        """Checks ``dst``, and tiles that are read, all of which have as many partitions."""
        self.output("dst", dst, memory)
        for name, t in tiles.items():
            self.tile(name, t, memory)
        self.same_partitions(dst=dst, **tiles)

    def written_once(self, name: str, t: NkiTensor) -> None:
        """Checks that no element of ``t`` is written twice, because the order is undocumented."""
        shape, strides = t.shape, t.strides
        if t._dynamic is not None and t._dynamic.kind == "vector":  # data determines the rows
            shape, strides = shape[1:], strides[1:]
        if any(n > 1 and s == 0 for n, s in zip(shape, strides, strict=True)):
            rule = "a broadcast view cannot be written, as several results share an element"
            raise self.fail(name, "a broadcast view", rule)
        if repeats(shape, strides):
            rule = "one instruction writes an element twice, so that its value is undefined"
            raise self.fail(name, f"a view with the access pattern {t.get_pattern()}", rule)

    def same_partitions(self, **tiles: NkiTensor) -> None:
        """Checks that all operands cover the same number of partitions."""
        counts = {name: t.shape[0] for name, t in tiles.items()}
        if len(set(counts.values())) > 1:
            rule = "all operands must cover the same number of partitions"
            raise self.fail("the number of partitions", _by_operand(counts), rule)

    def same_elements(self, **tiles: NkiTensor) -> None:
        """Checks that all operands have as many partitions, and elements a partition."""
        self.same_partitions(**tiles)
        counts = {name: free_size(t) for name, t in tiles.items()}
        if len(set(counts.values())) > 1:
            rule = "all operands must have the same number of elements a partition"
            raise self.fail("the number of elements a partition", _by_operand(counts), rule)

    def free_size_is(self, name: str, t: NkiTensor, n: int) -> None:
        """Checks that ``t`` has ``n`` elements a partition."""
        if free_size(t) != n:
            value = f"a tile with {_elements(free_size(t))} a partition"
            raise self.fail(name, value, f"must have {_elements(n)} a partition")

    def fail_free_size(self, name: str, t: NkiTensor, rule: str) -> NkiValidationError:
        """Returns the error about a number of elements a partition."""
        return self.fail(name, f"a tile with {free_size(t)} elements a partition", rule)

    def fail_shape(self, name: str, t: NkiTensor, rule: str) -> NkiValidationError:
        """Returns the error about the shape of a tile."""
        return self.fail(name, f"a tile of shape {t.shape}", rule)

    def fail_partitions(self, name: str, t: NkiTensor, rule: str) -> NkiValidationError:
        """Returns the error about a number of partitions."""
        return self.fail(name, f"a tile of {t.shape[0]} partitions", rule)

    def partitions_in(self, name: str, t: NkiTensor, multiple: int) -> None:
        """Checks that ``t`` has a multiple of so many partitions."""
        if t.shape[0] % multiple:
            raise self.fail_partitions(name, t, f"must have a multiple of {multiple} partitions")

    def starts_at(self, name: str, t: NkiTensor, allowed: Container[int], rule: str) -> None:
        """Checks that the first partition of ``t`` is one of ``allowed``."""
        if start_partition(t) not in allowed:
            raise self.fail(name, f"a tile that starts at partition {start_partition(t)}", rule)

    def not_both_psum(self, **tiles: NkiTensor) -> None:
        """Checks that at most one operand is in PSUM, because VectorE reads only one from there."""
        if all(t.buffer is MemoryRegion.psum for t in tiles.values()):
            rule = "at most one of them may be in PSUM: copy one to SBUF by nisa.tensor_copy"
            raise self.fail(f"the memory of {' and '.join(tiles)}", "PSUM", rule)

    def is_column(self, value: Operand | None, name: str, data: NkiTensor) -> TypeIs[NkiTensor]:
        """Returns whether ``value`` is a (partitions, 1) tile (True) or a number (False)."""
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

    def column_or_number(self, name: str, value: Operand, data: NkiTensor) -> Column | np.float32:
        """Returns a number as float32, or the place of a (partitions, 1) tile among the reads."""
        if not self.is_column(value, name, data):
            return np.float32(value)
        return Column(len(self.reads) - 1)

    def float32_column(self, name: str, value: Operand, data: NkiTensor) -> Column | np.float32:
        """Returns a number, or a column among the reads, which must be float32."""
        found = self.column_or_number(name, value, data)
        if isinstance(value, NkiTensor):
            self.float32(name, value)
        return found

    def accumulated(self, reduce_res: NkiTensor | None, **operand: NkiTensor) -> None:
        """Checks ``reduce_res``: None, or a written tile with one element a partition."""
        if reduce_res is not None:
            self.output("reduce_res", reduce_res)
            self.same_partitions(**operand, reduce_res=reduce_res)
            self.free_size_is("reduce_res", reduce_res, 1)

    def float32(self, name: str, t: NkiTensor) -> None:
        """Checks that ``t`` is float32."""
        self.dtype(name, t, ("float32",))

    def dtype(self, name: str, t: NkiTensor, allowed: Iterable[str]) -> None:
        """Checks that ``t.dtype`` is one of ``allowed``."""
        if t.dtype not in allowed:
            raise self.fail(
                f"{name}.dtype", t.dtype, f"must be one of {', '.join(sorted(allowed))}"
            )

    def same_dtype(self, **tiles: NkiTensor) -> None:
        """Checks that all operands have the same dtype."""
        found = {name: t.dtype for name, t in tiles.items()}
        if len(set(found.values())) > 1:
            raise self.fail("dtype", _by_operand(found), "all operands must have the same dtype")

    # Settings.

    def member(self, name: str, value: object, enum: type[Enum]) -> None:
        """Checks that ``value`` is a member of ``enum``. NKI refuses integers since 0.3.0."""
        if not isinstance(value, enum):
            rule = (
                f"must be a member of nki.isa.{enum.__name__}, such as nki.isa.{next(iter(enum))}"
            )
            raise self.fail(name, repr(value), rule)

    def generation(self, name: str, value: object, first: int) -> None:
        """Checks that the chip is NeuronCore-v``first`` or newer, which a feature needs."""
        if self.chip.generation < first:
            rule = (
                f"this needs NeuronCore-v{first} or newer, and {self.chip.name} has "
                f"NeuronCore-v{self.chip.generation}"
            )
            raise self.fail(name, value, rule)

    def arithmetic(self, name: str, op: Op, kind: str) -> Operator:
        """Returns the Operator of ``op`` like `operator`; refuses operators on bit patterns."""
        found = self.operator(name, op, kind)
        if found.bitvec:
            rule = "must be an arithmetic operator, not a bitvec operator"
            raise self.fail(name, f"nl.{found.name}", rule)
        return found

    def operator(self, name: str, op: Op, kind: str) -> Operator:
        """Returns the Operator of ``op``, which must be of a kind.

        ``kind`` is "binary", "unary_or_binary", "reduction" or "activation".
        """
        found = operator_of(op)
        if found is None:
            raise self.fail(name, repr(op), "must be an operator of nki.language, such as nl.add")
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
            raise self.fail(name, f"nl.{found.name}", f"must be {_KINDS[kind]}")
        self.generation(name, f"nl.{found.name}", found.first_generation)
        return found

    def integers(self, **tiles: NkiTensor) -> None:
        """Checks that operands are integers, because bitvec operators work on bit patterns."""
        for name, t in tiles.items():
            if t.dtype not in dtypes.INTEGERS:
                raise self.fail(f"{name}.dtype", t.dtype, "bitvec operators need integer dtypes")

    def choose(self, requested: engine, preferred: str, **allowed: str) -> str:
        """Returns the name of the engine to use.

        ``allowed`` maps an engine to the reason for which it is refused, or to "".
        """
        self.member("engine", requested, engine)
        chosen = preferred if requested is engine.unknown else requested.name
        engines = ", ".join(one for one, reason in allowed.items() if not reason)
        refusal = allowed.get(chosen, f"the allowed engines are {engines}")
        if refusal:
            raise self.fail("engine", chosen, refusal)
        if chosen == "gpsimd" and self.in_psum:
            rule = "GpSimdE cannot access PSUM: choose another engine, or a tile in SBUF"
            raise self.fail("engine", "gpsimd", rule)
        return chosen

    def command(self, cmd: reduce_cmd, instruction: str) -> None:
        """Checks a command for accumulator registers that an instruction cannot load."""
        self.member("reduce_cmd", cmd, reduce_cmd)
        if cmd is reduce_cmd.load_reduce:
            raise self.fail("reduce_cmd", cmd.name, f"{instruction} does not support it")


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def _by_operand(values: Mapping[str, object]) -> str:
    # Such as "128 for dst, 64 for src".
    return ", ".join([f"{value} for {name}" for name, value in values.items()])


def column_of(operand: Column | np.float32, ins: list[Array]) -> Array:
    """Returns a float32 number for each partition, or one for all, as a column."""
    held = ins[operand.position] if isinstance(operand, Column) else operand
    return np.asarray(held, np.float32).reshape(-1, 1)


def is_sink(t: NkiTensor) -> bool:
    """Returns whether a tile has one element a partition that stands for several elements."""
    free = zip(t.shape[1:], t.strides[1:], strict=True)
    return free_size(t) > 1 and all(n == 1 or stride == 0 for n, stride in free)


def start_partition(t: NkiTensor) -> int:
    """Returns the first physical partition of a view in SBUF or PSUM."""
    return t.offset // t._free + int(t.storage.start_partition)


def lanes_of(t: NkiTensor) -> slice:
    """Returns the lanes of an engine that process a tile. They are the tile's partitions."""
    start = start_partition(t)
    return slice(start, start + t.shape[0])


def stored(dst: NkiTensor, value_of: Callable[[list[Array]], Array]) -> Run:
    """Returns the arithmetic of an instruction that writes one value, in the shape of ``dst``."""
    shape, dtype = dst.shape, dst.dtype

    def run(outs: list[Array], ins: list[Array]) -> None:
        dtypes.store(outs[0], value_of(ins).reshape(shape), dtype)

    return run


def free_size(t: NkiTensor) -> int:
    """Returns the number of elements a partition."""
    return math.prod(t.shape[1:])


def bank_span(t: NkiTensor, bank_bytes: int) -> int:
    """Returns the number of PSUM banks that a view touches."""
    size = dtypes.itemsize(t.dtype)
    first = (t.offset % t._free) * size + (t.storage.address or 0)
    last = first + extent(t.shape[1:], t.strides[1:]) * size - 1
    return last // bank_bytes - first // bank_bytes + 1


def on_chip(t: NkiTensor) -> bool:
    """Returns whether a tensor is in SBUF or PSUM."""
    return t.buffer in ON_CHIP
