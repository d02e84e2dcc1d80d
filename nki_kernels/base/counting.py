"""`nki.isa` with a count: where one runs, instructions are counted in place of being issued.

NKI traces a kernel as plain Python. So a kernel can find out how many instructions a block of rows
takes by running the block once without issuing anything, and needs no formula for them. A tracer
that does not allow this, because tiles are allocated that nothing uses, needs ``CAN_MUTE`` False.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from types import ModuleType
from typing import Any

CAN_MUTE = True  # whether the tracer lets code run whose instructions are not issued
TYPICAL = 500  # instructions that a block is assumed to take where it does not


@dataclass(eq=False)
class Count:
    """What a part of a kernel would issue."""

    instructions: int = 0
    most: float = math.inf  # instructions after which the count ends
    identities: set[Any] = field(default_factory=set)  # dtypes of identities that it loads

    def instruction(self, *_: Any, **__: Any) -> None:
        """Count an instruction in the place of the function that would issue it."""
        self.instructions += 1
        if self.instructions >= self.most:
            raise _Full


class _Full(Exception):
    """A count has reached its most instructions."""


# Programs of a launch, and launches, are traced in threads of their own.
_count: ContextVar[Count | None] = ContextVar("count", default=None)
_lock = Lock()
_counts: list[Count] = []  # those that run, in all threads
_shown: list[tuple[ModuleType, str]] = []  # functions that are attributes


def current() -> Count | None:
    """Return the count that runs in this thread, or None."""
    return _count.get()


@contextmanager
def counted(most: float = math.inf) -> Iterator[Count]:
    """Inside of the ``with`` block instructions are counted, and not issued.

    most: the number of instructions after which the block is left.
    """
    count = Count(most=most)
    token = _count.set(count)
    _hide(count)
    try:
        yield count
    except _Full:
        pass
    finally:
        with _lock:
            _counts.remove(count)
        _count.reset(token)


def counted_isa(nisa: Any) -> ModuleType:
    """Return `nki.isa` as a module, with functions that a count mutes.

    While nothing is counted, in any thread, the functions are attributes like the others, because a
    lookup takes long.
    """
    isa, names = ModuleType("nki.isa"), set[str]()

    def found(name: str) -> Any:
        count = _count.get()
        if count is not None and name in names:
            return count.instruction
        value = getattr(nisa, name)
        is_counted = callable(value) and not isinstance(value, type) and not _is_query(name)
        with _lock:
            if is_counted:
                names.add(name)
            if not (is_counted and _counts):
                setattr(isa, name, value)
            if is_counted and not _counts:
                _shown.append((isa, name))
        return count.instruction if is_counted and count is not None else value

    isa.__getattr__ = found  # type: ignore[method-assign]
    return isa


def _hide(count: Count) -> None:
    """Let lookups find functions by way of counts, of which there is one more."""
    with _lock:
        _counts.append(count)
        while _shown:
            delattr(*_shown.pop())


def _is_query(name: str) -> bool:
    """Return whether a function issues nothing, such as ``get_nc_version``."""
    return name.startswith("get_")
