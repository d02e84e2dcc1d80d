"""The present text of files of source."""

from __future__ import annotations

import linecache


def lines_of(file: str) -> list[str]:
    """Returns the lines of a file, or an empty list where there is none.

    linecache keeps lines by the name of the file, also when the file is written anew.
    """
    linecache.checkcache(file)
    return linecache.getlines(file)


def line_of(file: str, number: int) -> str:
    """Returns a line of a file, counted from 1, or "" where there is none."""
    linecache.checkcache(file)
    return linecache.getline(file, number)
