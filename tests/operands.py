"""Functions of trnfft.ops, called with tensors."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from trnfft.ops.operand import operand_of


def of_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose first argument is an `Operand` as a function of a tensor."""

    @functools.wraps(function)
    def call(x: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        return function(operand_of(x), *arguments, **named)

    return call
