"""Where the real nki is installed, kernels belong to it; prices and simulation still work.

The real nki is not installed here. A package of that name, whose kernels refuse to run, takes its
place.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAND_IN = """
import sys
from nki_sim.import_nki.modules import simulated_nki

modules = simulated_nki()
del modules["nki"]
sys.modules.update(modules)

class Opaque:
    __slots__ = "function",

def jit(function):
    kernel = Opaque()
    kernel.function = function
    return kernel
"""


@pytest.fixture
def run(tmp_path):
    """Runs Python code where the stand-in is installed; returns what it prints."""

    def run(code):
        (tmp_path / "nki.py").write_text(STAND_IN)
        variables = os.environ | {
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "XDG_CACHE_HOME": str(tmp_path),
            "NKI_SIM_ALWAYS": "0",
        }
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_kernel_is_modelled_and_simulated_as_a_copy(run):
    code = """
import numpy as np
import nki_sim
from nki_kernels.base import isa
from nki_kernels.fft import dft_gemm
from tests.tolerances import near, transforms
assert isa.REAL_NKI and not isinstance(dft_gemm.dft_gemm, nki_sim.Kernel)
x = np.random.default_rng(0).standard_normal((2, 7)).astype(np.float32)
arrays = x, 0 * x, dft_gemm.dft_gemm_matrix(7, False, 1.0)
re, im = nki_sim.simulate(dft_gemm.dft_gemm)(*arrays)
near(re + 1j * im, np.fft.fft(x.astype(np.float64)), transforms(7))
print(nki_sim.dry_run(dft_gemm.dft_gemm, *arrays).total_ns)
"""
    assert float(run(code)) > 0


@pytest.mark.weekly
@pytest.mark.sweep
def test_a_plan_is_searched_for_and_simulated(run):
    code = """
import torch, trnfft
from nki_kernels.base import isa
from nki_kernels.fft import stockham
from nki_sim import Kernel
from tests.tolerances import near, transforms
assert isa.REAL_NKI and not isinstance(stockham.stockham, Kernel)
n = 7
plan = trnfft.plan(n, batch=2)
x = torch.randn(2, n)
with trnfft.backend("nki-sim"):
    y = trnfft.fft(x).to_complex()
near(y, torch.fft.fft(x.double()), transforms(n))
print(plan.predicted_ns)
"""
    assert float(run(code)) > 0


def test_other_kernels_of_the_real_nki_are_refused(run):
    code = """
import nki
import nki_sim

@nki.jit
def kernel(x):
    return x

try:
    nki_sim.simulate(kernel)
except TypeError as error:
    print(error)
"""
    assert "set NKI_SIM_ALWAYS=1" in run(code)


def test_the_simulators_copy_of_a_kernel_has_the_simulators_nki(run):
    code = """
import importlib, sys
import nki_sim
from nki_kernels.base.simulator_copy import copied_module

kernels = copied_module("nki_kernels.fft.stockham")
assert kernels is not importlib.import_module("nki_kernels.fft.stockham")
assert isinstance(kernels.stockham, nki_sim.Kernel)
copied = {path.split(".")[0] for path in sys.modules if path.endswith("_in_simulator")}
assert copied == {"nki_kernels_in_simulator"}
"""
    run(code)
