"""`trnfft plan` prints the tree and the candidates, and writes its files whole or not at all."""

import json

import pytest
from typer.testing import CliRunner

from trnfft import cli


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `trnfft plan ...` in a folder of its own, on a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: CliRunner().invoke(cli.app, ["plan", *map(str, arguments)])


def test_tree_and_candidates(run):
    result = run(1024, "--batch", 128, "--target", "trn2")
    assert result.exit_code == 0, result.output
    for part in ("FFT, N = 1024, batch 128, fast, trn2", "stockham", "radix", "chosen", "launches"):
        assert part in result.stdout
    assert "DMA floor" in result.stdout and "times as long" in result.stdout
    assert "butterfly 1024" in result.stdout


def test_all_lists_every_candidate(run):
    short, full = run(1024).stdout, run(1024, "--all").stdout
    assert full.count("stockham 1024") > short.count("stockham 1024") >= 1


def test_precision(run):
    assert "butterfly_kahan" in run(256, "--precision", "kahan").stdout.splitlines()[2]
    assert "on the host" in run(1000, "--precision", "double").stdout


def test_perfetto(run, tmp_path):
    result = run(64, "--perfetto", "trace.json")
    assert result.exit_code == 0, result.output
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)


def test_plot(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run(96, "--plot", "prices.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "prices.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((0,), "'n' is 0"),
        ((8, "--batch", 0), "'batch' is 0"),
        ((8, "--target", "trn9"), "trn9"),
        ((8, "--precision", "best"), "best"),
        ((2**30,), "N = 1073741824"),
        ((8, "--plot", "missing/a.png"), "no folder missing"),
        ((8, "--perfetto", "/dev/null"), "not a regular file"),
        ((8, "--precision", "double", "--perfetto", "a.json"), "no timeline"),
    ],
    ids=str,
)
def test_refusals_are_one_sentence(run, tmp_path, arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
