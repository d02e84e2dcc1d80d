"""Errors for Python's operators on tensors and registers, which say what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

_BINARY = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"},
    **{"pow": "**", "matmul": "@", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|"},
    "xor": "^",
}
_OTHER = {
    **{"neg": "negative", "pos": "positive", "abs": "abs", "invert": "invert"},
    **{"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "int": "int", "float": "float"},
}


class NoArithmetic:
    """Base class of objects whose values are known on the device only.

    All operators of Python and functions of NumPy raise TypeError with the text of `_why_not`,
    which says what to write.
    """

    __slots__ = ()
    _instead = ""

    def _why_not(self, operation: str) -> str:
        """Returns the message about an operator, such as "+", or the name of a function."""
        return self._instead

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(self._why_not(""))

    def __array_ufunc__(
        self, function: Callable[..., object], method: str, *_: object, **__: object
    ) -> NoReturn:
        raise TypeError(self._why_not(function.__name__))

    def __array_function__(self, function: Callable[..., object], *_: object) -> NoReturn:
        raise TypeError(self._why_not(function.__name__))


def _refusing(operation: str) -> Callable[..., NoReturn]:
    def refuse(self: NoArithmetic, *_: object) -> NoReturn:
        raise TypeError(self._why_not(operation))

    return refuse


_REFLECTED = {f"r{_name}": _symbol for _name, _symbol in _BINARY.items()}
for _name, _symbol in {**_BINARY, **_REFLECTED, **_OTHER}.items():
    setattr(NoArithmetic, f"__{_name}__", _refusing(_symbol))
