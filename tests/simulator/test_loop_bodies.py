"""The body of a loop on the device is traced once: nki/api/nki/language/__init__.py, fori_loop.

The document says "carry any other loop state through SBUF/HBM". A body that changes Python state,
or issues other instructions in another iteration, would run differently on the device, and is
refused.
"""

import contextvars
import functools
import itertools
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nl
from nki_sim.instructions import issue_cache

from .conftest import blocks, kernel_of, refuses

X = np.arange(64, dtype=np.float32).reshape(4, 16)


@dataclass
class Counter(nl.NKIObject):
    count: int = 0

    def next_row(self):
        self.count += 1
        return self.count


# Bodies that change the Python state of this name.
CHANGES = blocks("""
rounds
    rounds = []
    def body(i):
        rounds.append(1)
count
    count = 0
    def body(i):
        nonlocal count
        count += 1
seen
    seen = {"rounds": 0}
    def body(i):
        seen["rounds"] += 1
        nisa.memset(tile, 1.0)
counter
    counter = Counter()
    def body(i):
        counter.next_row()
self
    def method(self, i):
        self.count += 1
    body = method.__get__(Counter())
defaults
    def body(i, seen=[]):
        seen.append(1)
current
    current = tile
    def body(i):
        nonlocal current
        current = current[:, 0:8]
""")


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("trips", [1, 3])
def test_a_body_cannot_change_python_state(name, trips):
    code = f"tile = nl.zeros((4, 16), nl.float32)\n{CHANGES[name]}\nnl.fori_loop(0, {trips}, body)"
    kernel = kernel_of(code, globals())
    refuses(f"changes '{name}', but the body is traced once", nki_sim.simulate(kernel))
    refuses("cannot change Python state", nki_sim.dry_run, kernel)


# An iterator is state that no snapshot shows; what it does to the instructions is seen. A tracer
# computes a scalar once: numbers of Python that differ are not seen in its value.
ITERATIONS = blocks("""
a constant
    nisa.memset(tile, next(values))
a place
    column = next(values)
    nisa.memset(tile[:, column : column + 1], 1.0)
the number of instructions
    for _ in range(next(values)):
        nisa.memset(tile, 1.0)
an operator
    nisa.tensor_scalar(tile, tile, nl.add if next(values) < 2 else nl.multiply, 1.0)
a number in a scalar
    nisa.scalar_store(place, i * 10 + next(values))
a number in an address
    nisa.memset(tile.ap([[16, 4], [1, 1]], scalar_offset=i + next(values), indirect_dim=1), 1.0)
""")


@pytest.mark.parametrize("name", ITERATIONS)
def test_every_iteration_issues_the_same_instructions(name):
    def launch(values):
        tile, place = nl.zeros((4, 16), nl.float32), nl.zeros((1, 1), nl.int32)
        names = globals() | {"tile": tile, "place": place, "values": values}
        nl.fori_loop(0, 3, kernel_of(ITERATIONS[name], names, "i"))

    says = "every iteration must issue the same instructions"
    refuses(says, nki_sim.simulate(lambda: launch(iter((1, 2, 3)))))
    nki_sim.simulate(lambda: launch(itertools.repeat(1)))()


def test_the_body_of_a_while_loop_too():
    def kernel():
        rounds = []
        nl.while_loop(
            nisa.register_alloc(1), lambda r: (rounds.append(1), nisa.register_alloc(0))[1]
        )

    refuses("nl.while_loop: body_fun is a function that changes 'rounds'", nki_sim.simulate(kernel))


# What nearly breaks the rule: reads of Python state, tensors of the body, the loop variable as
# an offset and in a tensor, state in SBUF, a loop inside that has other trips.
class Plain:
    def __init__(self):
        self.count = 0

    def bump(self):
        self.count += 1


class Slotted:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0

    def __call__(self, i):
        self.count += 1


def wrapped(function):
    @functools.wraps(function)
    def around(*args):
        return function(*args)

    return around


def hidden_states():
    """Bodies that change what is behind a name, not what it holds."""
    counter, slotted, queue, numbers = Plain(), Slotted(), deque(), itertools.count()
    emitted = []

    def emit(i):
        emitted.append(1)

    return {
        "an attribute": lambda i: counter.bump(),
        "slots": Slotted(),
        "an attribute of slots": lambda i: setattr(slotted, "count", slotted.count + 1),
        "a queue": lambda i: queue.append(1),
        "an iterator": lambda i: next(numbers) and None,
        "a helper's list": lambda i: emit(i),
        "a wrapper": wrapped(emit),
        "a partial's method": functools.partial(lambda method, i: method(), counter.bump),
    }


