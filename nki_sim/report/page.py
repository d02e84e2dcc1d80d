"""Renders the page of a report from its template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from nki_sim.base.distribution import from_extra, name_and_version
from nki_sim.base.enums import ENGINE_NAMES
from nki_sim.measured_times import about
from nki_sim.timeline.engines import ENGINES
from nki_sim.timeline.recording import Recording

from .bottlenecks import bottlenecks
from .chart_data import chart_data, short_source
from .roofline import roofline
from .source_listing import source_listing
from .units import bytes_text, count_text, micro, percent_text, range_text, time_text

_FOLDER = Path(__file__).parent
_ENGINES = {**ENGINE_NAMES, "dma": "DMA"}


class Bar(NamedTuple):
    """A bar of the section on utilisation. ``share`` is a share of the total, 0 to 1."""

    label: str
    kind: str
    ns: float
    share: float


def page(timeline: Recording) -> str:
    """Returns the report as HTML that contains its data, styles and scripts."""
    without = f"the report needs the package jinja2, {from_extra('report')}"
    template = environment(_FOLDER / "template", without).get_template("report.html.j2")
    data = chart_data(timeline)
    sbuf_held, psum_held = [_most(counter) for counter in data["counters"][:2]]
    return template.render(
        timeline=timeline,
        kernels=list(dict.fromkeys(timeline.kernels)),
        version=name_and_version(),
        cores=data["cores"],
        sbuf_bytes=max((chip.sbuf_partition_bytes for chip in timeline.chips), default=0),
        psum_banks=max((chip.psum_banks for chip in timeline.chips), default=0),
        sbuf_held=sbuf_held,
        psum_held=round(psum_held),
        bottlenecks=bottlenecks(timeline),
        order_costs=[one for one in timeline.order_costs if one.ns >= 0.01 * timeline.written_ns],
        engines=_engines(timeline),
        floors=_floors(timeline),
        roofline=roofline(timeline),
        files=source_listing(timeline),
        warnings_without_line=[w for w in timeline.warnings if w.source is None],
        data=_script_json(data),
        styles=[_read("uplot/uPlot.min.css"), _read("template/report.css")],
        scripts=[
            _read("uplot/uPlot.iife.min.js"),
            *[_read(f"template/{name}.js") for name in ("events", "charts", "table", "report")],
        ],
        library_licence=_read("uplot/LICENSE"),
    )


def environment(folder: Path, without: str) -> Any:
    """Returns jinja2's environment, which escapes all texts and refuses unknown names.

    Args:
        folder: the folder of the templates.
        without: the message of the error where jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(without) from error
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    found.filters.update(
        time=time_text,
        range_of=range_text,
        about=lambda ns: micro(about(ns)),
        micro=micro,
        bytes=bytes_text,
        percent=percent_text,
        count_of=count_text,
        short_source=lambda source: short_source(source.file, source.line),
    )
    return found


def _script_json(data: object) -> str:
    """Returns JSON in which "<" is escaped, so that no name in it can end the script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _engines(timeline: Recording) -> list[Bar]:
    busy, total = timeline.engine_busy_ns, timeline.total_ns
    return [
        Bar(_ENGINES[name], name, busy[name], busy[name] / total if total else 0.0)
        for name in ENGINES
    ]


def _floors(timeline: Recording) -> list[Bar]:
    total = timeline.total_ns
    names = {"hbm": "HBM traffic", "tensor": "Matmuls, 16-bit"}
    kinds = {"hbm": "dma", "tensor": "tensor"}
    return [
        Bar(names[name], kinds[name], ns, ns / total if total else 0.0)
        for name, ns in timeline.floors_ns().items()
    ]


def _most(counter: dict[str, list[list[float]]]) -> float:
    return max([value for line in counter["values"] for value in line], default=0.0)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")
