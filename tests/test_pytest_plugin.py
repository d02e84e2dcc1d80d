"""The pytest plugin as other projects' tests use it, in pytest runs of their own."""

import os
import sys
from pathlib import Path

import numpy as np  # noqa: F401  NumPy cannot be imported a second time after a run in this process
import pytest

import nki_sim  # noqa: F401  nor need the simulator be
from nki_sim import hardware

pytest_plugins = "pytester"

ROOT = Path(__file__).parent.parent
KERNELS = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

X = np.ones((128, 64), np.float32)


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def unwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def unequal(x):
    tile = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[:, :2], op=nl.add)
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest on a test file after the kernels: ``run(tests, *arguments)``."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("NKI_SIM_ALWAYS", raising=False)
    monkeypatch.delenv(hardware.TARGET_VARIABLE, raising=False)
    for name in [n for n in sys.modules if n.partition(".")[0] == "nki"]:
        # Other tests of this process have imported these modules.
        monkeypatch.delitem(sys.modules, name)

    def run_tests(tests, *arguments):
        pytester.makepyfile(KERNELS + tests)
        return pytester.runpytest_inprocess("-p", "nki_sim.pytest_plugin", *arguments)

    return run_tests


WITHIN = """
def test_within(timeline):
    assert (double(X) == 2).all()
    timeline.assert_within(total_ns=70_000, psum_peak_banks=8, hbm_bytes=20e6)
    assert timeline.launches == 1
"""


def test_import_nki_and_timeline_just_work(run):
    result = run(WITHIN)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["nki: simulator of trn1, NKI 0.7, modelled (chip: the default*"])


def test_a_budget_that_is_exceeded_fails_at_its_line(run):
    result = run(WITHIN.replace("70_000", "70"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       timeline.assert_within(total_ns=70, psum_peak_banks=8, hbm_bytes=20e6)",
            "E       AssertionError: 1 of 3 budgets exceeded on trn1, LNC=1:",
            "E         total_ns is * ns modelled, the limit is 70 (*% more)",
            "E         * 1 dma_copy at test_*.py:*",
        ]
    )
    assert "budget.py" not in result.stdout.str()


def test_a_broken_rule_is_shown_at_the_kernels_line(run):
    tests = "def test_unequal():\n    unequal(X)\n"
    shown = run(tests).stdout
    shown.fnmatch_lines(
        [
            ">       nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[[]:, :2], op=nl.add)",
            "E       nki_sim.errors.NkiValidationError: nisa.tensor_tensor: *",
            "test_*.py:*: NkiValidationError",
        ]
    )
    assert "_launch(" not in shown.str()


TARGET = """
import os
from nki_sim import hardware

def test_chip(timeline):
    double(X)
    assert timeline.where.startswith("trn2")

def test_own_chip(timeline):
    with hardware.select(hardware.chip("trn3")):
        double(X)
    assert timeline.where.startswith("trn3")

def test_own_variable(timeline, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn1")
    double(X)
    assert timeline.where.startswith("trn1")
"""


def test_the_option_chooses_the_chip_for_all_but_who_choose_another(run, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn3")
    result = run(TARGET, "--nki-target", "trn2")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["nki: simulator of trn2, NKI 0.7, modelled (chip: --nki-target)"])
    assert os.environ[hardware.TARGET_VARIABLE] == "trn3"


def test_the_setting_chooses_the_chip_where_nothing_else_does(run, pytester, monkeypatch):
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nnki_target = "trn2"\n')
    result = run(TARGET)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["nki: simulator of trn2, NKI 0.7, modelled (chip: nki_target)"])
    assert hardware.TARGET_VARIABLE not in os.environ
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn3")
    run(TARGET, "-k", "test_chip").assert_outcomes(failed=1, deselected=2)


@pytest.mark.parametrize("arguments", [("--nki-target=trn9",), ("-o", "nki_target=trn9")])
def test_an_unknown_chip_is_one_sentence(run, arguments):
    result = run(WITHIN, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *nki*target: target 'trn9' is not known: use one of *"])


RELEASE = """
import nki
from nki_sim.lint import lint


def test_release():
    assert nki.__version__ == "0.6.0"
    assert not hasattr(nl, "tiles") and hasattr(nl, "dynamic_range")


@nki.jit
def comprehending(x):
    return [t for t in (x,)][0]


def test_lint():
    assert [found.rule for found in lint(comprehending)] == ["comprehension"]
"""


@pytest.mark.parametrize("arguments", [("--nki=0.6",), ("-o", "nki_release=0.6")])
def test_option_and_setting_choose_the_release(run, monkeypatch, arguments):
    result = run(RELEASE, "--nki-target=trn2", *arguments)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["nki: simulator of trn2, NKI 0.6, modelled (chip: --nki-target)"])
    monkeypatch.setenv("NKI_SIM_RELEASE", "0.7")
    outcome = {"passed": 2} if arguments == ("--nki=0.6",) else {"failed": 2}
    run(RELEASE, *arguments).assert_outcomes(**outcome)


