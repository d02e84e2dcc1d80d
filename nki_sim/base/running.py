"""The launch that runs now, and strict mode: settings of the context, as in contextvars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from nki_sim import hardware


class Launch(Protocol):
    """What instructions and views ask of the launch in which they run; a `Session` answers.

    `launch.session.Session` says what each name stands for. Instructions and tensors are Any here,
    because this file lies below theirs.
    """

    chip: hardware.NeuronCore
    config: Any
    dry: bool
    program: int
    programs: int
    program_dimensions: int
    count: int
    issues: Any
    generators: dict[str, Any]
    accumulators: dict[str, Any]
    lives: list[Any]
    scalars_made: int
    no_reorder_depth: int
    no_reorder_block: int
    order_barrier: list[int]

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: str,
        buffer: Any,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> Any:
        """Returns a new tensor."""

    def hold_constant(self, tensor: Any, array: Any) -> None:
        """Fills a tensor before the kernel starts."""

    def issue(self, issue: Any, writes: Any, reads: Any, name: str | None) -> int:
        """Runs one instruction and returns its number."""

    def run(self, issue: Any, writes: Any, reads: Any) -> None:
        """Computes on operands with known addresses."""

    def check_written(self, issue: Any, t: Any) -> None:
        """Warns if a tensor contains memory that nothing has written."""

    def warn_unwritten(self, issue: Any, storage: Any, lost: Any) -> None:
        """Warns of an operand that nothing has written."""

    def broke(self, instruction: str, broken: Any, number: int | None = None) -> None:
        """Raises, warns or does nothing for a broken device rule."""

    def warn(
        self, instruction: str, operand: str, value: Any, rule: str, number: int | None = None
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
