"""Notes about the instructions of a launch for people: the kernel's line, and the operands.

Launches take notes under `record`, and dry runs inside `sources`. Other dry runs do not, because it
takes time to find the line.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import SourceLine
from nki_sim.views.layout import Layout
from nki_sim.views.tensor import NkiTensor

from .issue import Issue

_SIMULATOR = str(Path(__file__).parents[1]) + os.sep

_sources: ContextVar[bool] = ContextVar("nki_sources", default=False)


class Note(NamedTuple):
    """The place of an instruction in the kernel; parameters, layouts and tiles of its operands.

    A tile is noted as (memory, name), so that the note keeps no data alive.
    """

    code: CodeType | None
    line: int
    parameters: tuple[str, ...] = ()
    layouts: Sequence[Layout] = ()
    tiles: Sequence[tuple[MemoryRegion, str]] = ()

    def source(self) -> SourceLine | None:
        """Returns the line, or None if no Python code called the simulator."""
        code = self.code
        return code and SourceLine(code.co_filename, self.line, code.co_name)

    def text(self) -> str:
        """Returns the operands as "dst sbuf 128x512 float32, src shared_hbm 128x512 float32"."""
        found = []
        operands = zip(self.parameters, self.layouts, self.tiles, strict=False)
        for parameter, layout, (buffer, name) in operands:
            named = f" {name!r}" if name else ""
            shape = "x".join(map(str, layout.shape))
            found.append(f"{parameter} {buffer.value}{named} {shape} {layout.dtype}")
        return ", ".join(found)


@contextmanager
def sources() -> Iterator[None]:
    """Makes dry runs inside the block note source lines and operands, as `record` does."""
    token = _sources.set(True)
    try:
        yield
    finally:
        _sources.reset(token)


def are_wanted() -> bool:
    """Returns whether dry runs note lines and operands in this context."""
    return _sources.get()


def user_frame() -> FrameType | None:
    """Returns the innermost frame outside of the simulator, that of the kernel or a helper."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_simulators(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@functools.lru_cache(1024)
def is_simulators(file: str) -> bool:
    """Returns whether a file of Python belongs to the simulator."""
    return file.startswith(_SIMULATOR)


def user_line() -> SourceLine | None:
    """Returns the line of `user_frame`."""
    return _at(user_frame()).source()


def noted_line(notes: list[Note] | None, number: int) -> SourceLine | None:
    """Returns the line of an instruction, or None if the launch notes no lines."""
    return notes[number].source() if notes and number < len(notes) else None


def warn_at_user(text: str, category: type[Warning]) -> None:
    """Warns at the line of `user_frame`."""
    frame = user_frame()
    if frame is None:
        warnings.warn(text, category, stacklevel=2)
        return
    names = frame.f_globals
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=names.get("__name__"),
        registry=names.setdefault("__warningregistry__", {}),
    )


def note_of(issue: Issue, writes: Sequence[NkiTensor], reads: Sequence[NkiTensor]) -> Note:
    """Returns the note of the instruction that the kernel issues now."""
    operands = (*writes, *reads)
    layouts = [t._layout for t in operands]
    tiles = [(t.buffer, t.storage.name) for t in operands]
    return _at(user_frame(), issue.writes + issue.reads, layouts, tiles)


def _at(frame: FrameType | None, *operands: Any) -> Note:
    if frame is None:
        return Note(None, 0, *operands)
    return Note(frame.f_code, frame.f_lineno, *operands)
