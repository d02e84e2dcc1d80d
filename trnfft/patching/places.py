"""The places in torch where programs look up the functions that `patch_torch().start()` replaces.

Functions of a module and methods of torch.Tensor are replaced, but TorchScript, and code that looks
a method up in the class torch.Tensor, find torch's own.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

import torch
from torch.overrides import (
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
)

from trnfft.base.torch_private import device_constructors, jit_get_all_schemas
from trnfft.complex.table import Function
from trnfft.patching import split_results, torchscript

_FUNCTIONS = (BuiltinFunctionType, FunctionType, MethodDescriptorType)
_OWNERS = (torch, torch.fft, torch.linalg, torch.functional, torch.Tensor)
# Operators between a number and a tensor, whose methods have other names than their functions.
_OPERATORS = {
    f"__{side}{name}__"
    for side in ("", "r")
    for name in ("add", "sub", "mul", "div", "truediv", "pow")
}


@dataclass(frozen=True)
class Place:
    """An attribute of a module or a class, its value in torch and the value that replaces it."""

    owner: Any
    name: str
    of_torch: Any
    replacement: Any
    is_inherited: bool = False

    def replace(self) -> None:
        """Sets the attribute, unless the program has set it to something that is not torch's."""
        if getattr(self.owner, self.name) is self.of_torch:
            setattr(self.owner, self.name, self.replacement)

    def restore(self) -> None:
        """Sets the attribute to torch's value, or removes it where a base class has that.

        An attribute that the program has set stays as it is.
        """
        if vars(self.owner).get(self.name) is not self.replacement:
            return
        if self.is_inherited:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.of_torch)


class _Method:
    """A method of torch.Tensor: its replacement on tensors, torch's own in the class.

    torch looks methods up in the class for the `__torch_function__` of modes and subclasses, which
    compare them with torch's own.
    """

    def __init__(self, of_torch: Function, replacement: Function) -> None:
        self.of_torch, self.replacement = of_torch, replacement

    def __get__(self, tensor: torch.Tensor | None, owner: object = None) -> Any:
        return self.of_torch if tensor is None else MethodType(self.replacement, tensor)


class _Function:
    """A function of a module in torch, with another implementation.

    It equals torch's own function, which torch passes to `__torch_function__`. So tables by
    functions find it, whether they were made before or after the replacement.
    """

    def __init__(
        self,
        owner: ModuleType | type,
        name: str,
        of_torch: Function,
        replacement: Function,
    ) -> None:
        functools.update_wrapper(self, of_torch)
        self.of_torch, self.replacement = of_torch, replacement
        # Pickle stores a function of torch by its place.
        self.__module__, self.__qualname__ = owner.__name__, name

    def __call__(self, /, *args: object, **kwargs: object) -> Any:  # torch's names include 'self'
        return self.replacement(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.of_torch is (other.of_torch if isinstance(other, _Function) else other)

    def __hash__(self) -> int:
        return hash(self.of_torch)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__qualname__} of trnfft>"

    def __reduce__(self) -> str:
        return self.__qualname__


def replaceable(replacements: Mapping[Function, Function]) -> tuple[Place, ...]:
    """Returns the places of functions that are replaced, or may make complex tensors.

    Args:
        replacements: by function of torch. `split_results.called` calls all other functions.
    """
    # torch keeps what it finds at the first call of these functions.
    get_overridable_functions(), get_ignored_functions(), get_testing_overrides()
    device_constructors()
    names = _with_dtypes_or_numbers()
    made = []
    for owner in _OWNERS:
        for name in dir(owner):
            function = getattr(owner, name)
            if not isinstance(function, _FUNCTIONS):
                continue
            is_built_in = not isinstance(function, FunctionType)
            is_operator = owner is torch.Tensor and name in _OPERATORS
            if function in replacements or is_operator or is_built_in and name in names:
                made.append(_place(owner, name, function, replacements))
    return tuple(made)


def _place(
    owner: ModuleType | type,
    name: str,
    function: Function,
    replacements: Mapping[Function, Function],
) -> Place:
    replacement = replacements.get(function) or _split(function)
    if owner is torch.Tensor:
        is_inherited = name not in vars(owner)
        return Place(owner, name, function, _Method(function, replacement), is_inherited)
    if not isinstance(function, FunctionType):  # TorchScript compiles functions of Python only
        replacement = _Function(owner, name, function, replacement)
    torchscript.keep(function, replacement)
    return Place(owner, name, function, replacement)


def _split(function: Function) -> Function:
    """Returns a function that calls one of torch as `split_results.called` does."""

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        return split_results.called(function, args, kwargs)

    split_results.keep_apart(call)
    return call


def _with_dtypes_or_numbers() -> set[str]:
    """Returns the names of torch's operators that take a dtype or a number, and write nothing.

    They include all functions that make complex tensors if an argument asks for it.
    """
    names = set()
    for schema in jit_get_all_schemas():
        kinds = {str(x.type) for x in schema.arguments}
        has_dtype = any(x.name == "dtype" for x in schema.arguments)
        makes_tensor = any("Tensor" in str(x.type) for x in schema.returns)
        if makes_tensor and (has_dtype or not kinds.isdisjoint(("number", "Optional[number]"))):
            names.add(schema.name.removeprefix("aten::"))
    names.add("type")  # the method has no operator of its own
    return {name for name in names if not name.startswith("_") and not name.endswith("_")}
