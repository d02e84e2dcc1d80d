"""``python -m nki_kernels.simulator script.py [args]``: run a script with the simulated nki."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from .install import install

_USAGE = "usage: python -m nki_kernels.simulator script.py [args]"


def main() -> None:
    """Install the simulator, then run the script as ``__main__``."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        stream = sys.stdout if len(sys.argv) > 1 else sys.stderr
        print(_USAGE, file=stream)
        raise SystemExit(0 if len(sys.argv) > 1 else 2)
    script = Path(sys.argv[1])
    if not script.is_file():
        print(f"{script}: no such script; {_USAGE}", file=sys.stderr)
        raise SystemExit(2)
    try:
        install()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
