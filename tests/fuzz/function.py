"""A row of the table of public functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.fuzz.values import Argument

Check = Callable[[Any], bool]


@dataclass(frozen=True)
class Function:
    """A public function.

    Attributes:
        call: the function; for a layer, a function that makes and calls it.
        arguments: the kind of each argument.
        reference: returns the right result, or a function that checks the result. Its arguments
            are those of the call, with tensors in float64 and complex128; for a layer, they are the
            layer and its input.
        is_layer: whether all arguments except `input` belong to the constructor.
        tolerance: largest relative L2 error.
        names_arguments: whether its errors must name an argument; errors of torch and SciPy
            need not.
    """

    call: Callable[..., Any]
    arguments: dict[str, Argument]
    reference: Callable[..., Any]
    is_layer: bool = False
    tolerance: float = 2e-5
    names_arguments: bool = True


def plain(given: Any) -> Any:
    """Returns objects that stand for ints, or sequences of them, as Python's ints."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0:
        return tuple(map(int, given))
    return int(given)
