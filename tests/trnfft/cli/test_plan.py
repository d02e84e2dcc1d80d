"""`trnfft plan` prints the tree and the candidates, and writes its files whole or not at all."""

import json

import pytest
from typer.testing import CliRunner

from nki_kernels import hardware
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
    for part in ("batch 128, fast, trn2, LNC=2", "stockham", "radix", "chosen", "launches"):
        assert part in result.stdout
    assert "DMA floor" in result.stdout and "times as long" in result.stdout
    assert "butterfly 1024" in result.stdout


def test_shapes_and_real_data(run):
    result = run("--shape", "48x256", "--real", "--batch", 3)
    assert result.exit_code == 0, result.output
    for part in ("FFT of real data, 48 x 256, batch 4", "real_axes by axis 1", "axis 0", "chosen"):
        assert part in result.stdout
    result = run("--shape", "48x256", "--real", "--inverse", "--padded-from", "30x200")
    assert result.exit_code == 0, result.output
    assert "inverse FFT to real data, 48 x 256 for 30 x 200, batch 1" in result.stdout
    orders = run("--shape", "8x6x10", "--all").stdout
    assert orders.count("axes by") == 6
    assert run("--shape", "8x6x10").stdout.count("axes by") == 1


def test_lengths_of_real_data_and_padded_ones(run):
    assert "FFT of real data, N = 1000" in run(1000, "--real").stdout
    assert "inverse FFT, N = 1000" in run(1000, "--inverse").stdout
    assert "inverse_real_stockham" in run(1000, "--real", "--inverse").stdout
    assert "FFT, 1000 for 600" in run(1000, "--padded-from", 600).stdout
    assert run("--shape", 1000).stdout == run(1000).stdout


def test_all_lists_every_candidate(run):
    short, full = run(1024).stdout, run(1024, "--all").stdout
    assert full.count("stockham 1024") > short.count("stockham 1024") >= 1


def test_chip_and_degree_of_lnc(run, monkeypatch):
    """By option, else by the environment, else what the chip has; said with every time."""

    def first(*arguments):
        result = run(64, *arguments)
        assert result.exit_code == 0, result.output
        title, _, *rest = result.stdout.splitlines()
        where = title.partition("fast, ")[2]
        assert any(f"modelled on {where}" in line for line in rest)
        return where

    assert first("--target", "trn2") == first("--target", "trn2", "--lnc", 2) == "trn2, LNC=2"
    assert first("--target", "trn2", "--lnc", 1) == "trn2, LNC=1"
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn3")
    assert (first(), first("--target", "trn1")) == ("trn3, LNC=2", "trn1, LNC=1")
    monkeypatch.setenv(hardware.LNC_VARIABLE, "1")
    assert first() == "trn3, LNC=1"
    monkeypatch.setenv(hardware.LNC_VARIABLE, "4")
    result = run(64)
    assert result.exit_code == 2 and "is '4', allowed on trn3 is 1 or 2" in result.output


def test_precision(run):
    assert "butterfly_kahan" in run(256, "--precision", "kahan").stdout.splitlines()[2]
    assert "on the host" in run(1000, "--precision", "double").stdout


def test_perfetto(run, tmp_path):
    result = run(64, "--perfetto", "trace.json")
    assert result.exit_code == 0, result.output
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)
    assert run("--shape", "8x12", "--real", "--perfetto", "shape.json").exit_code == 0
    assert (tmp_path / "shape.json").exists()


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
        ((8, "--lnc", 2), "LNC, is 2, allowed is 1: trn1 has degree 1 only"),
        ((8, "--lnc", 3, "--target", "trn3"), "LNC, is 3, allowed is 1 to 2 on trn3"),
        ((8, "--precision", "best"), "best"),
        ((2**30,), "N = 1073741824"),
        ((8, "--plot", "missing/a.png"), "no folder missing"),
        ((8, "--perfetto", "/dev/null"), "not a regular file"),
        ((8, "--precision", "double", "--perfetto", "a.json"), "no timeline"),
        ((), "'N' is missing"),
        ((8, "--shape", "8x8"), "'N' and '--shape' are 8 and 8x8"),
        (("--shape", "8,8"), "'--shape' is '8,8', allowed are sizes"),
        (("--shape", "8x"), "'--shape' is '8x', allowed are sizes"),
        (("--shape", "0x8"), "'--shape' is '0x8', allowed are sizes of 1 or more"),
        (("--shape", ""), "'--shape' is '', allowed are sizes"),
        (("--shape", "8x8", "--padded-from", "8"), "'padded_from' is (8,)"),
        (("--shape", "8x8", "--padded-from", "9x8"), "'padded_from' is (9, 8)"),
        (("--shape", "8x8", "--padded-from", "-1x8"), "'--padded-from' is '-1x8'"),
        (("--shape", "257x8"), "axis 0 of length 257"),
        (("--shape", "8x8", "--plot", "a.png"), "'--plot' is a.png, allowed only with N"),
        ((8, "--padded-from", "4", "--plot", "a.png"), "'--plot' is a.png, allowed only with N"),
    ],
    ids=str,
)
def test_refusals_are_one_sentence(run, tmp_path, arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
