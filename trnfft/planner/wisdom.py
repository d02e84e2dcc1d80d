"""Wisdom: plans remembered in files, one a chip. plans/README.md describes the formats.

trnfft ships plans for common sizes. What a search finds goes to a file in the user's cache folder,
whose name has a fingerprint of the kernels and the planner it was found with: versions of trnfft
that share a folder have a file each.

The user's file only grows, a line a plan, each by one write with O_APPEND. Linux does such writes
to a local file one after the other, so that processes need no lock to keep each other's plans, and
there is no moment at which one that is killed could lose what was written before: at worst its own
line is cut short. As a line starts with a line break, too, the next one is whole. A lock file with
a file that is replaced would need as much care for less: whoever holds the lock may be stopped.
Where a network's file system lets lines overlap, they fail the checks.

What a file says is believed after two checks: of each row by the schema, when the file is read, and
of the plan that is asked for by its algorithm. A row that fails stays where it is, is warned of
once, and its plan is searched for again; of two rows for a problem the later one counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import platformdirs

import nki_kernels
from nki_kernels import hardware
from trnfft.cache import cached
from trnfft.planner import cost
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Plan
from trnfft.planner.problem import CIRCULANT, CIRCULANT_GRADIENTS, Problem
from trnfft.planner.schema import PlanRow

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PACKAGE = __name__.removesuffix(".planner.wisdom")  # trnfft, or a copy inside of another package
FORMAT = 1  # of the shipped files
FULL = 2**24  # bytes of a user's file, beyond which the next plan starts another
EXAMINED = 500  # rows of a file that `examine` checks against their problems
STALE_SECONDS = 3600.0  # after which nobody writes a temporary file any more
UNUSED_SECONDS = 90 * 86400.0  # after which a version's file goes; those in use are touched
SOURCES = (Path(nki_kernels.__file__).parent, Path(__file__).parent)  # what plans depend on

Key = tuple[Any, ...]
Entries = dict[Key, PlanRow]

_lock = threading.RLock()
_user: dict[str, Entries] = {}  # by chip, as far as this process has read or found them
_warned: set[str] = set()  # files
_decoder = msgspec.json.Decoder(PlanRow)


def key_of(problem: Problem | PlanRow) -> Key:
    """What the plan for a problem is remembered by in the file of its chip."""
    size = (problem.n, problem.batch, problem.precision, problem.cores)
    return *size, problem.kind, problem.shape, problem.padded_from


def recall(problem: Problem) -> Plan | None:
    """The remembered plan for a problem with its mode's own budget: the user's, else ours."""
    key, chip = key_of(problem), problem.target
    with _lock:
        own, ours = _user_entries(chip).get(key), shipped(chip).get(key)
    if own is not None:
        try:
            plan = believed(own, problem)
            check_layout(plan)
            return plan
        except ValueError as reason:
            _warn(user_file(chip), str(reason))
    if ours is not None:
        try:
            return believed(ours, problem)
        except ValueError as reason:
            _warn(_shipped_file(chip), str(reason))
    return None


def believed(row: PlanRow, problem: Problem) -> Plan:
    """The plan in a row, which may come from anywhere, for a problem.

    Raises:
        ValueError: it is none, or of another problem, or its choice cannot solve it.
    """
    plan = Plan.from_row(row)
    if Plan.of(problem, plan.candidates) != plan:
        raise ValueError(f"a plan for {plan.title} stands for {problem.title}")
    for candidate in plan.candidates:
        if candidate.recipe.algorithm not in ALGORITHMS:
            raise ValueError(f"{candidate.recipe.algorithm!r} is no algorithm")
    algorithm, choice = ALGORITHMS[plan.algorithm], plan.choice
    is_launch = choice.launches == 1 and bool(choice.predicted_ns)
    if not is_launch or not algorithm.solves(plan.recipe, problem):
        raise ValueError(f"{plan.recipe} is no way to do {problem.title}")
    if choice.predicted_error != algorithm.stated_error(plan.recipe):
        raise ValueError(f"the error of {plan.recipe} is not {choice.predicted_error}")
    if choice.predicted_error > problem.max_error:
        raise ValueError(f"the error of {plan.recipe} exceeds {problem.max_error:.2g}")
    return plan


def check_layout(plan: Plan) -> None:
    """Runs dry what only a run can tell: not every layout of a weight takes every number of rows.

    Raises:
        ValueError: this one does not.
    """
    if plan.kind not in (CIRCULANT, CIRCULANT_GRADIENTS):
        return
    try:
        cost.price(plan.recipe, plan.batch, hardware.chip(plan.target), plan.cores)
    except cost.CannotRun as reason:
        raise ValueError(f"{plan.recipe} cannot run: {reason}") from None


def remember(plan: Plan) -> Plan:
    """Add a plan to the user's file, if that can be written; returns the plan."""
    entry = plan.to_dict()
    try:
        row = msgspec.convert(entry, PlanRow)
    except ValueError:  # a batch beyond any memory, for example
        return plan
    with _lock:
        _user_entries(plan.target)[key_of(plan)] = row
        with contextlib.suppress(OSError):  # a folder that cannot be written: memory must do
            _append(user_file(plan.target), b"\n%b\n" % msgspec.json.encode(entry))
    return plan


