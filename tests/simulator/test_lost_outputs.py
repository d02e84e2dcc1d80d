"""Tensors in nl.shared_hbm that a kernel computes and does not return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

from .conftest import RULE, line_of, refuses

FILE = "test_lost_outputs.py"
X = np.arange(1024, dtype=np.float32).reshape(128, 8)
SPEC = ((128, 8), "float32")
RUNS = {
    "launch": lambda kernel: nki.simulate(kernel)(X.copy()),
    "dry run": lambda kernel: nki_sim.dry_run(kernel, SPEC),
    "noted dry run": lambda kernel: _noted(kernel),
}


def _noted(kernel):
    with nki_sim.sources():
        return nki_sim.dry_run(kernel, SPEC)


def output(x):
    return nl.ndarray(x.shape, x.dtype, nl.shared_hbm)


def copied(x, out):
    tile = nl.load(x)
    nisa.dma_copy(out, tile)
    return out


def forgets(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)  # forgotten
    copied(x, out)


def writes_nothing(x):
    out = output(x)
    copied(x, nl.ndarray(x.shape, x.dtype, nl.private_hbm))
    assert out.shape == x.shape


USELESS = {
    forgets: "the result is None",
    lambda x: [copied(x, output(x)), copied(x, output(x)), None][-1]: "the result is None",
    lambda x: copied(x, output(x)).shape: "the result is (128, 8)",
    writes_nothing: "the result is None",
}


@pytest.mark.lenient
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kernel", USELESS)
def test_a_kernel_without_any_effect_is_refused(kernel, run):
    with pytest.raises(RULE) as raised:
        RUNS[run](kernel)
    text = str(raised.value)
    assert text.startswith(f"return: {USELESS[kernel]}, but the kernel changes no argument, so ")
    assert raised.value.name == "lost-output"
    if kernel is forgets:
        place = line_of(__file__, "forgotten")
        tile = f"shared_hbm tile 128x8 float32 (out of {FILE}:{place})"
        assert text.endswith(f"It creates {tile}: end it with `return out`")
        assert raised.value.source is not None and raised.value.source.line == place


def forgets_one(x):
    first = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    second = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)  # the second
    copied(x, second)
    return copied(x, first)


def changes_and_forgets(x):
    second = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(x, copied(x, second))
    copied(x, second)
    third = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    copied(x, third)


@pytest.mark.lenient
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("kernel", "name"), [(forgets_one, "second"), (changes_and_forgets, "third")]
)
def test_one_lost_tensor_of_several_is_a_warning(kernel, name, run):
    with pytest.warns(nki_sim.NkiSimulationWarning) as told:
        RUNS[run](kernel)
    (text,) = {str(warning.message) for warning in told}
    assert text.startswith(f"return: shared_hbm tile 128x8 float32 ({name} of {FILE}:")
    assert "is not returned, but no instruction reads it, so that the values" in text
    with nki_sim.strict():
        refuses(f"{name} of .* no instruction reads it", RUNS[run], kernel)


@pytest.mark.lenient
def test_a_warning_has_the_line_that_creates_the_tensor():
    timeline = RUNS["noted dry run"](forgets_one)
    (warning,) = timeline.warnings
    assert (warning.rule, warning.number) == ("lost-output", None)
    assert warning.source.line == line_of(__file__, "the second")


@dataclass
class Pair:
    re: Any
    im: Any


def scratch_again(x):
    """Each write covers the reads before it; the last write is read, too."""
    between, out = output(x), output(x)
    for _ in range(3):
        copied(copied(x, between), out)
    return out


LEGAL = {
    "a tuple": lambda x: (copied(x, output(x)), (copied(x, output(x)), 3)),
    "a dict": lambda x: {"y": copied(x, output(x)), "n": 3},
    "a record": lambda x: Pair(copied(x, output(x)), [copied(x, output(x))]),
    "a view": lambda x: copied(x, output(x))[0:64],
    "scratch": lambda x: copied(copied(x, output(x)), output(x)),
    "scratch again": scratch_again,
    "private": lambda x: [
        copied(x, nl.ndarray(x.shape, x.dtype, where))
        for where in (nl.private_hbm, nl.hbm, nl.shared_hbm)
    ][-1],
    "an argument": lambda x: x,
    "changes its argument": lambda x: (copied(copied(x, output(x)), x), None)[1],
    "constants": lambda x: copied(nl.shared_constant(X), output(x)),
    "unused": lambda x: (output(x), copied(x, output(x)))[1],
    "nothing in HBM": lambda x: nisa.memset(nl.ndarray((4, 4), "float32"), 0.0) and None,
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("case", LEGAL)
def test_legal_kernels(case, run):
    found = RUNS[run](LEGAL[case])
    assert run == "launch" or found.launches == 1  # and no error, as warnings are errors here


def halves(x):
    first = nl.program_id(0) * 64
    return x[first : first + 64], slice(first, first + 64)


@pytest.mark.lenient
@pytest.mark.parametrize("dry", [False, True])
def test_two_cores(dry):
    def run(kernel):
        of_two = nki.simulate(kernel).with_programs(2)
        return nki_sim.dry_run(of_two, SPEC) if dry else of_two(X.copy())

    def lost(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        part, rows = halves(x)
        copied(part, out[rows])

    def swapped(x, returns=True):
        """The scratch memory that one program writes, and the other one reads."""
        between = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        part, rows = halves(x)
        copied(part, between[rows])
        nisa.core_barrier(between, (0, 1))
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        other = 64 - rows.start
        copied(between[other : other + 64], out[rows])
        return out if returns else between

    with hardware.select(hardware.chip("trn2")):
        refuses("It creates shared_hbm tile 128x8 .* `return out`", run, lost)
        with nki_sim.strict():
            found = run(swapped)
        if not dry:
            np.testing.assert_array_equal(found, np.roll(X, 64, 0))
        with pytest.warns(nki_sim.NkiSimulationWarning, match="out of .* is not returned, but"):
            run(lambda x: swapped(x, returns=False))
