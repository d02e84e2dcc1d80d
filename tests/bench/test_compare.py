"""Comparisons show every case of every file, and say which times are modelled or measured."""

import pytest
import typer
from typer.testing import CliRunner

from bench import compare
from bench.results import Latency, Missing, Results, Row, save

ASKED = {"operation": "transforms_1d", "algorithm": "", "precision": "fast"}


def row(n, batch, backend, time=None, **more):
    known = {**ASKED, "case": f"fft {n}", "shape": (n,), "batch": batch, "target": "trn1"}
    times = {}
    if backend == "torch":
        names = ("min_us", "p50_us", "p90_us", "p99_us", "mean_us")
        times["latency"] = Latency(**dict.fromkeys(names, time), calls=10)
    elif time:
        source = {"nki-sim": "modelled", "nki": "measured"}[backend]
        times |= {"kernel_us": time, "kernel_time_source": source, "dma_floor_us": time / 4}
    return Row(**{**known, "backend": backend, **times, **more})


@pytest.fixture
def write(environment_of_a_chip, tmp_path, monkeypatch):
    """Writes a file of results and returns its name."""
    monkeypatch.chdir(tmp_path)

    def call(name, backend, rows, missing=(), program="run", revision="a" * 40):
        environment = environment_of_a_chip.model_copy(update={"git_revision": revision})
        results = Results(
            program=program,
            backend=backend,
            target="trn1",
            environment=environment,
            rows=list(rows),
            missing=list(missing),
        )
        save(results, tmp_path / f"{name}.json")
        return f"{name}.json"

    return call


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer()
    app.command()(compare.main)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


def line_with(text, *parts):
    return next(line for line in text.splitlines() if all(part in line for part in parts))


def test_times_and_ratios(invoke, write):
    first = write("first", "nki-sim", [row(256, 4096, "nki-sim", 80.0, relative_error=2e-7)])
    second = write("second", "nki", [row(256, 4096, "nki", 100.0, relative_error=3e-7)])
    result = invoke(first, second)
    assert result.exit_code == 0, result.output
    cells = line_with(result.stdout, "fft 256", "80.0 modelled").split("│")
    assert [cell.strip() for cell in cells[1:-1]] == [
        *("fft 256, batch 4096", "80.0 modelled", "100.0 measured", "1.25", "4", "4", "20")
    ]
    assert "2e-07" in line_with(result.stdout, "fft 256", "3e-07")


def test_only_times_of_kernels_are_over_a_floor(invoke, write):
    host = write("host", "torch", [row(256, 8, "torch", 50.0)])
    rows = [row(256, 8, "nki-sim", 30.0).model_copy(update={"dma_floor_us": 0.004})]
    result = invoke(host, write("chip", "nki-sim", [*rows, row(64, 8, "nki-sim", 6.0)]))
    assert result.stdout.count("over floor") == 1
    cells = line_with(result.stdout, "fft 256", "30.0 modelled").split("│")
    assert [cell.strip() for cell in cells[4:-1]][-3:] == ["0.6", "7,500", "0.004"]
    cells = line_with(result.stdout, "fft 64", "missing").split("│")
    assert [cell.strip() for cell in cells[-4:-1]] == ["", "4", "1.5"]


def test_rows_that_a_file_lacks_are_shown_as_missing(invoke, write):
    reason = Missing(
        **ASKED, case="fft 512", shape=(512,), batch=1, reason="the device is gone", is_failure=True
    )
    first = write("first", "nki-sim", [row(256, 1, "nki-sim", 8.0), row(512, 1, "nki-sim", 9.0)])
    second = write("second", "nki", [row(64, 1, "nki", 7.0)], [reason])
    result = invoke(first, second)
    assert result.exit_code == 0, result.output
    assert "missing" in line_with(result.stdout, "fft 256", "8.0 modelled")
    assert "failed (1)" in line_with(result.stdout, "fft 512", "9.0 modelled")
    assert "missing" in line_with(result.stdout, "fft 64", "7.0 measured")
    assert "(1) the device is gone" in result.stdout


def test_batches_and_precisions_are_cases_of_their_own(invoke, write):
    first = write("first", "nki-sim", [row(256, 1, "nki-sim", 8.0)])
    others = [row(256, 2, "nki-sim", 9.0), row(256, 1, "nki-sim", 7.0, precision="kahan")]
    result = invoke(first, write("second", "nki-sim", others))
    assert "missing" in line_with(result.stdout, "fft 256", "8.0 modelled")
    assert "missing" in line_with(result.stdout, "fft 256", "9.0 modelled")
    assert "missing" in line_with(result.stdout, "fft 256, batch 1, kahan", "7.0 modelled")


def test_parity(invoke, write):
    rows = [row(256, 1, "nki", relative_difference=1e-7, tolerance=2e-6)]
    result = invoke(write("p", "nki", rows, program="parity"))
    assert result.exit_code == 0, result.output
    assert "2e-06" in line_with(result.stdout, "fft 256", "1e-07")


@pytest.mark.parametrize("text", [None, "{}", "no JSON"])
def test_files_that_are_no_results(invoke, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "x.json").write_text(text)
    result = invoke("x.json")
    assert result.exit_code == 2 and "x.json" in result.output