def own(chip: str) -> Entries:
    """The plans in the user's files and those found since, by key."""
    with _lock:
        known = dict(_user_entries(chip))
        _user.pop(chip)  # other processes may have written since these were read
        _user[chip] = {**_user_entries(chip), **known}
        return dict(_user[chip])


def remove(chip: str) -> None:
    """Removes the user's files of this version for a chip, and forgets what was in them.

    Raises:
        OSError: there is one that cannot be removed.
    """
    with _lock:
        path = user_file(chip)
        for file in (_older(path), path):
            file.unlink(missing_ok=True)
        _user[chip] = {}


def forget() -> None:
    """Forget what was read from files; they stay as they are."""
    with _lock:
        _user.clear()
        _warned.clear()
    shipped.cache_clear()


def user_file(chip: str) -> Path:
    """The file of the user's own plans for a chip."""
    folder = Path(platformdirs.user_cache_dir("trnfft"))
    return folder / f"plans-{chip}-{fingerprint()}.jsonl"


@cached(len(hardware.NAMES))
def shipped(chip: str) -> Entries:
    """The plans that come with trnfft, by key; none for a chip without a file."""
    source = _shipped_file(chip)
    if not source.is_file():
        return {}
    try:
        rows = _shipped_rows(source)
    except ValueError as error:
        _warn(source, str(error))
        return {}
    return _entries(source, rows)


@cached(1)
def fingerprint() -> str:
    """A hash of everything that plans and prices depend on: kernels, simulator and planner."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size}".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Examined:
    """What is in a file of plans: `state` is "in use", "absent" or "damaged"."""

    state: str
    plans: int = 0  # of these, `unknown` are no plans, and are searched for again
    unknown: int = 0
    reason: str = ""


def examine(chip: str) -> tuple[Examined, Examined]:
    """The shipped file of a chip and the user's own. Both stay as they are."""
    ours = _examined(lambda: _shipped_rows(_shipped_file(chip)))
    return ours, _examined(lambda: _user_rows(user_file(chip)))


def _examined(rows: Callable[[], list[bytes]]) -> Examined:
    try:
        found = rows()
    except FileNotFoundError:
        return Examined("absent")
    except (OSError, ValueError) as error:
        return Examined("damaged", reason=str(error))
    unknown, reason = 0, ""
    for index, text in enumerate(found):
        try:
            row = row_of(text)
            if index < EXAMINED:
                believed(row, Plan.from_row(row))
        except ValueError as error:
            unknown, reason = unknown + 1, str(error)
    return Examined("in use", len(found), unknown, reason)


def render(chip: str, plans: list[dict[str, Any]]) -> str:
    """Text of a shipped file with these plans: one candidate a line, for reading and diffs."""
    blocks = []
    for plan in plans:
        head = json.dumps({name: value for name, value in plan.items() if name != "candidates"})
        rows = ",\n".join(f"    {json.dumps(candidate)}" for candidate in plan["candidates"])
        blocks.append(f'  {head[:-1]}, "candidates": [\n{rows}\n  ]}}')
    title = {"format": FORMAT, "chip": chip}
    body = ",\n".join(blocks)
    return f'{json.dumps(title)[:-1]}, "plans": [\n{body}\n]}}\n'


