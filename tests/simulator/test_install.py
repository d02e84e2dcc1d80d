"""``import nki`` through the simulator, and the runner of scripts."""

import subprocess
import sys
from pathlib import Path

import pytest

from nki_sim.base.neuron_packages import how_to_install

SCRIPT = """
import sys
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
from nki.isa import engine
from nki.language import float32


@nki.jit
def double(x: nt.tensor[128, 4]):
    out = nl.ndarray(x.shape, dtype=float32, buffer=nl.shared_hbm)
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, 2.0, engine=engine.vector)
    nl.store(out, t)
    return out


x = np.ones((128, 4), np.float32)
print(double(x).sum(), nki.simulate(double)(x).sum(), sys.argv[1:], __name__)
"""


def python(*arguments, cwd, path="", **settings):
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": f"{path}:{root}", "PATH": "/usr/bin:/bin", **settings}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_a_script_runs_unmodified_with_its_arguments(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT + CONSTANTS)
    done = python("-m", "nki_sim", "script.py", "a", "--b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1024.0 1024.0 ['a', '--b'] __main__\n"


def test_install_refuses_where_the_real_package_is(tmp_path):
    (tmp_path / "nki.py").write_text("def jit(f): return f\n")
    code = "import nki_sim; nki_sim.install()"
    done = python("-c", code, cwd=tmp_path, path=str(tmp_path))
    assert done.returncode == 1
    assert "the real nki package is installed" in done.stderr


def test_the_command_is_the_simulators_where_the_real_package_is(tmp_path):
    (tmp_path / "nki.py").write_text("def jit(f): return f\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python("-m", "nki_sim", "script.py", cwd=tmp_path, path=str(tmp_path))
    assert done.stdout == "1024.0 1024.0 [] __main__\n", done.stderr


WRONG_PACKAGE = "raise ImportError('WRONG PACKAGE. Please install the package from ...')\n"
REAL = "def jit(f): return f\n"


def installed_nki(folder, body):
    """A package ``nki`` with this ``__init__.py``."""
    package = folder / "nki"
    package.mkdir()
    (package / "__init__.py").write_text(body)
    (package / "language.py").write_text("")
    (package / "isa.py").write_text("")


@pytest.mark.parametrize("body", ["", WRONG_PACKAGE, REAL], ids=["empty", "0.0.1", "real"])
def test_a_placeholder_is_not_the_real_package(tmp_path, body):
    installed_nki(tmp_path, body)
    code = "from nki_kernels.base import isa; print(isa.REAL_NKI)"
    done = python("-W", "error", "-c", code, cwd=tmp_path, path=str(tmp_path))
    assert done.stdout == f"{body == REAL}\n", done.stderr


def test_an_nki_that_cannot_be_imported_is_replaced_with_a_warning(tmp_path):
    installed_nki(tmp_path, "raise OSError('libnrt.so.1: no such file')\n")
    code = "from nki_kernels.base import isa; print(isa.REAL_NKI)"
    done = python("-c", code, cwd=tmp_path, path=str(tmp_path))
    assert done.stdout == "False\n"
    assert "cannot be imported (libnrt.so.1: no such file)" in done.stderr
    assert how_to_install("nki") in done.stderr


def test_the_simulator_can_be_had_where_the_real_package_is(tmp_path):
    installed_nki(tmp_path, REAL)
    code = "from nki_kernels.base import isa; print(isa.REAL_NKI)"
    forced = {"NKI_SIM_ALWAYS": "1"}
    done = python("-c", code, cwd=tmp_path, path=str(tmp_path), **forced)
    assert done.stdout == "False\n", done.stderr


# AWS's nki-library imports these three names from nki.isa.constants (16 files, one of them as a
# module); the SDK documents them, and four enumerations more, in nki/api/nki/isa/__init__.py.
CONSTANTS = """
import nki.isa as nisa
from nki.isa import constants as nisa_constants
from nki.isa.constants import dge_mode, matmul_perf_mode, oob_mode

assert dge_mode is nisa.dge_mode and nisa_constants.oob_mode is nisa.oob_mode
names = ("dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode")
assert all(getattr(nisa_constants, n) is getattr(nisa, n) for n in (*names, "reduce_cmd"))
"""
