"""Export, import and removal of wisdom, the plans that searches found; the terms are FFTW's.

A file of wisdom begins with a line that identifies the format and the version of trnfft whose plans
it holds. Each further line is a plan, as in the user's own files (see wisdom.py).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import msgspec

from nki_sim import hardware
from nki_sim.base.whole_file import write_whole
from trnfft.base.checks import brief
from trnfft.planner import lengths, planner, wisdom
from trnfft.planner.plan import Plan
from trnfft.planner.schema import PlanRow, WisdomHeader

FORMAT = 2
MOST_BYTES = 2 * wisdom.FULL * len(hardware.NAMES)  # the size of all files of a user
SHOWN = 3  # of the refused plans, a warning gives the reasons for so many


def export_wisdom(path: str | os.PathLike[str]) -> int:
    """Writes the plans that searches found on this computer into a file.

    These are the plans in the user's cache folder and in memory, for all chips. Plans that trnfft
    ships are left out, because they are everywhere. The file is written as a whole or not at all.
    See `docs/planner.md`.

    Args:
        path: the file. An existing file is replaced.

    Returns:
        How many plans the file holds.

    Raises:
        TypeError, ValueError: `path` is not a path.
        OSError: the file cannot be written.

    Examples:
        >>> import trnfft
        >>> count = trnfft.export_wisdom("wisdom.jsonl")
        >>> trnfft.import_wisdom("wisdom.jsonl") == count
        True
    """
    path = _path(path)
    rows = [row for chip in hardware.NAMES for row in wisdom.own(chip).values()]
    header = msgspec.json.encode(WisdomHeader(format=FORMAT, fingerprint=wisdom.fingerprint()))
    lines = [header, *(msgspec.json.encode(row) for row in rows)]
    write_whole(path, b"\n".join([*lines, b""]))
    return len(rows)


def import_wisdom(path: str | os.PathLike[str]) -> int:
    """Remembers the plans in a file that `export_wisdom` wrote, for this and for later processes.

    Each plan is checked against its problem. Plans that cannot be used are left out, and one
    warning says which and why. Of two plans for the same problem, the imported one is used. See
    `docs/planner.md`.

    Args:
        path: the file.

    Returns:
        How many plans were accepted.

    Raises:
        TypeError: `path` is not a path.
        OSError: the file cannot be read.
        ValueError: the file is not a file of wisdom, or was written by a version of trnfft with
            other kernels, prices or planner.

    Examples:
        >>> import trnfft
        >>> count = trnfft.export_wisdom("wisdom.jsonl")
        >>> trnfft.import_wisdom("wisdom.jsonl") == count
        True
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
    """Removes the plans that searches found, from memory and from the files of this version.

    Plans that trnfft ships stay. Files of other versions stay as well; these versions remove them
    when nobody uses them any more. See `docs/planner.md`.

    Raises:
        OSError: a file cannot be removed.

    Examples:
        >>> import trnfft
        >>> trnfft.forget_wisdom()
        >>> trnfft.export_wisdom("wisdom.jsonl")
        0
    """
    for chip in hardware.NAMES:
        wisdom.remove(chip)
    planner.forget()
    _forget_results()


def _forget_results() -> None:
    """Removes results that are based on plans which may have been replaced."""
    planner.solved.cache_clear()
    lengths.forget()


def _path(path: object) -> Path:
    """Returns argument 'path' as a Path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"argument 'path' is of type {type(path).__name__}, allowed are str and os.PathLike"
        )
    try:
        name = os.fsdecode(path)
        if b"\0" in os.fsencode(name):
            raise ValueError("embedded null byte")
    except ValueError as error:
        raise ValueError(
            f"argument 'path' is {brief(path)}, allowed are names that a file can have: {error}"
        ) from None
    return Path(name)


def _check_header(lines: list[bytes]) -> None:
    """Raises ValueError for a file that does not begin as a file of wisdom of this version."""
    if not lines:
        raise ValueError("it is empty")
    try:
        header = msgspec.json.decode(lines[0], type=WisdomHeader)
    except (ValueError, RecursionError):
        raise ValueError("its first line is not that of a file of wisdom") from None
    if header.format != FORMAT:
        raise ValueError(f"it has format {header.format}, not {FORMAT}")
    if header.fingerprint != wisdom.fingerprint():
        raise ValueError(
            f"it is from version {header.fingerprint}, this is {wisdom.fingerprint()}, with "
            f"other kernels, prices or planner; export it again there, or search here"
        )


def _checked(text: bytes) -> Plan:
    """Returns the plan in a line; ValueError where it is none, or one that is never looked up."""
    row: PlanRow = wisdom.row_of(text)
    plan = Plan.from_row(row)
    problem = plan.problem
    is_alike = plan.execution == "eager" and plan.kind.separate(plan.batch) is None
    if plan.inverse or not plan.is_usual or plan.kind != plan.kind.priced or is_alike:
        raise ValueError(f"no transform looks up a plan of {plan.title}")
    wisdom.believed(row, problem)
    wisdom.check_layout(plan)
    return plan
