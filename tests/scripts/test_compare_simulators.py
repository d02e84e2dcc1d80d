"""scripts/compare_simulators.py: one process for each simulator, and the report on differences.

The real nki is not installed here. A package of that name takes its place: this project's
simulator, with faults.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import compare_simulators
import nki_kernels
import nki_sim
from nki_sim.base.installed_nki import SIMULATOR_VARIABLE
from nki_sim.base.neuron_packages import how_to_install
from nki_sim.import_nki.nki_finder import NkiFinder
from simulator_cases import all_cases

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "compare_simulators.py"
OUTPUT = np.linspace(1, 2, 8, dtype=np.float32)  # of a simulator

STAND_IN = """
import os, sys
from nki_sim.import_nki.modules import simulated_nki

modules = simulated_nki()
jit = modules.pop("nki").jit
sys.modules.update(modules)

def simulate(kernel):
    return lambda *arguments: faulty(kernel.__name__, kernel(*arguments))

def faulty(name, outputs):
"""
FAITHFUL = "    return outputs\n"
FAULTY = """
    if name == "four_step":
        raise AssertionError("partition dimension 256 exceeds maximum 128")
    if name == "bluestein":
        os._exit(7)
    if name == "real_dft_gemm":
        return outputs[0], outputs[1][:, 1:]
    factor = {"stockham": 1.001, "dft_gemm": 1 + 3e-7}.get(name, 1)
    outputs[0][...] *= factor
    return outputs
"""


@pytest.fixture
def compare(tmp_path):
    """Runs the script with an nki of this source, or without one."""

    def run(source, *arguments):
        if source is not None:
            (tmp_path / "nki.py").write_text(source)
        command = [sys.executable, str(SCRIPT), *arguments]
        variables = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)

    return run


def rows_of(path):
    return {row["case"]: row for row in json.loads(path.read_text())["cases"]}


def test_every_kernel_has_a_case():
    folder = nki_kernels.__path__
    found = pkgutil.walk_packages(folder, "nki_kernels.")
    modules = [importlib.import_module(each.name) for each in found]
    kernels = {
        thing.__name__
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, nki_sim.Kernel) and thing.__module__ == module.__name__
    }
    assert len(kernels) > 15
    assert {case.kernel.__name__ for case in all_cases()} == kernels
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names)


def test_our_simulator_computes_every_case_without_a_warning():
    with nki_sim.strict():
        for case in all_cases():
            outputs = nki_sim.simulate(case.kernel)(*case.arguments())
            parts = outputs if isinstance(outputs, tuple) else [outputs]
            assert all(np.isfinite(part).all() and part.any() for part in parts), case.name


@pytest.mark.sweep
def test_equal_simulators_agree_on_every_kernel(compare, tmp_path):
    done = compare(STAND_IN + FAITHFUL, "--target", "trn2")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(tmp_path / "comparison.json")
    assert set(rows) == {case.name for case in all_cases()}
    assert {row["status"] for row in rows.values()} == {"bitwise equal"}
    assert json.loads((tmp_path / "comparison.json").read_text())["target"] == "trn2"


@pytest.mark.sweep
def test_differences_rejections_and_crashes_are_told_apart(compare, tmp_path):
    names = "dft_gemm", "bluestein", "stockham", "four_step", "real_dft_gemm", "butterfly"
    done = compare(STAND_IN + FAULTY, *names, "--out", "found.json")
    assert done.returncode == 1, done.stderr
    rows = rows_of(tmp_path / "found.json")
    assert {name: row["status"] for name, row in rows.items()} == {
        "dft_gemm": "close",
        "bluestein": "rejected",
        "stockham": "different",
        "four_step": "rejected",
        "real_dft_gemm": "different",
        "butterfly": "bitwise equal",
    }
    assert 0 < rows["dft_gemm"]["relative_l2"] < rows["dft_gemm"]["tolerance"]
    assert rows["stockham"]["relative_l2"] > rows["stockham"]["tolerance"]
    assert "AWS's simulator: the process ended with code 7" in rows["bluestein"]["detail"]
    assert "AssertionError: partition dimension 256" in rows["four_step"]["detail"]
    for name, row in rows.items():
        assert name in done.stdout and row["status"] in done.stdout


@pytest.fixture
def compared(tmp_path, monkeypatch):
    """Runs the script in this process, with something in the place of AWS's outputs."""

    def run(change):
        def outcomes(names, folder, variables):
            is_ours = variables[SIMULATOR_VARIABLE] == "1"
            return {name: [OUTPUT] if is_ours else change(OUTPUT) for name in names}

        monkeypatch.setattr(compare_simulators, "why_no_nki", lambda: "")
        monkeypatch.setattr(compare_simulators, "outcomes", outcomes)
        monkeypatch.chdir(tmp_path)
        code = compare_simulators.main(["butterfly"])
        return code, rows_of(tmp_path / "comparison.json")["butterfly"]

    return run


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda output: [1.001 * output], "different"),
        (lambda output: [output[1:]], "different"),
        (lambda output: "the process ended with code 7: ", "rejected"),
    ],
    ids=["numbers", "shape", "crash"],
)
def test_one_fault_is_enough_to_fail(compared, change, status):
    code, row = compared(change)
    assert code == 1 and row["status"] == status


def test_what_is_equal_or_close_is_no_fault(compared):
    code, row = compared(lambda output: [output])
    assert code == 0 and row["status"] == "bitwise equal"
    code, row = compared(lambda output: [output * np.float32(1 + 3e-7)])
    assert code == 0 and row["status"] == "close"


def test_nan_is_a_difference_and_the_report_stays_json(compared):
    code, row = compared(lambda output: [np.where(np.arange(8) == 0, np.nan, output)])
    assert code == 1
    assert row["status"] == "different" and row["relative_l2"] is None


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (None, "nki is not installed; pip install "),
        ("", "the placeholder of the public index; pip install "),
        ("raise ImportError('WRONG PACKAGE.')", "the placeholder of the public index: WRONG"),
        ("raise OSError('no libnrt')", "cannot be imported: no libnrt"),
    ],
)
def test_without_the_real_nki_it_says_so(tmp_path, monkeypatch, capsys, source, sentence):
    for name in [name for name in sys.modules if name.partition(".")[0] == "nki"]:
        monkeypatch.delitem(sys.modules, name)
    others = [finder for finder in sys.meta_path if not isinstance(finder, NkiFinder)]
    monkeypatch.setattr(sys, "meta_path", others)
    if source is not None:
        (tmp_path / "nki.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    try:
        assert compare_simulators.main([]) == 2
    finally:
        sys.modules.pop("nki", None)
    said = capsys.readouterr().err
    assert sentence in said and how_to_install("nki", "neuronx-cc") in said
    assert not (tmp_path / "comparison.json").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fft"], "argument CASE is 'fft', allowed are dft_gemm"),
        (["--target", "trn9"], "argument --target: target 'trn9' is not known"),
        (["--out", "missing/a.json"], "there is no folder missing"),
    ],
)
def test_bad_arguments(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as end:
        compare_simulators.main(arguments)
    assert end.value.code == 2 and sentence in capsys.readouterr().err
