"""The report's page has the timeline's numbers, and opens, zooms and finds in a real browser."""

import json
import re
import warnings

import numpy as np
import pytest

from nki_sim import NkiSimulationWarning, Timeline, dry_run, hardware, record, sources
from nki_sim.measured_times import about
from nki_sim.report import save_html
from nki_sim.report.units import bytes_text, percent_text, time_text

from . import kernels
from .browser import in_browser

WIDE = ((512, 512), "float32")


def modelled(kernel, *specs, chip="trn2"):
    with hardware.select(hardware.chip(chip)), sources():
        return dry_run(kernel, *specs)


@pytest.fixture(scope="module")
def softmax():
    return modelled(kernels.softmax, WIDE)


def page_of(timeline, folder):
    save_html(timeline, folder / "report.html")
    return (folder / "report.html").read_text("utf-8")


@pytest.fixture
def page(softmax, tmp_path):
    return page_of(softmax, tmp_path)


@pytest.fixture
def shown(softmax, tmp_path):
    """What a script finds in the page of a timeline, by default of softmax, in a browser."""

    def shown(script, timeline=softmax):
        return in_browser(page_of(timeline, tmp_path), script, tmp_path)

    return shown


def data_of(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


# --- the page itself ---


def test_the_page_loads_nothing(page):
    without_licence = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    assert not re.search(r"<(script|img|iframe|link)[^>]*\s(src|href)=", without_licence)
    assert "@import" not in page and "url(" not in page
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket", page)


def test_events_are_exactly_those_of_the_timeline(softmax, page):
    data = data_of(page)
    events = data["events"]
    words = data["words"]
    assert data["total_ns"] == softmax.total_ns
    for n, event in enumerate(softmax.events):
        assert (events["start"][n], events["end"][n]) == (event.start_ns, event.end_ns)
        assert events["bytes"][n] == event.bytes
        assert words[events["source"][n]] == f"kernels.py:{event.source.line}"
        assert words[events["name"][n]] == event.name
        track = data["tracks"][events["track"][n]]
        assert track["engine"] == event.engine and events["lane"][n] < track["lanes"]


def test_events_of_a_lane_are_disjoint(softmax, page):
    data = data_of(page)
    ends = {}
    events = data["events"]
    for n in sorted(range(len(softmax.events)), key=lambda n: events["start"][n]):
        lane = events["track"][n], events["lane"][n]
        assert events["start"][n] >= ends.get(lane, 0.0)
        ends[lane] = events["end"][n]


def test_gpsimd_writes_the_descriptors_of_dma(softmax, page):
    """They are all that keeps it busy here."""
    events = data_of(page)["events"]
    spans = zip(events["start"], events["descriptors_end"], strict=True)
    written = [end - start for start, end in spans if end is not None]
    assert len(written) == len([event for event in softmax.events if event.engine == "dma"])
    assert sum(written) == pytest.approx(softmax.engine_busy_ns["gpsimd"])


def test_cards_of_memory_have_the_peaks_in_program_order_and_over_time(softmax, page):
    over_time = max(value for _, value in softmax.sbuf_bytes_over_time())
    assert over_time > softmax.sbuf_peak_bytes  # loads run ahead
    assert f" a partition; {bytes_text(over_time)} over time<" in page
    assert "The peaks are those in program order, which decides whether the tiles fit" in page


def test_links_of_the_page_lead_to_one_place_each(page):
    for name in re.findall(r' href="#([^"]+)"', page):
        assert len(re.findall(rf' id="{name}"', page)) == 1, name


def test_what_a_launch_adds_stands_beside_the_kernel(softmax, tmp_path, page):
    assert softmax.with_launches_ns == softmax.total_ns + 60e3
    assert f">{about(softmax.with_launches_ns).replace(' us', ' µs')}</data>" in page
    assert "A launch by TorchNeuron takes 55 to 65 µs in eager mode" in page
    with record() as timeline:
        for chip in (hardware.TRN1, hardware.TRN3):
            with hardware.select(chip):
                kernels.linear(np.ones((128, 128), np.float32), np.ones((128, 8), np.float32))
    assert timeline.with_launches_ns == timeline.total_ns + 420e3 + 60e3
    page = page_of(timeline, tmp_path)
    assert (
        "With launches, about" in page
        and "PyTorch/XLA" in page
        and "No launch was measured on trn3" in page
    )


def test_causes_add_up_to_the_total(softmax, page):
    causes = re.search(r'<table class="causes">(.*?)</table>', page, re.DOTALL)[1]
    values = [float(value) for value in re.findall(r'<data value="([^"]+)"', causes)]
    shares, times = values[::2], values[1::2]
    assert sum(times) == pytest.approx(softmax.total_ns)
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.lenient
def test_warnings_stand_beside_their_line_and_are_no_html(tmp_path):
    line = kernels.unwritten.func.__code__.co_firstlineno + 4
    with warnings.catch_warnings(), record() as timeline:
        warnings.simplefilter("ignore")
        kernels.unwritten(np.zeros((128, 8), np.float32))
    page = page_of(timeline, tmp_path)
    row = re.search(rf'id="line-kernels.py:{line}"(.*?)</tr>', page, re.DOTALL)[1]
    assert "reads memory that nothing has written" in row
    assert "1 line of the source has warnings" in page
    assert "&lt;b&gt;nothing writes it" in page and "<b>nothing" not in page


def test_an_empty_timeline_has_a_page_that_says_so(tmp_path):
    assert "Nothing ran" in page_of(Timeline(), tmp_path)


TIMES = {
    0: "0 ns", 750: "750 ns", 999.4: "999 ns", 999.96: "1 µs", 7960: "7.96 µs", 15234: "15.23 µs",
    333333: "333.3 µs", 999_999: "1 ms", 3_333_333: "3.333 ms", 2.5e9: "2.5 s",
}  # fmt: skip
SHARES = {
    0: "0%", 1e-7: "<0.1%", 0.0006: "0.1%", 0.07: "7.0%", 0.0999: "10%", 0.58: "58%", 1: "100%",
}  # fmt: skip


def test_times_and_shares_in_words():
    assert {ns: time_text(ns) for ns in TIMES} == TIMES
    assert {share: percent_text(share) for share in SHARES} == SHARES


def test_a_microsecond_has_one_name(page):
    assert " µs beside its bytes" in page and not re.search(r"\d us\b", page)


# --- in a browser ---


def test_it_opens_and_shows_the_numbers(softmax, shown):
    found = shown(
        """
        const facts = {};
        for (const name of document.querySelectorAll(".facts dt")) {
          facts[name.textContent.trim()] = Number(name.parentElement.querySelector("data").value);
        }
        const canvas = document.querySelector("#charts canvas");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return { facts, rows: document.querySelectorAll("#table tbody tr").length,
                 span: document.getElementById("span").textContent,
                 painted: new Set(pixels).size,
                 charts: document.querySelectorAll("#charts canvas").length,
                 wide: document.documentElement.scrollWidth <= innerWidth };
        """
    )
    assert found["facts"]["Kernel, modelled"] == softmax.total_ns
    assert found["facts"]["With a launch, about"] == softmax.total_ns + 60e3
    assert found["facts"]["Instructions"] == softmax.instructions == found["rows"] == 28
    assert found["facts"]["Multiply-adds"] == softmax.macs == 0
    assert found["facts"]["HBM traffic"] == softmax.hbm_bytes
    assert found["facts"]["SBUF peak"] == softmax.sbuf_peak_bytes
    total = f"{round(softmax.total_ns) / 1e3:g} µs"
    assert found["span"] == f"0 ns to {total}: {total}"
    assert found["painted"] > 20  # shades of the bars: the picture is not empty
    assert found["charts"] == 4 and found["wide"]


@pytest.mark.lenient
def test_bars_beside_the_source_are_as_long_as_their_shares(shown):
    with pytest.warns(NkiSimulationWarning), record() as timeline:
        kernels.half_written(np.zeros((128, 512), np.float32))
    found = shown(
        """
        const box = (one) => one.getBoundingClientRect();
        return [...document.querySelectorAll(".code .heat .fill")].map((fill) => {
          const row = fill.closest("tr");
          return { ns: Number(row.querySelector("data").value), width: box(fill).width,
                   below: box(fill).top - box(row).top, height: box(row).height };
        });
        """,
        timeline,
    )
    longest = max(found, key=lambda bar: bar["ns"])
    assert len(found) == 3 and longest["width"] > 20
    for bar in found:
        width = longest["width"] * bar["ns"] / longest["ns"]
        assert bar["width"] == pytest.approx(width, abs=0.1)
        assert bar["below"] < 10  # beside its line, not in the middle of line and warning
    assert max(bar["height"] for bar in found) > 30  # there is a warning


def test_it_zooms_by_keys_buttons_wheel_and_address(softmax, shown):
    found = shown(
        """
        const key = (name) => document.getElementById("charts").dispatchEvent(
          new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
        const seen = {};
        const see = (name) => { seen[name] = [view.from, view.to]; };
        see("all");
        key("+"); see("in");
        key("ArrowRight"); see("right");
        key("0"); see("back");
        document.querySelector("[data-zoom=in]").click(); see("button");
        document.querySelector("[data-zoom=all]").click();
        const over = document.querySelector("#charts .u-over");
        over.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, cancelable: true }));
        see("wheel");
        location.hash = "#from=1000&to=2000";
        await wait(100); see("address");
        for (let n = 0; n < 60; n++) key("+");
        see("closest");
        for (let n = 0; n < 60; n++) key("-");
        see("farthest");
        return seen;
        """
    )
    total = softmax.total_ns
    assert found["all"] == found["back"] == found["farthest"] == [0, total]
    assert found["in"] == found["button"] == pytest.approx([total / 4, total * 3 / 4])
    assert found["right"] == pytest.approx([total * 3 / 8, total * 7 / 8])
    assert found["wheel"][1] - found["wheel"][0] < total
    assert found["address"] == pytest.approx([1000, 2000])
    assert found["closest"][1] - found["closest"][0] == pytest.approx(20)


def test_descriptors_are_drawn_on_the_row_of_gpsimd(shown):
    found = shown(
        """
        const chart = charts[0];
        const row = rows.find((one) => one.name === "GpSimdE");
        const ratio = devicePixelRatio;
        const top = chart.bbox.top + (row.top + row.height - 3) * ratio;
        const at = (time) => {
          const left = chart.valToPos(time, "x");
          const canvas = chart.bbox.left + left * ratio;
          const [red, green, blue] = chart.ctx.getImageData(canvas, top, 1, 1).data;
          return { event: eventAt(chart, left, row.top + 5), colour: `${red} ${green} ${blue}` };
        };
        return { written: at((events.start[0] + events.descriptors_end[0]) / 2),
                 idle: at(data.total_ns - 50), facts: facts(0) };
        """
    )
    assert found["written"]["event"] == 0 and found["idle"]["event"] == -1
    assert found["written"]["colour"] != found["idle"]["colour"]
    (text,) = [text for name, text in found["facts"] if name == "Descriptors"]
    assert text == "written by GpSimdE in 745 ns"


def test_a_dma_shows_its_latency_its_queue_and_its_bytes(shown):
    """The last load waits for the loads before it: a thin line, a hatched box and a full box."""
    timeline = modelled(kernels.softmax, ((1536, 1024), "float32"))
    event = [event for event in timeline.events if event.queue == "dma load"][-1]
    found = shown(
        """
        const chart = charts[0];
        const ratio = devicePixelRatio;
        const n = NUMBER;
        const row = rowOfTrack[events.track[n]];
        const top = chart.bbox.top + (row.top + events.lane[n] * row.each) * ratio;
        const height = (row.each - 1) * ratio;
        setView(events.start[n], events.end[n]);
        await wait(50);
        const colours = ([from, to]) => {
          const [left, right] = [from, to].map((time) => chart.valToPos(time, "x", true));
          const width = Math.max(1, Math.floor(right - left) - 8);
          const pixels = (place) => {
            const { data: rgba } = chart.ctx.getImageData(left + 4, top + place * height, width, 1);
            const found = new Set();
            for (let at = 0; at < rgba.length; at += 4) found.add(rgba.slice(at, at + 3).join(" "));
            return found.size;
          };
          return [pixels(0.1), pixels(0.5)];
        };
        const parts = partsOf(n);
        const legend = [...document.querySelectorAll(".legend li")];
        return { parts, colours: parts.map(colours), facts: facts(n),
                 legend: legend.map((one) => one.textContent.trim()) };
        """.replace("NUMBER", str(event.index)),
        timeline,
    )
    latency, queue, moves = found["parts"]
    assert latency[0] == event.start_ns and moves[1] == event.end_ns
    assert latency[1] - latency[0] == pytest.approx(event.latency_ns)
    assert moves[1] - moves[0] == pytest.approx(event.moves_ns)
    assert queue == [latency[1], moves[0]] and queue[1] - queue[0] > 100
    shades = [edge for edge, _ in found["colours"]]
    assert shades[1] > 2 and shades[2] == 1  # lines of the hatching, and one colour
    (text,) = [text for name, text in found["facts"] if name == "Of which"]
    assert " latency, " in text and " in a queue, " in text and text.endswith(" for its bytes")
    assert "the DMA waits in a queue: DMA engines or HBM are busy with others" in found["legend"]
    assert any(line.startswith("latency of a DMA") for line in found["legend"])


def test_ticks_have_the_digits_that_they_need(shown):
    found = shown(
        "return [axisTexts(null, [0, 2500, 5000, 17500]), axisTexts(null, [0, 500, 950]),"
        " axisTexts(null, [0, 500, 1000]),"
        " axisTexts(null, [12000.5, 12001]), axisTexts(null, [])];"
    )
    assert found == [
        ["0.0 µs", "2.5 µs", "5.0 µs", "17.5 µs"],
        ["0 ns", "500 ns", "950 ns"],
        ["0.0 µs", "0.5 µs", "1.0 µs"],
        ["12.0005 µs", "12.0010 µs"],
        [],
    ]


def test_times_and_shares_in_words_in_the_browser(shown):
    found = shown(f"return [{[*TIMES]}.map(timeText), {[*SHARES]}.map(percentText)];")
    units = [text.split()[1] for text in found[0]]
    assert units == [text.split()[1] for text in TIMES.values()]
    assert found[0][4:7] == ["7.96 µs", "15.234 µs", "333.33 µs"]  # digits that tell neighbours
    assert found[1] == [*SHARES.values()]


def test_one_bank_is_no_banks(shown):
    timeline = modelled(kernels.linear, ((128, 128), "bfloat16"), ((128, 512), "bfloat16"))
    found = shown(
        "return charts[2].axes[1]._values;",
        timeline,
    )
    assert found == ["0 banks", "1 bank"]


def test_the_bar_of_a_share_is_below_its_number(shown):
    found = shown(
        """
        return [...document.querySelectorAll(".causes .share")].map((cell) => {
          const [number, bar] = [...cell.children].map((one) => one.getBoundingClientRect());
          const room = cell.clientWidth - 20;  // without its padding
          return { apart: bar.top - number.bottom, width: bar.width / room,
                   share: Number(cell.querySelector("data").value) };
        });
        """
    )
    for one in found:
        assert one["apart"] >= 0
        assert one["width"] == pytest.approx(one["share"], abs=0.02)


ON_A_SMALL_SCREEN = """
const frame = document.createElement("iframe");
frame.width = 420;
frame.srcdoc = document.documentElement.outerHTML.replace(/<script[^]*?<\\/script>/g, "");
document.body.append(frame);
await new Promise((done) => { frame.onload = done; });
const page = frame.contentDocument;
page.getElementById("charts").replaceChildren();  // as wide as the window around it
"""


def test_bars_of_utilisation_are_as_wide_as_a_small_screen(shown):
    found = shown(
        f"""
        {ON_A_SMALL_SCREEN}
        const bars = [...page.querySelectorAll(".bars .track")];
        return {{ widths: bars.map((bar) => bar.getBoundingClientRect().width),
                 fits: page.documentElement.scrollWidth <= 420 }};
        """
    )
    assert min(found["widths"]) > 200 and found["fits"]


def test_source_is_read_on_a_small_screen_without_scrolling(shown):
    found = shown(
        f"""
        {ON_A_SMALL_SCREEN}
        const code = page.querySelector(".code");
        const right = (one) => one.getBoundingClientRect().right;
        const texts = [...code.querySelectorAll("pre")];
        const bars = [...code.querySelectorAll(".heat .fill")];
        const fits = texts.every((one) => right(one) <= right(code));
        return {{ fits: fits && code.scrollWidth <= code.clientWidth,
                 width: Math.min(...texts.map((one) => one.getBoundingClientRect().width)),
                 left: new Set(texts.map((one) => one.getBoundingClientRect().left)).size,
                 bars: bars.map((bar) => [bar.getBoundingClientRect().width,
                   Number(bar.closest("tr").querySelector("data").value)]) }};
        """
    )
    assert found["fits"] and found["width"] > 250 and found["left"] == 1
    widest, longest = max(found["bars"])
    for width, ns in found["bars"]:
        assert width == pytest.approx(max(1, widest * ns / longest), abs=0.5)


def test_the_table_filters_sorts_and_selects(softmax, shown):
    found = shown(
        """
        const rows = () => [...document.querySelectorAll("#table tbody tr")];
        const words = document.getElementById("words");
        words.value = "DMA_copy kernels.py:LINE";
        words.dispatchEvent(new Event("input"));
        const copies = rows().map((row) => Number(row.dataset.event));
        words.value = "";
        words.dispatchEvent(new Event("input"));
        document.querySelector('#table th[data-key=duration] button').click();
        document.querySelector('#table th[data-key=duration] button').click();
        const longest = Number(rows()[0].dataset.event);
        rows()[0].click();
        const details = document.getElementById("details").textContent;
        document.getElementById("only-path").click();
        return { copies, longest, details, path: rows().length };
        """.replace("LINE", str(softmax.events[0].source.line))
    )
    events = softmax.events
    longest = max(range(len(events)), key=lambda n: events[n].end_ns - events[n].start_ns)
    loads = [n for n, event in enumerate(events) if event.source == events[0].source]
    assert found["copies"] == loads and len(loads) == 4
    assert found["path"] == len(softmax.critical_path)
    assert found["longest"] == longest
    assert f"#{events[longest].number} {events[longest].name}" in found["details"]
    assert f"kernels.py:{events[longest].source.line}, softmax" in found["details"]


def test_the_critical_path_is_walked_by_keys(softmax, shown):
    found = shown(
        """
        const seen = [];
        for (let n = 0; n < data.path.length + 2; n++) {
          const press = new KeyboardEvent("keydown", { key: "n" });
          document.getElementById("charts").dispatchEvent(press);
          seen.push(selected);
        }
        return seen;
        """
    )
    numbers = [event.number for event in softmax.critical_path]
    assert [softmax.events[n].number for n in found] == [*numbers, numbers[-1], numbers[-1]]


@pytest.mark.parametrize("case", ["matmul", "two cores", "loop", "launches"])
def test_other_kernels_open_too(case, shown):
    timeline = {
        "matmul": lambda: modelled(
            kernels.linear, ((128, 128), "bfloat16"), ((128, 512), "bfloat16"), chip="trn3"
        ),
        "two cores": lambda: modelled(kernels.halves[2], ((128, 1024), "float32")),
        "loop": lambda: modelled(kernels.in_a_loop, ((16, 512), "float32")),
        "launches": _two_launches,
    }[case]()
    found = shown(
        """
        const names = [...document.querySelectorAll("#table th")].map((head) => head.textContent);
        return { rows: document.querySelectorAll("#table tbody tr").length, names,
                 lanes: rows.map((row) => row.name),
                 tflops: document.getElementById("tflops")?.value };
        """,
        timeline,
    )
    assert found["rows"] == len(timeline.events)
    assert ("Core" in found["names"]) == (case == "two cores")
    assert ("Launch" in found["names"]) == (case == "launches")
    assert any(name.startswith("Loops") for name in found["lanes"]) == (case == "loop")
    if case == "matmul":
        rate = 2 * timeline.macs / timeline.total_ns / 1e3
        assert float(found["tflops"]) == pytest.approx(rate)
    else:
        assert "tflops" not in found


def _two_launches():
    with record() as timeline:
        kernels.softmax(np.zeros((128, 128), np.float32))
        kernels.softmax(np.zeros((256, 128), np.float32))
    return timeline
