"""The wheel holds everything that the source tree imports or reads."""

import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    """Names of the files in a wheel built from the tree."""
    pytest.importorskip("build")
    pytest.importorskip("setuptools", minversion="77")
    out = tmp_path_factory.mktemp("wheel")
    # setuptools writes its intermediate files beside the sources: they go into a copy.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    result = subprocess.run([*command, str(copy_of_sources(out))], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = out.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def copy_of_sources(folder):
    """What a build needs, and nothing that an earlier build left."""
    copy = folder / "source"
    copy.mkdir()
    for name in ["pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, copy)
    for name in ["trnfft", "nki_kernels", "plans"]:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore)
    return copy


def test_every_module_and_type_marker_is_in_the_wheel(wheel_names):
    for package in ["trnfft", "nki_kernels"]:
        for path in (ROOT / package).rglob("*.py"):
            assert path.relative_to(ROOT).as_posix() in wheel_names
        assert f"{package}/py.typed" in wheel_names
    assert "nki_kernels/simulator/__init__.py" in wheel_names
    assert "nki_kernels/known_violations.json" in wheel_names


def test_plans_are_data_of_trnfft(wheel_names):
    assert "trnfft/plans/README.md" in wheel_names
    for path in (ROOT / "plans").glob("*.json"):
        assert f"trnfft/plans/{path.name}" in wheel_names


def test_nothing_else_is_installed(wheel_names):
    top = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"trnfft", "nki_kernels"}


def test_plans_are_found_through_importlib():
    pytest.importorskip("torch")
    assert (files("trnfft") / "plans" / "README.md").read_text().startswith("# ")
