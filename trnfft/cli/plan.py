"""`trnfft plan`: what the planner chooses and why, as text, a timeline and a plot of prices."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from nki_sim import hardware
from nki_sim.base.time_range import time_range
from nki_sim.measured_times import about
from trnfft.base.distributions import from_extra
from trnfft.cli.chip_options import Lnc, Target
from trnfft.cli.output_file import check_output, save_picture, writing
from trnfft.cli.stop import stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trnfft.planner.plan import Candidate, Plan

PLOTTED = 2**16  # longest transform in the plot of prices
WIDEST = 100  # columns of the list of candidates


def plan(
    n: Annotated[
        int | None, typer.Argument(metavar="N", help="Length of the transform.", show_default=False)
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(help="Lengths along several axes in place of N, for example 1080x1920."),
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Transform real data, or with --inverse to real data.")
    ] = False,
    inverse: Annotated[bool, typer.Option("--inverse", help="Plan the inverse transform.")] = False,
    padded_from: Annotated[
        str | None,
        typer.Option(
            help="Shape of the data before it is padded with zeros to N or --shape, for example "
            "720x1280."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Number of transforms.")] = 1,
    target: Target = None,
    lnc: Lnc = None,
    precision: Annotated[
        str, typer.Option(help="Precision mode: fast, kahan, double, bf16 or bf16_refined.")
    ] = "fast",
    everything: Annotated[
        bool, typer.Option("--all", help="List every candidate, not the best of each algorithm.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the plan as JSON, with every candidate.")
    ] = False,
    perfetto: Annotated[
        Path | None, typer.Option(help="File to save the timeline in, for ui.perfetto.dev.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="PNG file to draw the times of all algorithms in, over N.")
    ] = None,
) -> None:
    """Shows how the planner computes a transform, what that costs, and what it rejected.

    Times of kernels are modelled. What a launch adds was measured by others.
    """
    from trnfft.planner.planner import plan as make_plan

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
                f"argument '--plot' is {plot}, allowed only with N, over which it draws times; "
                f"leave out --shape and --padded-from"
            )
        chosen = make_plan(
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
        printed = {**chosen.to_dict(), "with_launches_ns": chosen.with_launches_ns}
        typer.echo(json.dumps(printed, indent=1))
        return
    console = Console()
    console.print(chosen.tree(), markup=False, highlight=False, soft_wrap=True)
    console.print()
    console.print(candidate_list(chosen, everything, min(console.width, WIDEST)), soft_wrap=True)
    if chosen.launches:
        console.print()
        note = hardware.chip(chosen.target).launches.note(chosen.target)
        console.print(note, highlight=False)
    if perfetto is not None:
        save_timeline(chosen, perfetto)
    if plot is not None:
        save_picture(lambda: draw_prices(chosen), plot)


def check_size(n: int | None, shape: str | None) -> None:
    """Raises ValueError unless exactly one of N and a shape is given."""
    if n is None and shape is None:
        raise ValueError("argument 'N' is missing; give a length or a shape, --shape 1080x1920")
    if n is not None and shape is not None:
        raise ValueError(
            f"arguments 'N' and '--shape' are {n} and {shape}, allowed is one of them; "
            f"leave one out"
        )


def parse_shape(name: str, text: str | None) -> tuple[int, ...] | None:
    """Returns the sizes of a shape like 1080x1920, and None for None."""
    if text is None:
        return None
    sizes = text.split("x")
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise ValueError(
            f"argument '{name}' is {text!r}, allowed are sizes of 1 or more with an x between "
            f"them, as in 1080x1920"
        )
    return tuple(map(int, sizes))


def candidate_list(plan: Plan, everything: bool, width: int) -> Text:
    """Returns the candidates, the choice first: all, or the first of every algorithm.

    A recipe has a line of its own, below which are its numbers and the verdict in columns, so that
    80 columns are enough.
    """
    title = "All candidates" if everything else "Candidates, the best of each algorithm"
    candidates = plan.candidates if everything else best_of_each(plan.candidates)
    alone = [(str(candidate.recipe), candidate) for candidate in candidates]
    recipes = alone if everything else folded(candidates)
    rows = [
        ("kernel", "launched", "bound", "error"),
        *(numbers_of(plan, candidate) for _, candidate in recipes),
    ]
    verdicts = ["verdict", *(candidate.rejected or "chosen" for _, candidate in recipes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = Text(f"{title}: modelled on {plan.where}\n" if plan.launches else f"{title}\n")
    if plan.launches:
        columns = (
            "Columns: the modelled time of the kernel, about the time with launches, the "
            "busiest engine, the relative L2 error, and why the recipe was rejected."
        )
        text.append(f"{textwrap.fill(columns, width)}\n\n")
    for recipe, numbers, verdict in zip(
        ["", *(recipe for recipe, _ in recipes)], rows, verdicts, strict=True
    ):
        text.append("\n".join(textwrap.wrap(recipe, width, subsequent_indent="  ")), "bold")
        cells = [cell.rjust(size) for cell, size in zip(numbers, widths, strict=True)]
        cells[2] = numbers[2].ljust(widths[2])
        line = f"  {'  '.join(cells)}  "
        text.append("\n" if recipe else "")
        text.append(
            textwrap.fill(verdict, width, initial_indent=line, subsequent_indent=" " * len(line))
        )
        text.append("\n")
    text.rstrip()
    return text


def numbers_of(plan: Plan, candidate: Candidate) -> tuple[str, str, str, str]:
    """Returns the times of a candidate without and with a launch, its busiest engine, its error."""
    error, high = candidate.predicted_error, candidate.high_error
    text = "" if error is None else f"{error:.1e}"
    if high != error:
        text += f" to {high:.1e}"
    ns = plan.with_launches_of(candidate)
    return time_of(candidate), "" if ns is None else about(ns), candidate.bound, text


def time_of(candidate: Candidate) -> str:
    """Returns the modelled time of a candidate, a lower bound of it, or nothing."""
    if candidate.predicted_ns is not None:
        return time_range(candidate.predicted_ns, candidate.low_ns, candidate.high_ns, "us")
    return "" if candidate.least_ns is None else f"> {candidate.least_ns / 1e3:.4g} us"


def best_of_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Returns the first candidate of each algorithm, which is the best one: they are in order."""
    best: dict[str, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.recipe.algorithm, candidate)
    return list(best.values())


