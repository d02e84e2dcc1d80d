"""The time of `import trnfft` and the modules that it loads, measured in new interpreters."""

import json
import subprocess
import sys
from importlib.metadata import version

import trnfft

from .test_namesake import install


def run(program: str, *arguments: str) -> str:
    """Returns what a program prints in a new interpreter."""
    completed = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


PROGRAM = """
import json, sys, time
start = time.process_time()
import torch
others = time.process_time() - start
modules = {"torch": [*sys.modules]}
start = time.process_time()
try:
    import trnfft
except ImportError as error:
    refusal = str(error)
sys.path.remove(sys.argv[1])
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
print(json.dumps([refusal, seconds / others, modules, backend, first]))
"""


def test_import_in_a_fresh_process(tmp_path, monkeypatch):
    """First beside the other project of the name, which is refused, and then without it."""
    install(tmp_path, "trnfft", "0.21.0", "Something else")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TRNFFT_BACKEND", "matmul")
    refusal, ratio, modules, backend, first = json.loads(run(PROGRAM, str(tmp_path)))
    assert "'trnfft', version 0.21.0, is another project" in refusal
    assert ratio < 0.4, "import trnfft takes long beside torch"
    heavy = {"matplotlib", "boto3", "typer", "rich", "scipy", "nki_sim.import_nki.modules"}
    heavy |= {"torch._dynamo", "torch._functorch"} - set(modules["torch"])
    assert heavy.isdisjoint(modules["trnfft"])
    assert backend == "matmul", "the environment names the backend"
    simulator = "nki_sim.import_nki.modules"
    assert simulator not in modules["fft"], "the torch backend needs no simulator"
    assert "scipy" not in modules["scipy_backend"]
    assert first == 4, "scipy.fft has trnfft as its global backend"


def test_kernels_need_no_torch():
    imports = "nki_kernels.fft.dft_gemm, nki_sim.import_nki.modules"
    run(f"import sys; sys.modules['torch'] = None; import {imports}")


def test_version_is_that_of_the_distribution():
    assert trnfft.__version__ == version("trnfft-nki")


def test_everything_exported_exists():
    assert all(hasattr(trnfft, name) for name in trnfft.__all__)
