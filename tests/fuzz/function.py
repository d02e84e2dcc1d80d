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
        call: itself, or for a layer what makes and calls it.
        arguments: a kind for each of its arguments.
        reference: of the same arguments, whose tensors are float64 and complex128 then: the right
            result, or a check of the result. Of a layer it gets the layer first.
        is_layer: whether all arguments but `input` are the constructor's.
        tolerance: relative L2 error.
        names_arguments: whether its errors do. Those of torch and SciPy need not.
    """

    call: Callable[..., Any]
    arguments: dict[str, Argument]
    reference: Callable[..., Any]
    is_layer: bool = False
    tolerance: float = 2e-5
    names_arguments: bool = True


def plain(given: Any) -> Any:
    """Python's ints in place of what stands for them."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0:
        return tuple(map(int, given))
    return int(given)
