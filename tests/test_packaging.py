"""Wheels contain all files that the source tree imports or reads, and extras are as documented."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from nki_sim.base.installed_nki import installed_spec
from tests.tolerances import near, transforms

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel_names(sources, tmp_path_factory):
    """Returns the names of the files in trnfft's wheel."""
    return names_in(built(sources, tmp_path_factory.mktemp("trnfft")))


@pytest.fixture(scope="module")
def kernels_wheel(sources, tmp_path_factory):
    """Returns the wheel of kernels and simulator alone."""
    return built(sources / "packages" / "nki_sim", tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Returns a copy of the sources, because setuptools writes intermediate files beside them."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path_factory.mktemp("sources")
    for name in ["pyproject.toml", "setup.py", "trnfft_command.py", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, copy)
    for name in ["trnfft", "trnfft_demo", "nki_kernels", "nki_sim", "plans", "packages"]:
        # The copy contains nothing of an earlier build.
        ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore)
    return copy


def built(folder, out):
    """Builds the wheel of the project in a folder, by the hook that pip and build call."""
    code = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", code, str(out)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


def names_in(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


def project(folder=ROOT):
    """Returns the table [project] of a folder's pyproject.toml."""
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_wheel_has_modules_type_markers_and_plans_and_nothing_else(wheel_names):
    for package in ["trnfft", "trnfft_demo", "nki_kernels", "nki_sim"]:
        for path in (ROOT / package).rglob("*.py"):
            assert path.relative_to(ROOT).as_posix() in wheel_names
        assert f"{package}/py.typed" in wheel_names
    for path in [ROOT / "plans" / "README.md", *(ROOT / "plans").glob("*.json")]:
        assert f"trnfft/plans/{path.name}" in wheel_names
    assert "nki_simulator.pth" in wheel_names
    assert "nki_sim/report/template/report.html.j2" in wheel_names
    ours = {"trnfft", "trnfft_command.py", "trnfft_demo", "nki_kernels", "nki_sim"}
    top = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top if not name.endswith(".dist-info")} == {*ours, "nki_simulator.pth"}


def test_plans_are_found_through_importlib():
    pytest.importorskip("torch")
    assert (files("trnfft") / "plans" / "README.md").read_text().startswith("# ")


# Kernels and simulator alone

LAUNCH = """
import sys

sys.modules["torch"] = sys.modules["trnfft"] = None  # as if they were not installed
import numpy as np

import nki_kernels
import nki_sim
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix

x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
with nki_sim.record() as timeline:
    re, im = nki_sim.simulate(dft_gemm)(x, 0 * x, dft_gemm_matrix(64, False, 1.0))
timeline.save_html("report.html")
np.save("x.npy", x)
np.save("spectrum.npy", re + 1j * im)
print(nki_kernels.__file__)
"""


@pytest.fixture
def site(kernels_wheel, tmp_path_factory):
    """Returns a folder into which the distribution of kernels and simulator is installed."""
    site = tmp_path_factory.mktemp("site")
    install = ["-m", "pip", "install", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, *install, str(kernels_wheel)], check=True, capture_output=True)
    return site


@pytest.mark.weekly
@pytest.mark.sweep
def test_kernels_and_simulator_install_and_run_without_torch(site, tmp_path):
    variables = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-c", LAUNCH]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == site / "nki_kernels"
    exact = np.fft.fft(np.load(tmp_path / "x.npy").astype(np.float64))
    near(np.load(tmp_path / "spectrum.npy"), exact, transforms(64))
    assert "dft_gemm" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.skipif(bool(installed_spec()), reason="a package nki is installed")
@pytest.mark.parametrize(("switch", "said"), [("1", "simulator"), ("0", "absent"), ("", "absent")])
def test_the_switch_of_the_sdk_answers_import_nki(tmp_path, switch, said):
    """By the file that a wheel puts into site-packages; the modules are those of this tree."""
    shutil.copy(ROOT / "nki_sim" / "nki_simulator.pth", tmp_path)
    script = f"""
import site, sys
site.addsitedir({str(tmp_path)!r})  # as Python does with site-packages when it starts
assert "numpy" not in sys.modules
try:
    import nki
    print("simulator" if nki.__simulator__ else "other")
except ModuleNotFoundError:
    print("absent")
"""
    variables = os.environ | {"NKI_SIMULATOR": switch, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=variables, capture_output=True, text=True
    )
    assert done.stdout.strip() == said, done.stderr


@pytest.mark.sweep
def test_the_wheel_of_the_kernels_holds_them_alone(kernels_wheel, wheel_names):
    names = names_in(kernels_wheel)
    ours = {name for name in names if not name.startswith("nki_sim-")}
    assert ours == {name for name in wheel_names if name.startswith(("nki_kernels/", "nki_sim"))}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_two_distributions_go_together():
    whole, kernels = project(), project(ROOT / "packages" / "nki_sim")
    for field in ("version", "license", "requires-python"):
        assert kernels[field] == whole[field]
    assert set(kernels["dependencies"]) < set(whole["dependencies"])


