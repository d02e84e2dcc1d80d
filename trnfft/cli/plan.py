"""`trnfft plan`: what the planner chooses and why, as text, a timeline and a plot of prices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nki_kernels import hardware, simulator
from nki_kernels.distributions import from_extra
from nki_kernels.measured_times import about
from trnfft.cli.output_file import check_output, save_picture, writing
from trnfft.cli.stop import stop
from trnfft.planner import algorithms, cost
from trnfft.planner.plan import C2C, Candidate, Plan
from trnfft.planner.planner import plan as make_plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTTED = 2**16  # longest transform in the plot of prices
KERNEL, WITH_A_LAUNCH = "kernel,\nmodelled", "with a launch,\nabout"  # headings


def plan(
    n: Annotated[
        int | None, typer.Argument(metavar="N", help="Length of the transform.", show_default=False)
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Instead of N, lengths along several axes: 1080x1920.")
    ] = None,
    real: Annotated[bool, typer.Option("--real", help="Of real data, or to real data.")] = False,
    inverse: Annotated[bool, typer.Option("--inverse", help="The inverse transform.")] = False,
    padded_from: Annotated[
        str | None, typer.Option(help="Shape of the data before it is padded with zeros: 720x1280.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Number of transforms.")] = 1,
    target: Annotated[
        str | None,
        typer.Option(
            help=f"Chip: trn1, trn2 or trn3. Default: what {hardware.TARGET_VARIABLE} says, else "
            "the instance's, else trn1.",
            show_default=False,
        ),
    ] = None,
    lnc: Annotated[
        int | None,
        typer.Option(
            help="Degree of LNC, physical cores of a launch: 1, or 2 on trn2 and trn3. Default: "
            f"what {hardware.LNC_VARIABLE} says, else the most that the chip has.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(help="Precision: fast, kahan, double, bf16 or bf16_refined.")
    ] = "fast",
    everything: Annotated[
        bool, typer.Option("--all", help="List every candidate, not the best of each algorithm.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the plan as JSON, with every candidate.")
    ] = False,
    perfetto: Annotated[
        Path | None, typer.Option(help="Save the timeline here, for ui.perfetto.dev.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw time against N for all algorithms: a PNG.")
    ] = None,
) -> None:
    """What the planner chooses for N points or a shape, what it costs, and what it rejected."""
    try:
        for out in (perfetto, plot):
            if out is not None:
                check_output(out, None)
        check_size(n, shape)
        if as_json and (perfetto or plot):
            raise ValueError(
                "argument '--json' prints nothing but the plan, allowed only without --perfetto "
                "and --plot; run the command twice"
            )
        if plot is not None and (shape or padded_from):
            raise ValueError(
                f"argument '--plot' is {plot}, allowed only with N, which it draws prices against; "
                f"leave out --shape and --padded-from"
            )
        found = make_plan(
            n,
            shape=parse_shape("--shape", shape),
            real=real,
            inverse=inverse,
            padded_from=parse_shape("--padded-from", padded_from),
            batch=batch,
            target=target,
            cores=lnc,
            precision=precision,
        )
    except (ValueError, NotImplementedError) as error:
        stop(str(error), 2)
    if as_json:
        printed = {**found.to_dict(), "with_launches_ns": found.with_launches_ns}
        typer.echo(json.dumps(printed, indent=1))
        return
    console = Console()
    console.print(found.tree(), markup=False, highlight=False, soft_wrap=True)
    console.print(candidate_table(found, everything))
    if found.launches:
        note = hardware.chip(found.target).launches.note(found.target)
        console.print(note, highlight=False, soft_wrap=True)
    if perfetto is not None:
        save_timeline(found, perfetto)
    if plot is not None:
        save_picture(lambda: draw_prices(found), plot)


def check_size(n: int | None, shape: str | None) -> None:
    """Refuses what is not exactly one of N and a shape."""
    if n is None and shape is None:
        raise ValueError("argument 'N' is missing; give a length or a shape, --shape 1080x1920")
    if n is not None and shape is not None:
        raise ValueError(f"arguments 'N' and '--shape' are {n} and {shape}, allowed is one of them")


def parse_shape(name: str, text: str | None) -> tuple[int, ...] | None:
    """The sizes of a shape like 1080x1920; None of None."""
    if text is None:
        return None
    sizes = text.split("x")
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise ValueError(
            f"argument '{name}' is {text!r}, allowed are sizes of 1 or more with an x between "
            f"them, as in 1080x1920"
        )
    return tuple(map(int, sizes))


def candidate_table(found: Plan, everything: bool) -> Table:
    """The candidates, the choice first: all, or the first of every algorithm."""
    title = "Candidates" if everything else "Candidates, the best of each algorithm"
    table = Table(title=f"{title}: modelled on {found.where}" if found.launches else title)
    numbers = (KERNEL, WITH_A_LAUNCH, "error", "launches")
    for name in ("recipe", KERNEL, WITH_A_LAUNCH, "bound", "error", "launches", "verdict"):
        is_number = name in numbers
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    shown = found.candidates if everything else best_of_each(found.candidates)
    rows = [(str(one.recipe), one) for one in shown] if everything else folded(shown)
    for recipe, candidate in rows:
        error = candidate.predicted_error
        table.add_row(
            escape(recipe),
            time_of(candidate),
            with_launches_of(found, candidate),
            candidate.bound,
            "" if error is None else f"{error:.1e}",
            str(candidate.launches or ""),
            escape(candidate.rejected or "chosen"),
        )
    return table


def time_of(candidate: Candidate) -> str:
    """The modelled time of a candidate, what it takes at least, or nothing."""
    if candidate.predicted_ns is not None:
        return f"{candidate.predicted_ns / 1e3:.4g} us"
    return "" if candidate.least_ns is None else f"> {candidate.least_ns / 1e3:.4g} us"


def with_launches_of(found: Plan, candidate: Candidate) -> str:
    """About the time of a candidate with its launches, or nothing."""
    ns = found.with_launches_of(candidate)
    return "" if ns is None else about(ns)


def best_of_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each algorithm; they come in order of their prices."""
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(candidate.recipe.algorithm, candidate)
    return list(found.values())


