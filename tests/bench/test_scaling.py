"""Scaling from 1 to 4096 cores, and the differences from published times that the page states."""

import re
from pathlib import Path

import pytest

from bench import scaling, scaling_check

PAGE = Path(__file__).parents[2] / "docs" / "scaling_model.md"


def test_the_page_states_the_differences_from_published_times():
    """Every row, as the formula with these constants has it."""
    page = PAGE.read_text().split("## Against what others published")[1]
    stated = [line for line in page.splitlines() if line.startswith("|")]
    assert stated == scaling_check.table(scaling_check.points()).splitlines()


def test_an_exchange_of_cufftmp_by_hand():
    """2048^3 on 8: 7/8 of 2^33 numbers of 8 bytes / 8 at 300 GB/s, and seven messages of 600 ns."""
    point = scaling_check.cufftmp(2048, 8, 78.0)
    assert point.exchanges_ms == pytest.approx(7 / 8 * 2**33 / 300e6 + 7 * 600e-6)


@pytest.mark.parametrize(
    ("shape", "cores", "found"),
    [
        ((8, 8, 8), 8, [(8,), (2, 4), (4, 2)]),
        ((8, 8, 8), 32, [(4, 8), (8, 4)]),
        ((64,), 8, [(8,)]),
    ],
)
def test_meshes_leave_no_core_without_data(shape, cores, found):
    assert list(scaling.meshes(shape, cores)) == found


@pytest.mark.sweep
def test_the_page_has_the_table_of_the_program():
    assert scaling.table("trn2") in PAGE.read_text()


def test_a_table_of_few_cores(monkeypatch, capsys):
    monkeypatch.setattr(scaling, "SHAPES", {"64^3": (64,) * 3, "2^13": (2**13,)})
    monkeypatch.setattr(scaling, "CORES", (1, 8))
    scaling.main(["trn1"])
    chip, _, head, _, one, eight, _ = capsys.readouterr().out.splitlines()
    assert (chip, head) == ("trn1", "| cores | 64^3 | 2^13 |")
    assert re.fullmatch(r"\| 1 \| 0\.\d{3}, 100%, launches \| 0\.\d{3}, 100%, launches \|", one)
    assert eight.count(", start") == 2


def test_efficiency_is_against_one_core():
    plans = [scaling.fastest((64,) * 3, cores, "trn1") for cores in (1, 8)]
    assert scaling.efficiency(plans[0], plans) == 1
    assert scaling.efficiency(plans[1], plans) == plans[0].total_ns / (8 * plans[1].total_ns)
