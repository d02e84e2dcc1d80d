"""Wisdom to take along: export, import and forget what searches found, as FFTW has them.

A file of wisdom is a line that says what it is, with the fingerprint of the version whose plans
these are, and then a plan a line, as in the user's own files (see wisdom.py).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import msgspec

from nki_kernels import hardware
from nki_kernels.whole_file import write_whole
from trnfft.checks import shown
from trnfft.planner import lengths, planner, wisdom
from trnfft.planner.plan import Plan
from trnfft.planner.problem import Problem
from trnfft.planner.schema import PlanRow, WisdomHeader

FORMAT = 1
MOST_BYTES = 2 * wisdom.FULL * len(hardware.NAMES)  # what all of a user's files hold
SHOWN = 3  # refused plans whose reasons a warning gives


def export_wisdom(path: str | os.PathLike[str]) -> int:
    """Write the plans that searches found on this computer into a file, whole or not at all.

    These are the plans in the user's cache folder and in memory, of all chips. Those that trnfft
    ships are left out: they are everywhere.

    Args:
        path: the file; one that exists is replaced.

    Returns:
        How many plans there are in it.

    Raises:
        TypeError, ValueError: `path` is none.
        OSError: it cannot be written.
    """
    path = _path(path)
    rows = [row for chip in hardware.NAMES for row in wisdom.own(chip).values()]
    header = msgspec.json.encode(WisdomHeader(format=FORMAT, fingerprint=wisdom.fingerprint()))
    lines = [header, *(msgspec.json.encode(row) for row in rows)]
    write_whole(path, b"\n".join([*lines, b""]))
    return len(rows)


def import_wisdom(path: str | os.PathLike[str]) -> int:
    """Remember the plans in a file that `export_wisdom` wrote, also for later processes.

    Each is checked against its problem. What cannot be used is left out, and one warning says what
    and why; of two plans for a problem the imported one counts.

    Args:
        path: the file.

    Returns:
        How many plans were taken.

    Raises:
        TypeError: `path` is none.
        OSError: it cannot be read.
        ValueError: it is no file of wisdom, or that of a version of trnfft with other kernels,
            prices or planner.
    """
    path = _path(path)
    try:
        lines = wisdom.rows_of(Path(os.path.realpath(path)), MOST_BYTES)
        _check_header(lines)
    except ValueError as error:
        raise ValueError(
            f"argument 'path' is {str(path)!r}, allowed are files that trnfft.export_wisdom of "
            f"this version wrote: {error}"
        ) from None
    rows = lines[1:]
    taken: list[Plan] = []
    refused: list[str] = []
    for number, text in enumerate(rows, 2):
        try:
            taken.append(_checked(text))
        except ValueError as error:
            refused.append(f"line {number}: {error}")
    for plan in taken:
        wisdom.remember(plan)
    _forget_results()
    if refused:
        more = f"; and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
        warnings.warn(
            f"{len(refused)} of {len(rows)} plans in {path} cannot be used and are left out: "
            f"{'; '.join(refused[:SHOWN])}{more}",
            stacklevel=2,
        )
    return len(taken)


def forget_wisdom() -> None:
    """Forget the plans that searches found, in memory and in the files of this version.

    Plans that trnfft ships stay, and so do files of other versions, which they remove themselves
    when nobody uses them any more.

    Raises:
        OSError: a file cannot be removed.
    """
    for chip in hardware.NAMES:
        wisdom.remove(chip)
    planner.forget()
    _forget_results()


def _forget_results() -> None:
    """What was made of plans that may not be the remembered ones any more."""
    planner.solved.cache_clear()
    lengths.forget()


def _path(path: object) -> Path:
    """Argument 'path'."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"argument 'path' is of type {type(path).__name__}, allowed are str and os.PathLike"
        )
    try:
        name = os.fsdecode(path)
        if b"\0" in os.fsencode(name):
            raise ValueError("embedded null byte")
    except ValueError as error:
        raise ValueError(f"argument 'path' is {shown(path)}, which no file has: {error}") from None
    return Path(name)


def _check_header(lines: list[bytes]) -> None:
    """ValueError where a file does not begin as ours of this version."""
    if not lines:
        raise ValueError("it is empty")
    try:
        header = msgspec.json.decode(lines[0], type=WisdomHeader)
    except (ValueError, RecursionError):
        raise ValueError("its first line is none of theirs") from None
    if header.format != FORMAT:
        raise ValueError(f"it has format {header.format}, not {FORMAT}")
    if header.fingerprint != wisdom.fingerprint():
        raise ValueError(
            f"it is of a version {header.fingerprint}, this is {wisdom.fingerprint()}, with other "
            f"kernels, prices or planner; export it anew there, or search here"
        )


def _checked(text: bytes) -> Plan:
    """The plan in a line. ValueError where it is none, or none that is ever looked up."""
    row: PlanRow = wisdom.row_of(text)
    plan = Plan.from_row(row)
    problem = Problem(**{name: getattr(plan, name) for name in Problem.__dataclass_fields__})
    if plan.inverse or not plan.is_usual:
        raise ValueError(f"nothing asks for a plan of {plan.title}")
    wisdom.believed(row, problem)
    wisdom.check_layout(plan)
    return plan
