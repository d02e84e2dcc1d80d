"""How a command ends: 0, all is well; 1, something was found; 2, it could not do its work."""

from __future__ import annotations

FINE, FOUND, UNUSABLE = 0, 1, 2
INTERRUPTED = 130  # as shells say it of SIGINT


class CommandError(Exception):
    """What the command cannot do, in a sentence; it ends with ``UNUSABLE``."""
