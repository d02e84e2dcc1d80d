"""The page itself, from its template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.page import charts, contents, tables
from bench.seed_article import figures as seed_figures
from nki_sim import hardware, report
from nki_sim.base.whole_file import write_whole
from nki_sim.report.page import environment
from nki_sim.report.units import micro

TEMPLATE = Path(__file__).parent / "template"
STYLE = Path(report.__file__).parent / "template" / "report.css"  # the look of the simulator's
WITHOUT_JINJA2 = "the page needs the package jinja2: pip install 'Jinja2>=3.1,<4'"


def write(paths: Sequence[Path], out: Path) -> None:
    """Writes the page of result files, and of folders that scripts/hw_bench.py has filled.

    Raises:
        ResultsError: there are no results in them.
        ImportError: the package jinja2 or matplotlib is not installed.
        OSError: the page cannot be written.
    """
    write_whole(out, page(contents.read(paths)))


def page(found: contents.Contents) -> str:
    """Returns the page as HTML, with its pictures and styles inside. Raises ImportError."""
    template = environment(TEMPLATE, WITHOUT_JINJA2).get_template("page.html.j2")
    measured = found.measured()
    files = measured or found.files
    first = files[0].results
    rows = [row for file in files for row in file.results.rows]
    absent = [each for file in files for each in file.results.missing]
    chip = hardware.chip(first.target)
    return template.render(
        contents=found,
        where=first.where,
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
        charts=charts.charts(found),
        tables=[
            ("times", "Times of all cases", tables.times(found)),
            ("errors", "Errors of all cases", tables.errors(found)),
            ("parity", "Parity with the simulator", tables.parity(found)),
        ],
        absent=tables.missing(found),
        environments=tables.environments(found),
        launch_note=micro(chip.launches.note(chip.name)),  # what others measured of launches
        seed=seed_figures.SOURCE,
        style=STYLE.read_text("utf-8") + (TEMPLATE / "page.css").read_text("utf-8"),
    )


def device_of(found: contents.Contents) -> str:
    """Returns the type of the instance, else the device or the CPU of the first file."""
    if kind := found.job.get("instance_type"):
        return str(kind)
    if not (measured := found.measured()):
        return f"a modelled {found.files[0].results.target}"
    e = measured[0].results.environment
    return e.instance or e.device or e.cpu
