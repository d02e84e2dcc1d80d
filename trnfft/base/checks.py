"""Checks of arguments without torch: numbers, names and flags, and how messages show them."""

import math
import numbers
import operator
from typing import Any

import numpy as np

_MOST_CHARACTERS = 200


def brief(value: object) -> str:
    """Returns a value as text for a message: one line of limited length.

    Python refuses to print ints of thousands of digits, so large ints are described.
    """
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"an int of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split("\n"))
    except Exception:  # numbers inside are too long, or repr() is broken
        return f"of type {type(value).__name__}"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def check_flag(name: str, value: object) -> None:
    """Raises TypeError for an argument that is not a bool.

    Strings and tensors have truth values that would surprise.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"argument '{name}' is {brief(value)}, allowed are True and False")


def index(name: str, value: Any) -> int:
    """Returns an argument as an int.

    Raises:
        TypeError: it is not an int, or it is a bool.
    """
    # In Python a bool is an int. torch.fft rejects bools, because n=True is surely a mistake.
    is_bool = isinstance(value, bool)
    if isinstance(value, int) and not is_bool:
        return operator.index(value)
    try:
        if not is_bool and "bool" not in str(getattr(value, "dtype", "")):
            return operator.index(value)
    except (TypeError, RuntimeError):  # RuntimeError for tensors without data
        pass
    raise TypeError(f"argument '{name}' must be an int, not {type(value).__name__}")


def finite(name: str, value: object) -> float:
    """Returns an argument as a finite float.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not finite, or is too large for a float.
    """
    if not isinstance(value, numbers.Real):
        raise TypeError(f"argument '{name}' must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"argument '{name}' is {brief(value)}, allowed are finite numbers")
    return number
