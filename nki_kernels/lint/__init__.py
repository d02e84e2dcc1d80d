"""What would NKI refuse in a kernel, or silently get wrong?

`lint` reads the source of a kernel, and of every function the kernel uses. Nothing is executed and
no device is needed. NKI 0.7 traces a kernel as plain Python: the rules are about loops on the
device, registers, and names and arguments of the API. NKI 0.6 parses a subset of Python, of which a
simulator shows nothing: `lint(kernel, release="0.6")` knows that subset, too. Every rule names its
source, see `nki_kernels.lint.rules`. Where sources disagree, a rule is contested: `lint(kernel,
contested=True)` reports those, too.

What source code cannot show is not checked: types and shapes of tensors.
"""

from types import FunctionType
from typing import Any

from nki_kernels import releases

from .checker import Checker
from .rules import CONTESTED, DEPRECATED, RULES
from .source import definition_of, unwrap
from .violation import Violation

__all__ = ["CONTESTED", "DEPRECATED", "RULES", "Violation", "lint"]


def lint(kernel: Any, contested: bool = False, release: str | None = None) -> list[Violation]:
    """Check a kernel and every function it uses.

    Args:
        kernel: A Python function, or an object that wraps one in `__wrapped__`, `func` or
            `__func__`, such as the result of `nki.jit`.
        contested: Also report what some sources call broken and others use, see `CONTESTED`.
        release: Of NKI, "0.7" or "0.6". By default it is TRNFFT_NKI_RELEASE, else "0.7".

    Returns:
        The violations, those of the kernel first, then those of its helpers in the order in
        which they were met. An empty list means that nothing was found. What is deprecated in the
        release has the severity "deprecated".

    Raises:
        TypeError: `kernel` is no Python function, or its source cannot be read.
        ValueError: the release is not known.
    """
    entry = unwrap(kernel)
    if entry is None:
        raise TypeError(f"lint() needs a Python function or a wrapper of one, got {kernel!r}")
    if definition_of(entry) is None:
        raise TypeError(
            f"lint() cannot read the source of {entry.__qualname__}; define it in a file"
        )
    with releases.select(release):
        found = _of_all(entry)
    return [v for v in dict.fromkeys(found) if contested or v.severity != "contested"]


def _of_all(entry: FunctionType) -> list[Violation]:
    """The violations of a kernel and of all that it uses, in the current release."""
    found: list[Violation] = []
    queue = [entry]
    seen = {entry.__code__}
    loops: dict[Any, Any] = {}
    for function in queue:  # grows while it is read
        loop = loops.get(function.__code__)
        checker = Checker(function, is_kernel=function is entry, loop=loop)
        found += checker.run()
        loops.update(checker.helper_loops)
        for helper in checker.helpers:
            if helper.__code__ not in seen:
                seen.add(helper.__code__)
                queue.append(helper)
    return found
