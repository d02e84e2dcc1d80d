"""Measured scaling of distributed transforms: the numbers of a table, and the text of a table."""

import pytest
from typer.testing import CliRunner

from bench.distributed_scaling import Row, app, table


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.sweep
def test_small_transforms_by_one_and_two_processes():
    outcome = CliRunner().invoke(app, ["2", "--points", "64"])
    assert outcome.exit_code == 0, outcome.output
    lines = [cells(line) for line in outcome.stdout.splitlines() if line.startswith("|")][2:]
    assert [line[:2] for line in lines[::2]] == [
        ["strong", "8 x 8 x 4"],
        ["strong", "256"],
        ["weak", "4 x 4 x 4"],
        ["weak", "64"],
    ]
    for alone, two in zip(lines[::2], lines[1::2], strict=True):
        assert alone[2] == "1" and alone[4:7] == ["1.00", "100%", "0%"]
        assert two[2].startswith("2") and two[6] != "0%"
        assert float(alone[3]) > 0 and float(two[3]) > 0


def test_speed_up_efficiency_and_marks():
    alone = Row("weak", (4, 4), 1, seconds=2.0, cpu_seconds=2.0, exchange=0.0)
    four = Row("weak", (8, 8), 4, seconds=4.0, cpu_seconds=12.0, exchange=0.5)
    assert four.speed_up(alone) == pytest.approx(2)
    of_one, of_four = [cells(line) for line in table([alone, four], cores=2)][2:]
    assert of_one[2:] == ["1", "2000.0", "1.00", "100%", "0%", "2000"]
    assert of_four[2:] == ["4*", "4000.0", "2.00", "50%", "50%", "12000"]


def test_numbers_that_are_no_powers_of_two():
    outcome = CliRunner().invoke(app, ["3"])
    assert outcome.exit_code == 2
    assert "argument 'PROCESSES' has 3, allowed are powers of two" in outcome.stderr
