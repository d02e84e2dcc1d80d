"""Where the traceback of a kernel's error ends: in the kernel, not in the simulator.

What the simulator raises on purpose is about the kernel's line. Other errors that come up in it are
its own, and keep all of their lines.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from nki_kernels.removed_api import explain_call

from . import isa, language
from .instruction_notes import is_simulators

_CALLS = os.path.join(
    os.path.dirname(__file__), "issue.py"
)  # where the arguments of instructions are bound


@contextmanager
def ending_in_kernel() -> Iterator[None]:
    """Cut the simulator's lines off the end of the tracebacks of what is raised on purpose.

    Calls that Python refuses are told what arguments NKI's function takes.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, TypeError):
            explain_call(error, {"nki.isa": isa, "nki.language": language})
        entries = _entries(error.__traceback__)
        of_kernel = [entry for entry in entries if not is_simulators(_file_of(entry))]
        launch = [entry for entry in entries if _file_of(entry) != __file__][0]
        last = of_kernel[-1] if of_kernel else launch
        if _is_on_purpose(error, entries[-1]):
            last.tb_next = None
            if of_kernel and launch is not of_kernel[0]:
                launch.tb_next = of_kernel[0]  # without what runs the kernel
        raise


def _entries(trace: TracebackType | None) -> list[TracebackType]:
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _file_of(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


def _is_on_purpose(error: Exception, end: TracebackType) -> bool:
    """Whether a statement ``raise`` has raised it, or a call with other arguments than allowed."""
    file = _file_of(end)
    if not is_simulators(file):  # the kernel's own, or a library's
        return False
    if isinstance(error, TypeError) and file == _CALLS:
        return True
    return linecache.getline(file, end.tb_lineno).strip().startswith("raise ")