# What is installed beside trnfft


NEWEST_TORCH = (2, 15)  # 2.14 was tested by hand, and 2.15 not at all


def test_the_oldest_torch_is_one_that_is_tested():
    tested = {
        re.search(
            r"^torch==(\d+)\.(\d+)", (ROOT / "scripts" / name).read_text("utf-8"), re.M
        ).groups()
        for name in ("constraints.txt", "constraints-xla.txt")
    }
    lowest, newest = sorted((int(major), int(minor)) for major, minor in tested)
    assert newest <= NEWEST_TORCH
    (torch,) = [one for one in project()["dependencies"] if one.startswith("torch>")]
    assert torch == "torch>={}.{},<{}.{}".format(*lowest, NEWEST_TORCH[0], NEWEST_TORCH[1] + 1)


def name_of(requirement):
    """Returns the name of a package as pip compares it."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def requirements(extra):
    """Returns the requirements of an extra, with those of its own extras and of the project."""
    table = project()
    found = set(table["dependencies"])
    for one in table["optional-dependencies"][extra]:
        inner = re.fullmatch(r"trnfft-nki\[(.+)\]", one)
        found |= set().union(*map(requirements, inner[1].split(","))) if inner else {one}
    return found


def pinned(name):
    """Returns the lines of pins in a file of requirements, by the package's name."""
    text = (ROOT / "scripts" / f"requirements-{name}.txt").read_text("utf-8")
    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        if not line.startswith("#"):
            found.setdefault(name_of(line), []).append(line)
    return found


@pytest.mark.parametrize("extra, name", [("dev", "dev"), ("demo", "demo"), ("xla-dev", "xla")])
def test_everything_that_scripts_install_is_pinned_with_hashes(extra, name):
    pins = pinned(name)
    missing = set(map(name_of, requirements(extra))) - set(pins) - {"torch"}
    assert not missing, "run ./scripts/pin.sh"
    assert "torch" not in pins and not any(one.startswith("nvidia") for one in pins)
    assert "setuptools" in pins  # it builds the project, and has no other source
    for line in sum(pins.values(), []):
        assert re.match(r"[\w.-]+==[\w.!+]+ ", line), line
        assert "--hash=sha256:" in line


def test_all_files_of_requirements_have_the_same_versions():
    def versions(name):
        return {one: {line.split()[0] for line in lines} for one, lines in pinned(name).items()}

    dev = versions("dev")
    for name in ("demo", "simulator", "xla"):
        for one, found in versions(name).items():
            assert found <= dev.get(one, found)


def test_dependencies_have_upper_bounds():
    """Newer versions are not tested. AWS's SDK decides the versions of its own packages."""
    for extra in ("cli", "bench", "demo", "docs", "dev", "xla-dev"):
        for one in requirements(extra):
            assert "<" in one or "==" in one, one
            name = name_of(one)
            for line in pinned("dev").get(name, []):
                version = tuple(map(int, re.findall(r"\d+", line.split()[0].partition("==")[2])))
                bound = re.search(r"<([\d.]+)", one)
                if bound:
                    assert version < tuple(map(int, bound[1].split("."))), one


def test_extras_for_a_neuroncore_take_no_placeholder():
    extras = project()["optional-dependencies"]
    for extra in ("neuron", "neuron-xla"):
        needs = {re.split(r"[<>=]", one)[0]: one for one in extras[extra]}
        assert needs["numpy"] == "numpy>=2.2,<2.4"
        for name in ("nki", "neuronx-cc", "torch-neuronx"):
            assert re.search(r"[>=]=", needs[name]), (
                f"{name} could be the public index's placeholder"
            )
    assert {"torch==2.9.*", "torch-neuronx==2.9.*"} <= set(extras["neuron-xla"])


@pytest.mark.parametrize(
    "missing, named", [(["typer"], "typer"), (["typer", "rich"], "typer and rich")]
)
def test_the_command_says_what_it_needs(missing, named, monkeypatch):
    pytest.importorskip("torch")
    from trnfft.__main__ import main

    for name in [name for name in sys.modules if name.startswith("trnfft.cli")]:
        monkeypatch.delitem(sys.modules, name)  # the module may already contain the missing package
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit) as end:
        main()
    assert f'needs {named}, which the extra "cli" of trnfft-nki' in end.value.code
    assert {"rich", "typer"} == set(map(name_of, project()["optional-dependencies"]["cli"]))


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_the_command_is_the_module_too(monkeypatch, capsys):
    pytest.importorskip("typer")
    simulator = {"nki-sim": "nki_sim.__main__:main"}
    assert project()["scripts"] == {"trnfft": "trnfft_command:main", **simulator}
    assert project(ROOT / "packages" / "nki_sim")["scripts"] == simulator
    monkeypatch.setattr(sys, "argv", ["trnfft", "plan", "8"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("trnfft", run_name="__main__")
    assert not end.value.code and "LNC=1" in capsys.readouterr().out
