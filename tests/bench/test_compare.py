"""Comparisons show every case of every file, and say which times are modelled or measured."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench import compare, plots
from bench.results import Latency, Missing, Results, Row, load, save
from trnfft.cli import output_file

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


@pytest.fixture
def no_plots(monkeypatch):
    """For tests of tables alone."""
    monkeypatch.setattr(output_file, "save_picture", lambda drawing, out: None)


def line_with(text, *parts):
    return next(line for line in text.splitlines() if all(part in line for part in parts))


def test_times_and_ratios(invoke, write, tmp_path):
    first = write("first", "nki-sim", [row(256, 4096, "nki-sim", 80.0, relative_error=2e-7)])
    second = write("second", "nki", [row(256, 4096, "nki", 100.0, relative_error=3e-7)])
    result = invoke(first, second, "--out", "a/plots")
    assert result.exit_code == 0, result.output
    cells = line_with(result.stdout, "fft 256", "80.0 modelled").split("│")
    assert [cell.strip() for cell in cells[1:-1]] == [
        *("fft 256", "4096", "80.0 modelled", "100.0 measured", "1.25", "4", "4", "20")
    ]
    assert "2e-07" in line_with(result.stdout, "fft 256", "3e-07")
    for name in ("time.png", "error.png"):
        assert (tmp_path / "a/plots" / name).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_only_times_of_kernels_are_over_a_floor(invoke, write, no_plots):
    host = write("host", "torch", [row(256, 8, "torch", 50.0)])
    rows = [row(256, 8, "nki-sim", 30.0).model_copy(update={"dma_floor_us": 0.004})]
    result = invoke(host, write("chip", "nki-sim", [*rows, row(64, 8, "nki-sim", 6.0)]))
    assert result.stdout.count("over floor") == 1
    cells = line_with(result.stdout, "fft 256", "30.0 modelled").split("│")
    assert [cell.strip() for cell in cells[4:-1]][-3:] == ["0.6", "7,500", "0.004"]
    cells = line_with(result.stdout, "fft 64", "missing").split("│")
    assert [cell.strip() for cell in cells[-4:-1]] == ["", "4", "1.5"]


def test_rows_that_a_file_lacks_are_shown_as_missing(invoke, write, no_plots):
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


def test_batches_and_precisions_are_cases_of_their_own(invoke, write, no_plots):
    first = write("first", "nki-sim", [row(256, 1, "nki-sim", 8.0)])
    others = [row(256, 2, "nki-sim", 9.0), row(256, 1, "nki-sim", 7.0, precision="kahan")]
    result = invoke(first, write("second", "nki-sim", others))
    assert "missing" in line_with(result.stdout, "fft 256", "8.0 modelled")
    assert "missing" in line_with(result.stdout, "fft 256", "9.0 modelled")
    assert "missing" in line_with(result.stdout, "fft 256, kahan", "7.0 modelled")


def test_parity(invoke, write, no_plots):
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
    assert not (tmp_path / "plots").exists()


def files(write, *names_and_rows):
    paths = [Path(write(name, rows[0].backend, rows)) for name, rows in names_and_rows]
    return plots.labelled([(path, load(path)) for path in paths])


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_plot_of_times(write):
    """A line for each file, for the article's times and for each floor; log scales."""
    lengths = (64, 1024, 1000)
    modelled = [row(n, batch, "nki-sim", float(n)) for n in lengths for batch in (1, 2**20 // n)]
    measured = [row(n, 1, "nki", 2.0 * n) for n in lengths]
    host = [row(1024, 1, "torch", 50.0)]
    one, many = plots.draw_times(files(write, ("a", modelled), ("b", measured), ("c", host))).axes
    names = legend(one)
    assert [name[0] for name in names[:3]] == ["a", "b", "c"]
    assert len([name for name in names if name.startswith("seed, ")]) == 4
    assert any(name.startswith("DMA floor of trn1") for name in names)
    assert list(lines(one)[names[0]].get_xydata()[:, 0]) == [64, 1024]  # 1000 is a marker alone
    assert [1000, 1000] in [
        list(line.get_xydata()[0]) for line in one.lines if len(line.get_xydata())
    ]
    assert not [name for name in legend(many) if name.startswith("seed")]
    assert (one.get_xscale(), one.get_yscale()) == ("log", "log")


def test_plot_of_errors(write):
    rows = [
        row(n, 4, "nki-sim", relative_error=e, predicted_error=e, precision=p, operation="accuracy")
        for p, e in (("fast", 2e-7), ("kahan", 3e-8), ("double", 2e-16))
        for n in (64, 1000)
    ]
    name = write("a", "nki-sim", rows, program="accuracy")
    above, below = plots.draw_errors(plots.labelled([(Path(name), load(Path(name)))])).axes
    names = legend(above)
    assert names[:2] == ["fast, simulated", "kahan, simulated"]
    assert "predicted by the planner" in names and legend(below) == ["double, on the host"]
    assert len([each for each in names if each.startswith("seed, ")]) == 2
