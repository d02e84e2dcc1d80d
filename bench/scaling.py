"""Modelled strong scaling of distributed transforms from 1 to 4096 NeuronCores.

Run: python -m bench.scaling --out scaling.png

The transforms have 1024^3, 4096^3, 2^30 and 2^36 complex points, and the result is distributed as
the input is. `trnfft.distributed.plan` models the time of every mesh with a given number of cores,
and the shortest time counts. A core is what the runtime calls a core at the chip's degree of LNC.
Efficiency is relative to the time of one core, as if its memory held all of the data. The overhead
of launches and the start of exchanges were measured by others (`nki_sim.measured_times`);
everything else is modelled. `--markdown` prints the table of docs/scaling_model.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import program
from nki_sim import hardware
from trnfft import distributed
from trnfft.cli.output_file import save_picture
from trnfft.distributed.model.network import EFA, HBM, NEURONLINK
from trnfft.distributed.model.plan import DistributedPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHAPES = {
    "1024^3": (1024,) * 3,
    "4096^3": (4096,) * 3,
    "2^30": (2**30,),
    "2^36": (2**36,),
}
CORES = tuple(2**exponent for exponent in range(13))
MARKERS = "osD^"
# Numbers of cores in docs/scaling_model.md.
ON_PAGE = (1, 2, *(4**exponent for exponent in range(1, 7)))
LONG_DASHES = (0, (6, 3))
DASHES: dict[str, Any] = {  # line styles, by the part that bounds the time
    **{"kernels": "-", HBM: "-", "launches": LONG_DASHES, NEURONLINK: "--", EFA: "-."},
    "start": ":",
}
TargetOption = Annotated[
    str | None, typer.Option(help="Chip: trn1, trn2 or trn3. Default: all.", show_default=False)
]


app = typer.Typer(add_completion=False)


@app.command()
def main(
    target: TargetOption = None,
    out: program.OutOption = Path("scaling.png"),
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Only print a table for the documentation.")
    ] = False,
) -> None:
    """Print a table for each chip, and draw efficiency over cores."""
    program.check_out(out)
    try:
        chips = [hardware.chip(target).name] if target else list(hardware.NAMES)
    except ValueError as error:
        program.stop(str(error), 2)
    if markdown:
        for chip in chips:
            typer.echo(markdown_of(chip))
        return
    found = {chip: {name: scaling(shape, chip) for name, shape in SHAPES.items()} for chip in chips}
    console = Console(width=165)
    for plans in found.values():
        for name, line in plans.items():
            console.print(table_of(name, line))
    save_picture(lambda: draw(found), out)


def scaling(shape: tuple[int, ...], target: str) -> list[DistributedPlan]:
    """Returns the fastest plan for each number of cores."""
    return [fastest(shape, cores, target) for cores in CORES]


def fastest(shape: tuple[int, ...], cores: int, target: str) -> DistributedPlan:
    """Returns the fastest plan of all meshes that suit the shape."""
    plans = [distributed.plan(shape, mesh, target=target) for mesh in meshes(shape, cores)]
    return min(plans, key=lambda plan: plan.total_ns)


def meshes(shape: tuple[int, ...], cores: int) -> Iterator[tuple[int, ...]]:
    """Yields meshes of one axis, and for three dimensions also of two axes.

    Their sizes are powers of two that leave no core without data.
    """
    if len(shape) == 1 or cores <= min(shape):
        yield (cores,)
    first = 2
    while len(shape) > 2 and first <= cores // 2:
        if max(first, cores // first) <= min(shape):
            yield (first, cores // first)
        first *= 2


def markdown_of(target: str) -> str:
    """Returns a Markdown table of milliseconds, efficiency, and the part that bounds the time.

    A star marks plans that need more than the memory.
    """
    columns = [[fastest(shape, cores, target) for cores in ON_PAGE] for shape in SHAPES.values()]
    lines = [f"| cores | {' | '.join(SHAPES)} |", "|---:" + "|---" * len(SHAPES) + "|"]
    for plans in zip(*columns, strict=True):
        cells = [_cell(plan, of) for plan, of in zip(plans, columns, strict=True)]
        lines.append(f"| {plans[0].devices} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(plan: DistributedPlan, plans: list[DistributedPlan]) -> str:
    ms, share = plan.total_ns / 1e6, 100 * efficiency(plan, plans)
    time = f"{ms:#.3g}".removesuffix(".") if ms < 1000 else f"{float(f'{ms:.3g}'):.0f}"
    percent = f"{share:.0f}%" if share >= 9.95 else f"{share:.1f}%"
    return f"{time}, {percent}, {plan.bound}{'' if plan.fits else ' *'}"


def efficiency(plan: DistributedPlan, plans: list[DistributedPlan]) -> float:
    """Returns the time of one core, which is the first plan, over cores times the plan's time."""
    return plans[0].total_ns / (plan.devices * plan.total_ns)


