"""The command: python -m bench.page hardware/ --out page.html"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench import program
from bench.page.html import write
from bench.results import ResultsError


def main(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Files of results (JSON), or a folder that scripts/hw_bench.py has filled.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write, as HTML.")] = Path("page.html"),
) -> None:
    """Write one HTML page: measured times and errors beside the modelled ones."""
    program.check_out(out)
    try:
        write(paths, out)
    except (ResultsError, ImportError) as error:
        program.stop(str(error), 2)
    except OSError as error:
        program.stop(f"cannot write {out}: {error.strerror or error}", 2)
    typer.echo(f"wrote {out}")


if __name__ == "__main__":
    typer.run(main)
