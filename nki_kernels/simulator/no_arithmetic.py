"""Python's operators on tensors and registers: refused, with what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("lshift", "rshift", "and", "or", "xor"),
)
_OTHER = ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "int", "float")


class NoArithmetic:
    """Base of what has a value on the device only; ``_instead`` says what to write.

    NumPy's functions refuse such values, too.
    """

    __slots__ = ()
    _instead = ""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(self._instead)

    __array_ufunc__ = __array_function__ = _refuse


for _name in (*_BINARY, *(f"r{name}" for name in _BINARY), *_OTHER):
    setattr(NoArithmetic, f"__{_name}__", NoArithmetic._refuse)
