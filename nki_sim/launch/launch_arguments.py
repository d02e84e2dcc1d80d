"""Errors about the arguments of a launch, which name the argument, its value and what is allowed.

A kernel may be passed constants of any type. So an argument that should have been a tensor is found
only where the kernel uses it as a tensor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nki_sim.errors import NO_TENSOR, NkiValidationError, brief
from nki_sim.views.tensor import NkiTensor

Args = tuple[object, ...]  # of a launch
Kwargs = dict[str, object]

_PASS = "pass a NumPy array, a torch tensor on the CPU, or in a dry run its shape and dtype"


@dataclass(slots=True)
class Argument:
    """The place of a value in a launch. Its text, which errors need, names the parameter."""

    func: Callable[..., object]
    place: int | str  # a position, or the name in the call
    item: str = ""  # the index inside of a tuple, such as "[1]"

    def __str__(self) -> str:
        return f"argument {self.name!r} of kernel {name_of(self.func)}"

    @property
    def name(self) -> str:
        """The parameter's name, with the indices of the value inside of it."""
        return f"{_parameter(self.func, self.place)}{self.item}"

    def at(self, index: int) -> Argument:
        """Returns the place of an item of this argument, which is a tuple."""
        return Argument(self.func, self.place, f"{self.item}[{index}]")


def each(
    func: Callable[..., object], args: Args, kwargs: Kwargs, make: Callable[[Any, Argument], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a launch, each as ``make`` makes it of its value and its place."""
    given = tuple([make(value, Argument(func, place)) for place, value in enumerate(args)])
    return given, {name: make(value, Argument(func, name)) for name, value in kwargs.items()}


def _parameter(func: Callable[..., object], place: int | str) -> str:
    """Returns the name of the parameter that a position or a keyword of a call sets."""
    signature = _signature(func)
    if isinstance(place, str) or signature is None:
        return str(place)
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return (
                f"{parameter.name}[{place - len(names)}]" if place >= len(names) else names[place]
            )
        names.append(parameter.name)
    return names[place]


def check_call(func: Callable[..., object], args: Args, kwargs: Kwargs) -> None:
    """Raises TypeError for unknown and missing arguments, and for generators and coroutines."""
    function = inspect.unwrap(func)
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        kind = "an async function" if inspect.iscoroutinefunction(function) else "a generator"
        raise TypeError(
            f"kernel {name_of(func)} is {kind}, and a call of it runs nothing: write a function "
            f"that returns tensors, and generate values in a helper"
        )
    signature = _signature(func)
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        text = f"kernel {name_of(func)}: {error}; the kernel's arguments are {signature}"
        raise TypeError(text) from None


@contextmanager
def naming_arguments(func: Callable[..., object], args: Args, kwargs: Kwargs) -> Iterator[None]:
    """Names the argument in an error about a value that should have been a tensor.

    Such an error is about an attribute that only a tensor has, or about an instruction's operand.
    """
    try:
        yield
    except NkiValidationError as error:
        if error.rule != NO_TENSOR:
            raise
        bound = _bound(func, args, kwargs)
        given = [(name, value) for name, value in bound.items() if value is not None]
        names = [name for name, value in given if brief(value) == error.value]
        if len(names) != 1:
            raise
        argument = f"argument {names[0]!r} of kernel {name_of(func)}"
        rule = f"{NO_TENSOR}, and {argument} has this value: {_PASS}"
        named = NkiValidationError(error.instruction, error.operand, error.value, rule)
        raise named.with_traceback(error.__traceback__) from None
    except AttributeError as error:
        value, attribute = error.obj, error.name or ""
        is_tensors = hasattr(NkiTensor, attribute) and not isinstance(value, NkiTensor)
        bound = _bound(func, args, kwargs) if is_tensors else {}
        name = next((name for name, held in bound.items() if held is value), None)
        if name is None:
            raise
        refused = TypeError(
            f"argument {name!r} of kernel {name_of(func)} is {brief(value)} of type "
            f"{type(value).__name__}, but the kernel uses its attribute {error.name!r}, which only "
            f"a tensor has: {_PASS}"
        )
        raise refused.with_traceback(error.__traceback__) from None


def _bound(func: Callable[..., object], args: Args, kwargs: Kwargs) -> dict[str, Any]:
    signature = _signature(func)
    return {} if signature is None else dict(signature.bind(*args, **kwargs).arguments)


def _signature(func: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(func, follow_wrapped=False)
    except (TypeError, ValueError):  # for functions that are not written in Python
        return None


def name_of(func: object) -> str:
    """Returns how messages name a kernel."""
    return getattr(func, "__name__", repr(func))
