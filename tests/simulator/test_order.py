"""depends_on and with_schedule: legal edges reorder instructions, and every run refuses cycles.

Source: nki.isa.NkiInstruction.depends_on ("this instruction runs after every listed producer
completes", a semaphore wait that must not deadlock) and nki/guides/how-to-scheduling-apis.rst
(instructions without data dependencies "could execute in any order").
"""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nl
from nki_sim import NkiValidationError

from .conftest import blocks, kernel_of

SHAPE = (4, 4)


def tile():
    return nl.ndarray(SHAPE, nl.float32, buffer=nl.sbuf)


def fill(dst=None):
    return nisa.memset(tile() if dst is None else dst, 0)


CIRCULAR = blocks("""
each other
    first, second = fill(), fill()
    first.depends_on(second)
    second.depends_on(first)
itself
    first = fill()
    first.depends_on(first)
before its input
    source = tile()
    first = fill(source)
    first.depends_on(nisa.tensor_copy(tile(), source))
before its input, by way of others
    source, middle = tile(), tile()
    first = fill(source)
    nisa.tensor_copy(middle, source)
    other = fill()
    other.depends_on(nisa.tensor_copy(tile(), middle))
    first.depends_on(other)
after what overwrites it
    shared = tile()
    fill(shared).depends_on(fill(shared))
after the reader of what it overwrites
    shared = tile()
    fill(shared)
    reader = nisa.tensor_copy(tile(), shared)
    reader.depends_on(fill(shared))
out of a block without reordering
    with nl.no_reorder():
        first = fill()
        second = fill()
    first.depends_on(second)
""")
LEGAL = blocks("""
later on the same engine
    first, second = fill(), fill()
    first.depends_on(second)
other columns
    shared = nl.ndarray((4, 8), nl.float32, buffer=nl.sbuf)
    fill(shared[:, 0:4]).depends_on(fill(shared[:, 4:8]))
other blocks
    with nl.no_reorder():
        first = fill()
    with nl.no_reorder():
        second = fill()
    first.depends_on(second)
""")


def simulated(body):
    nki_sim.simulate(lambda x: body())(np.ones(SHAPE, np.float32))


def recorded(body):
    with nki_sim.record():
        simulated(body)


def dry(body):
    nki_sim.dry_run(lambda x: body(), (SHAPE, "float32"))


RUNS = pytest.mark.parametrize("run", [simulated, recorded, dry])


@RUNS
@pytest.mark.parametrize("name", CIRCULAR)
def test_circular_edges_are_refused(run, name):
    with pytest.raises(NkiValidationError, match="form a cycle") as caught:
        run(kernel_of(CIRCULAR[name], globals()))
    assert (caught.value.instruction, caught.value.operand) == ("schedule", "an edge")
    assert " after instruction " in caught.value.value


@RUNS
@pytest.mark.parametrize("name", LEGAL)
def test_edges_to_later_instructions_are_legal(run, name):
    run(kernel_of(LEGAL[name], globals()))


def test_the_timeline_runs_an_instruction_after_a_later_one():
    def kernel():
        first, second = fill(), nisa.memset(tile(), 1, name="second")
        first.depends_on(second)

    timeline = nki_sim.dry_run(kernel)
    first, second = timeline.events
    assert second.end_ns <= first.start_ns
