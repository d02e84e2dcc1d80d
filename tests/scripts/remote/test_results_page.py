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
def test_a_run_writes_the_page(call, aws, results, simulator, out):
    aws.behave(
        {
            "bench.run": {"content": results.measured, "print": "a line of the log"},
            "bench.parity": {"content": results.parity},
        }
    )
    said = call("run", "--template", aws.new_template(), "--sets", "parity,benchmarks")
    ((command, degree),) = simulator
    assert command[1:4] == ["-m", "bench.run", "--backend"] and degree == "2"
    assert command[command.index("--target") + 1] == "trn2"
    assert said.index(" is shutting-down") < said.index("modelling the cases")
    assert f"page of results: {out / 'page.html'}" in said
    html = (out / "page.html").read_text("utf-8")
    assert "<title>trnfft on trn1.2xlarge</title>" in html  # of the template
    for part in ("fft 256, batch 1", "2 of 2", "run.log", "benchmarks.log", "a line of the log"):
        assert part in html
    assert "launched i-" in (out / "run.log").read_text("utf-8")


@pytest.mark.sweep
def test_the_page_of_a_run_that_failed(call, aws, results, simulator, out):
    aws.behave({"bench.run": {"content": results.measured, "exit": 1}})
    call("run", "--instance", aws.new_instance(), "--sets", "benchmarks", code=1)
    assert "exit code 1" in (out / "page.html").read_text("utf-8")
    (out / "page.html").unlink()
    call("fetch", code=1)
    assert (out / "page.html").exists()
    assert len(simulator) == 1  # its results were there


@pytest.mark.sweep
def test_a_page_that_cannot_be_made_is_no_failure(call, aws, results, simulator, out):
    damaged = json.dumps({**json.loads(results.measured), "rows": [{"case": 3}]})
    aws.behave({"bench.run": {"content": damaged}})
    call("run", "--instance", aws.new_instance(), "--sets", "benchmarks")
    html = (out / "page.html").read_text("utf-8")
    assert "benchmarks.json holds no results" in html  # beside what was modelled
    (out / "modelled.json").unlink()
    said = []
    page.write_page(out, said.append, with_model=False)
    assert "there is no page of the results" in said[0] and "python -m bench.page" in said[0]


def interrupted(*arguments, **options):
    raise KeyboardInterrupt


def failed(*arguments, **options):
    return SimpleNamespace(returncode=2, stderr="first\nargument '--target' is wrong\n")


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        (interrupted, "bench.run was interrupted; the page has no modelled times of its cases"),
        (failed, "bench.run could not model the cases: argument '--target' is wrong"),
    ],
)
def test_a_page_without_modelled_times_says_why(monkeypatch, results, tmp_path, run, complaint):
    monkeypatch.setattr(page, "subprocess", SimpleNamespace(run=run))
    (tmp_path / "benchmarks.json").write_text(results.measured)
    said = []
    page.write_page(tmp_path, said.append)
    assert said[1] == complaint
    assert "No file has modelled times" in (tmp_path / "page.html").read_text("utf-8")


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