def folded(candidates: Sequence[Candidate]) -> list[tuple[str, Candidate]]:
    """Returns candidates with the text of their recipes.

    Of candidates that cannot run for the same reason, one stands for all and has all their names.
    """
    alike: dict[object, list[Candidate]] = {}
    for index, candidate in enumerate(candidates):
        is_possible = candidate.predicted_error is not None
        alike.setdefault(index if is_possible else candidate.rejected, []).append(candidate)
    return [
        (
            ", ".join(each.recipe.algorithm for each in same) if same[1:] else str(first.recipe),
            first,
        )
        for same in alike.values()
        for first in same[:1]
    ]


def save_timeline(plan: Plan, out: Path) -> None:
    """Writes the timeline of the plan, or ends the command with the reason why not."""
    import nki_sim
    from trnfft.planner import cost
    from trnfft.planner.separate import SEPARATE

    if not plan.launches:
        stop('there is no timeline, because precision "double" runs on the host', 2)
    if plan.algorithm == SEPARATE:
        lengths = " and ".join(str(n) for n in plan.kind.sizes if n > 1)
        stop(f"there is no timeline of several launches, one an axis; ask for {lengths}", 2)
    chip = hardware.chip(plan.target)
    try:
        with writing(out), nki_sim.sources():
            cost.timeline(plan.recipe, plan.batch, chip, plan.cores).save_perfetto(out)
    except ImportError:
        stop(f"the trace needs perfetto, {from_extra('report')}", 2)


def draw_prices(plan: Plan) -> Figure:
    """Draws modelled time over N, one line an algorithm, for the batch and chip of a plan.

    The lines go through powers of two. The N of the plan, which may have other factors, has stars.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    from trnfft.planner import algorithms
    from trnfft.planner.kinds import C2C

    ink = rcParams["text.color"]
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    plans = priced_lengths(plan)
    for name in algorithms.ALGORITHMS:
        points, own = prices_of(name, plans), prices_of(name, [plan])
        color = None
        if points:
            (line,) = axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
            color = line.get_color()
        if own:
            label = None if points else name
            (star,) = axes.plot(*zip(*own, strict=True), marker="*", color=color, label=label)
            star.set(markersize=10, markeredgecolor="white")
    floor = sorted((each.n, each.dma_floor_ns / 1e3) for each in [plan, *plans])
    axes.plot(*zip(*floor, strict=True), "--", color=ink, label="DMA floor")
    one_launch = hardware.chip(plan.target).with_launches_ns(0.0, 1)
    label = f"a launch, about {about(one_launch)}, which the lines do not count"
    axes.axhline(one_launch / 1e3, color=ink, linestyle=":", label=label)
    axes.axvline(plan.n, color="grey", linewidth=1, zorder=0, label=f"N = {plan.n}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("N")
    axes.set_ylabel("kernel (us), modelled")
    data = "" if plan.kind.name == C2C else ", real data"
    axes.set_title(f"Batch {plan.batch} on {plan.where}, precision {plan.precision}{data}")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def prices_of(algorithm: str, plans: Sequence[Plan]) -> list[tuple[int, float]]:
    """Returns N and microseconds of the best candidate of an algorithm in each plan.

    Candidates that a plan rejects without a price have theirs computed here. Plans without such a
    candidate are left out.
    """
    prices = [
        (plan.n, price_of(candidate, plan))
        for plan in plans
        for candidate in best_of_each(plan.candidates)
        if candidate.recipe.algorithm == algorithm
    ]
    return [(n, ns / 1e3) for n, ns in prices if ns is not None]


def price_of(candidate: Candidate, plan: Plan) -> float | None:
    """Returns the modelled nanoseconds of a candidate; None where it cannot run."""
    from trnfft.planner import cost

    if candidate.least_ns is None:
        return candidate.predicted_ns
    try:
        chip = hardware.chip(plan.target)
        return cost.price(candidate.recipe, plan.batch, chip, plan.cores).predicted_ns
    except cost.CannotRun:
        return None


def priced_lengths(plan: Plan) -> list[Plan]:
    """Returns plans like `found` for all powers of two up to PLOTTED that a kernel transforms."""
    from trnfft.planner.kinds import C2C
    from trnfft.planner.planner import plan as make_plan

    plans = []
    for exponent in range(1, PLOTTED.bit_length()):
        try:
            plans.append(
                make_plan(
                    1 << exponent,
                    real=plan.kind.name != C2C,
                    inverse=plan.inverse,
                    batch=plan.batch,
                    target=plan.target,
                    cores=plan.cores,
                    precision=plan.precision,
                )
            )
        except NotImplementedError:
            continue
    return plans
