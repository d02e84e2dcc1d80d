"""Checks of the body of a loop on the device, which must be the same in every iteration.

The device repeats the instructions of one trace of the body. State other than the loop variable is
carried through SBUF or HBM (nki/api/nki/language/__init__.py, fori_loop). The simulator runs the
body in each iteration. Python state that the body changes would produce results that no device
produces, so it is refused.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nki_sim.errors import NkiValidationError
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState, Operands
from nki_sim.views.indices import Indirection
from nki_sim.views.layout import Layout
from nki_sim.views.register import RunTimeValue
from nki_sim.views.tensor import NkiTensor

_ONCE = "the body is traced once"
_BY_VALUE = (int, float, str, bytes, type(None), Enum, np.generic)
_DATA = (*_BY_VALUE, list, tuple, deque, dict, set, frozenset, np.ndarray)
_ITERATORS = (itertools.count, itertools.repeat)  # their repr shows their position
_WHICH_ONE = (NkiTensor, RunTimeValue, type, ModuleType)
_SIMULATOR = __name__.removesuffix("language.loop_body")
_LARGEST_ARRAY = 4096  # elements of arrays that are compared; larger ones only by identity
# The values of these instructions may differ between iterations.
_OF_REGISTERS = tuple(
    f"nisa.{of}_{moves}" for of in ("register", "scalar") for moves in ("load", "store")
)


class LoopBody:
    """The body of a loop, and the instructions of its first iteration."""

    def __init__(
        self, label: str, body_fun: Callable[[RunTimeValue], object], session: LaunchState
    ) -> None:
        self.label = label
        self.body_fun = body_fun
        self.session = session
        self.state = _state(body_fun)
        # Of each instruction its issue, how the stored scalar was computed, and of each operand
        # (tensor, or its number among those of the body; layout; offset; what kind of index).
        self.first: list[Any] | None = None

    def __call__(self, variable: Callable[[], RunTimeValue]) -> Any:
        """Runs one iteration with a new loop variable.

        Raises NkiValidationError if the iteration does not repeat the first one.
        """
        issued: list[Any] = []
        with self._recording(issued):
            result = self.body_fun(variable())
        if self.first is None:
            self.first = issued
        elif not _same_instructions(self.first, issued):
            rule = f"{_ONCE}, so every iteration must issue the same instructions"
            raise self._fail("a function that issues other instructions later", rule)
        for name, value in _state(self.body_fun).items():
            if self.state.get(name, value) != value:
                rule = f"{_ONCE}, so it cannot change Python state: carry state in SBUF or HBM"
                raise self._fail(f"a function that changes {name!r}", rule)
        return result

    def _fail(self, value: str, rule: str) -> NkiValidationError:
        return NkiValidationError(self.label, "body_fun", value, rule)

    @contextmanager
    def _recording(self, issued: list[Any]) -> Iterator[None]:
        session = self.session
        outer = session.__dict__.get("issue")
        scope, before = session.loop_scope, session.scalars_made
        local: dict[Any, int] = {}
        plain = type(session).issue

        # A loop inside of this loop is checked by itself, as its number of iterations may differ.
        def issue(issue: Issue, writes: Operands, reads: Operands, name: str | None) -> int:
            recorded = issue.recorded
            found = [issue, None if recorded is None else _relative(recorded, before)]
            for t in (*writes, *reads):
                place: Any = t.storage
                if place.scope is not None and _is_inside(place.scope, scope):
                    place = local.setdefault(place, len(local))
                kind = None if t._dynamic is None else _kind(t._dynamic, before)
                found += place, t._layout, t.offset, kind
            issued.append(tuple(found))
            return plain(session, issue, writes, reads, name)

        session.issue = issue  # type: ignore[method-assign]
        try:
            yield
        finally:
            if outer is None:
                del session.__dict__["issue"]
            else:
                session.issue = outer  # type: ignore[method-assign]


def _is_inside(around: Any, scope: Any) -> bool:
    """Returns whether a body is that of ``scope``, or of a loop inside of it."""
    while around is not None and around is not scope:
        around = around.outer
    return around is scope


def _kind(dynamic: Indirection, before: int) -> Any:
    """Returns what of an index must be the same in every iteration."""
    recorded = getattr(dynamic.index, "recorded", None)
    return (dynamic.kind, _relative(recorded, before)) if recorded else dynamic.kind


def _relative(recorded: Any, before: int) -> Any:
    """Returns how a scalar was computed; scalars of the iteration are identified by order.

    ``before`` is the number of scalars that had been made when the iteration began.
    """
    if isinstance(recorded, int):
        return recorded - before if recorded > before else ("outside", recorded)
    if isinstance(recorded, tuple) and recorded[0] != "int":
        return (recorded[0], *[_relative(part, before) for part in recorded[1:]])
    return recorded


def _same_instructions(first: list[Any], other: list[Any]) -> bool:
    # Equal issues and layouts are usually the same object.
    return len(first) == len(other) and all(
        a == b or _in_numbers(a) == _in_numbers(b) for a, b in zip(first, other, strict=True)
    )


def _in_numbers(issued: tuple[Any, ...]) -> list[Any]:
    # With the contents of the issue and of the layouts in their place.
    issue, *rest = issued
    return [_constants(issue), *[_contents(v) if type(v) is Layout else v for v in rest]]


def _constants(issue: Issue) -> tuple[Any, ...]:
    # The cache may have forgotten the issue of the first iteration: an equal one is another object.
    return (issue.instruction, issue.engine, issue.cost_ns, _values(issue))


def _values(issue: Issue) -> tuple[Any, ...]:
    if issue.instruction in _OF_REGISTERS:
        return ()
    if issue.signature is None:
        return _held(issue.run)
    return tuple([_contents(v) if type(v) is Layout else v for v in issue.signature])


def _contents(layout: Layout) -> tuple[Any, ...]:
    return layout.dtype, layout.shape, layout.strides


def _held(function: Any) -> tuple[Any, ...]:
    found = [] if function is None else [c.cell_contents for c in function.__closure__ or ()]
    return tuple([_held(v) if hasattr(v, "__closure__") else _constant(v) for v in found])


def _constant(value: object) -> Any:
    return _of_data(value, _constant) if isinstance(value, _DATA) else id(value)


def _state(body: Any) -> dict[str, Any]:
    """Returns the Python values that a function can see, by name, in a form to compare."""
    seen: dict[int, Any] = {}
    if isinstance(body, functools.partial):
        arguments = {"arguments": _value((body.args, body.keywords), seen)}
        return {**_state(body.func), **arguments}
    function = getattr(body, "__func__", body)
    code = getattr(function, "__code__", None)
    if code is None:
        return {"self": _value(body, seen)}
    found: dict[str, Any] = {}
    if function is not body:
        found["self"] = _value(body.__self__, seen)
    if hasattr(function, "__wrapped__"):
        found["what it wraps"] = _state(function.__wrapped__)
    for name in code.co_names:
        if name in function.__globals__:
            found[name] = _value(function.__globals__[name], seen)
    found["defaults"] = _value((function.__defaults__, function.__kwdefaults__), seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = _value(cell.cell_contents, {})
        except ValueError:  # not bound yet
            continue
    return found


def _value(value: object, seen: dict[int, Any]) -> Any:
    """Returns a copy of what can change in a value; the identity of tensors and registers."""
    if isinstance(value, _BY_VALUE):
        return type(value), repr(value)
    if isinstance(value, _WHICH_ONE) or id(value) in seen:
        return id(value)
    seen[id(value)] = value
    if isinstance(value, _DATA):
        return _of_data(value, lambda item: _value(item, seen))
    if isinstance(value, _ITERATORS):
        return type(value), repr(value)
    if isinstance(value, FunctionType | MethodType):
        return id(getattr(value, "__func__", value)), _of_function(value, seen)
    if type(value).__module__.startswith(_SIMULATOR):
        return id(value)
    return id(value), _of_object(value, seen)


def _of_data(value: Any, part: Callable[[Any], Any]) -> Any:
    """Returns a copy of numbers, texts and containers, whose items are passed to ``part``."""
    if isinstance(value, _BY_VALUE):
        return type(value), repr(value)
    if isinstance(value, (list, tuple, deque)):
        return type(value), [part(item) for item in value]
    if isinstance(value, dict):
        return type(value), [(part(k), part(v)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value), set(value)
    is_small = value.size <= _LARGEST_ARRAY
    return (value.dtype, value.shape, value.tobytes()) if is_small else id(value)


def _of_function(function: object, seen: dict[int, Any]) -> list[Any]:
    """Returns the object of a method, the function that it wraps, and the captured values."""
    held = [getattr(function, "__self__", None), getattr(function, "__wrapped__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    return [_value(item, seen) for item in held if item is not None]


def _of_object(value: object, seen: dict[int, Any]) -> list[Any]:
    """Returns the attributes of a Python object, from its ``__dict__`` and its slots."""
    held = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                held[name] = getattr(value, name)
    return [(name, _value(item, seen)) for name, item in held.items()]
