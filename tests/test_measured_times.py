"""Times that others measured: their sources, their display, and the chips they belong to."""

import re
from pathlib import Path

import pytest

from nki_sim import hardware, measured_times
from nki_sim.measured_times import LaunchTimes, MeasuredTime, about

RECORDS = {
    name: value for name, value in vars(measured_times).items() if isinstance(value, MeasuredTime)
}
LAUNCHES = [value for value in vars(measured_times).values() if isinstance(value, LaunchTimes)]
LAUNCH_RECORDS = [time for one in LAUNCHES for time in (one.eager, one.compiled) if time]


@pytest.mark.parametrize("record", [*RECORDS.values(), *LAUNCH_RECORDS], ids=lambda r: r.what)
def test_every_record_says_what_it_was_measured_on_and_by_whom(record):
    assert record.least_ns <= record.about_ns <= record.most_ns
    assert record.chip in hardware.NAMES and record.chip in record.measured_on
    for source in re.findall(r"\[\w+\]", record.source):
        assert f"\n  {source}" in measured_times.__doc__
    assert re.fullmatch(r"\[\w+\](, \[\w+\])*", record.source)


def test_each_chip_has_the_launches_of_its_framework():
    """PyTorch/XLA runs on trn1, TorchNeuron on the other chips; trn3 has no record."""
    notes = {name: hardware.chip(name).launches.note(name) for name in hardware.NAMES}
    for name, framework in (("trn1", "PyTorch/XLA"), ("trn2", "TorchNeuron")):
        launches = hardware.chip(name).launches
        assert f"{framework} takes {launches.eager.range}" in notes[name]
        assert launches.eager.measured_on in notes[name]
        assert launches.compiled is None or launches.compiled.range in notes[name]
    assert notes["trn3"].startswith(notes["trn2"]) and "on trn3" in notes["trn3"]
    assert [time.about_ns for time in LAUNCH_RECORDS] == [60e3, 100e3, 420e3]


def test_every_launch_is_counted():
    assert hardware.TRN2.with_launches_ns(4e3, 1) == 64e3
    assert hardware.TRN2.with_launches_ns(4e3, 3) == 184e3
    assert hardware.TRN1.with_launches_ns(4e3, 0) == 4e3


def test_ranges_have_one_unit():
    assert measured_times.TORCH_ALL_TO_ALL.range == "1.1 to 1.4 ms"
    assert measured_times.NKI_ALL_TO_ALL.range == "130 to 140 us"
    assert measured_times.XLA_ALL_TO_ALL.range == "2 ms"
    assert measured_times.NKI_ALL_TO_ALL_16_MB.range == "405 us"


TIMES = {
    4056: "4.1 us", 64056: "64 us", 99.6e3: "100 us", 447e3: "450 us", 990e3: "990 us",
    1e6: "1 ms", 1.294e6: "1.29 ms", 54.46e6: "54.5 ms", 8693e6: "8693 ms",
}  # fmt: skip


def test_times_that_are_known_roughly():
    assert {ns: about(ns) for ns in TIMES} == TIMES


def test_the_page_has_the_records():
    page = (Path(__file__).parents[1] / "docs/timing_model.md").read_text("utf-8")
    section = page.split("## Launches\n")[1].split("\n## ")[0]
    for record in (*RECORDS.values(), *LAUNCH_RECORDS):
        assert record.range in section, record.what
