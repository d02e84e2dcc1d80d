"""Opens the file that a command reads, or says in one sentence why it cannot be read.

Each kind of file has an error type of its own, a ValueError, which is an argument here.
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
    """Opens a regular file of up to LARGEST_FILE bytes, and puts its name into errors.

    Args:
        path: the file.
        suffixes: what its name may end in, in small letters.
        error_type: type of the errors that are raised here. Errors of this type, OSError and
            MemoryError that the block raises become such errors, too.
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
            if not stat.S_ISREG(status.st_mode):  # the name may belong to another file by now
                raise error_type("it is not a regular file")
            if status.st_size == 0:
                raise error_type("the file is empty")
            if status.st_size > LARGEST_FILE:
                raise error_type(
                    f"it has {status.st_size} bytes, allowed are {LARGEST_FILE}; cut out a part "
                    f"of it"
                )
            yield file
    except OSError as error:
        raise error_type(f"cannot read {path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise error_type(f"cannot read {path}: it does not fit in memory") from error
    except error_type as error:
        raise error_type(f"cannot read {path}: {error}") from error


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # does not wait for a FIFO's writer


def read_real_array(file: BinaryIO, most: int, error_type: type[ValueError]) -> np.ndarray:
    """Returns the array of a .npy file: up to `most` real numbers, integers or bools."""
    incomplete = "it is not a complete .npy array of plain numbers"
    try:
        shape, is_fortran, dtype = _header(file)
        count = math.prod(map(int, shape))
    except Exception as error:  # whatever NumPy's parser and tokenize raise of broken headers
        raise error_type(incomplete) from error
    if dtype.kind not in "fiub":
        raise error_type(f"it holds {dtype}, allowed are real numbers")
    if count > most:
        raise error_type(
            f"its shape {shape} has {count} numbers, allowed are {most}; cut out a part of it"
        )
    if file.tell() + count * dtype.itemsize > os.fstat(file.fileno()).st_size:
        raise error_type(incomplete)
    try:
        return np.fromfile(file, dtype, count).reshape(shape, order="F" if is_fortran else "C")
    except (ValueError, TypeError, OverflowError) as error:  # no array has such a shape
        raise error_type(incomplete) from error


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Returns the shape, whether the first axis varies fastest, and the dtype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of headers that Python 2 wrote
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} has field names, and therefore no plain numbers")
