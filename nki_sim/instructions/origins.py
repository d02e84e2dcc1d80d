"""The name and the line of a tensor in the kernel's source, for messages.

Nothing is noted while a kernel runs well, except the lines that create tensors in HBM. For tiles
the names are those of the local variables at the moment of the error, and the lines are found in
the source.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from nki_sim.base.enums import ON_CHIP
from nki_sim.base.source_text import lines_of
from nki_sim.base.syntax_names import assigned_names, last_name
from nki_sim.base.tensor_arithmetic import why_not
from nki_sim.errors import SourceLine
from nki_sim.views import shadow
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .instruction_notes import is_simulators, user_frame

_LAUNCHES = ("kernel.py", "pair.py")  # the files whose functions call a kernel
_MOST_ITEMS = 64
_MAKERS = frozenset(("ndarray", "zeros", "ones", "full", "zeros_like", "empty_like"))
_Assignment = tuple[ast.stmt, str, ast.expr | None]  # (statement, name, value)


def short_place(line: SourceLine) -> str:
    """Returns a line as messages show it: the file's name without its folder, and the number."""
    return f"{Path(line.file).name}:{line.line}"


def name_and_text(storage: Storage, created: SourceLine | None) -> tuple[str, str]:
    """Returns the variable that holds a tensor, and a text about the tensor.

    The name is "" if no variable is known. ``created`` is the line that has created the tensor, if
    it is known.
    """
    name, line = _held(storage)
    if not name and created:
        name = assigned_at(created)
        line = created if name else None
    parts = [f"{name} of {short_place(line)}"] if name and line else [name]
    if created and not line:
        parts.append(f"created at {short_place(created)}")
    about = ", ".join(filter(None, parts))
    return name, f"{storage.describe()} ({about})" if about else storage.describe()


def _held(storage: Storage) -> tuple[str, SourceLine | None]:
    """Returns the innermost variable of the running kernel that holds the whole tensor.

    The second value is the line that assigns it, if the function has one such line only.
    """
    for frame in _frames():
        for name, value in frame.f_locals.items():
            if _is_whole(value, storage):
                return name, _assigning(frame, name)
            if isinstance(value, (list, tuple)):
                for place, item in enumerate(value[:_MOST_ITEMS]):
                    if _is_whole(item, storage):
                        return f"{name}[{place}]", None
    return "", None


def _frames() -> Iterator[FrameType]:
    """Yields the frames of the kernel and its helpers that run now, from the inside."""
    frame = user_frame()
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_simulators(file):
            yield frame
        elif Path(file).name in _LAUNCHES:
            return
        frame = frame.f_back


def _is_whole(value: object, storage: Storage) -> bool:
    return type(value) is NkiTensor and value.storage is storage and shadow.is_whole(value)


def _assigning(frame: FrameType, name: str) -> SourceLine | None:
    """Returns the only line of a function that assigns the result of a call to a name."""
    code = frame.f_code
    last = max([line for _, _, line in code.co_lines() if line], default=0)
    found = [
        (node, value)
        for node, target, value in _assignments(code.co_filename)
        if target == name and code.co_firstlineno <= node.lineno <= last
    ]
    if len(found) != 1 or not isinstance(found[0][1], ast.Call):
        return None
    return SourceLine(code.co_filename, found[0][0].lineno, code.co_name)


def assigned_at(line: SourceLine) -> str:
    """Returns the name to which a line assigns a new tensor, or "" if it does not."""
    names = [
        name
        for _, name, value in _assignments(line.file)
        if isinstance(value, ast.Call)
        and last_name(value.func) in _MAKERS
        and value.lineno <= line.line <= (value.end_lineno or 0)
    ]
    return names[0] if len(names) == 1 else ""


def _assignments(file: str) -> list[_Assignment]:
    return _assignments_in("".join(lines_of(file)))


@functools.lru_cache(8)
def _assignments_in(text: str) -> list[_Assignment]:
    """Returns (statement, name, value) for each assignment to a name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # of a notebook's cell with magic, or a file that has changed
        return []
    found: list[_Assignment] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found += [(node, name, value) for name, value in assigned_names(target, node.value)]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            found += [(node, name, node.value) for name, _ in assigned_names(node.target, None)]
    return found


def _why_no_operator(tensor: NkiTensor, operation: str) -> str:
    """Returns why tensors have no operator, such as "+", with the name of the tensor."""
    if tensor.storage is None:
        return why_not(operation)
    text = f"`{operation}` of {name_and_text(tensor.storage, None)[1]}: {why_not(operation)}"
    return text if tensor.buffer in ON_CHIP else f"{text}. Copy the tensor into SBUF first"


NkiTensor._why_not = _why_no_operator  # type: ignore[assignment, method-assign]
