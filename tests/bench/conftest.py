"""Fixtures for short measurements, and the contents of a file of results from a NeuronCore."""

import pytest

for package in ("torch", "pydantic", "matplotlib"):  # the last two of the extras bench and demo
    pytest.importorskip(package)


@pytest.fixture(autouse=True)
def few_calls(monkeypatch):
    """How long a call is repeated matters for the precision of times only."""
    from bench import measurement

    monkeypatch.setattr(measurement, "SECONDS", 0.0)


@pytest.fixture
def environment_of_a_chip():
    """An environment as a file from a NeuronCore has it."""
    from bench.results import Environment

    return Environment(
        date="2026-01-02T03:04:05+00:00",
        device="Trainium1",
        instance="Trn1",
        sdk="2.32",
        nki="0.6.0",
        driver="2.20",
        packages={"torch": "2.9.0"},
        system_packages={},
        python="3.10.12",
        system="Linux",
        cpu="a CPU",
        cpu_count=8,
        git_revision="0123456789abcdef",
        git_is_dirty=True,
    )


@pytest.fixture
def report_of(environment_of_a_chip):
    """Makes a report of probes as a chip would write it."""
    from bench.probes.report import Report

    def make(*answers, target="trn2"):
        return Report(
            target=target, environment=environment_of_a_chip, answers=list(answers), unasked=[]
        )

    return make


@pytest.fixture
def probes(tmp_path, monkeypatch):
    """Runs a command of bench.probes in a folder of its own, on a wide terminal."""
    from typer.testing import CliRunner

    from bench.probes import __main__ as programs

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(programs, "WIDTH", 300)
    return lambda *words: CliRunner().invoke(programs.app, [str(word) for word in words])


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Runs a program's main in a folder of its own, on a wide terminal."""
    import typer
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def call(main, *arguments):
        app = typer.Typer()
        app.command()(main)
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call
