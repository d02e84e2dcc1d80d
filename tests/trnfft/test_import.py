"""The time of `import trnfft` and the modules that it loads, measured in new interpreters."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import trnfft


def run(program: str) -> str:
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


PROGRAM = """
import json, sys, time
import torch
modules = {"torch": [*sys.modules]}
start = time.process_time()
import trnfft
seconds = time.process_time() - start
modules["trnfft"] = [*sys.modules]
backend = trnfft.get_backend()
trnfft.scipy_backend
modules["scipy_backend"] = [*sys.modules]
trnfft.set_backend("auto")
trnfft.fft(torch.ones(4))
modules["fft"] = [*sys.modules]
import numpy, scipy.fft
scipy.fft.set_global_backend(trnfft.scipy_backend, only=True)
first = scipy.fft.fft(numpy.ones(4))[0].real
print(json.dumps({"seconds": seconds, "modules": modules, "backend": backend, "first": first}))
"""


@pytest.fixture(scope="module")
def fresh():
    """What a fresh interpreter took and had loaded; the environment named a backend."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRNFFT_BACKEND", "matmul")
        return json.loads(run(PROGRAM))


def test_import_takes_less_than_half_a_second_beyond_torch(fresh):
    assert fresh["seconds"] < 0.5


def test_import_loads_no_heavy_module(fresh):
    heavy = {"matplotlib", "boto3", "typer", "rich", "scipy", "nki_sim.modules"}
    heavy |= {"torch._dynamo", "torch._functorch"} - set(fresh["modules"]["torch"])
    assert heavy.isdisjoint(fresh["modules"]["trnfft"])


def test_the_torch_backend_loads_no_simulator(fresh):
    assert "nki_sim.modules" not in fresh["modules"]["fft"]


def test_the_backend_of_scipy_loads_no_scipy_and_can_be_set_globally(fresh):
    assert "scipy" not in fresh["modules"]["scipy_backend"]
    assert fresh["first"] == 4


def test_the_environment_names_the_backend_at_import(fresh):
    assert fresh["backend"] == "matmul"


@pytest.mark.parametrize(
    "module",
    [
        "nki_kernels",
        "nki_kernels.fft.dft_gemm",
        "nki_sim",
        "nki_sim.modules",
    ],
)
def test_kernels_need_no_torch(module):
    run(f"import sys; sys.modules['torch'] = None; import {module}")


def test_version_is_that_of_the_distribution():
    assert trnfft.__version__ == version("trnfft-nki")


def test_everything_exported_exists():
    assert all(hasattr(trnfft, name) for name in trnfft.__all__)
