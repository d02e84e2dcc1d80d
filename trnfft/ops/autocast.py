"""Operators switch torch.autocast off, because they keep the dtype that transforms promise."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.amp.autocast_mode import is_autocast_available


def is_on(device: torch.device) -> bool:
    """Returns whether autocast would compute products on this device in a smaller dtype."""
    return is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def switched_off(device: torch.device) -> AbstractContextManager[Any]:
    """Returns a context in which autocast is off."""
    return torch.autocast(device.type, enabled=False) if is_on(device) else nullcontext()


def without(function: Any, device: torch.device) -> Any:
    """Returns the function, computed without autocast of this device."""

    def run(*arguments: Any) -> Any:
        with switched_off(device):
            return function(*arguments)

    return run if is_on(device) else function
