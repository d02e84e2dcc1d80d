"""Checks the file that a command writes, and writes the whole file or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nki_sim.base.whole_file import write_whole
from trnfft.base.distributions import from_extra
from trnfft.cli.printable import printable
from trnfft.cli.stop import stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_output(out: Path, file: Path | None) -> None:
    """Refuses, before any work, an output path that can only be a mistake.

    Args:
        out: the file that the command is to write.
        file: the file that it reads; None where it reads none.

    Raises:
        ValueError: `out` cannot be written or is `file`; one sentence says why.
    """
    try:
        if not out.parent.is_dir():
            reason = f"there is no folder {out.parent}"
        elif out.exists() and not out.is_file():
            reason = "it is not a regular file"
        elif file is not None and out.exists() and out.samefile(file):
            reason = "it is the input itself"
        else:
            return
    except OSError as error:
        reason = error.strerror or str(error)
    raise ValueError(f"cannot write {out}: {reason}")


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Says that the block has written `out`, or ends the command with the reason why not."""
    try:
        yield
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}", 2)
    typer.echo(printable(f"wrote {out}"))


def save_picture(drawing: Callable[[], Figure], out: Path) -> None:
    """Draws and writes a figure, or ends the command with the reason why not."""
    try:
        with writing(out):
            write_png(drawing(), out)
    except ImportError:
        stop(f"the picture needs matplotlib, {from_extra('demo')}", 2)


def write_png(figure: Figure, out: Path) -> None:
    """Writes the whole figure or nothing."""
    write_whole(out, lambda file: figure.savefig(file, format="png", dpi=120))
