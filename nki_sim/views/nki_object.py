"""NKIObject: the base class of classes that a kernel may use."""

from __future__ import annotations

import dataclasses
from typing import Any


class NKIObject:
    """Base class of user-defined classes in kernels.

    As with the compiler (NKI Language Guide, "Class Support"), a subclass without ``__init__`` is
    given one, whose arguments are the annotated fields and class attributes. A field without a
    default is None. The generated ``__init__`` calls ``__post_init__``.
    """

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        inherited = cls.__init__ is not object.__init__
        written = inherited and not hasattr(cls.__init__, "__nki_fields__")
        if "__init__" not in cls.__dict__ and not written:
            cls.__init__ = _field_initializer(cls)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Called by the generated ``__init__``."""


def _field_initializer(cls: type) -> Any:
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is object or base is NKIObject:
            continue
        for name in base.__dict__.get("__annotations__", {}):
            fields[name] = base.__dict__.get(name)
        for name, value in base.__dict__.items():
            if not name.startswith("_") and not callable(value) and not hasattr(value, "__get__"):
                fields[name] = value

    names, defaults = list(fields), tuple(fields.values())
    field_kind = dataclasses.Field
    # Not by setattr: the __setattr__ of @dataclass(frozen=True) refuses every assignment.
    assign = object.__setattr__

    def __init__(self: Any, *args: object, **kwargs: object) -> None:
        if len(args) > len(names) or not kwargs.keys() <= fields.keys():
            unknown = sorted(set(kwargs) - set(names))
            wrong = f"the unknown keywords {unknown}" if unknown else f"{len(args)} arguments"
            raise TypeError(
                f"{cls.__name__} was called with {wrong}; its arguments are {', '.join(names)}"
            )
        values: Any = args + defaults[len(args) :]
        if kwargs:
            values = {**dict(zip(names, values, strict=True)), **kwargs}.values()
        for name, value in zip(names, values, strict=True):
            assign(self, name, _default(value) if type(value) is field_kind else value)
        self.__post_init__()

    __init__.__nki_fields__ = tuple(fields)  # type: ignore[attr-defined]
    return __init__


def _default(value: Any) -> Any:
    # What ``dataclasses.field(...)`` stands for.
    if value.default_factory is not dataclasses.MISSING:
        return value.default_factory()
    return None if value.default is dataclasses.MISSING else value.default
