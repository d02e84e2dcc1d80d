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


@dataclass
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
    CountedIsa.counts(1)
    try:
        yield count
    except _Full:
        pass
    finally:
        CountedIsa.counts(-1)
        _count.reset(token)


class CountedIsa(ModuleType):
    """The functions of `nki.isa`, which a count mutes; everything else is that of `nki.isa`.

    While nothing is counted, in any thread, functions are attributes like the others, because a
    lookup takes long.
    """

    _running = 0  # counts
    _found: list[tuple[CountedIsa, str]] = []  # functions that are attributes  # noqa: RUF012
    _lock = Lock()

    def __init__(self, nisa: Any) -> None:
        super().__init__("nki.isa")
        self._nisa = nisa
        self._counted: set[str] = set()  # names of functions

    def __getattr__(self, name: str) -> Any:
        count = _count.get()
        if count is not None and name in self._counted:
            return count.instruction
        found = getattr(self._nisa, name)
        is_counted = callable(found) and not isinstance(found, type) and not _is_query(name)
        with self._lock:
            if not (is_counted and self._running):
                self.__dict__[name] = found
                if is_counted:
                    self._counted.add(name)
                    self._found.append((self, name))
        return count.instruction if is_counted and count is not None else found

    @classmethod
    def counts(cls, more: int) -> None:
        """Notes that so many more counts run."""
        with cls._lock:
            cls._running += more
            while cls._found:
                isa, name = cls._found.pop()
                isa.__dict__.pop(name, None)


def _is_query(name: str) -> bool:
    """Return whether a function issues nothing, such as ``get_nc_version``."""
    return name.startswith("get_")
