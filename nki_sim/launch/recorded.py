"""Timelines to which the launches of a context are added."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nki_sim.base.running import strict
from nki_sim.report.timeline import Timeline

_timelines: ContextVar[tuple[Timeline, ...]] = ContextVar("nki_timelines", default=())
_is_scheduled: ContextVar[bool] = ContextVar("nki_is_scheduled", default=False)


@contextmanager
def record() -> Iterator[Timeline]:
    """Records every kernel that runs inside the block: ``with record() as timeline: ...``.

    If such blocks are nested, a kernel is recorded in the timelines of all of them.
    """
    timeline = Timeline()
    token = _timelines.set((*_timelines.get(), timeline))
    try:
        yield timeline
    finally:
        _timelines.reset(token)


@contextmanager
def strict_launches() -> Iterator[None]:
    """Like `strict`, and also checks rules that need a launch's schedule. Keeps no timeline."""
    token = _is_scheduled.set(True)
    try:
        with strict():
            yield
    finally:
        _is_scheduled.reset(token)


def recording() -> tuple[Timeline, ...]:
    """Returns the timelines to which a launch is added."""
    return _timelines.get() or ((Timeline(),) if _is_scheduled.get() else ())
