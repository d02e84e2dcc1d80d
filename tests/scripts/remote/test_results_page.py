"""The page that a run leaves beside its results, with results from the stand-in backends."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

for package in ("jinja2", "pydantic", "torch"):
    pytest.importorskip(package)

from remote import page  # noqa: E402


@pytest.fixture(scope="module")
def results():
    """Results of two small cases as JSON: of a stand-in for the device, and of the simulator."""
    from bench import parity
    from bench.cases import transforms_1d
    from bench.environment import environment
    from bench.measurement import measure
    from bench.results import Results

    cases = [transforms_1d.case(n, 1) for n in (64, 256)]
    here = environment()

    def written(program, backend, rows):
        known = {"program": program, "backend": backend, "target": "trn2", "cores": 2}
        return Results(**known, environment=here, rows=rows, missing=[]).model_dump_json()

    return SimpleNamespace(
        measured=written("run", "matmul", [measure(c, "matmul", "trn2") for c in cases]),
        modelled=written("run", "nki-sim", [measure(c, "nki-sim", "trn2") for c in cases]),
        parity=written(
            "parity", "matmul", [parity.compared(c, "matmul", "trn2", None) for c in cases]
        ),
    )


@pytest.fixture
def simulator(monkeypatch, results):
    """Stands for the programs that model the cases; `commands` are those that ran."""
    commands = []

    def run(command, **options):
        commands.append((command, options["env"]["NEURON_LOGICAL_NC_CONFIG"]))
        out = command[command.index("--out") + 1]
        with open(out, "w") as file:
            file.write(results.modelled)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(page, "subprocess", SimpleNamespace(run=run))
    return commands


@pytest.mark.sweep
def test_a_run_writes_the_page(call, aws, results, simulator, tmp_path):
    aws.behave(
        {
            "bench.run": {"content": results.measured, "print": "a line of the log"},
            "bench.parity": {"content": results.parity},
        }
    )
    result = call("run", "--template", aws.new_template(), "--sets", "parity,benchmarks")
    assert result.exit_code == 0, result.output
    out = tmp_path / "out"
    ((command, degree),) = simulator
    assert command[1:4] == ["-m", "bench.run", "--backend"] and degree == "2"
    assert command[command.index("--target") + 1] == "trn2"
    assert result.output.index(" is terminated") < result.output.index("modelling the cases")
    assert f"page of results: {out / 'page.html'}" in result.output
    html = (out / "page.html").read_text("utf-8")
    assert "<title>trnfft on trn1.2xlarge</title>" in html  # of the template
    for part in ("fft 256, batch 1", "2 of 2", "run.log", "benchmarks.log", "a line of the log"):
        assert part in html
    assert "launched i-" in (out / "run.log").read_text("utf-8")


@pytest.mark.sweep
def test_the_page_of_a_run_that_failed(call, aws, results, simulator, tmp_path):
    aws.behave({"bench.run": {"content": results.measured, "exit": 1}})
    result = call("run", "--instance", aws.new_instance(), "--sets", "benchmarks")
    assert result.exit_code == 1
    assert "exit code 1" in (tmp_path / "out" / "page.html").read_text("utf-8")
    (tmp_path / "out" / "page.html").unlink()
    assert call("fetch").exit_code == 1
    assert (tmp_path / "out" / "page.html").exists()
    assert len(simulator) == 1  # its results were there


@pytest.mark.sweep
def test_a_page_that_cannot_be_made_is_no_failure(call, aws, results, simulator, tmp_path):
    damaged = json.dumps({**json.loads(results.measured), "rows": [{"case": 3}]})
    aws.behave({"bench.run": {"content": damaged}})
    result = call("run", "--instance", aws.new_instance(), "--sets", "benchmarks")
    assert result.exit_code == 0, result.output
    html = (tmp_path / "out" / "page.html").read_text("utf-8")
    assert "benchmarks.json holds no results" in html  # beside what was modelled
    (tmp_path / "out" / "modelled.json").unlink()
    said = []
    assert page.write_page(tmp_path / "out", said.append, with_model=False) is None
    assert "there is no page of the results" in said[0] and "python -m bench.page" in said[0]


@pytest.mark.sweep
def test_modelling_can_be_interrupted(monkeypatch, results, tmp_path):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "subprocess", SimpleNamespace(run=interrupted))
    (tmp_path / "benchmarks.json").write_text(results.measured)
    said = []
    assert page.write_page(tmp_path, said.append) == tmp_path / "page.html"
    assert "was interrupted" in said[1]
    assert "No file has modelled times" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.sweep
def test_modelling_that_fails_says_why(monkeypatch, results, tmp_path):
    failed = SimpleNamespace(returncode=2, stderr="first\nargument '--target' is wrong\n")
    run = SimpleNamespace(run=lambda *arguments, **options: failed)
    monkeypatch.setattr(page, "subprocess", run)
    (tmp_path / "benchmarks.json").write_text(results.measured)
    said = []
    assert page.write_page(tmp_path, said.append)
    assert said[1] == "bench.run could not model the cases: argument '--target' is wrong"


@pytest.mark.sweep
def test_results_of_another_chip_are_modelled_again(simulator, results, tmp_path):
    (tmp_path / "benchmarks.json").write_text(results.measured)
    (tmp_path / "modelled.json").write_text(results.modelled.replace('"cores":2', '"cores":1'))
    page.write_page(tmp_path, lambda sentence: None)
    page.write_page(tmp_path, lambda sentence: None)
    assert len(simulator) == 1


def test_names_are_those_of_the_programs():
    from bench.page import contents
    from bench.results import FORMAT
    from remote.screen import LOG
    from remote.sets import SETS

    assert page.FORMAT == FORMAT and contents.RUN_LOG == LOG
    assert {*page.RESULTS, *(file for _, file in page.MODELS.values())} == set(contents.RESULTS)
    assert set(page.RESULTS) <= {file for one in SETS.values() for file in one.results}
