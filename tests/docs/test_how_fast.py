"""The figures of docs/how_fast.md are those of bench/tables/how_fast.py and of others' records."""

from __future__ import annotations

import re

import pytest

from tests import sweeps
from tests.docs.pages import ROOT

pytest.importorskip("torch")

from bench import calls  # noqa: E402
from bench.seed_article.figures import TRANSFORM_US  # noqa: E402
from bench.tables import how_fast  # noqa: E402
from nki_sim import hardware, measured_times  # noqa: E402

pytestmark = pytest.mark.weekly

PAGE = (ROOT / "docs" / "how_fast.md").read_text("utf-8")
PROSE = " ".join(PAGE.split())
MODELLED = [name for name in how_fast.TABLES if name != "host"]
DEAR = ("kernels", "calls", "rows")  # tables, of which a part is compared by default


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


@sweeps.some("name", MODELLED, [name for name in MODELLED if name not in DEAR])
def test_the_page_has_the_table(name):
    assert how_fast.TABLES[name]() in PAGE


@pytest.mark.parametrize(
    "table, cases, part",
    [(how_fast.kernels, "SHAPES", slice(-2, None)), (how_fast.calls, "CALLS", slice(2))],
)
def test_the_page_has_a_part_of_a_dear_table(monkeypatch, table, cases, part):
    """The kernels of the longest transforms, and the calls of the shortest."""
    monkeypatch.setattr(how_fast, cases, getattr(how_fast, cases)[part])
    assert set(table().splitlines()) <= set(PAGE.splitlines())


def test_the_page_has_the_rows_that_last_as_long_as_a_launch():
    """Of the longest rows on trn2."""
    n, chip = how_fast.LENGTHS[-1], "trn2"
    heading, _, *rows = cells(PAGE[PAGE.index("| N | trn1") :].split("\n\n")[0])
    assert [row[0] for row in rows] == [str(length) for length in how_fast.LENGTHS]
    (column,) = (index for index, title in enumerate(heading) if title.startswith(chip))
    assert int(rows[-1][column]) == how_fast.least_rows(n, chip)


def test_what_was_measured_on_a_cpu_stands_beside_what_is_modelled(monkeypatch):
    monkeypatch.setattr(how_fast, "measured_ns", lambda n, batch: 1e6)
    expected = cells(how_fast.host())
    assert [row[1] for row in expected[2:]] == ["1 ms"] * len(how_fast.CALLS)
    start = PAGE.index("| N, rows | torch.fft.fft on ")
    found = cells(PAGE[start:].split("\n\n")[0])
    assert re.fullmatch(r"torch\.fft\.fft on .+, 1 thread, torch [\d.+a-z]+, measured", found[0][1])
    assert found[0][2:] == expected[0][2:]
    for row, modelled in zip(found[2:], expected[2:], strict=True):
        assert [row[0], *row[2:]] == [modelled[0], *modelled[2:]]
        assert re.fullmatch(r"[\d.]+ (us|ms)", row[1])


def test_a_cpu_is_measured(monkeypatch):
    monkeypatch.setattr(calls, "SECONDS", 0.0)
    assert 0 < how_fast.measured_ns(8, 2) < 1e9


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
    for (n, rows), (alone, copied) in how_fast.CUFFT_US.items():
        copies.append(copied / alone)
        if n * rows == how_fast.POINTS:
            plan = how_fast.planned_rows(n, rows, how_fast.CALLS_ON)
            kernels.append(plan.predicted_ns / 1e3 / alone)
            calls.append(plan.with_launches_ns / 1e3 / alone)
    assert "1.2 to 2.0 times as long as cuFFT" in PROSE
    assert min(kernels) == pytest.approx(1.2, abs=0.05)
    assert max(kernels) == pytest.approx(2.0, abs=0.05)
    assert "two to four times as long" in PROSE and min(calls) > 2 and max(calls) < 4
    assert "takes 4 to 19 times as long" in PROSE
    assert (round(min(copies)), round(max(copies))) == (4, 19)


def test_all_tables_have_their_names(monkeypatch):
    names = list(how_fast.TABLES)
    monkeypatch.setattr(how_fast, "TABLES", dict.fromkeys(names, lambda: "a table"))
    assert list(how_fast.tables()) == [f"{name}\n\na table" for name in names]
