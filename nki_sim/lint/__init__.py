"""Finds the lines of a kernel that NKI would refuse, or silently get wrong.

`lint` reads the source of a kernel, and of every function that the kernel uses. It executes nothing
and needs no device. NKI 0.7 traces a kernel as plain Python; its rules are about loops on the
device, registers, and names and arguments of the API. NKI 0.6 parses a subset of Python, which a
simulator cannot check; `lint(kernel, release="0.6")` checks that subset, too. Every rule names its
source (`nki_sim.lint.rules`). If sources disagree, a rule is contested. `lint(kernel,
contested=True)` also reports contested rules.

The lint does not check what source code cannot show, such as types and shapes of tensors.
"""

from types import FunctionType
from typing import Any

from nki_sim.base import releases

from .checker import Checker
from .rules import CONTESTED, DEPRECATED, RULES, WARNINGS, Violation
from .source import definition_of, unwrap

__all__ = ["CONTESTED", "DEPRECATED", "RULES", "WARNINGS", "Violation", "lint"]


def lint(kernel: object, contested: bool = False, release: str | None = None) -> list[Violation]:
    """Checks a kernel and every function that it uses.

    Args:
        kernel: A Python function, or an object that wraps a function in `__wrapped__`, `func` or
            `__func__`, such as the result of `nki.jit`.
        contested: Whether to report constructs that some sources call broken and others use, too;
            see `CONTESTED`.
        release: The release of NKI, "0.7" or "0.6". The default is the value of
            NKI_SIM_RELEASE, or "0.7" if that variable is not set.

    Returns:
        The violations of the kernel, followed by those of its helpers in the order in which the
        kernel uses them. The list is empty if there are no violations. Violations of `DEPRECATED`
        have the severity "deprecated", and those of `WARNINGS` the severity "warning".

    Raises:
        TypeError: `kernel` is not a Python function, or its source cannot be read.
        ValueError: The release is not known.
    """
    entry = unwrap(kernel)
    if entry is None:
        raise TypeError(
            f"argument 'kernel' of lint is {kernel!r}, but lint needs a Python function, or an "
            f"object that wraps a function, such as the result of nki.jit"
        )
    if definition_of(entry) is None:
        raise TypeError(
            f"lint cannot read the source of {entry.__qualname__}: define the function in a file"
        )
    with releases.select(release):
        found = _of_all(entry)
    return [v for v in dict.fromkeys(found) if contested or v.severity != "contested"]


def _of_all(entry: FunctionType) -> list[Violation]:
    """Returns the violations of a kernel and of all functions that it uses."""
    found: list[Violation] = []
    queue = [entry]
    seen = {entry.__code__}
    loops: dict[Any, Any] = {}
    for function in queue:  # the loop appends helpers to the queue
        loop = loops.get(function.__code__)
        checker = Checker(function, is_kernel=function is entry, loop=loop)
        found += checker.run()
        loops.update(checker.helper_loops)
        for helper in checker.helpers:
            if helper.__code__ not in seen:
                seen.add(helper.__code__)
                queue.append(helper)
    return found
