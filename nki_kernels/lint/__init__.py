"""Does a kernel stay inside the Python subset that the NKI compiler accepts?

A simulator runs a kernel as ordinary Python, so it accepts far more than the compiler does.
`lint` reads the source of a kernel, and of every function the kernel uses, and reports what the
compiler would reject or silently get wrong. Nothing is executed and no device is needed. Every
rule names its source, see `nki_kernels.lint.rules`. Where sources disagree, a rule is contested:
`lint(kernel, contested=True)` reports those, too.

What source code cannot show is not checked: types and shapes of tensors, and tensors of a loop
body that are used after the loop.
"""

from typing import Any

from .checker import Checker
from .rules import CONTESTED, RULES
from .source import definition_of, unwrap
from .violation import Violation

__all__ = ["CONTESTED", "RULES", "Violation", "lint"]


def lint(kernel: Any, contested: bool = False) -> list[Violation]:
    """Check a kernel and every function it uses.

    Args:
        kernel: A Python function, or an object that wraps one in `__wrapped__`, `func` or
            `__func__`, such as the result of `nki.jit`.
        contested: Also report what some sources call broken and others use, see `CONTESTED`.

    Returns:
        The violations, those of the kernel first, then those of its helpers in the order in
        which they were met. An empty list means that nothing was found.

    Raises:
        TypeError: `kernel` is no Python function, or its source cannot be read.
    """
    entry = unwrap(kernel)
    if entry is None:
        raise TypeError(f"lint() needs a Python function or a wrapper of one, got {kernel!r}")
    if definition_of(entry) is None and entry.__name__ != "<lambda>":
        raise TypeError(
            f"lint() cannot read the source of {entry.__qualname__}; define it in a file"
        )
    found: list[Violation] = []
    queue = [entry]
    seen = {entry.__code__}
    for function in queue:  # grows while it is read
        checker = Checker(function, is_kernel=function is entry)
        found += checker.run()
        for helper in checker.helpers:
            if helper.__code__ not in seen:
                seen.add(helper.__code__)
                queue.append(helper)
    return [v for v in dict.fromkeys(found) if contested or v.severity == "error"]
