"""The comparison of the simulator's speed with another checkout, which is the same one here."""

import re

import pytest

from bench import simulator_speed


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(simulator_speed, "SECONDS", 0.0)


def test_every_case_runs_in_the_simulator():
    for make in simulator_speed.CASES.values():
        kernel, arguments = make()
        assert simulator_speed.nki_sim.dry_run(kernel, *arguments).instructions > 100


@pytest.mark.sweep
def test_it_prints_a_line_a_way_and_mean_ratios(capsys):
    simulator_speed.compare([simulator_speed.HERE, simulator_speed.HERE], "softmax", rounds=1)
    lines = capsys.readouterr().out.splitlines()
    table, means = lines[1:4], lines[4:]
    assert [re.split(r"\s{2,}", line)[1] for line in table] == ["dry", "plain", "recorded"]
    for line, mean in zip(table, means, strict=True):
        before, now = re.findall(r"([\d.]+) ms", line)
        ratio = float(line.split()[-1])
        assert ratio == pytest.approx(float(before) / float(now), abs=0.02)
        assert mean.endswith(f"{ratio:.2f}")
