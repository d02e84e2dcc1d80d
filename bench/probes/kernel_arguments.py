"""Arguments of a launch and of a helper: tensors in tuples, and arguments with default values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.probes.moves import combined, load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

SHAPE = (128, 64)


@nki.jit
def difference_of_tuple(tensors):
    """Returns a - b of the tuple (a, b), which is one argument."""
    return stored(subtracted(load(tensors[0]), load(tensors[1])))


@nki.jit
def difference_of_nested(tensors):
    """Returns a - b of (a, (), ((b,),)), which is one argument."""
    return stored(subtracted(load(tensors[0]), load(tensors[2][0][0])))


@nki.jit
def difference(a, b):
    """Returns a - b, where each is an argument of its own."""
    return stored(subtracted(load(a), load(b)))


def subtracted(a: Any, b: Any) -> Any:
    """Returns a - b in a new tile."""
    return combined(a, b, nl.subtract, nisa.engine.vector)


@nki.jit
def scaled_by_default(x):
    """Returns 3 x, by a helper whose factor has its default value."""
    return stored(scaled(load(x)))


@nki.jit
def scaled_by_keyword(x):
    """Returns 6 x, by the same helper with the factor as a keyword."""
    return stored(scaled(load(x), factor=6.0))


@nki.jit
def tripled(x):
    """Returns 3 x, by the same helper with positional arguments only."""
    return stored(scaled(load(x), 3.0))


@nki.jit
def sextupled(x):
    """Returns 6 x, by the same helper with positional arguments only."""
    return stored(scaled(load(x), 6.0))


def scaled(tile: Any, factor: float = 3.0) -> Any:
    """Returns the tile times a factor, in a new tile."""
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=result, data=tile, op0=nl.multiply, operand0=factor, engine=nisa.engine.vector
    )
    return result


def two(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, *SHAPE), normal(generator, *SHAPE)


def one(generator: np.random.Generator, count: int) -> Arguments:
    return (normal(generator, *SHAPE),)


def exact_difference(a: Array, b: Array) -> Array:
    return a.astype(float) - b


def exact_scaled(x: Array, factor: float) -> Array:
    return factor * x.astype(float)


def in_a_tuple(arguments: Arguments) -> Arguments:
    return (arguments,)


def nested(arguments: Arguments) -> Arguments:
    a, b = arguments
    return ((a, (), ((b,),)),)


def of_tensors(name: str, kernel: Any, packed: Any, question: str) -> Probe:
    """Returns a probe whose tensors are not arguments of their own."""
    return Probe(
        name=name,
        question=question,
        record="hardware records 3.1: wrap_nki in torch_neuronx and vllm_neuron, read in code",
        kernel=kernel,
        twin=difference,
        arguments=two,
        exact=exact_difference,
        rule="tensors-in-sequences",
        packed=packed,
        per_framework=True,
    )


def of_helpers(name: str, kernel: Any, twin: Any, factor: float, question: str) -> Probe:
    """Returns a probe of a helper that is called with less than all positional arguments."""
    return Probe(
        name=name,
        question=question,
        record="hardware records 2: vllm-neuron's comments against nki-library's use",
        kernel=kernel,
        twin=twin,
        arguments=one,
        exact=partial(exact_scaled, factor=factor),
        settles=f"lint's contested rule {name}",
    )


PROBES = (
    of_tensors(
        "tensors-in-a-tuple",
        difference_of_tuple,
        in_a_tuple,
        "tensors in a tuple as an argument: do they reach the kernel?",
    ),
    of_tensors(
        "tensors-in-nested-tuples",
        difference_of_nested,
        nested,
        "tensors in tuples of tuples, an empty one among them: do they reach the kernel?",
    ),
    of_helpers(
        "helper-default",
        scaled_by_default,
        tripled,
        3.0,
        "a helper's argument left to its default: does it get that?",
    ),
    of_helpers(
        "helper-keyword",
        scaled_by_keyword,
        sextupled,
        6.0,
        "a helper's argument given as a keyword, other than its default: does it get that?",
    ),
)
