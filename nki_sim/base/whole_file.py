"""Writing of files as a whole or not at all."""

from __future__ import annotations  # an instance of the Neuron SDK may run it with Python 3.9

import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, content: str | bytes | Callable[[BinaryIO], object]) -> None:
    """Writes a file through a temporary file in the same folder, which then replaces the file.

    A reader finds either the old content or the new content. After a failure the old content
    remains. The new file has the default mode of new files.

    Args:
        path: the file. If it is a symbolic link, the target of the link is written.
        content: text, which is encoded as UTF-8; or bytes; or a function that writes to the file
            object that it is passed.

    Raises:
        OSError: the file cannot be written, or is not a regular file. Errors of the function
            `content` are raised as they are.
    """
    path = Path(os.path.realpath(path))
    if path.is_symlink():  # a loop of links, which realpath does not resolve
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if path.exists() and not (path.is_file() or path.is_dir()):  # root could replace /dev/null
        raise OSError(errno.EINVAL, "The path is not a regular file", str(path))
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    # "x" is O_EXCL, as in tempfile, so that a link planted under this name is not followed.
    # The mode follows the umask, whereas tempfile would use 0600.
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
