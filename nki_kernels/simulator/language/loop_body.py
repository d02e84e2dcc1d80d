"""The body of a loop on the device is traced once: what would differ between iterations is refused.

nki/api/nki/language/__init__.py, fori_loop: loop state other than the loop variable is carried
through SBUF or HBM. The simulator runs the body once an iteration, so that Python state which the
body changes would give results that no device gives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import numpy as np

from ..errors import NkiValidationError
from ..register import RunTimeValue
from ..session import Session
from ..tensor import NKIObject, NkiTensor

_ONCE = "the body is traced once"
_BY_VALUE = (int, float, str, type(None), Enum, np.generic)
_LARGEST_ARRAY = 4096  # elements that are compared; of larger ones only which array it is
# Their values change legally.
_OF_REGISTERS = tuple(
    f"nisa.{of}_{moves}" for of in ("register", "scalar") for moves in ("load", "store")
)


class LoopBody:
    """A loop's body, and what its first iteration issued."""

    def __init__(self, label: str, body_fun: Callable[[Any], Any], session: Session) -> None:
        self.label = label
        self.body_fun = body_fun
        self.session = session
        self.state = _state(body_fun)
        self.first: list[Any] | None = None

    def __call__(self, register: RunTimeValue) -> Any:
        """Run one iteration; NkiValidationError where it is not a repetition of the first."""
        issued: list[Any] = []
        with self._recording(issued):
            result = self.body_fun(register)
        if self.first is None:
            self.first = issued
        elif not _same_instructions(self.first, issued):
            rule = f"{_ONCE}, so every iteration must issue the same instructions"
            raise self._fail("another sequence of instructions", rule)
        for name, value in _state(self.body_fun).items():
            if self.state.get(name, value) != value:
                rule = f"{_ONCE}, so it cannot change Python state: carry it in SBUF or HBM"
                raise self._fail(name, rule)
        return result

    def _fail(self, value: str, rule: str) -> NkiValidationError:
        return NkiValidationError(self.label, "body_fun", value, rule)

    @contextmanager
    def _recording(self, issued: list[Any]) -> Iterator[None]:
        session = self.session
        outer = session.__dict__.get("issue")
        scope = session.loop_scope
        local: dict[int, int] = {}

        # A loop inside of this one is checked by itself: its trips may differ.
        def issue(issue: Any, writes: list[Any], reads: list[Any], name: Any) -> int:
            operands = [_operand(t, scope, local) for t in (*writes, *reads)]
            issued.append((issue, operands))
            return Session.issue(session, issue, writes, reads, name)

        session.issue = issue  # type: ignore[method-assign]
        try:
            yield
        finally:
            if outer is None:
                del session.__dict__["issue"]
            else:
                session.issue = outer  # type: ignore[method-assign]


def _operand(t: NkiTensor, scope: Any, local: dict[int, int]) -> tuple[Any, ...]:
    """What is the same in every iteration; tensors of the body are known by their order."""
    around = t.storage.scope
    while around is not None and around is not scope:
        around = around.outer
    place: Any = id(t.storage)
    if around is scope:
        place = ("body", local.setdefault(place, len(local)))
    return place, t._layout, t.offset, None if t._dynamic is None else t._dynamic.kind


def _same_instructions(first: list[Any], other: list[Any]) -> bool:
    if len(first) != len(other):
        return False
    for (a, operands), (b, others) in zip(first, other, strict=True):
        # Most layouts that are equal are one object.
        if operands != others and _in_numbers(operands) != _in_numbers(others):
            return False
        if a is not b and _constants(a) != _constants(b):
            return False
    return True


def _in_numbers(operands: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Operands with what their layouts say."""
    return [
        (place, layout.dtype, layout.shape, layout.strides, offset, kind)
        for place, layout, offset, kind in operands
    ]


def _constants(issue: Any) -> tuple[Any, ...]:
    """The compile-time values of an instruction."""
    held = () if issue.instruction in _OF_REGISTERS else _held(issue.run)
    return (issue.instruction, issue.engine, issue.cost_ns, held)


def _held(function: Any) -> tuple[Any, ...]:
    found = [] if function is None else [c.cell_contents for c in function.__closure__ or ()]
    return tuple([_held(v) if hasattr(v, "__closure__") else _value(v, {}) for v in found])


def _state(body: Any) -> dict[str, Any]:
    """The Python values a function sees, by name, as something to compare."""
    seen: dict[int, Any] = {}
    if isinstance(body, functools.partial):
        arguments = {"arguments": _value((body.args, body.keywords), seen)}
        return {**_state(body.func), **arguments}
    found: dict[str, Any] = {}
    function = getattr(body, "__func__", body)
    if function is not body:
        found["self"] = _value(body.__self__, seen)
    code = getattr(function, "__code__", None)
    if code is None:
        return found
    for name in code.co_names:
        if name in function.__globals__:
            found[name] = _value(function.__globals__[name], seen)
    found["defaults"] = _value((function.__defaults__, function.__kwdefaults__), seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = _value(cell.cell_contents, seen)
        except ValueError:  # not bound yet
            continue
    return found


def _value(value: Any, seen: dict[int, Any]) -> Any:
    """A copy of what can change in a value; of tensors and registers which one it is."""
    if isinstance(value, _BY_VALUE):
        return type(value), repr(value)
    if isinstance(value, (NkiTensor, RunTimeValue)) or id(value) in seen:
        return id(value)
    seen[id(value)] = value
    if isinstance(value, (list, tuple)):
        return type(value), [_value(item, seen) for item in value]
    if isinstance(value, dict):
        return type(value), [(_value(k, seen), _value(v, seen)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value), set(value)
    if isinstance(value, np.ndarray) and value.size <= _LARGEST_ARRAY:
        return value.dtype, value.shape, value.tobytes()
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if isinstance(value, NKIObject) or is_record:
        return type(value), _value(getattr(value, "__dict__", {}), seen)
    return id(value)
