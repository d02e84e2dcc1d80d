"""Ends a command that cannot do what it was asked for."""

from typing import NoReturn

import typer

from trnfft.cli.printable import printable


def stop(sentence: str, code: int) -> NoReturn:
    """Ends the command with one sentence on stderr."""
    typer.echo(printable(sentence), err=True)
    raise typer.Exit(code)
