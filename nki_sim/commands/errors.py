"""Exit codes of commands: 0 for no finding, 1 for findings, 2 if a command cannot do its work."""

from __future__ import annotations

FINE, FOUND, UNUSABLE = 0, 1, 2
INTERRUPTED = 130  # the exit code that shells use for SIGINT


class CommandError(Exception):
    """A sentence about why a command cannot do its work. The command ends with ``UNUSABLE``."""
