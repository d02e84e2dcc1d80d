"""The examples of docs/distributed.md, which are parts of one file, run on four processes."""

import os
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks

pytest.importorskip("torch")

PAGE = ROOT / "docs" / "distributed.md"


def parts_of(info):
    return [text for found, text in blocks(PAGE) if found == info]


@pytest.mark.processes
def test_its_file_on_four_processes(tmp_path):
    script = tmp_path / "transforms.py"
    script.write_text("\n".join(parts_of('python title="transforms.py"')), "utf-8")
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
