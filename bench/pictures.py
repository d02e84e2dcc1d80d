"""The pictures of README.md and of the documentation: python -m bench.pictures

Every picture is drawn twice, for light and for dark pages, into docs/pictures/NAME-light.svg and
NAME-dark.svg. A page shows the picture that fits the scheme of the reader's system.

front, front_narrow   what a complex transform takes, modelled, and what others measured beside it
prices    what ``trnfft plan 1000 --batch 1024 --plot FILE`` draws
slab, pencil   diagrams, of bench/diagrams.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import diagrams
from bench.seed_article import figures as article
from bench.tables.planned import ns_of, planned_rows
from nki_sim.measured_times import HOST_ROUND_TRIP, XLA_LAUNCHES, MeasuredTime
from trnfft.cli.plan import draw_prices
from trnfft.planner.planner import plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
POINTS = 2**20  # of all rows of a batch together
EXPONENTS = range(5, 21)  # N is two to the power of these
COLORS = {"trn1": "#e8710a", "trn2": "#3f7fe8", "trn3": "#1a9e77"}
GREY = "#8b949e"  # what others published
INK = {"light": "#24292f", "dark": "#d7dce2"}  # lines and letters
GRID = {"light": "#d0d7de", "dark": "#4a515c"}
MARKERS = "sD^v"


@contextmanager
def scheme(name: str) -> Iterator[None]:
    """Draws in the colours of a scheme, "light" or "dark", on no background."""
    import matplotlib

    ink = INK[name]
    names = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
    settings: Any = dict.fromkeys(names, ink)
    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    settings |= dict.fromkeys(clear, "none")
    settings |= {"grid.color": GRID[name], "svg.hashsalt": "trnfft", "legend.framealpha": 0.0}
    settings |= {"axes.spines.top": False, "axes.spines.right": False, "lines.color": ink}
    with matplotlib.rc_context(settings):
        yield


def front() -> Figure:
    """Draws, side by side, many rows on three chips over the DMA floor, and one row on trn1."""
    return in_panels((1, 2), (11, 5.2))


def front_narrow() -> Figure:
    """Draws the same, one above the other, for narrow screens."""
    return in_panels((2, 1), (5.8, 10.4))


def in_panels(shape: tuple[int, int], size: tuple[float, float]) -> Figure:
    """Returns a figure of two panels in rows and columns, of a size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    many, one = figure.subplots(*shape)
    draw_many(many)
    draw_one(one)
    return figure


def front_in_words() -> str:
    """Returns what the picture `front` shows, for readers who do not see it."""
    plans = {chip: [planned_rows(1 << e, POINTS >> e, chip) for e in EXPONENTS] for chip in COLORS}
    every = [one for some in plans.values() for one in some]
    ratios = [ns_of(one) / one.dma_floor_ns for one in every]
    launched = [(one.with_launches_ns or 0.0) / one.dma_floor_ns for one in every]
    host = [at / plans["trn2"][0].dma_floor_ns for at in ends(HOST_ROUND_TRIP)]
    single = [ns_of(planned_rows(1 << e, 1, "trn1")) / 1e3 for e in EXPONENTS]
    published = [us / 1e3 for times in article.TIMES_US.values() for us in times.values()]
    return (
        f"Left: modelled times of complex transforms of 2^20 points, N a power of two, are "
        f"{span(ratios, '.1f')} times the DMA floor on trn1, trn2 and trn3. With a launch they are "
        f"{span(launched, '.0f')} times the floor, and a way to the host and back takes "
        f"{span(host, '.0f')} times as long as the floor of trn2. Right: one transform on trn1 "
        f"takes {span(single, '.0f')} us, modelled, and {XLA_LAUNCHES.eager.range} more with a "
        f"launch; an earlier library took {span(published, '.1f')} ms, as its authors measured."
    )


def span(values: Iterable[float], digits: str) -> str:
    """Returns the least and the greatest of some values: "1.1 to 5.8"."""
    values = list(values)
    return f"{min(values):{digits}} to {max(values):{digits}}"


