"""Checks of arguments that need no torch: numbers, names and flags, and how messages show them."""

import math
import numbers
import operator
from typing import Any

import numpy as np

_MOST_CHARACTERS = 200


def shown(value: object) -> str:
    """A value in a message: one line, not too long. Python refuses to print thousands of digits."""
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"an int of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split("\n"))
    except Exception:  # of numbers inside of it, or an error of its own
        return f"of type {type(value).__name__}"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def check_flag(name: str, value: object) -> None:
    """TypeError for what is no bool: the truth of strings and of tensors surprises."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"argument '{name}' is {shown(value)}, allowed are True and False")


def check_name(name: str, value: object) -> None:
    """TypeError for what is neither a str nor None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"argument '{name}' must be a str, not {type(value).__name__}")


def index(name: str, value: Any) -> int:
    """The int that an argument is.

    Raises:
        TypeError: it is none, or a bool.
    """
    # bool is an int in Python; torch.fft rejects it, as n=True is surely a mistake.
    is_bool = isinstance(value, bool)
    if isinstance(value, int) and not is_bool:
        return operator.index(value)
    try:
        if not is_bool and "bool" not in str(getattr(value, "dtype", "")):
            return operator.index(value)
    except (TypeError, RuntimeError):  # the latter of tensors without data
        pass
    raise TypeError(f"argument '{name}' must be an int, not {type(value).__name__}")


def finite(name: str, value: Any) -> float:
    """The finite number that an argument is.

    Raises:
        TypeError: it is none.
        ValueError: it is not finite, or too large.
    """
    if not isinstance(value, numbers.Real):
        raise TypeError(f"argument '{name}' must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"argument '{name}' is {shown(value)}, allowed are finite numbers")
    return number
