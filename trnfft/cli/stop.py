"""How a command ends that cannot do what it was asked for."""

from typing import NoReturn

import typer


def stop(sentence: str, code: int) -> NoReturn:
    """Ends the command with one sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)
