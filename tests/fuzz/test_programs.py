"""Programs compute the same on ComplexTensors as on torch's complex dtypes, or are refused."""

import collections
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import sweeps
from tests.fuzz import program_drawing, program_table
from tests.fuzz.program import WRAPPERS
from tests.fuzz.program_judging import judged
from tests.fuzz.survey import many

PART = 50
# By default each step runs alone, and in a function of one kind. Few are compiled, as that is dear.
FUNCTIONS = ["", *(name for name in WRAPPERS if name != "compiled")]
SOME = len(FUNCTIONS) - 1


def check(program, name=""):
    """Returns the kind of the verdict on a program; fails for results unlike torch's."""
    verdict = judged(program)
    assert verdict.kind != "different", f"{name}: {verdict.text}\n{program}"
    return verdict.kind


@pytest.mark.weekly
@sweeps.some(
    "wrapper, stride",
    itertools.product(FUNCTIONS, [1, SOME]),
    [("", 1), *((name, SOME) for name in FUNCTIONS[1:])],
)
def test_each_step(wrapper, stride):
    steps = program_table.STEPS[FUNCTIONS.index(wrapper) % stride :: stride]
    programs = {step: program_table.one_step(*step, wrapper) for step in steps}
    kinds = collections.Counter(check(each, step) for step, each in programs.items() if each)
    assert kinds["same"] >= 0.5 * kinds.total() > 0


@sweeps.some("index", range(0, len(program_table.STEPS), 40), [40, 240])
def test_compiled_steps(index):
    program = program_table.one_step(*program_table.STEPS[index], "compiled")
    assert program is None or check(program)


@pytest.mark.weekly
@sweeps.some("first", range(0, 300, PART), [0])
def test_programs(first):
    for seed in range(first, first + PART):
        check(program_drawing.drawn(random.Random(seed)), seed)


@pytest.mark.slow
@many
@given(st.randoms(use_true_random=False))
def test_many_programs(numbers):
    """A failure shows the program of the fewest random numbers that hypothesis finds."""
    check(program_drawing.drawn(numbers))
