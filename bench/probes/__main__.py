"""Asks probes, and turns their answers into proposals: python -m bench.probes --help"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bench import program
from bench.environment import environment
from bench.probes import proposals, report
from bench.probes.asking import ask, ask_apart, modelled_answers, with_model
from bench.probes.launcher import SIMULATOR, XLA, frameworks
from bench.probes.probe import Probe
from bench.probes.registry import PROBES, chosen
from bench.results import ResultsError, save
from nki_kernels.base.isa import REAL_NKI
from nki_sim import hardware
from nki_sim.base.installed_nki import SIMULATOR_VARIABLE

app = typer.Typer(add_completion=False, no_args_is_help=True)
WIDTH = 160  # of tables, where the output is no terminal
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROBE", help="Names of probes. Default: all.", show_default=False),
]
OutOption = Annotated[Path, typer.Option(help="Report to write, as JSON.")]


@app.callback()
def main() -> None:
    """Small kernels that ask a chip what its records leave open."""


@app.command()
def run(
    names: Names = None,
    target: program.TargetOption = None,
    out: OutOption = Path("probes.json"),
) -> None:
    """Ask probes: of the chip, or of the simulator where there is none."""
    program.check_out(out)
    try:
        probes = chosen(tuple(names or ()))
        core = hardware.current() if target is None else hardware.chip(target)
    except ValueError as error:
        program.stop(str(error), 2)
    found = frameworks()
    if found == [SIMULATOR]:
        require_simulator()
        typer.echo("no chip with a framework here: the simulator answers, which settles nothing")
    with hardware.select(core):
        answered = asked(probes, core, found)
        if not names or report.COMPLEX in names:
            answered = with_tensors(answered, found)
    save(answered, out)
    console().print(report.table(answered))
    answers = answered.answers
    typer.echo(f"wrote {out}: {len(answers)} answers, {len(answered.unasked)} not asked")
    if silent := [one for one in answers if one.verdict == report.UNANSWERED]:
        program.stop(f"{len(silent)} probes have no answer, the first: {silent[0].reason}", 1)


def asked(probes: list[Probe], core: hardware.NeuronCore, found: list[str]) -> report.Report:
    """Returns the report on these probes by these frameworks."""
    answers, unasked = [], []
    is_chip = found != [SIMULATOR]
    model = modelled_answers(probes) if is_chip and probes else {}
    for probe in probes:
        if reason := probe.why_not(core):
            unasked.append(report.Unasked(probe=probe.name, reason=reason))
            continue
        for framework in found if probe.per_framework else found[:1]:
            answer = ask_apart(probe, framework) if is_chip else ask(probe, framework)
            answer = with_model(answer, model.get(probe.name))
            tell(answer)
            answers.append(answer)
    return report.Report(
        target=core.name, environment=environment(), answers=answers, unasked=unasked
    )


def with_tensors(answered: report.Report, found: list[str]) -> report.Report:
    """Returns the report with answers of PyTorch's device "neuron".

    Where no framework here has that device, the report says so.
    """
    if not set(found) - {SIMULATOR, XLA}:
        reason = "nothing here has PyTorch's device 'neuron'"
        unasked = [*answered.unasked, report.Unasked(probe=report.COMPLEX, reason=reason)]
        return answered.model_copy(update={"unasked": unasked})
    from bench.probes import complex_tensors  # the simulator needs no torch

    answers = answered.answers.copy()
    for answer in complex_tensors.ask_all():
        tell(answer)
        answers.append(answer)
    return answered.model_copy(update={"answers": answers})


def tell(answer: report.Answer) -> None:
    """Prints an answer while others are still asked."""
    line = f"{answer.probe} by {answer.framework}: {answer.verdict} {answer.reason}"
    program.console.print(escape(line), highlight=False, soft_wrap=True)


@app.command(hidden=True)
def tensor(
    name: str,
    mode: str,
    setting: str,
    out: Annotated[Path, typer.Option()],
) -> None:
    """Writes one answer about complex tensors, for the process that collects them."""
    from bench.probes import complex_tensors

    save(complex_tensors.ask(name, mode, setting), out)


@app.command(hidden=True)
def one(
    name: str,
    framework: Annotated[str, typer.Option()],
    out: Annotated[Path, typer.Option()],
) -> None:
    """Writes one answer, for the process that collects them."""
    save(ask(PROBES[name], framework), out)


@app.command()
def propose(
    path: Annotated[Path, typer.Argument(metavar="REPORT", help="A report of `run`.")],
) -> None:
    """Print what a report would change in nki_sim/hardware.py; nothing is edited."""
    require_simulator()
    try:
        loaded = report.load(path)
    except ResultsError as error:
        program.stop(str(error), 2)
    shown = console()
    shown.print(report.table(loaded))
    proposals.show(loaded, shown)


def require_simulator() -> None:
    """Ends the program where kernels use another nki than the simulator's."""
    if REAL_NKI:
        program.stop(f"this needs the simulator in place of nki: set {SIMULATOR_VARIABLE}=1", 2)


def console() -> Console:
    """Returns a console, which is wide where the output is no terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH)


if __name__ == "__main__":
    app()
