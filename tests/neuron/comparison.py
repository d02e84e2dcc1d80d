"""Results on the device against those of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .subjects import Subject

BOUND = 2e-6  # on the relative error in the L2 norm, in float32


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """In the L2 norm, of a result in float32."""
    actual, expected = actual.detach().cpu().double(), expected.detach().double()
    assert actual.shape == expected.shape
    return ((actual - expected).norm() / expected.norm().clamp(min=1e-30)).item()


def assert_close(actual: Any, expected: Any, bound: float = BOUND) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert relative_error(a, b) < bound


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class Training:
    """A subject with its tensors on a device, each of which wants a gradient."""

    def __init__(self, subject: Subject, device: str, how: Callable[..., Any] = as_it_is) -> None:
        function, parameters = subject.on(device)
        self.run = how(function)
        self.tensors = [x.to(device).requires_grad_() for x in subject.tensors()]
        self.leaves = [*self.tensors, *parameters]

    def step(self) -> tuple[torch.Tensor, ...]:
        """Results, and the gradients of a sum of squares in every tensor and parameter."""
        for leaf in self.leaves:
            leaf.grad = None
        y = self.run(*self.tensors)
        sum((part**2).sum() for part in y).backward()
        return *y, *(leaf.grad for leaf in self.leaves)
