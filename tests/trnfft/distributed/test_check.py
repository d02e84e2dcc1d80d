"""The self-test of distributed transforms finds right, wrong and dead processes, and says so."""

import cmath
import json
import math
import os
import subprocess
import sys
import time

import pytest
import scipy.signal
import torch
from typer.testing import CliRunner

from tests.tolerances import near, sums, together, transforms
from tests.trnfft.distributed import sabotage
from tests.trnfft.distributed.cases import ANGLES
from trnfft import cli
from trnfft.distributed.check import known, processes, self_test
from trnfft.distributed.layout import Interval
from trnfft.planner.accuracy import MAX_ERRORS

SHAPE = (8, 6, 10)
WHOLE = tuple(Interval(0, n) for n in SHAPE)
PART = (Interval(3, 7), Interval(0, 6), Interval(4, 9))
SLICES = tuple(slice(*interval) for interval in PART)


@pytest.mark.parametrize("is_real", [False, True])
def test_known_spectra(is_real):
    x = known.signal(SHAPE, WHOLE, is_real)
    wanted = torch.fft.fftn(x)
    assert wanted.abs().min() > 0 or is_real
    tolerance = together(transforms(SHAPE, 2, "float64"), ANGLES)
    near(known.spectrum(SHAPE, WHOLE, is_real), wanted, tolerance)
    near(known.spectrum(SHAPE, PART, is_real), wanted[SLICES], tolerance, scale=wanted)
    near(known.signal(SHAPE, PART, is_real), x[SLICES], ANGLES)


def test_known_numbers_of_a_line_that_no_computer_holds():
    """At the last indices of 2^40, with Python's integers."""
    n = 2**40
    start, ends = n // 3 + 1, Interval(n - 3, n)
    numerators = [(j - start) ** 2 % (2 * n) for j in range(*ends)]
    wanted = [cmath.exp(1j * math.pi * m / n) for m in numerators]
    near(known.signal((n,), (ends,), False), wanted, ANGLES)
    numerators = [-(k * k + 2 * start * k) % (2 * n) for k in range(*ends)]
    rotated = [cmath.exp(1j * math.pi * (m / n + 0.25)) * math.sqrt(n) for m in numerators]
    found = known.spectrum((n,), (ends,), False)
    near(found, rotated, ANGLES)


def test_known_convolutions():
    x, h = known.signal(SHAPE, WHOLE, is_real=True), known.small_filter()
    wanted = torch.from_numpy(scipy.signal.convolve(x.numpy(), h.numpy(), "same"))
    tolerance = together(transforms(SHAPE, 2, "float64"), sums(27, "float64"))
    near(known.convolved(SHAPE, WHOLE), wanted, tolerance)
    near(known.convolved(SHAPE, PART), wanted[SLICES], tolerance, scale=wanted)


def run(*arguments):
    return CliRunner().invoke(cli.app, ["check", *arguments])


@pytest.fixture(scope="module")
def found():
    outcome = run("--nproc", "4", "--points", "64", "--json")
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


def test_all_is_right(found):
    assert found["verdict"] == "ok" and found["processes"] == 4 and found["group"] == "gloo"
    functions = [one["function"] for one in found["results"]]
    assert {"fft", "fftn", "ifftn", "rfftn", "irfftn", "convolve"} == set(functions)
    assert {tuple(one["mesh"]) for one in found["results"]} == {(4,), (2, 2)}
    for one in found["results"]:
        assert one["status"] == "ok" and one["error"] > 0
        near(one["error"], 0, MAX_ERRORS["fast"], scale=1)


def test_times_and_bytes(found):
    both, half = found["results"][1], found["results"][2]
    assert both["shape"] == half["shape"] == [8, 8, 4]
    shard = 8 * 8 * 8 * 4 // 4
    assert both["sent"] == {"inside a host": 2 * shard * 3 // 4}
    assert half["sent"] == {"inside a host": shard * 3 // 4}
    for one in found["results"]:
        assert sum(one["shares"].values()) == pytest.approx(1)
        assert all(0 < share < 1 for share in one["shares"].values())
    (link,) = found["links"]
    assert link["bytes"] == pytest.approx(self_test.LINK_BYTES, rel=1e-5)


def test_a_screen_for_people():
    outcome = run("--nproc", "1", "--points", "64")
    assert outcome.exit_code == 0, outcome.output
    assert "1 processes on" in outcome.stdout
    assert "All 8 results are right" in outcome.stdout
    assert outcome.stdout.count("measured here:") == 2 - ("An all-to-all" not in outcome.stdout)
    assert max(map(len, outcome.stdout.splitlines())) <= 80


def test_devices_that_are_not_here():
    outcome = run("--device", "meta")
    assert outcome.exit_code == 2
    assert "argument '--device' is 'meta', allowed are" in outcome.stderr


def test_wrong_numbers_of_one_process():
    for report in processes.started(sabotage.with_wrong_numbers, 2, "cpu"):
        assert report.verdict == "wrong"
        for one in report.results:
            is_wrong = one.function == "irfftn"
            assert one.status == ("wrong" if is_wrong else "ok")
            assert ("error" in one.problem) == is_wrong


@pytest.mark.parametrize(
    ("how", "text"),
    [("dies", "rank 1 has died: SIGKILL"), ("raises", "rank 1: MemoryError: no room")],
)
def test_a_process_that_fails(how, text, capfd):
    start = time.monotonic()
    with pytest.raises(processes.Failure) as error:
        processes.started(sabotage.failing, 3, "cpu", how)
    assert str(error.value) == text
    assert "Terminating" not in capfd.readouterr().err  # torch.multiprocessing is silent
    assert time.monotonic() - start < 60


@pytest.mark.slow
def test_by_torchrun():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    module = ["-m", "trnfft", "check", "--points", "64"]
    done = subprocess.run([*command, *module, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "ok"
    done = subprocess.run(
        [sys.executable, *module, "--nproc", "2"],
        capture_output=True,
        text=True,
        env=os.environ | {"RANK": "0", "WORLD_SIZE": "1"},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("argument '--nproc' is 2, allowed under torchrun is none")


def test_more_processes_than_a_computer_can_run_are_refused(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    result = CliRunner().invoke(cli.app, ["check", "--nproc", "13"])
    assert result.exit_code == 2
    assert (
        "argument '--nproc' is 13, allowed are 1 to 12 on this computer with 3 cores"
        in result.output
    )
