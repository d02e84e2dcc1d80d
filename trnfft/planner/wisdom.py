"""Wisdom: plans remembered in files, one file for each chip. plans/README.md describes the formats.

trnfft ships plans for common sizes. Plans that a search finds go to a file in the user's cache
folder. The name of this file contains a fingerprint of the kernels and the planner that found the
plans, so that versions of trnfft which share a folder have a file each.

The user's file only grows, by one line for each plan, and each line is one write with O_APPEND.
Linux executes such writes to a local file one after the other. Therefore processes need no lock to
keep each other's plans. A process that is killed cannot lose what was written before; at worst its
own line is cut short, and the next line is whole, because a line also starts with a line break. A
lock file and a file that is replaced would need as much care for less, because the holder of the
lock may be stopped. Where a network file system lets lines overlap, the lines fail the checks
below.

A row is trusted after two checks: the schema checks each row when the file is read, and the
algorithm checks a plan when it is asked for. A row that fails stays in the file, causes one
warning, and its plan is searched for again. If a problem has two rows, the later row counts.
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
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import platformdirs

import nki_kernels
import nki_sim
from nki_sim import hardware
from trnfft.base.cache import after_fork, cached
from trnfft.planner import cost
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import BlockCirculant
from trnfft.planner.plan import Plan
from trnfft.planner.problem import Problem
from trnfft.planner.schema import PlanRow
from trnfft.planner.separate import SEPARATE

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PACKAGE = __name__.removesuffix(".planner.wisdom")  # trnfft, or a copy inside of another package
FORMAT = 2  # of the shipped files
FULL = 2**24  # size in bytes of a user's file beyond which the next plan starts another file
EXAMINED = 500  # rows of a file that `examine` checks against their problems
# age after which a version's file is removed; files in use are touched
UNUSED_SECONDS = 90 * 86400.0
# folders on which plans depend
SOURCES = tuple(Path(file).parent for file in (nki_kernels.__file__, nki_sim.__file__, __file__))

Key = tuple[Any, ...]
Entries = dict[Key, PlanRow]

KEPT = 2048  # rows of the user's own plans of a chip that memory keeps, as packed text of 0.7 KB

_lock = threading.RLock()
# by chip, the last plans that this process has read or found: rows of files, packed
_user: dict[str, dict[Key, bytes]] = {}
_warned: set[str] = set()  # files of which a warning was given
_decoder = msgspec.json.Decoder(PlanRow)


def _after_fork() -> None:
    """Makes another lock, because no thread of this process would release the forked one."""
    global _lock
    _lock = threading.RLock()


after_fork(_after_fork)


def key_of(problem: Problem | PlanRow) -> Key:
    """Returns the key under which a problem's plan is remembered in the file of its chip."""
    return problem.kind, problem.batch, problem.precision, problem.cores, problem.execution


def recall(problem: Problem) -> Plan | None:
    """Returns the remembered plan for a problem with its mode's own error budget, or None.

    The user's own plan comes before a shipped one.
    """
    key, chip = key_of(problem), problem.target
    with _lock:
        own, ours = _user_entries(chip).get(key), shipped(chip).get(key)
    if own is not None:
        try:
            plan = believed(row_of(zlib.decompress(own)), problem)
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
    """Returns the plan in a row for a problem, after checking the row, whatever its source.

    Raises:
        ValueError: the row holds no plan, or a plan of another problem, or its choice cannot solve
            the problem.
    """
    plan = Plan.from_row(row)
    if Plan.of(problem, plan.candidates) != plan:
        raise ValueError(f"the row for {problem.title} holds a plan for {plan.title}")
    for candidate in plan.candidates:
        if candidate.recipe.algorithm not in (*ALGORITHMS, SEPARATE):
            raise ValueError(f"{candidate.recipe.algorithm!r} is not an algorithm")
    choice = plan.choice
    if plan.algorithm == SEPARATE:
        is_separate = plan.kind.separate(plan.batch) is not None
        if not is_separate or choice.launches < 1 or not choice.predicted_ns:
            raise ValueError(f"{plan.recipe} does not solve {problem.title}")
        if choice.predicted_error is None or choice.predicted_error > problem.max_error:
            raise ValueError(f"the error of {plan.recipe} exceeds {problem.max_error:.2g}")
        return plan
    algorithm = ALGORITHMS[plan.algorithm]
    is_launch = choice.launches == 1 and bool(choice.predicted_ns)
    if not is_launch or not algorithm.solves(plan.recipe, problem.kind):
        raise ValueError(f"{plan.recipe} does not solve {problem.title}")
    if choice.predicted_error != algorithm.stated_error(plan.recipe):
        raise ValueError(f"the error of {plan.recipe} is not {choice.predicted_error}")
    if choice.predicted_error > problem.max_error:
        raise ValueError(f"the error of {plan.recipe} exceeds {problem.max_error:.2g}")
    return plan


