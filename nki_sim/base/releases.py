"""The releases of NKI that the lint and the simulator know: 0.7 and 0.6.

NKI 0.7 (Neuron SDK 2.33) traces a kernel, which runs once as plain Python. NKI 0.6 (Neuron SDK
2.32) parses a subset of Python. The results, rules and times of instructions are the same in both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PARSED, TRACED = "0.6", "0.7"
RELEASES = (PARSED, TRACED)
NEWEST = TRACED
VARIABLE = "NKI_SIM_RELEASE"

_selected: ContextVar[str | None] = ContextVar("nki_release", default=None)


def checked(release: str, what: str = "argument 'release'") -> str:
    """Returns ``release`` if it is known; else raises ValueError, which calls it ``what``."""
    if release not in RELEASES:
        raise ValueError(f"{what} is {release!r}, allowed is {' or '.join(map(repr, RELEASES))}")
    return release


@contextmanager
def select(release: str | None) -> Iterator[None]:
    """Selects a release inside a ``with`` block, in this thread or task; None changes nothing.

    Raises:
        ValueError: the release is not known.
    """
    token = _selected.set(_selected.get() if release is None else checked(release))
    try:
        yield
    finally:
        _selected.reset(token)


def current() -> str:
    """Returns the release that ``select`` or NKI_SIM_RELEASE names, or the newest release.

    Raises:
        ValueError: the variable names an unknown release.
    """
    selected = _selected.get()
    if selected is not None:
        return selected
    given = os.environ.get(VARIABLE)
    return checked(given, VARIABLE) if given else NEWEST


def is_traced() -> bool:
    """Returns whether kernels are plain Python in the current release."""
    return current() != PARSED