def draw_many(axes: Axes) -> None:
    """Draws modelled times of 2^20 points over the DMA floor, and with a launch."""
    for chip, color in COLORS.items():
        plans = [planned_rows(1 << e, POINTS >> e, chip) for e in EXPONENTS]
        sizes = [one.n for one in plans]
        kernels = [ns_of(one) / one.dma_floor_ns for one in plans]
        launched = [(one.with_launches_ns or 0.0) / one.dma_floor_ns for one in plans]
        label = f"kernel on {plans[0].where}, modelled"
        axes.plot(sizes, kernels, color=color, marker="o", markersize=3, label=label)
        axes.plot(sizes, launched, color=color, linestyle="--", linewidth=1)
    label = "the same with a launch: measured by others"
    axes.plot([], [], "--", color=ink(), linewidth=1, label=label)
    label = "DMA floor: every point read and written once"
    axes.axhline(1, color=ink(), linestyle=":", label=label)
    floor = planned_rows(1 << 10, POINTS >> 10, "trn2").dma_floor_ns
    low, high = (at / floor for at in ends(HOST_ROUND_TRIP))
    axes.axhspan(low, high, color=GREY, alpha=0.3, linewidth=0)
    text = f"to the host and back on trn2:\n{HOST_ROUND_TRIP.range}, measured by others"
    axes.text(2**12.5, (low * high) ** 0.5, text, fontsize=9, ha="center", va="center")
    axes.set_ylim(0.8, 200)
    axes.set_ylabel("time / DMA floor")
    finish(axes, "2$^{20}$ complex points in one call, N a power of two", EXPONENTS)


def draw_one(axes: Axes) -> None:
    """Draws one transform on trn1, beside what the article published."""
    plans = [planned_rows(1 << e, 1, "trn1") for e in EXPONENTS]
    sizes = [one.n for one in plans]
    kernels = [ns_of(one) / 1e3 for one in plans]
    launched = [(one.with_launches_ns or 0.0) / 1e3 for one in plans]
    color, launch = COLORS["trn1"], XLA_LAUNCHES.eager
    label = f"kernel on {plans[0].where}, modelled"
    axes.plot(sizes, kernels, color=color, marker="o", markersize=3, label=label)
    label = f"the same with a launch, {launch.range}: measured by others"
    axes.plot(sizes, launched, color=color, linestyle="--", label=label)
    low, high = ([kernel + at / 1e3 for kernel in kernels] for at in ends(launch))
    axes.fill_between(sizes, low, high, color=color, alpha=0.2, linewidth=0)
    for marker, (way, times) in zip(MARKERS, article.TIMES_US.items(), strict=True):
        style: dict[str, Any] = {"marker": marker, "markerfacecolor": "none", "linestyle": ":"}
        label = f"earlier library, {way}: measured by its authors"
        axes.plot(*zip(*times.items(), strict=True), color=GREY, label=label, **style)
    axes.set_ylim(1, 3e4)
    axes.set_ylabel("microseconds")
    finish(axes, "One complex transform on trn1", EXPONENTS)


def ends(time: MeasuredTime) -> tuple[float, float]:
    """Returns the least and the most nanoseconds that were measured."""
    return time.least_ns, time.most_ns


def ink() -> str:
    """Returns the colour of letters in the scheme that is being drawn."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def finish(axes: Axes, title: str, exponents: range) -> None:
    """Sets scales, ticks, grid, title, and a legend below the panel."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([2**e for e in exponents if e % 3 == 2])
    axes.set_xlabel("N")
    axes.set_title(title, loc="left")
    axes.grid(alpha=0.6)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), fontsize=9, frameon=False)


def prices() -> Figure:
    """The modelled times of all algorithms, as `trnfft plan 1000 --batch 1024 --plot FILE`."""
    return draw_prices(plan(1000, batch=1024, target="trn1"))


PICTURES: dict[str, Callable[[], Figure]] = {
    "front": front,
    "front_narrow": front_narrow,
    "prices": prices,
    "slab": diagrams.slab,
    "pencil": diagrams.pencil,
}


def main() -> None:
    """Draws all pictures, or those that are named on the command line."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        for one in INK:
            with scheme(one):
                path = FOLDER / f"{name}-{one}.svg"
                PICTURES[name]().savefig(path, metadata={"Date": None})
                print(path.relative_to(FOLDER.parents[1]))


if __name__ == "__main__":
    main()
