"""The `trnfft` command. Every one of its commands is a file here, named as the command.

`trnfft spectrum` shows one kernel launch on a simulated NeuronCore, `trnfft plan` what the planner
chooses and why, `trnfft bloom` the glow of a picture's lights, `trnfft doctor` what is installed
and whether it works, `trnfft check` whether it does so on many devices together.
"""

from typing import Annotated

import typer

import trnfft
from trnfft.cli import bloom, check, doctor, plan, spectrum

app = typer.Typer(add_completion=False, no_args_is_help=True)


def show_version(asked: bool) -> None:
    """Prints the version and ends the command."""
    if asked:
        typer.echo(f"trnfft {trnfft.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Fast Fourier transforms for AWS Trainium."""


app.command()(spectrum.spectrum)
app.command()(plan.plan)
app.command()(bloom.bloom)
app.command()(doctor.doctor)
app.command()(check.check)
