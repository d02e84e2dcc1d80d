"""What a launch notes of its instructions for people: the kernel's line and the operands.

Noted in `record` and inside `sources`. Other dry runs go without: to find the line takes time.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .enums import MemoryRegion
from .issue import Issue
from .layout import Layout
from .tensor import NkiTensor

_SIMULATOR = os.path.dirname(__file__) + os.sep

_sources: ContextVar[bool] = ContextVar("nki_sources", default=False)


@dataclass(frozen=True)
class SourceLine:
    """A line of a kernel: ``file`` as Python names it, ``line`` from 1, ``function``."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class KernelWarning:
    """What the simulator warned of while a kernel was recorded.

    Attributes:
        rule: the key in ``device_rules.RULES``, or the rule in words where it has none.
        message: the warning's text.
        number: of the instruction in its program, as ``Event.number``; None: the whole kernel,
            or a later iteration of a loop on the device.
        source: its line, None where the launch noted no lines.
        core: 0 or 1.
        launch: of the timeline, from 0.
    """

    rule: str
    message: str
    number: int | None
    source: SourceLine | None
    core: int = 0
    launch: int = 0


class Note(NamedTuple):
    """Where an instruction stands in the kernel, and of its operands parameters, layouts, tiles.

    Tiles are (memory, name): what is noted keeps no data alive.
    """

    code: CodeType | None
    line: int
    parameters: tuple[str, ...] = ()
    layouts: Sequence[Layout] = ()
    tiles: Sequence[tuple[MemoryRegion, str]] = ()

    def source(self) -> SourceLine | None:
        """The line, None where there is no Python above the simulator."""
        code = self.code
        return code and SourceLine(code.co_filename, self.line, code.co_name)

    def text(self) -> str:
        """The operands as text: "dst sbuf 128x512 float32, src shared_hbm 128x512 float32"."""
        operands = zip(self.parameters, self.layouts, self.tiles, strict=False)
        return ", ".join([_text(*operand) for operand in operands])


@contextmanager
def sources() -> Iterator[None]:
    """Let dry runs inside the block note source lines and operands, as `record` does."""
    token = _sources.set(True)
    try:
        yield
    finally:
        _sources.reset(token)


def are_wanted() -> bool:
    """Whether dry runs note lines and operands in this context."""
    return _sources.get()


def user_frame() -> FrameType | None:
    """The innermost frame outside of the simulator: the kernel's, or that of its helper."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_simulators(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@functools.lru_cache(1024)
def is_simulators(file: str) -> bool:
    """Whether a file of Python is one of the simulator's."""
    return file.startswith(_SIMULATOR)


def user_line() -> SourceLine | None:
    """The line of `user_frame`."""
    return _at(user_frame()).source()


def noted_line(notes: list[Note] | None, number: int) -> SourceLine | None:
    """The line of an instruction, None where the launch notes none."""
    return notes[number].source() if notes and number < len(notes) else None


def warn_at_user(text: str, category: type[Warning]) -> None:
    """A warning at the line of `user_frame`."""
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


def note_of(issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]) -> Note:
    """The note of the instruction that the kernel issues now."""
    operands = writes + reads
    layouts = [t._layout for t in operands]
    tiles = [(t.buffer, t.storage.name) for t in operands]
    return _at(user_frame(), issue.writes + issue.reads, layouts, tiles)


def _at(frame: FrameType | None, *operands: Any) -> Note:
    if frame is None:
        return Note(None, 0, *operands)
    return Note(frame.f_code, frame.f_lineno, *operands)


def _text(parameter: str, layout: Layout, tile: tuple[MemoryRegion, str]) -> str:
    buffer, name = tile
    shape = "x".join(map(str, layout.shape))
    named = f" {name!r}" if name else ""
    return f"{parameter} {buffer.value}{named} {shape} {layout.dtype}"
