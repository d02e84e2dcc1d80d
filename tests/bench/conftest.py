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
