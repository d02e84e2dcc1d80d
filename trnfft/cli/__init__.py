"""The command `trnfft`. Each of its commands is a function in the module of the same name here, or
in the package trnfft_demo.

Importing this package imports none of these modules. The entry point ``trnfft_command`` puts the
package trnfft into ``sys.modules`` without running its ``__init__.py``, which imports torch. Then
`trnfft --version`, `trnfft --help` and the help of a command import no torch either, as the modules
of commands import what is slow inside of their functions.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from trnfft.base.distributions import LIBRARY
from trnfft.base.namesake import refuse_namesake
from trnfft.cli.stop import stop

# The names of the commands, and their lines of help: the first lines of their docstrings.
COMMANDS = {
    "spectrum": "Shows one kernel launch on a simulated NeuronCore: the spectrum of a recording.",
    "plan": "Shows how the planner computes a transform, what that costs, and what it rejected.",
    "doctor": "Checks what is installed, which backend runs and why, and says what to do.",
    "check": "Tests transforms over many devices here, and measures how long they take.",
    "check-model": "Tells which operations of a PyTorch model fail on Trainium, and how many "
    "launches it takes.",
}

# The command whose module is in trnfft_demo. Nothing else of that package is known here.
OF_DEMO = ("spectrum",)


class LazyCommand(TyperCommand):
    """A command whose module is imported when the command runs or prints its help."""

    def __init__(self, name: str, line: str) -> None:
        super().__init__(name, help=line)

    def load(self) -> TyperCommand:
        """Imports the module and returns the command that is in it."""
        name = str(self.name).replace("-", "_")
        package = "trnfft_demo" if name in OF_DEMO else "trnfft.cli"
        function = getattr(import_module(f"{package}.{name}"), name)
        own = typer.Typer(add_completion=False)
        own.command(self.name, help=paragraphs(function.__doc__))(with_package(function))
        command = typer.main.get_command(own)
        assert isinstance(command, TyperCommand)
        return command

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self.load().make_context(*arguments, **options)


class Commands(TyperGroup):
    """All commands, none of which is imported yet."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, line in COMMANDS.items():
            self.add_command(LazyCommand(name, line))


app = typer.Typer(cls=Commands, add_completion=False, no_args_is_help=True)


def show_version(asked: bool) -> None:
    """Prints the version and ends the command."""
    if asked:
        typer.echo(f"trnfft {version(LIBRARY)}")
        raise typer.Exit


@app.callback()
def main(
    asked: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Fast Fourier transforms for AWS Trainium."""


def paragraphs(text: str) -> str:
    """Returns a docstring with one line a paragraph, as typer keeps the line breaks inside."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def with_package(function: Callable[..., None]) -> Callable[..., None]:
    """Returns a command that runs after ``trnfft/__init__.py`` has run."""

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> None:
        load_package()
        function(*arguments, **options)

    return command


def load_package() -> None:
    """Runs ``trnfft/__init__.py`` where the entry point has left it out."""
    package = sys.modules["trnfft"]
    if hasattr(package, "__version__"):
        return
    assert package.__spec__ is not None
    try:
        refuse_namesake()  # whose files may have replaced those of this package
        if package.__spec__.loader is None or getattr(package, "__file__", None) is None:
            raise ImportError(f"files of {LIBRARY} are missing; install it again")
        package.__spec__.loader.exec_module(package)
    except ImportError as error:
        stop(f"trnfft cannot be imported: {error}", 1)
