"""What a launch is called with: errors that name the argument, its value and what is allowed.

Constants of any type go to a kernel, so that it shows where the kernel uses it what is no tensor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .tensor import NkiTensor

_MOST_CHARACTERS = 100


def check_call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """TypeError for arguments that a kernel has not, or that are missing, and for generators."""
    function = inspect.unwrap(func)
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        kind = "an async function" if inspect.iscoroutinefunction(function) else "a generator"
        raise TypeError(
            f"kernel {_name(func)} is {kind}, whose call runs nothing: return tensors, and "
            f"generate in a helper"
        )
    signature = _signature(func)
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"kernel {_name(func)}: {error}; it takes {signature}") from None


@contextmanager
def naming_arguments(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[None]:
    """Names the argument whose attribute a kernel asks for, as that of a tensor, and in vain."""
    try:
        yield
    except AttributeError as error:
        name = _named(func, args, kwargs, error)
        if name is None:
            raise
        value = error.obj
        refused = TypeError(
            f"argument {name!r} of kernel {_name(func)} is {_shown(value)}, of type "
            f"{type(value).__name__}, of which the kernel takes {error.name!r}; allowed there is a "
            f"tensor: a NumPy array or a torch tensor on the CPU, or its shape and dtype in a dry "
            f"run"
        )
        raise refused.with_traceback(error.__traceback__) from None


def _named(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: AttributeError
) -> str | None:
    """The name of the argument that has no such attribute, where a tensor has it; else None."""
    signature = _signature(func)
    is_other = (
        error.name and hasattr(NkiTensor, error.name) and not isinstance(error.obj, NkiTensor)
    )
    if signature is None or not is_other:
        return None
    bound = signature.bind(*args, **kwargs).arguments
    return next((name for name, value in bound.items() if value is error.obj), None)


def _signature(func: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(func, follow_wrapped=False)
    except (TypeError, ValueError):  # of what is not written in Python
        return None


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", repr(func))


def _shown(value: Any) -> str:
    """A value in one line that is not long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of its own, or of an int of thousands of digits
        return "a value without a text"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
