"""Operators switch torch.autocast off, because they keep the dtype that transforms promise."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch.amp.autocast_mode import is_autocast_available

Result = TypeVar("Result")


def is_on(device: torch.device) -> bool:
    """Returns whether autocast would compute products on this device in a smaller dtype."""
    return is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def switched_off(device: torch.device) -> AbstractContextManager[Any]:
    """Returns a context in which autocast is off."""
    return torch.autocast(device.type, enabled=False) if is_on(device) else nullcontext()


def without(function: Callable[..., Result], device: torch.device) -> Callable[..., Result]:
    """Returns the function, computed without autocast of this device."""

    def run(*arguments: object) -> Result:
        with switched_off(device):
            return function(*arguments)

    return run if is_on(device) else function
