"""The examples of docs/distributed.md, which are parts of one file, run on four processes."""

import os
import subprocess
import sys

import pytest

from tests import programs
from tests.docs.pages import ROOT, blocks

pytest.importorskip("torch")

PAGE = ROOT / "docs" / "distributed.md"
FIRST, NEXT = 'python title="transforms.py"', 'python title="transforms.py, continued"'


def parts_of(*infos):
    return [text for found, text in blocks(PAGE) if found in infos]


def test_titles_say_which_block_begins_the_file():
    titled = [info for info, _ in blocks(PAGE) if "title=" in info]
    assert titled == [FIRST, *[NEXT] * (len(titled) - 1)]


@pytest.fixture
def script(tmp_path):
    """The file."""
    path = tmp_path / "transforms.py"
    path.write_text("\n".join(parts_of(FIRST, NEXT)), "utf-8")
    return path


def test_its_file_on_four_processes(script, tmp_path):
    first, *others = programs.printed_by_processes(4, [script], tmp_path, tmp_path / "cache")
    assert first == "".join(parts_of("text"))
    assert others == [""] * 3


@pytest.mark.weekly
@pytest.mark.sweep
def test_its_file_by_torchrun(script, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    finished = subprocess.run(
        [*torchrun, "--nproc-per-node=4", script],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "".join(parts_of("text"))
