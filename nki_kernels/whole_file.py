"""Files that are written as a whole or not at all."""

import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, content: str | bytes | Callable[[BinaryIO], object]) -> None:
    """Write a new file beside it, have that on the disk, and give it the name.

    Who reads the file finds the old content or the new one; after a failure the old one is there.
    Its mode is that of any new file.

    Args:
        path: the file; where it is a symbolic link, what that leads to.
        content: text, which becomes UTF-8; bytes; or a function that writes into the file that it
            gets.

    Raises:
        OSError: the file cannot be written, or is a device or its like. What `content` raises is
            raised as it is.
    """
    path = Path(os.path.realpath(path))
    if path.is_symlink():  # a loop: realpath stops there
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if path.exists() and not (path.is_file() or path.is_dir()):  # root could replace /dev/null
        raise OSError(errno.EINVAL, "It is no regular file", str(path))
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    # "x" is O_EXCL, as in tempfile: nothing is followed that somebody planted under this name.
    # The mode is the mask's, where that of tempfile would be 0600.
    file = temporary.open("xb")
    try:
        with file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
