"""The file that a command reads: whether it can be read, and one sentence where it cannot.

Every kind of file has an error of its own, a ValueError, which these functions get.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np


@contextmanager
def reading(path: Path, suffixes: Collection[str], error_type: type[ValueError]) -> Iterator[None]:
    """Checks that a file is there; errors inside of the block get its name.

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
        yield
    except OSError as error:
        raise error_type(f"cannot read {path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise error_type(f"cannot read {path}: it does not fit in memory") from error
    except error_type as error:
        raise error_type(f"cannot read {path}: {error}") from error


def read_real_array(path: Path, error_type: type[ValueError]) -> np.ndarray:
    """The array of a .npy file of real numbers, integers or bool, of any shape."""
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise error_type("it is not a complete .npy array of plain numbers") from error
    if array.dtype.kind not in "fiub":
        raise error_type(f"it holds {array.dtype}, not real numbers")
    return array
