"""The `trnfft` command. Every one of its commands is a file here, named as the command.

`trnfft spectrum` shows one kernel launch on a simulated NeuronCore, `trnfft plan` what the planner
chooses and why, `trnfft bloom` the glow of a picture's lights, `trnfft doctor` what is installed
and whether it works.
"""

import typer

from trnfft.cli import bloom, doctor, plan, spectrum

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def main() -> None:
    """Fast Fourier transforms for AWS Trainium."""


app.command()(spectrum.spectrum)
app.command()(plan.plan)
app.command()(bloom.bloom)
app.command()(doctor.doctor)
