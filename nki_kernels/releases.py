"""Releases of NKI that lint and simulator know: 0.7, whose kernels are plain Python, and 0.6.

NKI 0.7 (Neuron SDK 2.33) traces a kernel, which runs as Python once; NKI 0.6 (Neuron SDK 2.32)
parses a subset of Python. The values, rules and times of instructions are the same in both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

PARSED, TRACED = "0.6", "0.7"
RELEASES = (PARSED, TRACED)
NEWEST = TRACED
VARIABLE = "TRNFFT_NKI_RELEASE"

_selected: ContextVar[str | None] = ContextVar("nki_release", default=None)


def checked(release: str, what: str = "argument 'release'") -> str:
    """``release`` if it is known; ValueError names ``what`` it was given as, and the known ones."""
    if release not in RELEASES:
        raise ValueError(f"{what} is {release!r}, allowed is {' or '.join(map(repr, RELEASES))}")
    return release


@contextmanager
def _select(release: str) -> Iterator[None]:
    token = _selected.set(release)
    try:
        yield
    finally:
        _selected.reset(token)


def select(release: str | None) -> AbstractContextManager[None]:
    """Follow a release inside a ``with`` block, in this thread or task only; None changes nothing.

    Raises:
        ValueError: the release is not known.
    """
    return nullcontext() if release is None else _select(checked(release))


def current() -> str:
    """The release that ``select`` names, else TRNFFT_NKI_RELEASE, else the newest.

    Raises:
        ValueError: the variable names none that is known.
    """
    selected = _selected.get()
    if selected is not None:
        return selected
    given = os.environ.get(VARIABLE)
    return checked(given, VARIABLE) if given else NEWEST


def is_traced() -> bool:
    """Whether kernels are plain Python in the current release."""
    return current() != PARSED
