"""What `import trnfft` costs and loads. Each test asks a fresh interpreter."""

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


def test_import_takes_less_than_half_a_second_beyond_torch():
    seconds = run(
        "import time, torch; start = time.process_time(); import trnfft; "
        "print(time.process_time() - start)"
    )
    assert float(seconds) < 0.5


def test_import_loads_no_heavy_module():
    loaded = run("import sys, trnfft; print(*sys.modules)").split()
    heavy = {"matplotlib", "boto3", "typer", "rich", "scipy", "nki_kernels.simulator"}
    heavy |= {"torch._dynamo", "torch._functorch"} - set(
        run("import sys, torch; print(*sys.modules)").split()
    )
    assert heavy.isdisjoint(loaded)


def test_the_torch_backend_loads_no_simulator():
    loaded = run(
        "import sys, torch, trnfft; trnfft.fft(torch.ones(4)); print(*sys.modules)"
    ).split()
    assert "nki_kernels.simulator" not in loaded


@pytest.mark.parametrize(
    "module",
    [
        "nki_kernels",
        "nki_kernels.dft_gemm",
        "nki_kernels.kernels.dft_gemm",
        "nki_kernels.simulator",
    ],
)
def test_kernels_need_no_torch(module):
    run(f"import sys; sys.modules['torch'] = None; import {module}")


def test_version_is_that_of_the_distribution():
    assert trnfft.__version__ == version("trnfft")


def test_everything_exported_exists():
    assert all(hasattr(trnfft, name) for name in trnfft.__all__)
