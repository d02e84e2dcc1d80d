"""Random numbers of VectorE and GpSimdE, by XORWOW.

Distributions, sizes of states and that equal seeds give equal numbers are documented. The bits are
not: which words of a state are which, how a seed fills it, and how elements are dealt out to the
four states of a lane of VectorE are assumptions here. NeuronCore-v2 and -v3 have another generator
in VectorE (trainium3_arch.rst). So a chip gives other numbers of the same distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_kernels import hardware

from .. import dtypes
from ..enums import MemoryRegion, engine
from ..issue import Issue, instruction
from ..session import active
from ..tensor import NkiTensor
from .costs import stream
from .rules import SBUF, Rules, free_size, lanes_of

_WORDS = 6  # of a state
_STREAMS = {"vector": 4, "gpsimd": 1}  # states of a lane [isa rand_set_state]
_RANDOM_INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
_UNIFORM_DTYPES = (
    *("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"),
    *_RANDOM_INTEGERS,
)
_NUMBERS_A_CYCLE = 4  # of a lane of VectorE from v4 on [v4, random numbers]
_VECTOR, _GPSIMD = engine.vector, engine.gpsimd


class _Xorwow:
    """The states of an engine's lanes, each a generator of 32 bits."""

    def __init__(self, streams: int, seed: int) -> None:
        shape = (hardware.PARTITIONS, streams, _WORDS)
        words = np.random.default_rng(seed).integers(1, 1 << 32, shape, np.uint32)
        self.states = np.moveaxis(words, -1, 0).copy()

    def draw(self, lanes: slice, count: int) -> Any:
        """(lanes, count) numbers of 32 bits."""
        states = self.states[:, lanes]
        streams = states.shape[2]
        steps = -(-count // streams)
        found = np.empty((states.shape[1], steps, streams), np.uint32)
        x, y, z, w, v, d = states
        for step in range(steps):
            t = x ^ (x >> np.uint32(2))
            x, y, z, w = y, z, w, v
            v = (v ^ (v << np.uint32(4))) ^ (t ^ (t << np.uint32(1)))
            d = d + np.uint32(362437)
            found[:, step] = d + v
        self.states[:, lanes] = x, y, z, w, v, d
        return found.reshape(len(found), -1)[:, :count]


def _generator(name: str) -> _Xorwow:
    """Of an engine; before a kernel seeds it, in the state of the seed 0."""
    generators = active().generators
    if name not in generators:
        generators[name] = _Xorwow(_STREAMS[name], 0)
    return generators[name]  # type: ignore[no-any-return]


def _draw(name: str, like: Any, lanes: slice) -> Any:
    """32 random bits for each element of an array."""
    count = like.size // len(like)
    return _generator(name).draw(lanes, count).reshape(like.shape)


def _uniform(name: str, like: Any, lanes: slice) -> Any:
    """Numbers from 0 on, below 1, of 24 bits, so that float32 holds them."""
    return (_draw(name, like, lanes) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _factor(rules: Rules, name: str) -> float:
    fast = rules.chip.generation >= 4 and name == "vector"
    return 1 / _NUMBERS_A_CYCLE if fast else 1.0


@instruction
def rng(dst: NkiTensor, engine: engine = engine.vector, name: str | None = None) -> Issue:
    """Random bits for each element of an integer tile, on VectorE, or GpSimdE from v3 on."""
    rules = Rules("nisa.rng")
    rules.output("dst", dst)
    rules.dtype("dst", dst, _RANDOM_INTEGERS)
    gpsimd = "" if rules.chip.generation >= 3 else "only from NeuronCore-v3 on"
    psum = dst.buffer is MemoryRegion.psum
    chosen = rules.choose(engine, {_VECTOR: "", _GPSIMD: gpsimd}, _VECTOR, psum)
    lanes = lanes_of(dst)

    def run(outs: list[Any], ins: list[Any]) -> None:
        bits = _draw(chosen, outs[0], lanes)
        outs[0][...] = bits.astype(f"u{outs[0].itemsize}").view(outs[0].dtype)

    return stream(rules.instruction, chosen, run, {"dst": dst}, {}, _factor(rules, chosen))


@instruction
def rand2(dst: NkiTensor, min: Any, max: Any, name: str | None = None) -> Issue:
    """Uniform random numbers from ``min`` to ``max``: numbers or float32 columns. VectorE of v4."""
    rules = Rules("nisa.rand2")
    rules.generation("instruction", "rand2", 4)
    rules.output("dst", dst)
    rules.dtype("dst", dst, _UNIFORM_DTYPES)
    reads: dict[str, NkiTensor] = {}
    for label, bound in (("min", min), ("max", max)):
        if rules.scalar_or_vector(label, bound, dst):
            rules.float32(label, bound)
            reads[label] = bound
    name_, shape, lanes, names = dst.dtype, dst.shape, lanes_of(dst), list(reads)
    bounds = {"min": min, "max": max}

    def column(label: str, ins: list[Any]) -> Any:
        held = ins[names.index(label)] if label in names else bounds[label]
        return np.asarray(held, np.float32).reshape(-1, 1)

    def run(outs: list[Any], ins: list[Any]) -> None:
        low, high = column("min", ins), column("max", ins)
        _check_range(rules, low, high)
        value = low + (high - low) * _uniform("vector", outs[0], lanes).reshape(shape[0], -1)
        dtypes.store(outs[0], value.astype(np.float32).reshape(shape), name_)

    if not reads:
        _check_range(rules, *(column(label, []) for label in bounds))
    factor = _factor(rules, "vector")
    return stream(rules.instruction, "vector", run, {"dst": dst}, reads, factor, free_size(dst))


def _check_range(rules: Rules, low: Any, high: Any) -> None:
    low, high = np.broadcast_arrays(low, high)
    wrong = ~(low < high)
    if wrong.any():
        raise rules.fail("min, max", (low[wrong][0], high[wrong][0]), "min must be below max")


@instruction
def dropout(dst: NkiTensor, data: NkiTensor, prob: Any, name: str | None = None) -> Issue:
    """``data`` with elements replaced by zero with probability ``prob``, a number or a column."""
    rules = Rules("nisa.dropout")
    rules.output("dst", dst)
    rules.tile("data", data)
    rules.same_elements(dst=dst, data=data)
    rules.same_dtype(dst=dst, data=data)
    reads = {"data": data}
    is_tile = rules.scalar_or_vector("prob", prob, data)
    if is_tile:
        is_integer = data.dtype in dtypes.INTEGERS
        rules.dtype("prob", prob, ("float32",) if is_integer else dtypes.FLOATS)
        reads["prob"] = prob
    elif not 0 <= float(prob) <= 1:
        raise rules.fail("prob", prob, "must be a probability, from 0 to 1")
    shape, lanes = dst.shape, lanes_of(data)

    def run(outs: list[Any], ins: list[Any]) -> None:
        value = ins[0].reshape(shape[0], -1)
        chance = dtypes.to_float32(ins[1]).reshape(-1, 1) if is_tile else np.float32(prob)
        kept = _uniform("vector", value, lanes) >= chance
        outs[0][...] = np.where(kept, value, np.zeros((), value.dtype)).reshape(shape)

    return stream(rules.instruction, "vector", run, {"dst": dst}, reads)


@instruction
def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> Issue:
    """Seed VectorE's generator with the 32 bits of a [1, 1] tile."""
    rules = Rules("nisa.set_rng_seed")
    rules.tile("src_seeds", src_seeds)
    if src_seeds.shape != (1, 1):
        raise rules.fail("src_seeds", f"shape {src_seeds.shape}", "must be (1, 1)")
    if dtypes.itemsize(src_seeds.dtype) != 4:
        raise rules.fail("src_seeds.dtype", src_seeds.dtype, "must have 32 bits")

    def run(outs: list[Any], ins: list[Any]) -> None:
        seed = int(ins[0].reshape(-1).view(np.uint32)[0])
        active().generators["vector"] = _Xorwow(_STREAMS["vector"], seed)

    return stream(rules.instruction, "vector", run, {}, {"src_seeds": src_seeds})


def _state_engine(rules: Rules, requested: Any, operand: str, t: NkiTensor) -> str:
    """The engine, and the sizes of its states."""
    rules.generation("instruction", rules.instruction, 3)
    vector = "" if rules.chip.generation >= 4 else "only from NeuronCore-v4 on"
    chosen = rules.choose(requested, {_GPSIMD: "", _VECTOR: vector}, _GPSIMD, False)
    rules.dtype(operand, t, ("uint32",))
    words = _STREAMS[chosen] * _WORDS
    if t.ndim != 2 or t.shape[1] != words:
        rule = f"must be (lanes, {words}): the state of a lane of engine.{chosen}"
        raise rules.fail(operand, f"shape {t.shape}", rule)
    return chosen


@instruction
def rand_set_state(
    src_seeds: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None
) -> Issue:
    """Set the state of each lane: 6 words for GpSimdE, 24 for VectorE (v4)."""
    rules = Rules("nisa.rand_set_state")
    rules.tile("src_seeds", src_seeds, SBUF)
    chosen = _state_engine(rules, engine, "src_seeds", src_seeds)
    lanes, streams = lanes_of(src_seeds), _STREAMS[chosen]

    def run(outs: list[Any], ins: list[Any]) -> None:
        words = ins[0].reshape(-1, streams, _WORDS)
        _generator(chosen).states[:, lanes] = np.moveaxis(words, -1, 0)

    return stream(rules.instruction, chosen, run, {}, {"src_seeds": src_seeds})


@instruction
def rand_get_state(
    dst: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None
) -> Issue:
    """Store the state of each lane: 6 words of GpSimdE, 24 of VectorE (v4)."""
    rules = Rules("nisa.rand_get_state")
    rules.output("dst", dst)
    chosen = _state_engine(rules, engine, "dst", dst)
    psum = dst.buffer is MemoryRegion.psum
    if psum and (chosen == "gpsimd" or rules.chip.generation < 4):
        raise rules.fail("dst", "PSUM tensor", "must be in SBUF, but for VectorE of v4")
    lanes = lanes_of(dst)

    def run(outs: list[Any], ins: list[Any]) -> None:
        words = np.moveaxis(_generator(chosen).states[:, lanes], 0, -1)
        outs[0][...] = words.reshape(outs[0].shape)

    return stream(rules.instruction, chosen, run, {"dst": dst}, {})
