"""Loops, and the launch grid."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, SupportsInt

import numpy as np

from nki_sim.base import releases
from nki_sim.base.arguments import integer, integers
from nki_sim.base.removed_api import FORI_LOOP, defined_in
from nki_sim.errors import NkiValidationError
from nki_sim.instructions.device_loops import DeviceLoop, device_loop
from nki_sim.instructions.launch_state import active
from nki_sim.views.register import RunTimeValue, VirtualRegister, fits
from nki_sim.views.scalar import NkiScalar, scalar

from .loop_body import LoopBody

Bound = SupportsInt | RunTimeValue  # of a loop on the device


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Returns a ``range``, whose loop is unrolled (deprecated since NKI 0.7)."""
    return _range("nl.affine_range", start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Returns a ``range``, whose loop is unrolled (deprecated since NKI 0.7)."""
    return _range("nl.sequential_range", start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Returns a ``range``, whose loop is unrolled (deprecated since NKI 0.7)."""
    return _range("nl.static_range", start, stop, step)


def _range(label: str, start: int, stop: int | None, step: int) -> range:
    if releases.is_traced():
        warnings.warn(
            f"{label} is deprecated since NKI 0.7, where it equals Python's range: write range",
            DeprecationWarning,
            stacklevel=3,
        )
    bounds = (start,) if stop is None else (start, stop, step)
    rule = "start, stop and step must be compile-time ints: use nl.fori_loop for registers"
    return range(*integers(label, "bounds", bounds, rule))


def dynamic_range(
    start: Bound, stop: Bound | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """Runs a loop on the device over a register. Only in NKI 0.6, and deprecated.

    Use ``nl.fori_loop`` instead. Raises TypeError in NKI 0.7.
    """
    if FORI_LOOP.is_gone:
        raise TypeError(f"nl.dynamic_range was {FORI_LOOP}")
    warnings.warn(
        "nl.dynamic_range is deprecated since NKI 0.6: use nl.fori_loop",
        DeprecationWarning,
        stacklevel=2,
    )
    if stop is None:
        start, stop = 0, start
    values = _bounds("nl.dynamic_range", start, stop, step)
    return _dynamic(values)


def _dynamic(values: range) -> Iterator[VirtualRegister]:
    active().enters_loop("nl.dynamic_range", len(values))
    with device_loop(active(), "nl.dynamic_range") as loop:
        for value in loop.values(values):
            with loop.iteration():
                yield VirtualRegister(value, frozen=True)


def _bounds(label: str, lower: Bound, upper: Bound, step: object) -> range:
    if active().no_reorder_depth:
        rule = "a loop on the device cannot be inside of nl.no_reorder()"
        raise NkiValidationError(label, "the range", f"{lower} to {upper}", rule)
    if not isinstance(step, (int, np.integer)) or isinstance(step, bool) or step < 1:
        raise NkiValidationError(label, "step", step, "must be a positive compile-time int")
    for bound in (lower, upper):
        if not isinstance(bound, RunTimeValue) and not hasattr(bound, "__index__"):
            rule = "must be an int, a VirtualRegister, or in NKI 0.7 an NkiScalar of int32"
            raise NkiValidationError(label, "a bound", repr(bound), rule)
    if {NkiScalar, VirtualRegister} == {type(lower), type(upper)}:
        rule = "no document combines an NkiScalar with a VirtualRegister: use one of them for both"
        raise NkiValidationError(label, "(lower, upper)", f"({lower}, {upper})", rule)
    return range(_value(label, lower), _value(label, upper), step)


def _value(label: str, bound: Bound) -> int:
    if isinstance(bound, NkiScalar) and bound.dtype != "int32":
        rule = "must be of int32, as a count of iterations has no 64-bit form"
        raise NkiValidationError(label, "a bound", f"an NkiScalar of {bound.dtype}", rule)
    if isinstance(bound, NkiScalar):
        return bound.check_is_alive().value
    if isinstance(bound, RunTimeValue):
        return bound.value
    if isinstance(bound, bool):
        raise NkiValidationError(label, "a bound", bound, "must be a number, not a bool")
    return fits(int(bound), label, "a bound")


def _check_body(label: str, body_fun: object) -> None:
    if not callable(body_fun):
        raise NkiValidationError(label, "body_fun", repr(body_fun), "must be a function")


class _Scope:
    """The body of a loop on the device; ``outer`` is the body around it, or None."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer


@contextmanager
def _body(loop: DeviceLoop) -> Iterator[None]:
    """Runs one iteration. Tensors that it allocates end with it."""
    session = loop.session
    outer = session.loop_scope
    scope = _Scope(outer)
    session.loop_scope = scope
    session.open_scopes.add(scope)
    try:
        with loop.iteration():
            yield
    finally:
        session.open_scopes.discard(scope)
        session.loop_scope = outer


def fori_loop(
    lower: Bound, upper: Bound, body_fun: Callable[[RunTimeValue], object], step: int = 1
) -> None:
    """Runs ``body_fun(i)`` on the device for i from ``lower`` to ``upper`` (exclusive).

    ``i`` is an NkiScalar of int32. In NKI 0.6, or if a bound is a VirtualRegister, it is a
    VirtualRegister.

    Args:
        lower, upper: ints or registers, or in NKI 0.7 NkiScalars of int32.
        body_fun: a function that returns None and does not change Python state.
        step: a positive int.

    Raises:
        NkiValidationError: an argument is not allowed, or a later iteration would issue other
            instructions than the first.
    """
    _check_body("nl.fori_loop", body_fun)
    body = LoopBody("nl.fori_loop", body_fun, active())
    values = _bounds("nl.fori_loop", lower, upper, step)
    is_register = VirtualRegister in (type(lower), type(upper)) or not releases.is_traced()
    if not is_register and values and not -(1 << 31) <= values[0] <= values[-1] < 1 << 31:
        rule = "the loop variable is an int32, and no document defines values outside of its range"
        raise NkiValidationError("nl.fori_loop", "(lower, upper)", f"({lower}, {upper})", rule)
    made = VirtualRegister if is_register else functools.partial(scalar, active())
    active().enters_loop("nl.fori_loop", len(values))
    outside = active().scalars_made  # scalars of the body cannot be used after the loop
    with device_loop(active(), "nl.fori_loop") as loop:
        for value in loop.values(values):
            with _body(loop):
                if body(lambda value=value: made(value)) is not None:  # type: ignore[misc]
                    rule = "must not return a value: carry state in SBUF or HBM"
                    function = "a function with a result"
                    raise NkiValidationError("nl.fori_loop", "body_fun", function, rule)
    active().scalars_made = outside


def while_loop(init: VirtualRegister, body_fun: Callable[[Any], object]) -> None:
    """Runs ``register = body_fun(register)`` on the device while the register is nonzero."""
    label = "nl.while_loop"
    _bounds(label, 0, 0, 1)
    _check_body(label, body_fun)
    body = LoopBody(label, body_fun, active())
    register: Any = init
    if not isinstance(register, VirtualRegister):
        raise NkiValidationError(label, "init", repr(init), "must be a VirtualRegister")
    with device_loop(active(), label) as loop:
        while register.value != 0:
            with _body(loop):
                register = body(lambda register=register: VirtualRegister(register.value))  # type: ignore[misc]
            if not isinstance(register, VirtualRegister):
                rule = "must be a VirtualRegister, the condition of the next iteration"
                raise NkiValidationError(label, "the result of body_fun", repr(register), rule)
    active().enters_loop(label, loop.trips)


@contextmanager
def no_reorder() -> Iterator[None]:
    """Makes the instructions inside the block run in program order, one after another."""
    session = active()
    session.no_reorder_depth += 1
    if session.no_reorder_depth == 1:
        session.order_barrier = []
        session.no_reorder_block += 1
    try:
        yield
    finally:
        session.no_reorder_depth -= 1


def program_id(axis: int = 0) -> int:
    """Returns the index of the running program along a dimension of the launch grid, or 0."""
    _check_axis("nl.program_id", "axis", axis)
    return active().program


def num_programs(axes: object = 0) -> int:
    """Returns the number of programs of the launch grid along an axis, or a tuple of axes."""
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        _check_axis("nl.num_programs", "axes", axis)
    return active().programs


def _check_axis(label: str, argument: str, axis: object) -> None:
    dimensions = max(active().program_dimensions, 1)
    last = dimensions - 1
    rule = f"must be an int from 0 to {last}, a dimension of the launch grid"
    if isinstance(axis, bool) or not 0 <= integer(label, argument, axis, rule) < dimensions:
        raise NkiValidationError(label, argument, axis, rule)


def program_ndim() -> int:
    """Returns the number of dimensions of the launch grid, or 0 without a grid."""
    return active().program_dimensions


__all__ = defined_in(globals())
