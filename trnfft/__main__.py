"""The command `trnfft`, by its name or as `python -m trnfft`."""

import importlib.util
import io
import sys

from nki_kernels.distributions import from_extra


def main() -> None:
    """Runs the command."""
    prepare()
    from trnfft.cli import app

    app()


def prepare() -> None:
    """Ends with 1, and says why, without what the extra `cli` installs."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"the command trnfft needs {' and '.join(missing)}, {from_extra('cli')}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack characters of a file's name
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
