"""The benchmark programs run every operation on every backend here, and refuse bad arguments."""

import itertools
import json
import runpy
import sys
from dataclasses import replace

import pytest

import trnfft
from bench import accuracy, parity, run
from bench.cases import (
    OPERATIONS,
    block_circulant,
    convolution,
    real_transforms,
    stft,
    transforms_1d,
    transforms_nd,
)
from bench.measurement import measure
from bench.results import load
from nki_kernels.base import isa
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import holds, near, transforms
from trnfft.base.config import PRECISIONS
from trnfft.planner.accuracy import MAX_ERRORS

BACKENDS = {"torch": "host", "matmul": "host", "nki-sim": "modelled"}


TINY = {
    "transforms_1d": transforms_1d.case(64, 2),
    "real_transforms": real_transforms.case(60, True, batch=2),
    "transforms_nd": transforms_nd.case((8, 12), 2, False),
    "convolution": convolution.case("convolve", trnfft.convolve, (100,), (29,), 2),
    "stft": stft.round_trip(300, 16, 4),
    "block_circulant": block_circulant.case((2, 3, 8), 5, True),
}


@sweeps.some(
    "operation, backend",
    itertools.product(OPERATIONS, BACKENDS),
    [("stft", "torch"), ("transforms_1d", "matmul"), ("convolution", "nki-sim")],
)
def test_a_row_of_each_operation(operation, backend):
    row = measure(TINY[operation], backend, "trn2")
    assert (row.operation, row.backend, row.where) == (operation, backend, "trn2, LNC=2")
    assert row.relative_error > 0
    near(row.relative_error, 0.0, MAX_ERRORS["fast"], scale=1.0)
    assert row.time_us > 0 and row.time_source == BACKENDS[backend]
    assert row.dma_floor_us > 0
    assert (row.latency is None) == (backend == "nki-sim")
    assert (row.launches or 0) > 0 or backend != "nki-sim"


def test_names_of_cases_are_unique():
    cases = [case for cases in OPERATIONS.values() for case in cases]
    keys = {(case.operation, case.name, case.algorithm, case.batch) for case in cases}
    assert len(keys) == len(cases)


@sweeps.some("algorithm", ["dft_gemm", "stockham", "butterfly", "bluestein"], ["stockham"])
def test_algorithms_are_the_ones_asked_for(algorithm):
    case = transforms_1d.case
    row = measure(case(256, 128, algorithm), "nki-sim", "trn1")
    assert row.recipe.startswith(f"{algorithm} 256")
    near(row.relative_error, 0.0, transforms(4 * 256, 2), scale=1.0)
    assert row.kernel_us == pytest.approx(row.predicted_us, rel=0.05)
    assert row.dma_floor_us == pytest.approx(hardware.TRN1.dma_floor_ns(256 * 128) / 1e3)
    assert case(256, 128, algorithm).why_not("torch")


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("name", ["run", "parity", "accuracy"])
def test_programs_run_as_modules(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"bench.{name}", run_name="__main__")
    assert ended.value.code == 0 and "--out" in capsys.readouterr().out


@pytest.fixture
def tiny_operation(monkeypatch):
    """Two cases of block circulant products in place of the large ones."""
    product = block_circulant.case((2, 3, 8), 5, False)
    monkeypatch.setitem(OPERATIONS, "block_circulant", (product, TINY["block_circulant"]))


def test_run_writes_results(invoke, tmp_path, tiny_operation):
    result = invoke(run.main, "block_circulant", "--backend", "nki-sim", "--out", "a.json")
    assert result.exit_code == 0, result.output
    found = load(tmp_path / "a.json")
    assert (found.program, found.backend, found.where) == ("run", "nki-sim", "trn1, LNC=1")
    assert [row.case for row in found.rows] == [c.name for c in OPERATIONS["block_circulant"]]
    assert result.output.count("us modelled on trn1, LNC=1") == 2
    assert "with a launch, about 440 us" in result.output
    assert "with 2 launches, about 870 us" in result.output
    (row, *_) = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert "samples" not in str(row)
    for row in found.rows:
        assert row.with_launches_us == pytest.approx(row.kernel_us + 420 * row.launches)


@pytest.mark.sweep
@pytest.mark.parametrize("degree", ["1", "2"])
def test_run_is_of_the_degree_of_the_chip(invoke, tmp_path, tiny_operation, monkeypatch, degree):
    monkeypatch.setenv(hardware.LNC_VARIABLE, degree)
    result = invoke(run.main, "block_circulant", "--target", "trn3", "--out", "a.json")
    assert result.exit_code == 0, result.output
    assert result.output.count(f"us modelled on trn3, LNC={degree}") == 2
    found = load(tmp_path / "a.json")
    assert {found.where, *(row.where for row in found.rows)} == {f"trn3, LNC={degree}"}
    assert found.rows[0].kernel_us == pytest.approx(found.rows[0].predicted_us, rel=0.05)


@pytest.mark.sweep
def test_the_floor_is_of_the_degree(monkeypatch):
    floors = []
    for degree in ("1", "2"):
        monkeypatch.setenv(hardware.LNC_VARIABLE, degree)
        floors.append(measure(TINY["transforms_1d"], "nki-sim", "trn3").dma_floor_us)
    assert floors[1] / floors[0] == pytest.approx(528 / 917)


