"""The page of results: one file with every case, which says what is measured and what modelled."""

import json
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2")  # of the extra report

from bench.page import __main__ as command  # noqa: E402
from bench.page import charts, contents, tables  # noqa: E402
from bench.page.html import page  # noqa: E402
from bench.results import Latency, Missing, Results, ResultsError, Row, save  # noqa: E402

ASKED = {"operation": "transforms_1d", "algorithm": "", "precision": "fast"}
NAMES = ("min_us", "p50_us", "p90_us", "p99_us", "mean_us")


def row(n, backend, time=None, **more):
    """A row as the backend writes it: modelled, or measured with kernel and launch apart."""
    times = {"relative_error": 2e-7}
    if backend == "nki-sim":
        times |= {
            "kernel_us": time,
            "kernel_time_source": "modelled",
            "with_launches_us": time + 60,
        }
    else:
        latency = Latency(**dict.fromkeys(NAMES, time + 60), calls=10)
        times |= {"kernel_us": time, "kernel_time_source": "measured", "latency": latency}
    known = {**ASKED, "case": f"fft {n}", "shape": (n,), "batch": 1, "target": "trn2", "cores": 2}
    return Row(**{**known, "backend": backend, "dma_floor_us": n / 1e3, **times, **more})


def whole_call(n, time):
    """A row as the device "neuron" writes it, where only whole calls are timed."""
    return row(n, "nki", time - 60, kernel_us=None, kernel_time_source="")


def lost(n, reason, is_failure):
    known = {**ASKED, "case": f"fft {n}", "shape": (n,), "batch": 1}
    return Missing(**known, reason=reason, is_failure=is_failure)


@pytest.fixture
def write(environment_of_a_chip, tmp_path):
    """Writes a file of results into the folder of a run."""
    (tmp_path / "hardware").mkdir()

    def call(name, backend, rows, missing=(), program="run", target="trn2"):
        results = Results(
            program=program,
            backend=backend,
            target=target,
            cores=2,
            environment=environment_of_a_chip,
            rows=list(rows),
            missing=list(missing),
        )
        save(results, tmp_path / "hardware" / name)
        return tmp_path / "hardware" / name

    return call


@pytest.fixture
def folder(write, tmp_path):
    """The folder of a run, with a file of each kind."""
    lengths = (64, 1000, 1024)
    measured = [row(n, "nki", 2.0 * n) for n in lengths]
    write("benchmarks.json", "nki", measured, [lost(256, "the device <is> gone", True)])
    write("modelled.json", "nki-sim", [row(n, "nki-sim", float(n)) for n in (*lengths, 256)])
    accurate = {"operation": "accuracy", "batch": 4, "predicted_error": 3e-7}
    write("accuracy.json", "nki", [row(64, "nki", 1.0, **accurate)], program="accuracy")
    known = {"tolerance": 2e-6}
    rows = [
        row(n, "nki", 1.0, relative_difference=difference, **known)
        for n, difference in ((64, 1e-7), (128, 1e-3))
    ]
    write("parity.json", "nki", rows, program="parity")
    here = tmp_path / "hardware"
    (here / "tests.xml").write_text(
        '<testsuites><testsuite tests="12" failures="1" errors="1" skipped="3"/></testsuites>'
    )
    (here / "benchmarks.log").write_text("began\n\x1b[31m<b>ended</b>\n")
    (here / "run.log").write_text("launched an instance\n")
    sets = {"benchmarks": {"state": "failed", "seconds": 12.3, "error": "exit code 1"}}
    record = {
        "job": "20260102-x",
        "commit": "c" * 40,
        "instance_type": "trn2.3xlarge",
        "sets": sets,
    }
    (here / "job.json").write_text(json.dumps(record))
    return here


class Text(HTMLParser):
    """The text of a page, what its tags name, and the tags that are still open at its end."""

    VOID = {"meta", "link", "br", "input", "img"}

    def __init__(self, html):
        super().__init__()
        self.open, self.parts, self.addresses = [], [], []
        self.feed(html)
        self.words = " ".join(" ".join(self.parts).split())

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.parts.append(data)