def _shipped_file(chip: str) -> Traversable:
    return files(PACKAGE) / "plans" / f"{chip}.json"


class _ShippedFile(msgspec.Struct):
    format: int
    plans: list[msgspec.Raw]


def _shipped_rows(source: Traversable) -> list[bytes]:
    """The rows of a shipped file. ValueError where it is none of this format."""
    content = msgspec.json.decode(source.read_bytes(), type=_ShippedFile)
    if content.format != FORMAT:
        raise ValueError(f"it has format {content.format}, not {FORMAT}")
    return [bytes(row) for row in content.plans]


def _user_entries(chip: str) -> Entries:
    if chip not in _user:
        found: Entries = {}
        path = user_file(chip)
        for file in (_older(path), path):
            try:
                found.update(_entries(file, _user_rows(file)))
                os.utime(file)
            except ValueError as error:
                _warn(file, str(error))
            except OSError:  # there is none, or none for us
                pass
        _user[chip] = found
        _remove_stale(path.parent)
    return _user[chip]


def _older(path: Path) -> Path:
    """Where the plans go that a user's file had when it was full."""
    return path.with_suffix(".older.jsonl")


def _user_rows(path: Path) -> list[bytes]:
    """The rows of a user's file, but for those that a process was killed in.

    Raises:
        ValueError, OSError: as `rows_of`.
    """
    rows = rows_of(path, 2 * FULL)
    return [row for row in rows if not (row.startswith(b'{"n":') and row[-1:] != b"}")]


def rows_of(path: Path, most: int) -> list[bytes]:
    """The lines of a file, but for empty ones.

    Raises:
        ValueError: it is no regular file, or has more than `most` bytes.
        OSError: it cannot be read.
    """
    with open(_opened(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"it has {size} bytes, more than trnfft writes")
        return [row for row in file.read(most).split(b"\n") if row]


def _opened(path: Path, flags: int) -> int:
    """A descriptor of a regular file, and of nothing that a link leads to or that could block.

    Raises:
        ValueError: it is something else.
        OSError: it cannot be opened.
    """
    if path.is_symlink():
        raise ValueError("it is a symbolic link")
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # Windows has the last one only
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is no regular file")
    return descriptor


def _append(path: Path, line: bytes) -> None:
    """One write at the end of the file; a full one becomes the older one then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except ValueError:  # warned of when it was read
        return
    try:
        os.write(descriptor, line)
        status = os.fstat(descriptor)
        # Another process may have done it since this one opened the file.
        if status.st_size > FULL and os.path.samestat(status, os.stat(path)):
            os.replace(path, _older(path))
    finally:
        os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    """Removes what nobody uses: temporary files of former versions, and versions' own files."""
    limits = {".plans-*.json.*": STALE_SECONDS, "plans-*.jsonl": UNUSED_SECONDS}
    for pattern, seconds in limits.items():
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):  # another process was faster
                if path.lstat().st_mtime < time.time() - seconds:
                    path.unlink()


def row_of(text: bytes) -> PlanRow:
    """A row by the schema. ValueError where it is something else."""
    row: PlanRow = _decoder.decode(text)
    return row


def _entries(source: Path | Traversable, rows: list[bytes]) -> Entries:
    """Rows by key; those that are none are left out, with a warning."""
    entries: Entries = {}
    for number, text in enumerate(rows, 1):
        try:
            row = row_of(text)
        except ValueError as error:
            _warn(source, f"row {number} is no plan: {error}")
        else:
            entries[key_of(row)] = row
    return entries


def _warn(source: Path | Traversable, reason: str) -> None:
    """One warning a file."""
    if str(source) in _warned:
        return
    _warned.add(str(source))
    warnings.warn(
        f"not all remembered plans in {source} can be used ({reason}); these are searched for "
        f"again. Remove the file to be rid of this warning",
        stacklevel=2,
    )
