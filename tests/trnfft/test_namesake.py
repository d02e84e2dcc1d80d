"""trnfft refuses to run beside the other distribution of that name, whose files pip mixes in."""

import os
import subprocess
import sys

import pytest


def imported(folder, name, version, summary):
    """Imports trnfft where a distribution is installed, too; returns the finished process."""
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    (information / "METADATA").write_text(text)
    variables = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", "import trnfft; print(trnfft.__version__)"]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


def test_another_project_of_the_name_is_refused(tmp_path):
    done = imported(tmp_path, "trnfft", "0.21.0", "Something else")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the installed distribution 'trnfft', version 0.21.0, is")
    assert "Run: pip uninstall trnfft trnfft-nki. Then install trnfft-nki again" in last


@pytest.mark.parametrize(
    "name, summary",
    [
        (
            "trnfft",
            "Fast Fourier transforms for AWS Trainium, with a CPU simulator of the NeuronCore",
        ),
        ("trnfft-tools", "Something else"),
    ],
)
def test_this_project_under_its_old_name_and_other_names_are_no_trouble(tmp_path, name, summary):
    done = imported(tmp_path, name, "0.1.0", summary)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0.1.0"
