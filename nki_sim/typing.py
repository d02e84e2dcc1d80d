"""The module nki.typing: ``nt.tensor[128, 512]`` annotates the shape of a kernel's argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

Size = int | str | None  # of a dimension


class TensorShape:
    """The annotation ``tensor`` or ``tensor[shape]``; None or a string stands for any size."""

    def __init__(self, shape: tuple[Size, ...] | None = None) -> None:
        self.shape = shape

    def __getitem__(self, shape: Size | tuple[Size, ...]) -> TensorShape:
        return TensorShape(shape if isinstance(shape, tuple) else (shape,))

    def __repr__(self) -> str:
        return "tensor" if self.shape is None else f"tensor[{', '.join(map(str, self.shape))}]"


tensor = TensorShape()


def _annotations(func: Callable[..., object]) -> dict[str, Any]:
    """Returns the annotations of a function, or {} if one names something that does not exist."""
    found = getattr(func, "__annotations__", None) or {}
    if any(isinstance(annotation, str) for annotation in found.values()):
        try:
            return inspect.get_annotations(func, eval_str=True)
        except Exception:  # a name that exists for type checkers only
            return {}
    return found


def check_annotations(
    func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    """Raises TypeError if the shape of an argument differs from its annotation."""
    annotations = _annotations(func)
    if not annotations:
        return
    bound = inspect.signature(func).bind(*args, **kwargs).arguments
    for name, value in bound.items():
        expected = annotations.get(name)
        if isinstance(expected, TensorShape) and expected.shape is not None:
            shape = tuple(getattr(value, "shape", ()))
            fits = len(shape) == len(expected.shape) and all(
                not isinstance(want, int) or want == got
                for want, got in zip(expected.shape, shape, strict=True)
            )
            if not fits:
                raise TypeError(
                    f"argument {name!r} has shape {shape}, but its annotation is {expected}"
                )
