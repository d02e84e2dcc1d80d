"""The two programs of a launch, of which only one runs at a time, so that results never vary."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Semaphore, Thread
from typing import Any


class _Stop(BaseException):
    """Ends a program after the other program of its launch has failed."""


class Alternation:
    """Runs the first program in this thread, and the second one in another thread."""

    def __init__(self) -> None:
        self._go = (Semaphore(0), Semaphore(0))
        self._ended = [False, False]
        self._results: list[Any] = [None, None]
        self._error: BaseException | None = None

    def run(self, programs: tuple[Callable[[], object], Callable[[], object]]) -> list[Any]:
        """Returns both results; raises the first error of either when both have ended."""
        context = copy_context()
        second = Thread(target=context.run, args=(self._second, programs[1]), daemon=True)
        second.start()
        self._keep(0, programs[0])
        self._go[1].release()
        second.join()
        if self._error is not None:
            raise self._error
        return self._results

    def _second(self, program: Callable[[], object]) -> None:
        self._go[1].acquire()
        if self._error is None:
            self._keep(1, program)
        self._go[0].release()

    def _keep(self, number: int, program: Callable[[], object]) -> None:
        try:
            self._results[number] = program()
        except _Stop:
            pass
        except BaseException as error:  # also KeyboardInterrupt: the other program must end, too
            self._error = self._error or error
        self._ended[number] = True

    def wait(self, program: int) -> None:
        """Lets the other program run until it waits or ends. Returns at once if it has ended."""
        other = 1 - program
        if not self._ended[other]:
            self._go[other].release()
            self._go[program].acquire()
        if self._error is not None:
            raise _Stop
