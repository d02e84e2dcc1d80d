"""Files of plans with changed rows: a plan that trnfft accepts solves its problem."""

import copy

import pytest
from hypothesis import strategies as st

from tests.fuzz.child import Child
from tests.fuzz.mutation import changed_bytes, changed_json
from tests.fuzz.survey import survey
from tests.fuzz.wisdom import BACKENDS, File, as_line, header, judge, rows

pytestmark = pytest.mark.slow


@st.composite
def files(draw, plans):
    """Draws a file with a changed row, perhaps with changed bytes, and the row's transform."""
    row = copy.deepcopy(draw(st.sampled_from(plans)))
    n, real = row["n"], row.get("kind") == "r2c"
    other = draw(st.sampled_from(plans))
    for _ in range(draw(st.integers(0, 3))):
        changed_json(draw, row, other)
    is_imported = draw(st.booleans())
    content = header() + as_line(row) if is_imported else as_line(row)
    if draw(st.integers(0, 9)) == 0:
        content = changed_bytes(draw, content)
    return File(content, n, real, draw(st.sampled_from(BACKENDS)), is_imported)


def test_transforms_are_right_whatever_is_remembered():
    plans = rows()
    with Child(judge) as child:
        survey(child, files(plans))
