"""scripts/compile_kernels.py: one process for each launch, and the report on refused launches.

The real nki is not installed here. A package of that name takes its place. It has kernels and
`StandaloneKernel` with the fields of NKI 0.6, as public copies show them, and a compiler that
writes a NEFF and tables of instructions. The compiler refuses some kernels, and crashes at another.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import compile_kernels
import neuron_wheels
import nki_sim
from nki_sim import hardware
from nki_sim.base.installed_nki import FoundNki
from nki_sim.base.neuron_packages import how_to_install
from trnfft.planner.algorithms import ALGORITHMS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "compile_kernels.py"

NKI = """
import inspect, sys
from dataclasses import dataclass, fields, replace
from typing import Callable
from nki_sim.import_nki.modules import simulated_nki

modules = simulated_nki()
del modules["nki"]
sys.modules.update(modules)

@dataclass(frozen=True)
class Kernel:
    func: Callable
    lnc: int = 1
    schedule: tuple = ()
    address_rotation: bool = True
    barrier_check: bool = False

    def __getitem__(self, lnc):
        return replace(self, lnc=lnc)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("this would run on a NeuronCore")

    def _bind_args(self, args, kwargs):
        return inspect.signature(self.func).bind(*args, **kwargs).arguments

    def _to_subclass(self, cls, **kwargs):
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "func"}
        return cls(self.func, **{**own, **kwargs})

jit = Kernel
"""

COMPILED = """
import os, tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable
import numpy as np
from nki import Kernel

class NCCError(Exception):
    pass

@dataclass
class CompiledKernel:
    neff_path: str
    target: str
    neuronx_cc_time: float = 0.0

@dataclass(frozen=True)
class CompileKernel(Kernel):
    artifacts_dir: str = ""
    target: str | None = None
    _enable_backend_opt: bool = False
    _executor: Callable | None = None
    _frontend_cls: type = object
    _enable_simulation: bool = False
    _enable_device_dump: bool = False

TABLE = '''
┌─────────────────┬───────┐
│ Opcode          │ Count │
├─────────────────┼───────┤
│ MATMUL          │ 1,028 │
│ UNKNOWN(0xd4)   │ 48    │
│ COPY            │ 16    │
└─────────────────┴───────┘
'''

@dataclass(frozen=True)
class StandaloneKernel(CompileKernel):
    def __call__(self, *args, **kwargs):
        inputs = self._bind_args(args, kwargs)
        name = self.func.__name__
        target = self.target or os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"]
        assert os.environ["NEURON_LOGICAL_NC_CONFIG"] == str(self.lnc)
        assert "NKI_SIMULATOR" not in os.environ and not os.listdir()
        assert not any(isinstance(value, list) for value in inputs.values()), "several ranks"
        if name == "four_step":
            raise NCCError("[NCC_IBIR058] does not support\\nPE tile size 32x32")
        if name == "bluestein":
            os._exit(7)
        with tempfile.TemporaryDirectory(prefix="nki_") as folder:
            for core in range(self.lnc):
                tables = Path(folder, f"nc{core:02}", "sg00")
                tables.mkdir(parents=True)
                (tables / "instruction_stats.txt").write_text(TABLE)
            neff = Path(folder, "kernel.neff")
            neff.write_bytes(b"neff")
            if name != "stockham":
                self._executor(CompiledKernel(str(neff), target, 1.5), dict(inputs), {})
        return None