def text_of(*paths):
    return Text(page(contents.read(paths)))


def test_one_file_that_needs_no_network(folder):
    html = page(contents.read([folder]))
    parsed = Text(html)
    assert parsed.open == []
    assert parsed.addresses and all(address.startswith("#") for address in parsed.addresses)
    assert "default-src 'none'" in html and "url(h" not in html and "@import" not in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in parsed.addresses} <= set(ids)


def test_the_page_has_all_parts_of_a_run(folder):
    words = text_of(folder).words
    assert "trnfft on trn2.3xlarge" in words and "job 20260102-x" in words
    assert "1 of 2 cases agree" in words
    assert "7 passed failed: 2, skipped: 3" in words
    assert "fft 64, batch 1 128.0 kernel 64.0 120 µs 2 0.064" in words
    assert "transforms_1d fft 256, batch 1 failed 256.0" in words
    assert "fft 256, batch 1 failed the device <is> gone" in words
    assert "fft 128, batch 1 0.001 2e-06 differs" in words
    assert "nki 0.6.0" in words and "sdk 2.32" in words and "git revision 0123456789ab" in words
    assert "launched an instance" in words and "<b>ended</b>" in words and "\x1b" not in words
    assert words.index("run.log") < words.index("benchmarks.log")


def test_a_page_of_part_of_a_run(write, tmp_path):
    path = write("benchmarks.json", "nki", [row(64, "nki", 5.0, predicted_us=4.0)])
    words = text_of(path).words
    assert "No file has modelled times of all cases" in words
    assert "Parity" not in words and "Log" not in words
    found = charts.charts(contents.read([path]))
    kinds = {line.kind: line for line in found[0].lines}
    assert kinds["predicted"].points == {64: 4.0}


def test_whole_calls_are_compared_with_kernels_and_launches(write):
    paths = [
        write("benchmarks.json", "nki", [whole_call(64, 240.0)]),
        write("modelled.json", "nki-sim", [row(64, "nki-sim", 20.0)]),
    ]
    found = contents.read(paths)
    assert list(tables.ratios(found).values()) == [3.0]
    (single, *_) = charts.charts(found)
    shown = {line.kind: line.points[64] for line in single.lines if line.kind != "seed"}
    assert shown == {"host": 240.0, "modelled": 20.0, "launched": 80.0}
    assert "whole calls beside kernel and launches" in text_of(*paths).words


def test_results_for_two_chips_are_refused(write):
    paths = [
        write("benchmarks.json", "nki", [row(64, "nki", 9.0)]),
        write("modelled.json", "nki-sim", [row(64, "nki-sim", 9.0)], target="trn3"),
    ]
    with pytest.raises(ResultsError, match=r"benchmarks.json: trn2, LNC=2; modelled.json: trn3"):
        contents.read(paths)


def test_damaged_files_of_a_folder_are_named(folder):
    (folder / "accuracy.json").write_text("{}")
    (folder / "tests.xml").write_text("<testsuites>")
    (folder / "job.json").write_text("{")
    words = text_of(folder).words
    assert "accuracy.json holds no results" in words
    assert "tests.xml" in words and "job.json" in words


def test_long_logs_are_cut(folder):
    (folder / "run.log").write_text("x" * (contents.LOG_LIMIT + 1234))
    assert "1,234 characters come before" in text_of(folder).words


def test_command(invoke, folder, tmp_path):
    out = tmp_path / "page.html"
    result = invoke(command.main, folder, "--out", out)
    assert result.exit_code == 0, result.output
    assert f"wrote {out}" in result.output and out.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_command_refuses_what_is_no_results(invoke, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    for path, complaint in ((tmp_path / "x.json", "x.json"), (tmp_path / "empty", "no results in")):
        result = invoke(command.main, path, "--out", tmp_path / "page.html")
        assert result.exit_code == 2 and complaint in result.output
    result = invoke(command.main, tmp_path / "empty", "--out", tmp_path / "absent" / "page.html")
    assert result.exit_code == 2 and "there is no folder" in result.output
    assert not (tmp_path / "page.html").exists()
