"""The command with hostile options and changed files gives a result, or one message.

So does the reader of pictures.
"""

import pytest
from hypothesis import strategies as st

from tests.fuzz.child import Child
from tests.fuzz.command import Run, judge, judge_picture, pictures, recordings
from tests.fuzz.mutation import changed_bytes
from tests.fuzz.survey import survey

pytestmark = pytest.mark.slow

# Names of files, of chips and of settings; hypothesis draws other texts and numbers.
KNOWN = ("a.npy", "a.png", "missing.png", ".", "/", "out.png", "out.exr", "/dev/null", "trn2")
KNOWN += ("fast", "double", "3x4", "8", "64", "97", "--help", "-", "\udcff", "9" * 5000)
WORDS = st.sampled_from(KNOWN) | st.text(max_size=9) | (st.integers() | st.floats()).map(str)
OPTIONS = {
    "spectrum": ("--out", "--frame", "--column", "--target", "--lnc"),
    "plan": (
        "--shape", "--real", "--inverse", "--padded-from", "--batch", "--target", "--lnc",
        "--precision", "--all", "--perfetto", "--plot",
    ),
}  # fmt: skip


@st.composite
def runs(draw, command):
    """Draws a command with a file, which is changed in most runs, and up to three options."""
    files = recordings()
    names = sorted(files)
    name = draw(st.sampled_from(names))
    if draw(st.booleans()):
        files[name] = changed_bytes(draw, files[name])
    arguments = [
        command,
        name if command != "plan" else draw(st.sampled_from(("64", "97")) | WORDS),
    ]
    for option in draw(st.lists(st.sampled_from(OPTIONS[command]), max_size=3)):
        arguments += [option, draw(WORDS)]
    return Run(tuple(arguments), tuple(files.items()))


@pytest.mark.parametrize("command", OPTIONS)
def test_the_command_ends_with_a_result_or_one_message(command):
    with Child(judge) as child:
        survey(child, runs(command))


@st.composite
def changed_pictures(draw):
    """Draws a picture, which is changed in most runs: its name and its content."""
    name, content = draw(st.sampled_from(sorted(pictures().items())))
    return name, changed_bytes(draw, content) if draw(st.booleans()) else content


def test_a_picture_is_read_or_refused():
    with Child(judge_picture) as child:
        survey(child, changed_pictures())
