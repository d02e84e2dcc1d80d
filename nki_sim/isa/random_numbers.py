"""Random numbers of VectorE and GpSimdE, by the generator XORWOW.

Documents specify the distributions, the sizes of states, and that equal seeds give equal numbers.
They do not specify the bits. The order of the words in a state, how a seed fills a state, and how
elements are distributed to the four states of a lane of VectorE are assumptions here. VectorE of
NeuronCore-v2 and -v3 has another generator (trainium3_arch.rst). So a chip produces other numbers
of the same distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import engine
from nki_sim.instructions.instruction import instruction
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active
from nki_sim.views.tensor import NkiTensor

from .costs import stream
from .rules import SBUF, Operand, Rules, column_of, free_size, lanes_of

_WORDS = 6  # in a state
_STREAMS = {"vector": 4, "gpsimd": 1}  # states in a lane [isa rand_set_state]
_RANDOM_INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
_UNIFORM_DTYPES = (
    *("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"),
    *_RANDOM_INTEGERS,
)
_NUMBERS_A_CYCLE = 4  # in a lane of VectorE, from v4 on [v4, random numbers]


class _Xorwow:
    """The states of an engine's lanes. Each state generates numbers of 32 bits."""

    def __init__(self, streams: int, seed: int) -> None:
        shape = (hardware.PARTITIONS, streams, _WORDS)
        words = np.random.default_rng(seed).integers(1, 1 << 32, shape, np.uint32)
        self.states = np.moveaxis(words, -1, 0).copy()

    def draw(self, lanes: slice, count: int) -> Any:
        """Returns (lanes, count) numbers of 32 bits."""
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
    """Returns the generator of an engine, which has the seed 0 until a kernel seeds it."""
    generators = active().generators
    if name not in generators:
        generators[name] = _Xorwow(_STREAMS[name], 0)
    return generators[name]


def _draw(name: str, like: Array, lanes: slice) -> Any:
    count = like.size // len(like)
    return _generator(name).draw(lanes, count).reshape(like.shape)


