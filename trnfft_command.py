"""Starts the command `trnfft` without torch, whose import takes seconds.

The first import of a module of the package trnfft runs ``trnfft/__init__.py``, which imports torch.
This module therefore lies outside of the package. It puts the package in its place without running
that file, so that versions and help texts come at once. ``trnfft.cli`` runs the file before a
command runs.
"""

import importlib.util
import sys


def main() -> None:
    """Runs the command."""
    if "trnfft" not in sys.modules:
        spec = importlib.util.find_spec("trnfft")
        assert spec is not None
        sys.modules["trnfft"] = importlib.util.module_from_spec(spec)
    from trnfft.__main__ import main as run

    run()
