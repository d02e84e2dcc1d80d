"""Modelled strong scaling from 1 to 4096 NeuronCores: python -m bench.scaling --out scaling.png

1024^3, 4096^3, 2^30 and 2^36 complex points, with the result placed as the input, by
`trnfft.distributed.plan`: of all meshes of so many cores the one with the shortest modelled time.
Cores are what the runtime calls so: of the chip's degree of LNC. Efficiency is against the time of
one of them, as if its memory held everything. What a launch takes and the start of an exchange is
what others measured (`nki_kernels.measured_times`), the rest is modelled. `--markdown` prints the
table of docs/scaling_model.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import program
from nki_kernels import hardware
from trnfft import distributed
from trnfft.cli.output_file import save_picture
from trnfft.distributed.network import EFA, HBM, NEURONLINK
from trnfft.distributed.plan import DistributedPlan

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
ON_PAGE = (1, 2, *(4**exponent for exponent in range(1, 7)))  # cores in docs/scaling_model.md
LONG_DASHES = (0, (6, 3))
DASHES: dict[str, Any] = {  # by what binds
    **{"kernels": "-", HBM: "-", "launches": LONG_DASHES, NEURONLINK: "--", EFA: "-."},
    "start": ":",
}
TargetOption = Annotated[
    str | None, typer.Option(help="trn1, trn2 or trn3. Default: all.", show_default=False)
]


app = typer.Typer(add_completion=False)


@app.command()
def main(
    target: TargetOption = None,
    out: program.OutOption = Path("scaling.png"),
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table for the documentation, and no more.")
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
    """The fastest plan for each number of cores."""
    return [fastest(shape, cores, target) for cores in CORES]


def fastest(shape: tuple[int, ...], cores: int, target: str) -> DistributedPlan:
    """Of all meshes that the shape takes."""
    plans = [distributed.plan(shape, mesh, target=target) for mesh in meshes(shape, cores)]
    return min(plans, key=lambda plan: plan.total_ns)


def meshes(shape: tuple[int, ...], cores: int) -> Iterator[tuple[int, ...]]:
    """One axis, or two for three dimensions, with powers of two that leave no core without data."""
    if len(shape) == 1 or cores <= min(shape):
        yield (cores,)
    first = 2
    while len(shape) > 2 and first <= cores // 2:
        if max(first, cores // first) <= min(shape):
            yield (first, cores // first)
        first *= 2


def markdown_of(target: str) -> str:
    """A table of Markdown: milliseconds, efficiency, and what binds; a star beyond the memory."""
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
    """Time of one core, the first of the plans, over cores times the plan's time."""
    return plans[0].total_ns / (plan.devices * plan.total_ns)


def table_of(name: str, plans: list[DistributedPlan]) -> Table:
    """A row a number of cores."""
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
    """A panel a chip: efficiency over cores, hollow where the memory is too small."""
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
    """Efficiency of one size; each piece of the line says what binds at its right end."""
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
    """Where a chip ends and an instance, scales and names."""
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
    """What markers and dashes mean."""
    axes.scatter([], [], edgecolors="0.5", facecolors="none", label="more than the memory")
    for bound in ("kernels", "launches", NEURONLINK, EFA, "start"):
        label = "bound by the start of exchanges" if bound == "start" else f"bound by {bound}"
        axes.plot([], [], color="0.5", linestyle=DASHES[bound], label=label)
    axes.set_ylabel("efficiency against one core, modelled with launches")
    axes.legend(loc="lower left", fontsize=9)


if __name__ == "__main__":
    app()