def _uniform(like: Array, lanes: slice) -> Any:
    # 24 bits of VectorE, which float32 holds exactly.
    return (_draw("vector", like, lanes) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _factor(rules: Rules, name: str) -> float:
    fast = rules.chip.generation >= 4 and name == "vector"
    return 1 / _NUMBERS_A_CYCLE if fast else 1.0


@instruction
def rng(dst: NkiTensor, engine: engine = engine.vector) -> Issue:
    """Fills an integer tile with random bits, on VectorE, or from v3 on also on GpSimdE."""
    rules = Rules("nisa.rng")
    rules.output("dst", dst, dtype=_RANDOM_INTEGERS)
    gpsimd = "" if rules.chip.generation >= 3 else "GpSimdE has rng from NeuronCore-v3 on only"
    chosen = rules.choose(engine, "vector", vector="", gpsimd=gpsimd)
    lanes = lanes_of(dst)

    def run(outs: list[Array], ins: list[Array]) -> None:
        bits = _draw(chosen, outs[0], lanes)
        outs[0][...] = bits.astype(f"u{outs[0].itemsize}").view(outs[0].dtype)

    return _with_state(stream(rules, chosen, run, _factor(rules, chosen)))


@instruction
def rand2(dst: NkiTensor, min: Operand, max: Operand) -> Issue:
    """Fills a tile with uniform random numbers from ``min`` to ``max``, on VectorE of v4.

    ``min`` and ``max`` are numbers or (partitions, 1) tiles of float32.
    """
    rules = Rules("nisa.rand2")
    rules.generation("instruction", "rand2", 4)
    rules.output("dst", dst, dtype=_UNIFORM_DTYPES)
    bounds = [
        rules.float32_column(label, bound, dst) for label, bound in (("min", min), ("max", max))
    ]
    name_, shape, lanes = dst.dtype, dst.shape, lanes_of(dst)

    def run(outs: list[Array], ins: list[Array]) -> None:
        low, high = [column_of(bound, ins) for bound in bounds]
        _check_range(rules, low, high)
        value = low + (high - low) * _uniform(outs[0], lanes).reshape(shape[0], -1)
        dtypes.store(outs[0], value.astype(np.float32).reshape(shape), name_)

    if not rules.reads:
        _check_range(rules, *[column_of(bound, []) for bound in bounds])
    factor = _factor(rules, "vector")
    return _with_state(stream(rules, "vector", run, factor, free_size(dst)))


def _check_range(rules: Rules, low: Array, high: Array) -> None:
    low, high = np.broadcast_arrays(low, high)
    wrong = ~(low < high)
    if wrong.any():
        raise rules.fail("(min, max)", (low[wrong][0], high[wrong][0]), "min must be below max")


@instruction
def dropout(dst: NkiTensor, data: NkiTensor, prob: Operand) -> Issue:
    """Replaces each element of ``data`` by zero with probability ``prob``.

    ``prob`` is a number or a (partitions, 1) tile.
    """
    rules = Rules("nisa.dropout")
    rules.elementwise(dst, data=data)
    rules.same_dtype(dst=dst, data=data)
    chance = rules.column_or_number("prob", prob, data)
    if isinstance(prob, NkiTensor):
        is_integer = data.dtype in dtypes.INTEGERS
        rules.dtype("prob", prob, ("float32",) if is_integer else dtypes.FLOATS)
    elif not 0 <= float(prob) <= 1:
        raise rules.fail("prob", prob, "must be a probability, from 0 to 1")
    shape, lanes = dst.shape, lanes_of(data)

    def run(outs: list[Array], ins: list[Array]) -> None:
        value = ins[0].reshape(shape[0], -1)
        kept = _uniform(value, lanes) >= column_of(chance, ins)
        outs[0][...] = np.where(kept, value, np.zeros((), value.dtype)).reshape(shape)

    return _with_state(stream(rules, "vector", run))


@instruction
def set_rng_seed(src_seeds: NkiTensor) -> Issue:
    """Seeds VectorE's generator with the 32 bits of a (1, 1) tile."""
    rules = Rules("nisa.set_rng_seed")
    rules.tile("src_seeds", src_seeds)
    if src_seeds.shape != (1, 1):
        raise rules.fail_shape("src_seeds", src_seeds, "must have the shape (1, 1)")
    if dtypes.itemsize(src_seeds.dtype) != 4:
        raise rules.fail("src_seeds.dtype", src_seeds.dtype, "must be a dtype of 32 bits")

    def run(outs: list[Array], ins: list[Array]) -> None:
        seed = int(ins[0].reshape(-1).view(np.uint32)[0])
        active().generators["vector"] = _Xorwow(_STREAMS["vector"], seed)

    return _with_state(stream(rules, "vector", run))


def _state_engine(rules: Rules, requested: engine, operand: str, t: NkiTensor) -> str:
    """Returns the engine, after a check that ``t`` has the size of its states."""
    rules.generation("instruction", rules.instruction, 3)
    vector = "" if rules.chip.generation >= 4 else "VectorE has it from NeuronCore-v4 on only"
    chosen = rules.choose(requested, "gpsimd", gpsimd="", vector=vector)
    rules.dtype(operand, t, ("uint32",))
    words = _STREAMS[chosen] * _WORDS
    if t.ndim != 2 or t.shape[1] != words:
        rule = (
            f"must have the shape (lanes, {words}), as a lane of engine.{chosen} has a state of "
            f"{words} words"
        )
        raise rules.fail_shape(operand, t, rule)
    return chosen


@instruction
def rand_set_state(src_seeds: NkiTensor, engine: engine = engine.gpsimd) -> Issue:
    """Sets the state of each lane: 6 words of GpSimdE, or 24 words of VectorE (v4)."""
    rules = Rules("nisa.rand_set_state")
    rules.tile("src_seeds", src_seeds, SBUF)
    chosen = _state_engine(rules, engine, "src_seeds", src_seeds)
    lanes, streams = lanes_of(src_seeds), _STREAMS[chosen]

    def run(outs: list[Array], ins: list[Array]) -> None:
        words = ins[0].reshape(-1, streams, _WORDS)
        _generator(chosen).states[:, lanes] = np.moveaxis(words, -1, 0)

    return _with_state(stream(rules, chosen, run))


@instruction
def rand_get_state(dst: NkiTensor, engine: engine = engine.gpsimd) -> Issue:
    """Stores the state of each lane: 6 words of GpSimdE, or 24 words of VectorE (v4)."""
    rules = Rules("nisa.rand_get_state")
    chosen = _state_engine(rules, engine, "dst", rules.tensor("dst", dst))
    rules.output("dst", dst)
    if rules.in_psum and (chosen == "gpsimd" or rules.chip.generation < 4):
        rule = "must be in SBUF, except for VectorE of NeuronCore-v4"
        raise rules.fail("dst", "a tensor in PSUM", rule)
    lanes = lanes_of(dst)

    def run(outs: list[Array], ins: list[Array]) -> None:
        words = np.moveaxis(_generator(chosen).states[:, lanes], 0, -1)
        outs[0][...] = words.reshape(outs[0].shape)

    return _with_state(stream(rules, chosen, run))


def _with_state(issue: Issue) -> Issue:
    """Keeps the order of instructions that read or write an engine's state of random numbers."""
    issue.uses_state = True
    return issue