@pytest.mark.parametrize("arguments", [("--nki=7",), ("-o", "nki_release=7")])
def test_an_unknown_release_is_one_sentence(run, arguments):
    result = run(WITHIN, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *nki*: * is '7', allowed is '0.6' or '0.7'"])


UNWRITTEN = """
def test_unwritten():
    unwritten(X)
"""


@pytest.mark.parametrize("arguments", [("--nki-strict",), ("-o", "nki_strict=true")])
def test_strict_makes_errors_of_warnings(run, arguments):
    result = run(UNWRITTEN, *arguments)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "nki: simulator of trn1, NKI 0.7, modelled, strict *",
            "E *reads memory that nothing has written*",
        ]
    )


def test_without_strict_they_are_warnings(run):
    result = run(UNWRITTEN)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*NkiSimulationWarning*reads memory that nothing has written*"])


def test_a_conftest_can_name_the_plugin(run, pytester):
    """A conftest.py has to name the plugin where PYTEST_DISABLE_PLUGIN_AUTOLOAD is set, as here."""
    pytester.makeconftest('pytest_plugins = ["nki_sim.pytest_plugin"]')
    pytester.makepyfile(KERNELS + TARGET)
    result = pytester.runpytest_inprocess("--nki-target=trn2", "--nki-strict")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["nki: simulator of trn2, NKI 0.7, modelled, strict *"])


def test_a_real_nki_is_used_and_named(run, pytester):
    pytester.mkpydir("nki").joinpath("__init__.py").write_text("def jit(f): return f\n")
    pytester.syspathinsert()
    pytester.makepyfile("import nki\n\ndef test_real():\n    assert nki.jit(1) == 1\n")
    result = pytester.runpytest_inprocess("-p", "nki_sim.pytest_plugin")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"nki: {pytester.path / 'nki' / '__init__.py'}"])


# The installed plugin, found by its entry point, in processes of their own.


@pytest.fixture
def installed(pytester, monkeypatch):
    """Makes the entry points of the distribution visible to a new pytest process."""
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "packages/nki_sim/pyproject.toml").read_text())["project"]
    points = project["entry-points"]["pytest11"]
    folder = pytester.mkdir("site")
    metadata = folder / f"{project['name'].replace('-', '_')}-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {project['name']}\nVersion: 0\n")
    lines = "".join(f"{name} = {module}\n" for name, module in points.items())
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{lines}")
    (metadata / "RECORD").write_text("nki_sim/__init__.py,,\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
    monkeypatch.delenv("NKI_SIM_ALWAYS", raising=False)
    monkeypatch.delenv(hardware.TARGET_VARIABLE, raising=False)
    # These plugins load slowly, and are not tested here.
    return "-p", "no:hypothesispytest", "-p", "no:benchmark"


def test_both_distributions_have_the_entry_point():
    tomllib = pytest.importorskip("tomllib")
    for folder in (ROOT, ROOT / "packages" / "nki_sim"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["entry-points"]["pytest11"] == {"nki_sim": "nki_sim.pytest_plugin"}


def test_who_never_imports_nki_pays_nothing(installed, pytester):
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("loaded:", sorted({name.partition(".")[0] for name in sys.modules}
                                    & {"nki", "numpy", "ml_dtypes"}),
                  sorted(name for name in sys.modules if name.startswith("nki_sim")))
        """
    )
    pytester.makepyfile("def test_other():\n    pass\n")
    result = pytester.runpytest_subprocess(*installed)
    result.assert_outcomes(passed=1)
    modules = (
        *("base", "base.distribution", "base.installed_nki", "base.neuron_packages"),
        *("base.releases", "import_nki", "import_nki.nki_finder", "pytest_plugin"),
    )
    light = ["nki_sim", *(f"nki_sim.{name}" for name in modules)]
    assert f"loaded: [] {light}" in result.outlines
    assert "nki:" not in result.stdout.str()


@pytest.mark.sweep
def test_it_goes_away(installed, pytester):
    pytester.makepyfile(KERNELS + WITHIN)
    result = pytester.runpytest_subprocess(*installed, "-p", "no:nki_sim")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["E   ModuleNotFoundError: No module named 'nki'"])


AS_WRITTEN = """
def test_modules_are_not_compiled_anew_by_pytest():
    from nki_sim import errors
    assert "Rewriting" not in type(errors.__loader__).__name__
"""


@pytest.mark.weekly
@pytest.mark.sweep
def test_with_xdist_and_importlib(installed, pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(KERNELS + TARGET + UNWRITTEN + AS_WRITTEN)
    options = "-n", "1", "--import-mode=importlib", "--nki-target=trn2", "--nki-strict"
    result = pytester.runpytest_subprocess(*installed, *options)
    result.assert_outcomes(passed=4, failed=1)
    assert "nki: simulator of trn2, NKI 0.7, modelled, strict" in result.stdout.str()
