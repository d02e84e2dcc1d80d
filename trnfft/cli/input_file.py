"""The file that a command reads: whether it can be read, and one sentence where it cannot.

Every kind of file has an error of its own, a ValueError, which these functions get.
"""

from __future__ import annotations

import math
import os
import stat
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

LARGEST_FILE = 2**28  # bytes


@contextmanager
def reading(
    path: Path, suffixes: Collection[str], error_type: type[ValueError]
) -> Iterator[BinaryIO]:
    """The open file, which is a regular one of up to LARGEST_FILE; errors get its name.

    Args:
        path: the file.
        suffixes: what its name may end in, in small letters.
        error_type: of which all errors are: those found here, what the block raises of this type,
            OSError and MemoryError.
    """
    try:
        if not path.exists():
            raise error_type("there is no such file")
        if not path.is_file():
            raise error_type("it is not a regular file")
        if path.suffix.lower() not in suffixes:
            raise error_type(f"its name must end in one of {', '.join(suffixes)}")
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):  # what has this name may be another file by now
                raise error_type("it is not a regular file")
            if status.st_size == 0:
                raise error_type("the file is empty")
            if status.st_size > LARGEST_FILE:
                raise error_type(
                    f"it has {status.st_size} bytes, allowed are {LARGEST_FILE}: cut a part out"
                )
            yield file
    except OSError as error:
        raise error_type(f"cannot read {path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise error_type(f"cannot read {path}: it does not fit in memory") from error
    except error_type as error:
        raise error_type(f"cannot read {path}: {error}") from error


def _open_at_once(path: str, flags: int) -> int:
    """Opens as `open` does, but waits for nobody who writes into a FIFO."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_real_array(file: BinaryIO, most: int, error_type: type[ValueError]) -> np.ndarray:
    """The array of a .npy file: up to `most` real numbers, integers or bool, of any shape."""
    incomplete = "it is not a complete .npy array of plain numbers"
    try:
        shape, is_fortran, dtype = _header(file)
        count = math.prod(map(int, shape))
    except Exception as error:  # whatever NumPy's parser and tokenize raise of broken headers
        raise error_type(incomplete) from error
    if dtype.kind not in "fiub":
        raise error_type(f"it holds {dtype}, not real numbers")
    if count > most:
        raise error_type(f"its shape {shape} has {count} numbers, allowed are {most}: cut a part")
    if file.tell() + count * dtype.itemsize > os.fstat(file.fileno()).st_size:
        raise error_type(incomplete)
    try:
        return np.fromfile(file, dtype, count).reshape(shape, order="F" if is_fortran else "C")
    except (ValueError, TypeError, OverflowError) as error:  # a shape that no array has
        raise error_type(incomplete) from error


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the first axis varies fastest, dtype; raises whatever NumPy's parser does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of headers that Python 2 wrote
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} has field names, and so no plain numbers")
