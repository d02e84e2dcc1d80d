"""trnfft refuses to run beside the other distribution of that name, whose files pip mixes in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize(
    "file, said",
    [
        ("other = 1\n", "version 0.21.0, is another project"),
        (None, "files of trnfft-nki are missing; install it again"),
    ],
)
def test_the_command_says_what_has_replaced_or_removed_its_files(tmp_path, file, said):
    """pip has installed the other project over this one, or has uninstalled it since."""
    root = Path(__file__).parents[2]
    site = tmp_path / "site"
    shutil.copytree(root / "trnfft", site / "trnfft", symlinks=True)
    (site / "trnfft" / "__init__.py").unlink()
    if file is not None:
        (site / "trnfft" / "__init__.py").write_text(file)
        information = site / "trnfft-0.21.0.dist-info"
        information.mkdir()
        text = "Metadata-Version: 2.1\nName: trnfft\nVersion: 0.21.0\nSummary: Something else\n"
        (information / "METADATA").write_text(text)
    run = "import sys, trnfft_command; sys.argv[:] = ['trnfft', 'doctor']; trnfft_command.main()"
    variables = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", run], env=variables, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("trnfft cannot be imported: ") and said in done.stderr
