"""The launch that runs now, and strict mode: settings of the context, as in contextvars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from nki_sim import hardware
from nki_sim.errors import Break


class Launch(Protocol):
    """What tensors, registers and scalars ask of the launch in which they are used.

    Instructions ask more: `instructions.launch_state.LaunchState`. A `launch.session.Session`
    answers both, and says what each name stands for.
    """

    chip: hardware.NeuronCore
    count: int
    scalars_made: int
    loop_scope: Any
    open_scopes: set[Any]
    is_over: bool

    def broke(self, instruction: str, broken: Break, number: int | None = None) -> None:
        """Raises, warns or does nothing for a broken device rule."""

    def warn(
        self, instruction: str, operand: str, value: object, rule: str, number: int | None = None
    ) -> None:
        """Warns, or raises NkiValidationError in strict mode."""

    def enters_loop(self, kind: str, trips: int) -> None:
        """Notes a loop on the device."""


_session: ContextVar[Launch | None] = ContextVar("nki_session", default=None)
_strict: ContextVar[bool] = ContextVar("nki_strict", default=False)

current = _session.get  # returns the session of the running kernel, or None
is_strict = _strict.get  # returns whether the simulator's warnings are errors in this context


def active() -> Launch:
    """Returns the session of the running kernel; raises RuntimeError if no kernel runs."""
    session = _session.get()
    if session is None:
        raise RuntimeError(
            "no kernel is running, and the functions of nki.isa and nki.language work inside a "
            "kernel only: call them in a function under @nki.jit, and run that function as "
            "nki.simulate(kernel)(...)"
        )
    return session


def is_running() -> bool:
    """Returns whether a kernel is running."""
    return _session.get() is not None


def chip_of_launch() -> hardware.NeuronCore:
    """Returns the chip of the running kernel, or the current chip if no kernel is running."""
    session = _session.get()
    return hardware.current() if session is None else session.chip


@contextmanager
def strict() -> Iterator[None]:
    """Turns the simulator's warnings into NkiValidationError inside a ``with`` block."""
    token = _strict.set(True)
    try:
        yield
    finally:
        _strict.reset(token)


@contextmanager
def running(session: Launch) -> Iterator[Launch]:
    """Makes ``session`` the active session inside a ``with`` block."""
    token = _session.set(session)
    try:
        with np.errstate(all="ignore"):
            yield session
    finally:
        _session.reset(token)
