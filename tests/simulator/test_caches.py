"""Results follow what changes below the keys of caches. docs/caches.md lists the caches."""

import dataclasses
import importlib
import sys

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware, lint
from nki_sim.instructions import work
from nki_sim.timeline import prices

from .conftest import copied, refuses

HEAD = "from nki_kernels.base.isa import nki, nisa, nl\n"


def rewritten(path, *lines):
    """Writes a module anew and loads it; returns its function `kernel`."""
    path.write_text(HEAD + "\n".join(lines))
    importlib.invalidate_caches()
    loaded = sys.modules.get(path.stem)
    module = importlib.reload(loaded) if loaded else importlib.import_module(path.stem)
    return module.kernel


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path / "rewritten_kernel.py"
    sys.modules.pop("rewritten_kernel", None)


def test_messages_read_the_source_as_it_is_now(file):
    for name, more in (("first", ()), ("second", ("", ""))):
        tile = f"    {name} = nl.ones((4, 4), nl.float32)"
        kernel = rewritten(file, *more, "def kernel():", tile, f"    {name} + 1")
        with pytest.raises(TypeError, match=rf"\({name} of rewritten_kernel.py:{3 + len(more)}\)"):
            nki_sim.simulate(kernel)()


@pytest.mark.lenient
def test_the_rule_for_while_reads_the_source_as_it_is_now(file):
    tile = "    tile = nl.ones((4, 4), nl.float32)"
    kernel = rewritten(file, "def kernel():", tile, "    if tile: pass")
    with pytest.warns(nki_sim.NkiSimulationWarning, match="truth value"):
        nki_sim.simulate(kernel)()
    kernel = rewritten(file, "def kernel():", tile, "    while tile: break")
    refuses("truth value", nki_sim.simulate(kernel))


def test_lint_reads_the_source_as_it_is_now(file):
    kernel = rewritten(file, "def kernel(x):", "    return x")
    assert not lint.lint(kernel, release="0.6")
    kernel = rewritten(file, "def kernel(x):", "    return (y for y in x)")
    assert lint.lint(kernel, release="0.6")


def test_a_kernel_whose_code_was_replaced_has_its_new_arguments():
    def kernel(x):
        return copied(x)

    def other(x, z):
        return copied(z)

    launch, ones = nki_sim.simulate(nki.jit(kernel)), np.ones((4, 4), np.float32)
    assert launch(ones).sum() == 16
    kernel.__code__ = other.__code__  # as IPython's autoreload does
    assert launch(ones, 2 * ones).sum() == 32


def test_prices_follow_the_chip():
    def total():
        with nki_sim.record() as timeline:
            nki_sim.simulate(nki.jit(copied)).with_programs(1)(np.ones((4, 4), np.float32))
        return timeline.total_ns

    slower = dataclasses.replace(hardware.TRN2, dma_start_ns=hardware.TRN2.dma_start_ns + 1000)
    found = []
    for chip in (hardware.TRN2, slower, hardware.TRN2):
        with hardware.select(chip):
            found.append(total())
    assert found[1] > found[0] == found[2]


def test_prices_of_variants_are_kept(monkeypatch):
    """Of products with a moving operand anywhere in 16 bytes, and of copies on ScalarE."""

    def kernel():
        bank = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        left, right = [nl.zeros((128, 256), nl.float32) for _ in range(2)]
        for n in range(8):
            nisa.nc_matmul(bank, left[:, 0:128], right[:, n + 1 : n + 129])
            nisa.tensor_copy(right[:, 0:128], bank)
            nisa.tensor_copy(left, right)
        return copied(left)

    found = []

    def noted(issue, chip):
        found.append(issue)
        return work.priced(issue, chip)

    monkeypatch.setattr(prices, "priced", noted)
    with hardware.select(hardware.TRN2):
        for _ in range(2):
            found.clear()
            timeline = nki_sim.dry_run(kernel)
            assert timeline.low_ns < timeline.high_ns
    assert timeline.on_scalar and not found


def test_values_follow_the_precision_of_low_precision_types(monkeypatch):
    def rounded(x):
        y = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=y, src=x)
        return y

    found = []
    for precise in ("1", "0", "1"):
        monkeypatch.setenv("NKI_PRECISE_FP", precise)
        y = nki_sim.simulate(nki.jit(rounded))(np.full((4, 4), 1.001, np.float32))
        found.append(float(y[0, 0]))
    assert found == [1, np.float32(1.001), 1]
