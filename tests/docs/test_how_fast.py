"""The figures of docs/how_fast.md are those of bench/host_and_chip.py and of others' records."""

from __future__ import annotations

import re

import pytest

from tests import sweeps
from tests.docs.pages import ROOT

pytest.importorskip("torch")

from bench import host_and_chip  # noqa: E402
from bench.seed_article.figures import TRANSFORM_US  # noqa: E402
from nki_sim import hardware, measured_times  # noqa: E402

pytestmark = pytest.mark.weekly

PAGE = (ROOT / "docs" / "how_fast.md").read_text("utf-8")
PROSE = " ".join(PAGE.split())
MODELLED = [name for name in host_and_chip.TABLES if name != "host"]
DEAR = ("kernels", "calls", "rows")  # tables, of which a part is compared by default


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


@sweeps.some("name", MODELLED, [name for name in MODELLED if name not in DEAR])
def test_the_page_has_the_table(name):
    assert host_and_chip.TABLES[name]() in PAGE


def test_the_page_has_the_kernels_of_the_longest_transforms(monkeypatch):
    monkeypatch.setattr(host_and_chip, "SHAPES", host_and_chip.SHAPES[-2:])
    assert set(host_and_chip.kernels().splitlines()) <= set(PAGE.splitlines())


def test_the_page_has_the_calls_of_the_shortest_transforms(monkeypatch):
    monkeypatch.setattr(host_and_chip, "CALLS", host_and_chip.CALLS[:2])
    assert set(host_and_chip.calls().splitlines()) <= set(PAGE.splitlines())


def test_the_page_has_the_rows_that_last_as_long_as_a_launch():
    """Of the longest rows on trn2."""
    n, chip = host_and_chip.LENGTHS[-1], "trn2"
    heading, _, *rows = cells(PAGE[PAGE.index("| N | trn1") :].split("\n\n")[0])
    assert [row[0] for row in rows] == [str(length) for length in host_and_chip.LENGTHS]
    (column,) = (index for index, title in enumerate(heading) if title.startswith(chip))
    assert int(rows[-1][column]) == host_and_chip.least_rows(n, chip)


def test_what_was_measured_on_a_cpu_stands_beside_what_is_modelled(monkeypatch):
    monkeypatch.setattr(host_and_chip, "measured_seconds", lambda n, batch: 1e-3)
    expected = cells(host_and_chip.host())
    assert [row[1] for row in expected[2:]] == ["1 ms"] * len(host_and_chip.CALLS)
    start = PAGE.index("| N, rows | torch.fft.fft on ")
    found = cells(PAGE[start:].split("\n\n")[0])
    assert re.fullmatch(r"torch\.fft\.fft on .+, 1 thread, torch [\d.+a-z]+, measured", found[0][1])
    assert found[0][2:] == expected[0][2:]
    for row, modelled in zip(found[2:], expected[2:], strict=True):
        assert [row[0], *row[2:]] == [modelled[0], *modelled[2:]]
        assert re.fullmatch(r"[\d.]+ (us|ms)", row[1])


def test_a_cpu_is_measured():
    assert 0 < host_and_chip.measured_seconds(8, 2, rounds=2) < 1


def test_launches_and_round_trips_are_those_that_others_measured():
    launches = hardware.TRN2.launches
    records = (launches.eager, launches.compiled, measured_times.HOST_ROUND_TRIP)
    for record in (*records, hardware.TRN1.launches.eager):
        assert record.range in PROSE, record.what
    assert "host needs about 60 us to launch a kernel on trn2" in PROSE
    assert launches.eager.about_ns == 60e3


def test_the_article_has_these_times():
    least, most = min(TRANSFORM_US.values()), max(TRANSFORM_US.values())
    assert f"{least / 1e3:.1f} to {most / 1e3:.1f} ms for one transform of 64 to 4096" in PROSE


def test_what_follows_from_the_table_of_a_gpu():
    kernels, calls, copies = [], [], []
    for (n, rows), (alone, copied) in host_and_chip.CUFFT_US.items():
        copies.append(copied / alone)
        if n * rows == host_and_chip.POINTS:
            plan = host_and_chip.planned_rows(n, rows, host_and_chip.CALLS_ON)
            kernels.append(plan.predicted_ns / 1e3 / alone)
            calls.append(plan.with_launches_ns / 1e3 / alone)
    assert "1.2 to 2.0 times as long as cuFFT" in PROSE
    assert min(kernels) == pytest.approx(1.2, abs=0.05)
    assert max(kernels) == pytest.approx(2.0, abs=0.05)
    assert "two to four times as long" in PROSE and min(calls) > 2 and max(calls) < 4
    assert "takes 4 to 19 times as long" in PROSE
    assert (round(min(copies)), round(max(copies))) == (4, 19)


def test_all_tables_are_printed(capsys, monkeypatch):
    tables = {name: lambda name=name: f"table {name}" for name in host_and_chip.TABLES}
    monkeypatch.setattr(host_and_chip, "TABLES", tables)
    host_and_chip.main()
    printed = capsys.readouterr().out
    assert re.findall(r"^table (\w+)$", printed, re.MULTILINE) == list(tables)
