"""Tracebacks of kernels' errors, which end in the kernel and not in the simulator.

An error that the simulator raises on purpose is about the kernel's line. Any other error in the
simulator is its own, and keeps its whole traceback.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from nki_sim import isa, language
from nki_sim.base.removed_api import explain_call
from nki_sim.errors import brief
from nki_sim.instructions import instruction
from nki_sim.instructions.instruction_notes import is_simulators

from .launch_arguments import name_of

_CALLS = instruction.__file__  # where the arguments of instructions are bound


@contextmanager
def ending_in_kernel(kernel: object) -> Iterator[None]:
    """Removes the simulator's frames from the end of tracebacks of errors raised on purpose.

    If Python refuses a call of a function of NKI, the arguments of this function are added to the
    message. A kernel that ends the program raises RuntimeError instead.
    """
    try:
        yield
    except SystemExit as error:
        ends = RuntimeError(
            f"kernel {name_of(kernel)} ends the program by sys.exit({brief(error.code)}), but a "
            f"kernel has to return to its launch: write return, or raise another error"
        )
        raise ends.with_traceback(error.__traceback__) from None
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
    """Returns whether a ``raise`` statement raised the error, or a call with wrong arguments."""
    file = _file_of(end)
    if not is_simulators(file):  # an error of the kernel, or of a library
        return False
    if isinstance(error, TypeError) and file == _CALLS:
        return True
    return linecache.getline(file, end.tb_lineno).strip().startswith("raise ")
