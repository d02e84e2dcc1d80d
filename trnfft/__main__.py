"""The command `trnfft`, by its name or as `python -m trnfft`."""

import importlib.util
import io
import sys


def main() -> None:
    """Runs the command; without what the extra `cli` installs, ends with 1 and says so."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f'the command trnfft needs {" and ".join(missing)}: pip install "trnfft[cli]"')
    from trnfft.cli import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack characters of a file's name
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
