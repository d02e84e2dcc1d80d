"""The command `trnfft` as `python -m trnfft`. The console script is in ``trnfft_command``."""

import importlib.util
import io
import sys

from trnfft.base.distributions import from_extra


def main() -> None:
    """Runs the command."""
    prepare()
    from trnfft.cli import app

    app()


def prepare() -> None:
    """Makes the output streams ready, or ends with status 1 where the extra `cli` is missing."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"the command trnfft needs {' and '.join(missing)}, {from_extra('cli')}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack characters of a file's name
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
