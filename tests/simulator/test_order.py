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

SHAPE = (4, 4)


def tile():
    return nl.ndarray(SHAPE, nl.float32, buffer=nl.sbuf)


def fill(dst=None):
    return nisa.memset(tile() if dst is None else dst, 0)


def each_other():
    first, second = fill(), fill()
    first.depends_on(second)
    second.depends_on(first)


def itself():
    first = fill()
    first.depends_on(first)


def before_its_input():
    source = tile()
    first = fill(source)
    first.depends_on(nisa.tensor_copy(tile(), source))


def before_its_input_by_way_of_others():
    source, middle = tile(), tile()
    first = fill(source)
    nisa.tensor_copy(middle, source)
    other = fill()
    other.depends_on(nisa.tensor_copy(tile(), middle))
    first.depends_on(other)


def after_what_overwrites_it():
    shared = tile()
    fill(shared).depends_on(fill(shared))


def after_the_reader_of_what_it_overwrites():
    shared = tile()
    fill(shared)
    reader = nisa.tensor_copy(tile(), shared)
    reader.depends_on(fill(shared))


def out_of_a_block_without_reordering():
    with nl.no_reorder():
        first = fill()
        second = fill()
    first.depends_on(second)


CIRCULAR = [
    each_other,
    itself,
    before_its_input,
    before_its_input_by_way_of_others,
    after_what_overwrites_it,
    after_the_reader_of_what_it_overwrites,
    out_of_a_block_without_reordering,
]


def simulated(body):
    nki_sim.simulate(lambda x: body())(np.ones(SHAPE, np.float32))


def recorded(body):
    with nki_sim.record():
        simulated(body)


def dry(body):
    nki_sim.dry_run(lambda x: body(), (SHAPE, "float32"))


RUNS = pytest.mark.parametrize("run", [simulated, recorded, dry])


@RUNS
@pytest.mark.parametrize("body", CIRCULAR)
def test_circular_edges_are_refused(run, body):
    with pytest.raises(NkiValidationError, match="form a cycle") as caught:
        run(body)
    assert (caught.value.instruction, caught.value.operand) == ("schedule", "an edge")
    assert " after instruction " in caught.value.value


def later_on_the_same_engine():
    first, second = fill(), fill()
    first.depends_on(second)


def other_columns():
    shared = nl.ndarray((4, 8), nl.float32, buffer=nl.sbuf)
    fill(shared[:, 0:4]).depends_on(fill(shared[:, 4:8]))


def other_blocks():
    with nl.no_reorder():
        first = fill()
    with nl.no_reorder():
        second = fill()
    first.depends_on(second)


@RUNS
@pytest.mark.parametrize("body", [later_on_the_same_engine, other_columns, other_blocks])
def test_edges_to_later_instructions_are_legal(run, body):
    run(body)


def test_the_timeline_runs_an_instruction_after_a_later_one():
    def kernel():
        first, second = fill(), nisa.memset(tile(), 1, name="second")
        first.depends_on(second)

    timeline = nki_sim.dry_run(kernel)
    first, second = timeline.events
    assert second.end_ns <= first.start_ns