def folded(candidates: Sequence[Candidate]) -> list[tuple[str, Candidate]]:
    """Candidates with what stands for their recipes: one for all that cannot run for one reason."""
    alike: dict[object, list[Candidate]] = {}
    for index, candidate in enumerate(candidates):
        is_possible = candidate.predicted_error is not None
        alike.setdefault(index if is_possible else candidate.rejected, []).append(candidate)
    return [
        (", ".join(one.recipe.algorithm for one in same) if same[1:] else str(first.recipe), first)
        for same in alike.values()
        for first in same[:1]
    ]


def save_timeline(found: Plan, out: Path) -> None:
    """Writes the plan's timeline, or ends the command with the reason why not."""
    if not found.launches:
        stop('there is no timeline: precision "double" runs on the host', 2)
    chip = hardware.chip(found.target)
    try:
        with writing(out), simulator.sources():
            cost.timeline(found.recipe, found.batch, chip, found.cores).save_perfetto(out)
    except ImportError:
        stop(f"the trace needs perfetto, {from_extra('report')}", 2)


def draw_prices(found: Plan) -> Figure:
    """Modelled time against N, a line an algorithm, for the plan's batch, chip and precision.

    Lines are through powers of two; the plan's own N, which may factor otherwise, has stars.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    plans = priced_lengths(found)
    for name in algorithms.ALGORITHMS:
        points, own = prices_of(name, plans), prices_of(name, [found])
        color = None
        if points:
            (line,) = axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
            color = line.get_color()
        if own:
            label = None if points else name
            (star,) = axes.plot(*zip(*own, strict=True), marker="*", color=color, label=label)
            star.set(markersize=10, markeredgecolor="white")
    floor = sorted((one.n, one.dma_floor_ns / 1e3) for one in [found, *plans])
    axes.plot(*zip(*floor, strict=True), "k--", label="DMA floor")
    one_launch = hardware.chip(found.target).with_launches_ns(0.0, 1)
    label = f"a launch, about {about(one_launch)}: not part of the lines"
    axes.axhline(one_launch / 1e3, color="k", linestyle=":", label=label)
    axes.axvline(found.n, color="grey", linewidth=1, zorder=0, label=f"N = {found.n}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("N")
    axes.set_ylabel("kernel (us), modelled")
    data = "" if found.kind == C2C else ", real data"
    axes.set_title(f"Batch {found.batch} on {found.where}, precision {found.precision}{data}")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def prices_of(algorithm: str, plans: Sequence[Plan]) -> list[tuple[int, float]]:
    """N and microseconds of the best candidate of an algorithm in each plan that has a price.

    A plot shows what those take, too, that plans reject without a price.
    """
    found = [
        (one.n, price_of(candidate, one))
        for one in plans
        for candidate in best_of_each(one.candidates)
        if candidate.recipe.algorithm == algorithm
    ]
    return [(n, ns / 1e3) for n, ns in found if ns is not None]


def price_of(candidate: Candidate, plan: Plan) -> float | None:
    """Modelled nanoseconds of a plan's candidate; None where it has no price and no bound."""
    if candidate.least_ns is None:
        return candidate.predicted_ns
    try:
        chip = hardware.chip(plan.target)
        return cost.price(candidate.recipe, plan.batch, chip, plan.cores).predicted_ns
    except cost.CannotRun:
        return None


def priced_lengths(found: Plan) -> list[Plan]:
    """Plans like `found` for the powers of two up to PLOTTED that a kernel can do."""
    plans = []
    for exponent in range(1, PLOTTED.bit_length()):
        try:
            plans.append(
                make_plan(
                    1 << exponent,
                    real=found.kind != C2C,
                    inverse=found.inverse,
                    batch=found.batch,
                    target=found.target,
                    cores=found.cores,
                    precision=found.precision,
                )
            )
        except NotImplementedError:
            continue
    return plans
