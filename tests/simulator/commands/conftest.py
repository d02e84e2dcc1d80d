import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

KERNELS = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def scaled(x, factor, columns=4):
    out = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, 0:columns])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def half_loaded(x):
    out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:4], src=x[:, 0:4])
    nisa.dma_copy(dst=out, src=tile)
    return out
"""

MORE = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def never_reset(x):
    tile = nl.load(x)
    bank = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(bank, tile, tile[:, 0:8], accumulate=True)
    return bank


@nki.jit
def ahead(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + 128])
        nisa.dma_copy(dst=out[row : row + 128], src=tile)
    return out


if __name__ == "__main__":
    ahead(np.zeros((256, 12288), np.float32))
"""

BAD = """
import nki
import nki.language as nl


@nki.jit
def comprehends(x):
    tiles = [x for _ in range(2)]
    return tiles[0]
"""


@pytest.fixture
def more(folder):
    """A file of kernels that are wrong only as a whole, which is a script, too."""
    (folder / "more.py").write_text(MORE, "utf-8")


@pytest.fixture
def folder(tmp_path):
    """A user's project: a file of kernels that are right, and one of a wrong one."""
    (tmp_path / "kernels.py").write_text(KERNELS, "utf-8")
    (tmp_path / "bad.py").write_text(BAD, "utf-8")
    return tmp_path


@pytest.fixture
def nki_sim(folder):
    """Runs the command there, in a process of its own."""

    def run(*arguments, module="nki_sim", **settings):
        command = [sys.executable, "-m", module, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )

    return run


@pytest.fixture
def here(folder, monkeypatch, capsys):
    """Runs the command in this process, and gives its exit code, output and errors."""
    from nki_sim.__main__ import main

    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["nki-sim"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "kernels", raising=False)  # a package that transformers loads
    chip = "NEURON_PLATFORM_TARGET_OVERRIDE"
    for variable in ("NKI_SIM_ALWAYS", "NKI_SIMULATOR", "NKI_SIM_RELEASE", chip):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "")
    before = set(sys.modules)
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "nki"}

    def run(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ended:  # argparse
            code = ended.code
        return code, *capsys.readouterr()

    yield run
    for name in set(sys.modules) - before:
        if name.partition(".")[0] not in ("nki_kernels", "nki_sim"):
            del sys.modules[name]
    sys.modules.update(kept)