def check_layout(plan: Plan) -> None:
    """Runs a block circulant plan dry, because not every layout accepts every number of rows."""
    if not isinstance(plan.kind, BlockCirculant):
        return
    try:
        cost.price(plan.recipe, plan.batch, hardware.chip(plan.target), plan.cores)
    except cost.CannotRun as reason:
        raise ValueError(f"{plan.recipe} cannot run: {reason}") from None


def remember(plan: Plan) -> Plan:
    """Adds a plan to the user's file, if the file can be written, and returns the plan."""
    text = msgspec.json.encode(plan.to_row())
    try:
        row_of(text)
    except ValueError:  # for example a batch beyond any memory
        return plan
    with _lock:
        entries, key = _user_entries(plan.target), key_of(plan)
        entries.pop(key, None)
        entries[key] = _packed(text)
        if len(entries) > KEPT:
            entries.pop(next(iter(entries)))
        with contextlib.suppress(OSError):  # the folder cannot be written; the plan stays in memory
            _append(user_file(plan.target), b"\n%b\n" % text)
    return plan


def own(chip: str) -> Entries:
    """Returns the plans in the user's files and the plans found since, by key."""
    with _lock:
        # Other processes may have written since these files were read.
        known = {key: zlib.decompress(row) for key, row in _user_entries(chip).items()}
        texts = {**_read(chip), **known}
        _user[chip] = _last(texts)
        return {key: row_of(text) for key, text in texts.items()}


def remove(chip: str) -> None:
    """Removes the user's files of this version for a chip, and forgets the plans in them."""
    with _lock:
        path = user_file(chip)
        for file in (_older(path), path):
            file.unlink(missing_ok=True)
        _user[chip] = {}


def forget() -> None:
    """Forgets what was read from files; the files stay as they are."""
    with _lock:
        _user.clear()
        _warned.clear()
    shipped.cache_clear()


def user_file(chip: str) -> Path:
    """Returns the path of the user's own plans for a chip."""
    folder = Path(platformdirs.user_cache_dir("trnfft"))
    return folder / f"plans-{chip}-{fingerprint()}.jsonl"


@cached(len(hardware.NAMES))
def shipped(chip: str) -> Entries:
    """Returns the plans that come with trnfft, by key; none for a chip without a file."""
    source = _shipped_file(chip)
    if not source.is_file():
        return {}
    try:
        rows = _shipped_rows(source)
    except ValueError as error:
        _warn(source, str(error))
        return {}
    return {key_of(row): row for row, _ in _plans(source, rows)}


@cached(1)
def fingerprint() -> str:
    """Returns a hash of everything on which plans and prices depend.

    These are the sources of the kernels, the simulator and the planner.
    """
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size}".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Examined:
    """The content of a file of plans; `state` is "in use", "absent" or "damaged"."""

    state: str
    plans: int = 0  # number of rows; `unknown` of these are not plans, and are searched for again
    unknown: int = 0
    reason: str = ""


def examine(chip: str) -> tuple[Examined, Examined]:
    """Examines the shipped file of a chip and the user's own file. Both stay as they are."""
    ours = _examined(lambda: _shipped_rows(_shipped_file(chip)))
    return ours, _examined(lambda: _user_rows(user_file(chip)))


def _examined(rows: Callable[[], list[bytes]]) -> Examined:
    try:
        texts = rows()
    except FileNotFoundError:
        return Examined("absent")
    except (OSError, ValueError) as error:
        return Examined("damaged", reason=str(error))
    unknown, reason = 0, ""
    for index, text in enumerate(texts):
        try:
            row = row_of(text)
            if index < EXAMINED:
                believed(row, Plan.from_row(row))
        except ValueError as error:
            unknown, reason = unknown + 1, str(error)
    return Examined("in use", len(texts), unknown, reason)


