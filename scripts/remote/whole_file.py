"""Writes files as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes a new file beside the path, flushes it to the disk, and renames it to the path."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    file = temporary.open("xb")  # "x" follows no link that exists under this name
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
