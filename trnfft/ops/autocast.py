"""torch.autocast, which operators switch off: they keep the dtype that transforms promise."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.amp.autocast_mode import is_autocast_available


def is_on(device: torch.device) -> bool:
    """Whether products of tensors on this device would be computed in a smaller dtype."""
    return is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def switched_off(device: torch.device) -> AbstractContextManager[Any]:
    """A context without it."""
    return torch.autocast(device.type, enabled=False) if is_on(device) else nullcontext()


def without(function: Any, device: torch.device) -> Any:
    """The function of tensors on this device, computed without it."""

    def run(*arguments: Any) -> Any:
        with switched_off(device):
            return function(*arguments)

    return run if is_on(device) else function