def render(chip: str, plans: list[dict[str, Any]]) -> str:
    """Returns the text of a shipped file with these plans, one candidate a line, for easy diffs."""
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
    """Returns the rows of a shipped file."""
    content = msgspec.json.decode(source.read_bytes(), type=_ShippedFile)
    if content.format != FORMAT:
        raise ValueError(f"it has format {content.format}, not {FORMAT}")
    return [bytes(row) for row in content.plans]


def _user_entries(chip: str) -> dict[Key, bytes]:
    if chip not in _user:
        _user[chip] = _last(_read(chip))
        _remove_unused(user_file(chip).parent)
    return _user[chip]


def _last(texts: dict[Key, bytes]) -> dict[Key, bytes]:
    return {key: _packed(text) for key, text in list(texts.items())[-KEPT:]}


def _packed(text: bytes) -> bytes:
    return zlib.compress(text, 1)  # to less than a quarter, in 20 us


def _read(chip: str) -> dict[Key, bytes]:
    """Returns the texts of the plans in the user's files, the last ones last."""
    texts: dict[Key, bytes] = {}
    path = user_file(chip)
    for file in (_older(path), path):
        try:
            texts.update((key_of(row), text) for row, text in _plans(file, _user_rows(file)))
            os.utime(file)
        except ValueError as error:
            _warn(file, str(error))
        except OSError:  # there is no such file, or no permission to read it
            pass
    return texts


def _older(path: Path) -> Path:
    """Returns the path to which a user's file moves when it is full."""
    return path.with_suffix(".older.jsonl")


def _user_rows(path: Path) -> list[bytes]:
    """Returns the rows of a user's file, without those cut short when a process was killed."""
    rows = rows_of(path, 2 * FULL)
    return [row for row in rows if not (row.startswith(b'{"kind":') and row[-1:] != b"}")]


def rows_of(path: Path, most: int) -> list[bytes]:
    """Returns the lines of a file without empty lines.

    Raises:
        ValueError: the path is not a regular file, or the file has more than `most` bytes.
        OSError: the file cannot be read.
    """
    with open(_opened(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"it has {size} bytes, more than trnfft writes")
        return [row for row in file.read(most).split(b"\n") if row]


def _opened(path: Path, flags: int) -> int:
    """Opens a regular file, but nothing to which a link leads or which could block."""
    if path.is_symlink():
        raise ValueError("it is a symbolic link")
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # Windows has only the last flag
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    return descriptor


def _append(path: Path, line: bytes) -> None:
    """Appends a line by one write; a file that is full then becomes the older file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except ValueError:  # a warning was given when the file was read
        return
    try:
        os.write(descriptor, line)
        status = os.fstat(descriptor)
        # Another process may have moved the file since this one opened it.
        if status.st_size > FULL and os.path.samestat(status, os.stat(path)):
            os.replace(path, _older(path))
    finally:
        os.close(descriptor)


def _remove_unused(folder: Path) -> None:
    """Removes files of versions that nobody uses."""
    for path in folder.glob("plans-*.jsonl"):
        with contextlib.suppress(OSError):  # another process was faster, or it is a folder
            if path.lstat().st_mtime < time.time() - UNUSED_SECONDS:
                path.unlink()


def row_of(text: bytes) -> PlanRow:
    """Returns a row after a check by the schema."""
    row: PlanRow = _decoder.decode(text)
    return row


def _plans(source: Path | Traversable, texts: Iterable[bytes]) -> Iterator[tuple[PlanRow, bytes]]:
    """Yields rows with their texts; those that are not plans are left out, with a warning."""
    for number, text in enumerate(texts, 1):
        try:
            row = row_of(text)
        except ValueError as error:
            _warn(source, f"row {number} is not a plan: {error}")
        else:
            yield row, text


def _warn(source: Path | Traversable, reason: str) -> None:
    """Warns of a file, once."""
    if str(source) in _warned:
        return
    _warned.add(str(source))
    warnings.warn(
        f"some remembered plans in {source} cannot be used ({reason}) and are searched for again. "
        f"Remove the file to end this warning",
        stacklevel=2,
    )