"""


@pytest.fixture
def variables(tmp_path, monkeypatch):
    """Of processes that find the stand-in and its compiler, and others' settings."""
    (tmp_path / "nki" / "framework").mkdir(parents=True)
    (tmp_path / "nki" / "__init__.py").write_text(NKI)
    (tmp_path / "nki" / "framework" / "__init__.py").touch()
    (tmp_path / "nki" / "framework" / "compiled.py").write_text(COMPILED)
    compiler = tmp_path / "bin" / "neuronx-cc"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    for name, value in {
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "PATH": f"{compiler.parent}:{os.environ['PATH']}",
        "NKI_SIMULATOR": "1",
        hardware.LNC_VARIABLE: "1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.sweep
def test_refusals_and_crashes_do_not_stop_the_rest(variables, tmp_path):
    kernels = "four_step", "dft_gemm", "bluestein", "stockham"
    options = [word for name in kernels for word in ("--kernel", name)]
    words = ["--target", "trn2", *options, "--json", "found.json", "--jobs", "2"]
    command = [sys.executable, SCRIPT, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    printed = done.stdout
    assert done.returncode == 1, printed
    report = json.loads((tmp_path / "found.json").read_text())
    rows = {row["kernel"]: row for row in report["launches"]}
    assert {name: row["status"] for name, row in rows.items()} == {
        "four_step": "refused",
        "dft_gemm": "compiled",
        "bluestein": "refused",
        "stockham": "refused",
    }
    assert rows["four_step"]["refusal"].startswith("NCCError: [NCC_IBIR058]")
    assert "ended with code 7" in rows["bluestein"]["refusal"]
    assert "without a NEFF" in rows["stockham"]["refusal"]
    assert rows["dft_gemm"]["instructions"] == 2 * (1028 + 48 + 16)  # of both cores
    for row in rows.values():
        assert row["chip"] == "trn2" and row["lnc"] == 2 and row["seconds"] >= 0
    assert rows["dft_gemm"]["compiler_seconds"] == 1.5
    never, title, *lines, summary = printed.splitlines()
    assert "never run against the real compiler" in never == report["note"]
    assert [each.split()[0] for each in lines] == list(kernels)
    assert lines[0].endswith("refused: NCCError: [NCC_IBIR058] does not support PE tile size 32x32")
    assert "instructions" in title and summary == "compiled: 1, refused: 3"
    assert report["versions"]["python"]


def test_all_that_compile_end_with_0(monkeypatch, capsys):
    def compiled_all(launches, jobs):
        return [compile_kernels.row_of(launch, 12.34, instructions=7) for launch in launches]

    monkeypatch.setattr(compile_kernels, "why_no_nki", lambda: "")
    monkeypatch.setattr(compile_kernels.shutil, "which", lambda name, path: name)
    monkeypatch.setattr(compile_kernels, "compiled_all", compiled_all)
    assert compile_kernels.main(["--kernel", "convolve_rows"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [each.split()[1] for each in lines[2:-1]] == list(hardware.NAMES)
    assert lines[2].split()[5:] == ["12.3", "7", "compiled"]
    assert lines[-1] == "compiled: 3, refused: 0"


def test_a_launch_that_takes_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(compile_kernels, "SECONDS", 0.05)
    (launch,) = compile_kernels.launches_for("trn1", ["dft_gemm"])
    (row,) = compile_kernels.compiled_all([launch], 1)
    assert row["status"] == "refused" and row["refusal"] == "it took more than 0.05 s"


def test_a_compiler_that_leaves_no_table_of_instructions(tmp_path):
    assert compile_kernels.instructions_in(tmp_path) is None
    (tmp_path / "instruction_stats.txt").write_text("│ MATMUL │ 2 │\n│ TOTAL │ 2 │\n")
    assert compile_kernels.instructions_in(tmp_path) == 2


# Which launches


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_one_launch_of_every_kernel_at_the_chips_degree(chip):
    launches = compile_kernels.launches_for(chip, None)
    assert [launch.recipe.algorithm for launch in launches] == list(ALGORITHMS)
    assert {launch.cores for launch in launches} == {hardware.chip(chip).programs_per_launch}
    some = compile_kernels.launches_for(chip, ["stockham", "axes"])
    assert some == [one for one in launches if one.recipe.algorithm in ("stockham", "axes")]


def test_launches_travel_to_their_process():
    for launch in compile_kernels.launches_for("trn2", None):
        entry = json.loads(json.dumps(launch.to_dict()))
        assert compile_kernels.Launch.from_dict(entry) == launch


def test_arguments_are_what_kernels_take():
    for launch in compile_kernels.launches_for("trn2", None):
        kernel = ALGORITHMS[launch.recipe.algorithm].kernel
        if launch.recipe.n * launch.batch > 2**17:  # large tables
            continue
        arguments = launch.arguments()
        assert not any(isinstance(argument, list) for argument in arguments)
        inspect.signature(kernel.func).bind(*arguments)
        with hardware.select(hardware.TRN2):
            assert nki_sim.dry_run(kernel[launch.cores], *arguments).launches == 1


# Without the wheels


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (FoundNki("absent"), "nki is not installed; pip install "),
        (FoundNki("broken", error="no libnrt"), "cannot be imported: no libnrt; pip install"),
        (FoundNki("real"), "neuronx-cc is not on PATH; pip install "),
    ],
)
def test_with_nothing_to_compile_with_it_says_so(monkeypatch, capsys, found, sentence):
    monkeypatch.setattr(neuron_wheels, "find_nki", lambda: found)
    monkeypatch.setattr(compile_kernels, "search_path", lambda: "")
    assert compile_kernels.main([]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err and how_to_install("nki", "neuronx-cc") in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--target", "trn9"], "argument --target: invalid choice: 'trn9'"),
        (["--kernel", "fft"], "argument --kernel: invalid choice: 'fft'"),
        (["--jobs", "0"], "argument --jobs is 0, allowed is 1 or more"),
        (["--json", "missing/a.json"], "there is no folder missing"),
    ],
)
def test_bad_arguments(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as end:
        compile_kernels.main(arguments)
    assert end.value.code == 2 and sentence in capsys.readouterr().err
