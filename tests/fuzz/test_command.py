"""The command with hostile options and changed files gives a result, or one message.

So does the reader of pictures.
"""

import pytest
from hypothesis import strategies as st

from tests.fuzz.child import RIGHT, Child
from tests.fuzz.command import Run, judge, judge_picture, pictures, recordings
from tests.fuzz.mutation import changed_bytes
from tests.fuzz.survey import Survey

pytestmark = pytest.mark.slow

WORDS = (
    "",
    "0",
    "1",
    "3",
    "-1",
    "8",
    "64",
    "1000",
    "nan",
    "inf",
    "1e400",
    "x",
    "3x4",
    "0x0",
    "1x" * 40 + "1",
    "-3x4",
    str(2**31),
    str(2**63),
    str(10**30),
    "9" * 5000,
    "9" * 5000 + "x2",
    "trn1",
    "trn2",
    "fast",
    "double",
    "zero",
    "mirror",
    "gaussian",
    "star",
    "heart",
    "a.npy",
    "a.png",
    "a.exr",
    "a.hdr",
    "missing.png",
    ".",
    "..",
    "/",
    "out.png",
    "out.npy",
    "out.exr",
    "out.hdr",
    "/dev/null",
    "\x00",
    "\x1b[31m",
    "é",
    "\udcff",
    "a" * 5000,
    "--help",
    "-",
    "--",
    "[red]",
    "²",
    "１",
)
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
        name if command != "plan" else draw(st.sampled_from(("64", "97", *WORDS))),
    ]
    for option in draw(st.lists(st.sampled_from(OPTIONS[command]), max_size=3)):
        arguments += [option, draw(st.sampled_from(WORDS))]
    return Run(tuple(arguments), tuple(files.items()))


@pytest.mark.parametrize("command", OPTIONS)
def test_the_command_ends_with_a_result_or_one_message(command):
    with Child(judge) as child:
        survey = Survey(child)
        survey.run(runs(command))
    assert survey.verdicts[RIGHT] > 0, str(survey)
    assert not survey.findings, str(survey)


@st.composite
def changed_pictures(draw):
    """Draws a picture, which is changed in most runs: its name and its content."""
    name, content = draw(st.sampled_from(sorted(pictures().items())))
    return name, changed_bytes(draw, content) if draw(st.booleans()) else content


def test_a_picture_is_read_or_refused():
    with Child(judge_picture) as child:
        survey = Survey(child)
        survey.run(changed_pictures())
    assert survey.verdicts[RIGHT] > 0, str(survey)
    assert not survey.findings, str(survey)
