"""Wisdom: plans remembered in files, one a chip. plans/README.md describes the format.

trnfft ships plans for common sizes. What a search finds goes to the user's cache folder, with a
fingerprint of the kernels it was found with, so that another version of them starts afresh.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import threading
import warnings
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

import nki_kernels
from nki_kernels.whole_file import write_whole
from trnfft.planner.plan import Plan
from trnfft.planner.problem import C2C, Problem

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

FORMAT = 1
LARGEST = 2000  # plans in a user's file; the oldest go

Key = tuple[Any, ...]
Entries = dict[Key, dict[str, Any]]

_lock = threading.Lock()
_user: dict[str, Entries] = {}  # by chip, as far as this process has read or found them


def key_of(problem: Problem) -> Key:
    """What the plan for a problem is remembered by in the file of its chip."""
    size = (problem.n, problem.batch, problem.precision, problem.cores)
    return *size, problem.kind, problem.shape, problem.padded_from


def recall(problem: Problem) -> Plan | None:
    """The remembered plan for a problem with its mode's own budget: the user's, else ours."""
    with _lock:
        for entries in (_user_entries(problem.target), shipped(problem.target)):
            entry = entries.get(key_of(problem))
            if entry is not None and entry.get("max_error") == problem.max_error:
                with contextlib.suppress(ValueError, TypeError):  # not a plan: search instead
                    return Plan.recalled(entry)
    return None


def remember(plan: Plan) -> Plan:
    """Add a plan to the user's file, if that can be written; returns the plan.

    Processes do not wait for each other: each merges its plan into what the file holds and puts
    a new file in its place. Where two do so at once, one plan may be lost, never the file.
    """
    with _lock:
        entries = _user_entries(plan.target)
        entries.update(_read(user_file(plan.target), fingerprint()))
        entries[key_of(plan)] = plan.to_dict()
        for key in list(entries)[:-LARGEST]:
            del entries[key]
        with contextlib.suppress(OSError):  # a folder that cannot be written: memory must do
            text = render(plan.target, list(entries.values()), fingerprint())
            file = user_file(plan.target)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text)
    return plan


def forget() -> None:
    """Forget what was read from files; they stay as they are."""
    with _lock:
        _user.clear()
    shipped.cache_clear()


def user_file(chip: str) -> Path:
    """The file of the user's own plans for a chip."""
    return Path(platformdirs.user_cache_dir("trnfft")) / f"plans-{chip}.json"


@functools.cache
def shipped(chip: str) -> Entries:
    """The plans that come with trnfft, by key; none for a chip without a file."""
    source = _shipped_file(chip)
    return _parse(source.read_text("utf-8"), "") if source.is_file() else {}


def _shipped_file(chip: str) -> Traversable:
    return files("trnfft") / "plans" / f"{chip}.json"


@functools.cache
def fingerprint() -> str:
    """A hash of everything that plans and prices depend on: kernels, simulator and planner."""
    digest = hashlib.sha256()
    for folder in (Path(nki_kernels.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Examined:
    """What is in a file of plans: `state` is "in use", "absent", "other version" or "damaged"."""

    state: str
    plans: int = 0  # of these, `unknown` are no plans, and are searched for again
    unknown: int = 0
    reason: str = ""


def examine(chip: str) -> tuple[Examined, Examined]:
    """The shipped file of a chip and the user's own. Both stay as they are."""
    return _examine(_shipped_file(chip), ""), _examine(user_file(chip), fingerprint())


def _examine(source: Traversable, kernels: str) -> Examined:
    try:
        content = _content(source.read_text("utf-8"))
    except FileNotFoundError:
        return Examined("absent")
    except (OSError, ValueError) as error:
        return Examined("damaged", reason=str(error))
    if content["format"] != FORMAT:
        return Examined("other version", reason=f"format {content['format']}, not {FORMAT}")
    if content.get("kernels", "") != kernels:
        return Examined("other version", reason="found with other kernels")
    unknown = 0
    for entry in content["plans"]:
        try:
            Plan.recalled(entry)
        except (ValueError, TypeError):
            unknown += 1
    return Examined("in use", len(content["plans"]), unknown)


def render(chip: str, plans: list[dict[str, Any]], kernels: str = "") -> str:
    """Text of a file with these plans: JSON with one candidate a line, for reading and diffs."""
    blocks = []
    for plan in plans:
        head = json.dumps({name: value for name, value in plan.items() if name != "candidates"})
        rows = ",\n".join(f"    {json.dumps(candidate)}" for candidate in plan["candidates"])
        blocks.append(f'  {head[:-1]}, "candidates": [\n{rows}\n  ]}}')
    title = {"format": FORMAT, "chip": chip, **({"kernels": kernels} if kernels else {})}
    body = ",\n".join(blocks)
    return f'{json.dumps(title)[:-1]}, "plans": [\n{body}\n]}}\n'


def _user_entries(chip: str) -> Entries:
    if chip not in _user:
        _user[chip] = _read(user_file(chip), fingerprint())
    return _user[chip]


def _read(path: Path, kernels: str) -> Entries:
    """Plans in a user's file; a damaged one is set aside, with a warning."""
    try:
        return _parse(path.read_text("utf-8"), kernels)
    except OSError:
        return {}
    except ValueError as error:  # also what is no JSON or no UTF-8
        aside = path.with_suffix(".damaged")
        with contextlib.suppress(OSError):
            os.replace(path, aside)
        warnings.warn(
            f"the remembered plans in {path} cannot be read ({error}); the file is now {aside}, "
            f"and plans are searched for again",
            stacklevel=2,
        )
        return {}


def _parse(text: str, kernels: str) -> Entries:
    """Plans by key; none where format or kernels are others. ValueError for a damaged text."""
    content = _content(text)
    if content["format"] != FORMAT or content.get("kernels", "") != kernels:
        return {}
    entries: Entries = {}
    for entry in content["plans"]:
        with contextlib.suppress(TypeError):  # fields that no plan has: search instead
            entries[_key(entry)] = entry
    return entries


def _content(text: str) -> dict[str, Any]:
    """The object in a file of plans, of any format. ValueError for a damaged text."""
    content = json.loads(text)
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise ValueError("it is no file of plans")
    entries = content.get("plans")
    if content["format"] == FORMAT and not (
        isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    ):
        raise ValueError("its plans are no list of objects")
    return content


def _key(entry: dict[str, Any]) -> Key:
    shapes = (tuple(entry.get(name, ())) for name in ("shape", "padded_from"))
    plain = (entry.get(name) for name in ("n", "batch", "precision"))
    return (*plain, entry.get("cores", 1), entry.get("kind", C2C), *shapes)
