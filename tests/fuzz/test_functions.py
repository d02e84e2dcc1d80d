"""Public functions with hostile arguments give a right answer, or name the argument in an error."""

import pytest
from hypothesis import strategies as st

from tests.fuzz.child import Child
from tests.fuzz.functions import FUNCTIONS
from tests.fuzz.judging import Case, judge
from tests.fuzz.survey import survey
from tests.fuzz.values import HOSTILE

pytestmark = pytest.mark.slow

BACKENDS = ("torch", "matmul", "nki-sim")


@pytest.fixture(scope="module")
def child():
    with Child(judge) as found:
        yield found


@st.composite
def cases(draw, name):
    """Draws calls with usual arguments, of which up to two are hostile."""
    arguments = FUNCTIONS[name].arguments
    hostile = draw(st.sets(st.sampled_from(sorted(arguments)), max_size=2))
    texts = {
        each: draw(st.sampled_from((kind.hostile or HOSTILE) if each in hostile else kind.usual))
        for each, kind in arguments.items()
    }
    return Case(name, draw(st.sampled_from(BACKENDS)), tuple(texts.items()))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_are_right_or_errors_say_why(child, name):
    survey(child, cases(name))