def test_run_refuses_a_degree_that_the_chip_lacks(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn1")
    monkeypatch.setenv(hardware.LNC_VARIABLE, "2")
    result = invoke(run.main, "stft")
    assert result.exit_code == 2 and "is '2', allowed on trn1 is 1" in result.output
    assert list(tmp_path.iterdir()) == []


def test_list(invoke, tmp_path):
    result = invoke(run.main, "--list")
    assert result.exit_code == 0
    for operation, cases in OPERATIONS.items():
        assert operation in result.stdout and cases[0].name in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, named",
    [
        (("fft",), "'fft', allowed are transforms_1d"),
        (("--backend", "gpu"), "'--backend' is 'gpu'"),
        (("--backend", "auto"), "allowed are torch, matmul"),
        (("--target", "trn9"), "trn9"),
        (("--out", "absent/a.json"), "no folder absent"),
        (("--out", "."), "cannot write"),
    ],
)
def test_what_run_refuses(invoke, tmp_path, arguments, named):
    result = invoke(run.main, *arguments)
    assert result.exit_code == 2 and named in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("main", [run.main, parity.main, accuracy.main])
def test_without_nki_the_programs_say_where_it_is(invoke, tmp_path, main):
    if isa.REAL_NKI:
        pytest.skip("the real nki is installed")
    result = invoke(main, "--backend", "nki")
    assert result.exit_code == 2 and "pip.repos.neuron.amazonaws.com" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sweep
def test_a_failure_is_recorded_and_the_others_go_on(invoke, tmp_path, monkeypatch):
    good = TINY["block_circulant"]

    def fail(*inputs):
        raise RuntimeError("the device is gone")

    def refuse(*inputs):
        raise NotImplementedError("no kernel")

    cases = tuple(replace(good, name=n, call=c) for n, c in (("bad", fail), ("no", refuse)))
    monkeypatch.setitem(OPERATIONS, "block_circulant", (*cases, good))
    result = invoke(run.main, "block_circulant", "--backend", "torch", "--out", "a.json")
    assert result.exit_code == 1 and "1 cases failed" in result.output
    found = load(tmp_path / "a.json")
    assert [row.case for row in found.rows] == [good.name]
    reasons = {each.case: (each.reason, each.is_failure) for each in found.missing}
    assert reasons["bad"] == ("RuntimeError: the device is gone", True)
    assert reasons["no"] == ("no kernel", False)


def test_parity(invoke, tmp_path, tiny_operation):
    arguments = ("block_circulant", "--backend", "matmul", "--out", "a.json")
    result = invoke(parity.main, *arguments)
    assert result.exit_code == 0, result.output
    rows = load(tmp_path / "a.json").rows
    assert all(0 < row.relative_difference <= row.tolerance for row in rows) and len(rows) == 2
    result = invoke(parity.main, *arguments, "--tolerance", "1e-12")
    assert result.exit_code == 1 and "2 of 2 cases differ" in result.output


def test_parity_finds_a_wrong_result(invoke, monkeypatch):
    case = TINY["block_circulant"]

    def wrong(x, weight, grad):
        y, *gradients = case.call(x, weight, grad)
        return y * 1.001 if trnfft.get_backend() == "torch" else y, *gradients

    monkeypatch.setitem(OPERATIONS, "block_circulant", (replace(case, call=wrong),))
    result = invoke(parity.main, "block_circulant", "--backend", "torch")
    assert result.exit_code == 1 and "1 of 1 cases differ" in result.output


@pytest.mark.sweep
def test_parity_of_nothing_is_no_parity(invoke, monkeypatch):
    case = replace(TINY["block_circulant"], algorithm="any")
    monkeypatch.setitem(OPERATIONS, "block_circulant", (case,))
    result = invoke(parity.main, "block_circulant", "--backend", "torch")
    assert result.exit_code == 1 and "no case ran" in result.output


@pytest.mark.sweep
def test_accuracy(invoke, tmp_path, monkeypatch):
    wanted = {(64, "fast"), (64, "kahan"), (64, "double"), (1000, "kahan")}
    chosen = [c for c in accuracy.CASES if (c.shape[0], c.precision) in wanted and not c.algorithm]
    bf16 = [c for c in accuracy.CASES if c.algorithm == "stockham_bf16_refined"][:1]
    monkeypatch.setattr(accuracy, "CASES", (*chosen, *bf16))
    result = invoke(accuracy.main, "--backend", "nki-sim", "--out", "a.json")
    assert result.exit_code == 0, result.output
    found = load(tmp_path / "a.json")
    errors = {(row.precision, row.algorithm): row for row in found.rows}
    assert len(errors) == 4
    for row in found.rows:
        holds(row.relative_error, 2 * row.predicted_error)
        holds(row.round_trip_error, 3 * row.relative_error)
    near(errors["kahan", ""].relative_error, 0.0, MAX_ERRORS["kahan"], scale=1.0)
    assert errors["fast", ""].relative_error > MAX_ERRORS["kahan"]
    refined = errors["bf16_refined", "stockham_bf16_refined"]
    assert refined.relative_error > MAX_ERRORS["fast"]
    assert [(each.shape, each.precision) for each in found.missing] == [((1000,), "kahan")]


def test_accuracy_covers_every_mode():
    assert {case.precision for case in accuracy.CASES} == set(PRECISIONS)
