"""Files that are written as a whole or not at all."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, content: str | bytes | Callable[[Path], object]) -> None:
    """Write a file under a temporary name beside it and rename that.

    Who reads the file finds the old content or the new one; after a failure the old one is there.

    Args:
        path: the file; where it is a symbolic link, what that leads to.
        content: text, which becomes UTF-8; bytes; or a function that writes the file whose path
            it gets.

    Raises:
        OSError: the file cannot be written. What `content` raises is raised as it is.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if callable(content):
            content(temporary)
        elif isinstance(content, str):
            temporary.write_text(content, encoding="utf-8")
        else:
            temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
