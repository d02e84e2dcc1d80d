"""The kernel's source, with each line's time on the critical path and its warnings."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from dataclasses import dataclass, field

from nki_sim.base.source_text import lines_of
from nki_sim.timeline.critical_path import critical_shares
from nki_sim.timeline.recording import Recording

_AROUND = 3  # lines shown before and after a line whose function is not found


@dataclass
class Line:
    """A line of source.

    ``ns`` is its time on the critical path, ``share`` that time's share of the total, 0 to 1.
    """

    number: int
    text: str = ""
    ns: float = 0.0
    share: float = 0.0
    instructions: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass
class File:
    """The functions of a file that issue instructions. Each of ``parts`` has consecutive lines."""

    name: str
    base: str
    parts: list[list[Line]]


def source_listing(timeline: Recording) -> list[File]:
    """Returns the files of the kernel and its helpers.

    The file with the most time on the critical path comes first.
    """
    found: dict[str, dict[int, Line]] = defaultdict(dict)

    def at(file: str, number: int) -> Line:
        return found[file].setdefault(number, Line(number))

    for event in timeline.events:
        if event.source is not None:
            at(event.source.file, event.source.line).instructions += event.times
    for share in critical_shares(timeline):
        if (source := share.event.source) is not None:
            line = at(source.file, source.line)
            line.ns += share.ns
            line.share = line.ns / timeline.total_ns
    for warning in timeline.warnings:
        if warning.source is not None:
            messages = at(warning.source.file, warning.source.line).warnings
            if warning.message not in messages:
                messages.append(warning.message)
    order = sorted(found, key=lambda file: -sum(line.ns for line in found[file].values()))
    here = os.getcwd() + os.sep
    return [
        File(file.removeprefix(here), os.path.basename(file), _parts(file, found[file]))
        for file in order
    ]


def _parts(file: str, known: dict[int, Line]) -> list[list[Line]]:
    text = lines_of(file)
    listed: set[int] = set()
    functions = _functions("".join(text))
    for number in known:
        inside = [span for span in functions if number in span]
        window = range(max(1, number - _AROUND), number + _AROUND + 1)
        inside.sort(key=len)
        listed.update(inside[-1] if inside else window)
    listed = {n for n in listed if n <= len(text)} | set(known)
    parts: list[list[Line]] = []
    for number in sorted(listed):
        line = known.get(number) or Line(number)
        line.text = text[number - 1].rstrip("\r\n") if number <= len(text) else "(no source)"
        if not parts or parts[-1][-1].number != number - 1:
            parts.append([])
        parts[-1].append(line)
    return parts


def _functions(text: str) -> list[range]:
    """Returns the lines of each function; its decorators belong to it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a notebook's cell with magic, or a file that has changed
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        range(
            min([node.lineno, *[d.lineno for d in node.decorator_list]]),
            (node.end_lineno or node.lineno) + 1,
        )
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    ]
