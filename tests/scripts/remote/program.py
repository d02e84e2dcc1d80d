"""hw_bench in a process of its own, to be interrupted and killed: what a fork runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hw_bench
from remote import pace


def main(
    arguments: list[str],
    repository: Path,
    settings: dict[str, float],
    environment: dict[str, str],
    output: Path,
) -> None:
    """Runs a command, with an environment and settings of `remote.pace`."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT)
    for stream, to in enumerate((nothing, written, written)):
        os.dup2(to, stream)
    sys.stdin = os.fdopen(0)
    os.environ.update(environment)
    for name, value in settings.items():
        setattr(pace, name, value)
    hw_bench.ROOT = repository
    hw_bench.app(arguments)
