"""Errors and warnings of a kernel end at its own line, and a kernel shows its name."""

import inspect
import os
import sys
import traceback
import warnings

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_sim import dry_run, hardware
from nki_sim.errors import NkiSimulationWarning, NkiValidationError
from nki_sim.rules import host_memory


@nki.jit
def too_wide(x):
    tile = nl.ndarray((129, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return x


@nki.jit
def in_a_loop(x):
    def body(i):
        tile = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[0:4])

    nl.fori_loop(0, 2, body)
    return x


@nki.jit
def wrong_keyword(x):
    tile = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, source=x)
    return x


@nki.jit
def divides_by_zero(x):
    return x[0 : 4 // (x.shape[0] - 4)]


@nki.jit
def exits(x):
    sys.exit(0)


@nki.jit
def copies(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def reads_unwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=tile)
    return out


def _line_of(kernel, text):
    lines, first = inspect.getsourcelines(kernel.func)
    return first + next(number for number, line in enumerate(lines) if text in line)


def _last_frame(error):
    return traceback.extract_tb(error.__traceback__)[-1]


X = np.zeros((4, 8), np.float32)


@pytest.mark.parametrize("launch", [lambda k, x: k(x), dry_run], ids=["run", "dry"])
@pytest.mark.parametrize(
    ("kernel", "kind", "line"),
    [
        (too_wide, NkiValidationError, "nl.ndarray"),
        (in_a_loop, NkiValidationError, "nisa.dma_copy"),
        (wrong_keyword, TypeError, "nisa.dma_copy"),
        (divides_by_zero, ZeroDivisionError, "return"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_traceback_ends_at_the_line_of_the_kernel(launch, kernel, kind, line):
    with pytest.raises(kind) as caught:
        launch(kernel, X)
    last = _last_frame(caught.value)
    assert last.filename == __file__
    assert last.lineno == _line_of(kernel, line)


def test_a_traceback_of_two_cores_ends_at_the_line_of_the_kernel():
    chip = hardware.select(hardware.chip("trn2"))
    with chip, pytest.raises(NkiValidationError) as caught:
        too_wide[2](X)
    assert _last_frame(caught.value).lineno == _line_of(too_wide, "nl.ndarray")


@pytest.mark.parametrize("launch", [lambda k, x: k(x), dry_run], ids=["run", "dry"])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_kernel_cannot_end_the_program(launch, cores):
    says = r"kernel exits ends the program by sys.exit\(0\), but a kernel has to return"
    with hardware.select(hardware.chip("trn2")), pytest.raises(RuntimeError, match=says) as caught:
        launch(exits.with_programs(cores), X)
    assert _last_frame(caught.value).lineno == _line_of(exits, "sys.exit")


def test_a_recursion_that_fills_the_memory_of_this_computer_ends(monkeypatch):
    left = host_memory.LEFT_BYTES + 8 * host_memory.STEP_BYTES
    monkeypatch.setattr(host_memory, "STEP_BYTES", 0)
    depth = 0

    def recursive(x):
        nonlocal depth
        depth += 1
        assert depth < 9
        monkeypatch.setattr(host_memory, "available_bytes", lambda: left >> depth)
        nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        return recursive(x)

    says = "kernel recursive allocates shared_hbm tile 4x8 float32, which needs .* end a recursion"
    with pytest.raises(MemoryError, match=says) as caught:
        nki.jit(recursive)(X)
    assert depth > 1 and _last_frame(caught.value).name == "recursive"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory is left")
def test_linux_says_how_much_memory_is_left():
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < host_memory.available_bytes() <= installed


def test_the_simulators_own_errors_keep_their_lines(monkeypatch):
    from nki_sim.launch import session

    def broken(*_):
        return [][1]

    monkeypatch.setattr(session.Session, "_check_count", broken)
    with pytest.raises(IndexError) as caught:
        copies(X)
    assert _last_frame(caught.value).name == "broken"
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "_launch" in names


@pytest.mark.lenient
def test_a_warning_is_at_the_line_of_the_kernel():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reads_unwritten(X)
    told = [warning for warning in caught if warning.category is NkiSimulationWarning]
    assert told
    assert {(warning.filename, warning.lineno) for warning in told} == {
        (__file__, _line_of(reads_unwritten, "dma_copy"))
    }


def test_a_kernels_repr_has_its_name_and_cores():
    assert repr(too_wide) == "<nki kernel too_wide of test_tracebacks.py>"
    assert repr(too_wide[2]) == "<nki kernel too_wide[2] of test_tracebacks.py>"
