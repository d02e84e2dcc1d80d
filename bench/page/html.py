"""The page itself, from its template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.files import Reasons
from bench.page import charts, contents, tables
from bench.seed_article import figures as seed_figures
from nki_sim import hardware, report
from nki_sim.base.whole_file import write_whole
from nki_sim.report.html import environment, micro, script_json

TEMPLATE = Path(__file__).parent / "template"
REPORT = Path(report.__file__).parent  # of the simulator, whose look and uPlot the page shares
WITHOUT_JINJA2 = "the page needs the package jinja2: pip install 'Jinja2>=3.1,<4'"


def write(paths: Sequence[Path], out: Path) -> None:
    """Writes the page of result files, and of folders that scripts/hw_bench.py has filled.

    Raises:
        ResultsError: there are no results in them.
        ImportError: the package jinja2 is not installed.
        OSError: the page cannot be written.
    """
    write_whole(out, page(contents.read(paths)))


def page(found: contents.Contents) -> str:
    """Returns the page as HTML, with its data, styles and scripts inside.

    Raises:
        ImportError: the package jinja2 is not installed.
    """
    template = environment(TEMPLATE, WITHOUT_JINJA2).get_template("page.html.j2")
    reasons = Reasons()
    drawn = charts.charts(found)
    measured = [file for file in found.files if file.results.backend != contents.MODEL]
    rows = [row for file in measured or found.files for row in file.results.rows]
    absent = [each for file in measured or found.files for each in file.results.missing]
    return template.render(
        contents=found,
        title=title_of(found),
        where=(measured or found.files)[0].results.where,
        device=device_of(found),
        is_measured=bool(measured),
        has_model=len(measured) < len(found.files),
        whole_calls=any(row.time_source == "host" for row in rows),
        cases=len(rows),
        missing=sum(not each.is_failure for each in absent),
        failed=sum(each.is_failure for each in absent),
        ratio=tables.median_ratio(found),
        ratios=len(tables.ratios(found)),
        agreeing=tables.agreeing(found),
        charts=drawn,
        tables=[
            ("times", "Times of all cases", tables.times(found, reasons)),
            ("errors", "Errors of all cases", tables.errors(found, reasons)),
            ("parity", "Parity with the simulator", tables.parity(found, reasons)),
        ],
        reasons=reasons.lines(),
        absent=tables.missing(found),
        environments=tables.environments(found),
        launch_note=launch_note(found),
        seed=seed_figures.SOURCE,
        data=script_json([chart.data for chart in drawn]),
        styles=[
            (REPORT / "uplot" / "uPlot.min.css").read_text("utf-8"),
            (REPORT / "template" / "report.css").read_text("utf-8"),
            (TEMPLATE / "page.css").read_text("utf-8"),
        ],
        scripts=[
            (REPORT / "uplot" / "uPlot.iife.min.js").read_text("utf-8"),
            (TEMPLATE / "page.js").read_text("utf-8"),
        ],
        library_licence=(REPORT / "uplot" / "LICENSE").read_text("utf-8"),
    )


def title_of(found: contents.Contents) -> str:
    """Returns what was measured where, for the head of the page."""
    return f"trnfft on {device_of(found)}"


def device_of(found: contents.Contents) -> str:
    """Returns the type of the instance, else the device or the CPU of the first file."""
    if kind := found.job.get("instance_type"):
        return str(kind)
    measured = [file for file in found.files if file.results.backend != contents.MODEL]
    first = (measured or found.files)[0].results
    if not measured:
        return f"a modelled {first.target}"
    e = first.environment
    return e.instance or e.device or e.cpu


def launch_note(found: contents.Contents) -> str:
    """Returns what was measured of launches by others, for the chip of the first file."""
    chip = hardware.chip(found.files[0].results.target)
    return micro(chip.launches.note(chip.name))
