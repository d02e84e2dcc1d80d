"""Errors for Python's operators on tensors and registers, which say what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("lshift", "rshift", "and", "or", "xor"),
)
_OTHER = ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "int", "float")


class NoArithmetic:
    """Base class of objects whose values are known on the device only.

    All operators of Python and functions of NumPy raise TypeError with the text ``_instead``, which
    says what to write.
    """

    __slots__ = ()
    _instead = ""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(self._instead)

    __array_ufunc__ = __array_function__ = _refuse


for _name in (*_BINARY, *(f"r{name}" for name in _BINARY), *_OTHER):
    setattr(NoArithmetic, f"__{_name}__", NoArithmetic._refuse)
