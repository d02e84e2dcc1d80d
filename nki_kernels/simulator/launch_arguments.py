"""Errors about the arguments of a launch, which name the argument, its value and what is allowed.

A kernel may be passed constants of any type. So an argument that should have been a tensor is found
only where the kernel uses it as a tensor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .tensor import NkiTensor

_MOST_CHARACTERS = 100


def check_call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises TypeError for unknown and missing arguments, and for generators and coroutines."""
    function = inspect.unwrap(func)
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        kind = "an async function" if inspect.iscoroutinefunction(function) else "a generator"
        raise TypeError(
            f"kernel {_name(func)} is {kind}, and a call of it runs nothing: write a function that "
            f"returns tensors, and generate values in a helper"
        )
    signature = _signature(func)
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        text = f"kernel {_name(func)}: {error}; the kernel's arguments are {signature}"
        raise TypeError(text) from None


@contextmanager
def naming_arguments(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[None]:
    """Names the argument in the error about an attribute of a tensor that the argument lacks."""
    try:
        yield
    except AttributeError as error:
        name = _named(func, args, kwargs, error)
        if name is None:
            raise
        value = error.obj
        refused = TypeError(
            f"argument {name!r} of kernel {_name(func)} is {_shown(value)} of type "
            f"{type(value).__name__}, but the kernel uses its attribute {error.name!r}, which only "
            f"a tensor has: pass a NumPy array, a torch tensor on the CPU, or in a dry run its "
            f"shape and dtype"
        )
        raise refused.with_traceback(error.__traceback__) from None


def _named(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: AttributeError
) -> str | None:
    """Returns the name of the argument that lacks the attribute, if a tensor has it, or None."""
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
    except (TypeError, ValueError):  # for functions that are not written in Python
        return None


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", repr(func))


def _shown(value: Any) -> str:
    """Returns a value as one line of limited length."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # raised by the value's __repr__, or by an int of thousands of digits
        return "a value without a text"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