@pytest.mark.parametrize("name", hidden_states())
def test_state_behind_a_name(name):
    body = hidden_states()[name]
    kernel = nki_sim.simulate(lambda: nl.fori_loop(0, 2, body))
    refuses("the body is traced once, so it cannot change Python state", kernel)


def test_a_scalar_ends_with_its_loop_and_its_launch():
    held = contextvars.ContextVar("held")

    def kernel(x):
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nl.fori_loop(0, 2, lambda i: held.set(i * 2) and None)
        nisa.scalar_store(out, held.get())
        return out

    x = np.zeros((1, 1), np.int32)
    refuses("the body of a loop made it, and no document says", nki_sim.simulate(kernel), x)
    nki_sim.simulate(lambda x: held.set(nisa.scalar_load(x)) and None)(x)
    refuses("it is from a launch that has ended", nki_sim.simulate(lambda x: held.get() + 1), x)


def test_scalars_of_an_inner_loop_leave_those_of_the_outer_alone():
    """However often the inner one runs."""

    def kernel(x):
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)

        def outer(i):
            nl.fori_loop(0, i, lambda j: nisa.scalar_store(out, nisa.scalar_load(x) + j))
            nisa.scalar_store(out, nisa.scalar_load(x) + i)

        nl.fori_loop(0, 3, outer)
        return out

    assert nki_sim.simulate(kernel)(np.array([[5]], np.int32)) == 7


def test_a_tensor_of_a_body_is_no_result():
    held = contextvars.ContextVar("held")

    def kernel(x):
        def body(i):
            out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, x)
            held.set(out)

        nl.fori_loop(0, 2, body)
        return held.get()

    refuses(
        "which cannot be used outside of that body",
        nki_sim.simulate(kernel),
        np.zeros((1, 1), np.float32),
    )


@pytest.mark.usefixtures("parsed")
def test_a_body_that_repeats_itself_passes():
    columns, scale = [4, 4], {"factor": 2.0}

    def kernel(x):
        out = nl.ndarray((4, 16), nl.float32, nl.shared_hbm)
        total = nl.zeros((4, 1), nl.float32)
        place = nl.zeros((1, 1), nl.int32)

        def body(i):
            local = list(columns)
            local.append(8)
            tile = nl.ndarray((1, 16), nl.float32)
            nisa.register_store(place, i)
            source = x.ap([[16, 1], [1, 16]], scalar_offset=i, indirect_dim=0)
            nisa.dma_copy(tile, source)
            for start in range(0, 16, local[0]):
                part = tile[:, start : start + local[0]]
                nisa.tensor_scalar(part, part, nl.multiply, scale["factor"])
            nisa.tensor_scalar(total, total, nl.add, 1.0)
            target = out.ap([[16, 1], [1, 16]], scalar_offset=place, indirect_dim=0)
            nisa.dma_copy(target, tile)
            nl.fori_loop(0, i, lambda j: nisa.tensor_scalar(total, total, nl.add, 0.0) and None)

        nl.fori_loop(0, 4, body)
        sums = nl.ndarray((4, 1), nl.float32, nl.shared_hbm)
        nisa.dma_copy(sums, total)
        return out, sums

    with nki_sim.strict():
        result, sums = nki_sim.simulate(kernel)(X)
    np.testing.assert_array_equal(result, 2 * X)
    assert sums.tolist() == [[4.0]] * 4


KEPT = 100  # issues


@pytest.fixture
def forgets_soon(monkeypatch):
    """The simulator remembers few instructions."""
    monkeypatch.setattr(issue_cache.IssueCache.__init__, "__defaults__", (KEPT, 1 << 20))
    monkeypatch.setattr(issue_cache, "_caches", {})


def scaled_often(change):
    """A body with more different instructions than the simulator remembers."""
    shift = contextvars.ContextVar("shift", default=0)  # which the check of state does not see

    def kernel(x):
        out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
        tile, sums = nl.ndarray(x.shape, nl.float32), nl.ndarray((4, 1), nl.float32)
        nisa.dma_copy(tile, x)

        def body(i):
            first = shift.get()
            shift.set(first + change)
            for n in range(first, first + KEPT + 100):
                scale = 1.0 + n
                nisa.activation_reduce(
                    tile, nl.copy, tile, reduce_op=nl.add, reduce_res=sums, scale=scale
                )

        nl.fori_loop(0, 3, body)
        nisa.dma_copy(out, tile)
        return out

    return kernel


def test_an_instruction_that_the_simulator_has_forgotten_is_the_same_again(forgets_soon):
    timeline = nki_sim.dry_run(scaled_often(0), X)
    assert timeline.loops[0].trips == 3


def test_an_instruction_that_the_simulator_has_forgotten_may_have_changed(forgets_soon):
    refuses("issues other instructions later", nki_sim.dry_run, scaled_often(1), X)