def table_of(name: str, plans: list[DistributedPlan]) -> Table:
    """Returns a table with one row for each number of cores."""
    where = f"{plans[0].target}, LNC={plans[0].cores}"
    title = f"{name} on {where}, modelled, with launches and starts that others measured"
    table = Table(title=title, title_justify="left")
    headings = ("cores", "mesh", "by", "kernels, ms", "launches", "exchanges", "total, ms")
    for heading in (*headings, "efficiency", "bound by", f"MB by {HBM}", NEURONLINK, EFA, "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for plan in plans:
        times = (plan.kernels_ns, plan.launches_ns, plan.exchanges_ns, plan.total_ns)
        sent = plan.link_bytes()
        table.add_row(
            str(plan.devices),
            " x ".join(map(str, plan.mesh_shape)),
            plan.decomposition,
            *(f"{ns / 1e6:.4g}" for ns in times),
            f"{efficiency(plan, plans):.1%}",
            plan.bound,
            *(f"{sent.get(link, 0.0) / 1e6:.3g}" for link in (HBM, NEURONLINK, EFA)),
            "fits" if plan.fits else "too little",
        )
    return table


def draw(found: dict[str, dict[str, list[DistributedPlan]]]) -> Figure:
    """Draws efficiency over cores, with a panel for each chip.

    A marker is hollow where the memory is too small.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(found), 5.5), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for axes, (target, lines) in zip(panels, found.items(), strict=True):
        for index, (name, plans) in enumerate(lines.items()):
            draw_line(axes, name, plans, index)
        draw_limits(axes, target, next(iter(lines.values()))[0].cores)
    draw_legend(panels[0])
    return figure


def draw_line(axes: Axes, name: str, plans: list[DistributedPlan], index: int) -> None:
    """Draws the efficiency of one size; a piece's style shows the bound at its right end."""
    color = f"C{index}"
    at = [(plan.devices, efficiency(plan, plans)) for plan in plans]
    for before, after, plan in zip(at, at[1:], plans[1:], strict=False):
        pieces = zip(before, after, strict=True)
        axes.plot(*pieces, color=color, linestyle=DASHES[plan.bound], linewidth=1.5, zorder=2)
    faces = [color if plan.fits else "none" for plan in plans]
    style: dict[str, Any] = {"marker": MARKERS[index], "edgecolors": color, "zorder": 3}
    axes.scatter(*zip(*at, strict=True), facecolors=faces, **style)
    axes.scatter([], [], facecolors=color, label=f"{name} points", **style)


def draw_limits(axes: Axes, target: str, degree: int) -> None:
    """Marks the ends of a chip and of an instance, and sets the scales and names of the axes."""
    chip = hardware.chip(target)
    per_chip = chip.cores_per_chip // degree
    for cores, what in ((per_chip, "a chip"), (per_chip * chip.chips_per_instance, "an instance")):
        axes.axvline(cores, color="0.5", linestyle=":", linewidth=1)
        axes.text(cores * 1.06, 1.25, what, color="0.5", fontsize=9, rotation=90, va="bottom")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel=f"NeuronCores, LNC={degree}", xlim=(0.8, 1.25 * max(CORES)), ylim=(1e-3, 8))
    axes.grid(alpha=0.3)
    axes.set_title(target)


def draw_legend(axes: Axes) -> None:
    """Explains the markers and the styles of the lines."""
    axes.scatter([], [], edgecolors="0.5", facecolors="none", label="more than the memory")
    for bound in ("kernels", "launches", NEURONLINK, EFA, "start"):
        label = "bound by the start of exchanges" if bound == "start" else f"bound by {bound}"
        axes.plot([], [], color="0.5", linestyle=DASHES[bound], label=label)
    axes.set_ylabel("efficiency against one core, modelled with launches")
    axes.legend(loc="lower left", fontsize=9)


if __name__ == "__main__":
    app()
