"""Functions of ComplexTensors made from functions of real ones: part by part, or by a mask."""

from collections.abc import Callable
from typing import Any

import torch

from trnfft.complex.parts import both_parts_of, is_inexact
from trnfft.complex.tensor import ComplexTensor, dtype_of_parts

Function = Callable[..., Any]


def on_each_part(function: Function) -> Function:
    """The function of the real parts of all arguments, and of the imaginary parts."""

    def implementation(*args: Any, **kwargs: Any) -> Any:
        real, imag = (
            function(
                *(_part(i, value) for value in args),
                **{name: _part(i, value) for name, value in kwargs.items()},
            )
            for i in (0, 1)
        )
        return _joined(real, imag)

    return implementation


def _part(i: int, value: Any, is_data: bool = False) -> Any:
    """The real (i = 0) or imaginary (i = 1) part of an argument that has such."""
    if isinstance(value, (list, tuple)):
        return tuple(_part(i, element, is_data=True) for element in value)
    # Integer and bool tensors outside of lists are indices and masks.
    if is_inexact(value) or (is_data and isinstance(value, torch.Tensor)):
        return both_parts_of(value)[i]
    return dtype_of_parts(value)


def _joined(real: Any, imag: Any) -> Any:
    """A ComplexTensor, or a tuple of them from functions such as `split`."""
    if isinstance(real, torch.Tensor):
        return ComplexTensor(real, imag)
    return tuple(map(_joined, real, imag))


def of_nonzero(function: Function) -> Function:
    """The function of which numbers are not zero."""

    def implementation(input: ComplexTensor, *args: Any, **kwargs: Any) -> Any:
        return function(input != 0, *args, **kwargs)

    return implementation


def in_place(function: Function) -> Function:
    """The function with its result written into the first argument."""

    def implementation(self: ComplexTensor, *args: Any, **kwargs: Any) -> ComplexTensor:
        return self.copy_(function(self, *args, **kwargs))

    return implementation
