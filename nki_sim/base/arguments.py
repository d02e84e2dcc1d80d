"""Checks of arguments that must be integers.

Floats are refused, because the documentation specifies every size, bound, axis and index as int.
"""

from __future__ import annotations

from operator import index

from nki_sim.errors import NkiValidationError

Axes = int | tuple[int, ...]

_INTS = frozenset({int})
_REGISTER = "a register's value is not known while the kernel is built"


def integer(instruction: str, argument: str, value: object, rule: str = "must be an int") -> int:
    """Returns ``value`` as an int; raises NkiValidationError for a float, a register and so on."""
    if type(value) is int:
        return value
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError as error:
        if _REGISTER in str(error):
            rule = f"{rule}: {_REGISTER}"
        raise NkiValidationError(instruction, argument, repr(value), rule) from None


def integers(
    instruction: str, argument: str, values: object, rule: str = "must be a tuple of ints"
) -> tuple[int, ...]:
    """Returns ``values`` as a tuple of ints.

    Raises NkiValidationError for a single int, a string, floats and so on.
    """
    if type(values) is tuple and _INTS.issuperset(map(type, values)):
        return values
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise NkiValidationError(instruction, argument, repr(values), rule)
    try:
        return tuple([index(value) for value in values])
    except TypeError:
        raise NkiValidationError(instruction, argument, repr(values), rule) from None


def axes(instruction: str, axis: object, ndim: int) -> list[int]:
    """Returns ``axis``, an int or a tuple of ints, as sorted dimensions from 0 to ``ndim`` - 1."""
    given = (axis,) if isinstance(axis, int) else axis
    found = integers(instruction, "axis", given, "must be an int or a tuple of ints")
    if any(not -ndim <= a < ndim for a in found):
        raise NkiValidationError(instruction, "axis", axis, f"must be from {-ndim} to {ndim - 1}")
    return sorted([a % ndim for a in found])
