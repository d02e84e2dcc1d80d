"""Compares results on the device with those on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.tolerances import near, sums, together, transforms

from .subjects import Subject

# Of results and gradients of a subject, on the device and the host: at most Bluestein's two longer
# transforms forward and as many backward, and sums over channels and rows.
STEP = together(transforms(4 * 137, 2 * 4), sums(2 * 2 * 32))


def near_host(actual: Any, expected: Any, tolerance: float = STEP, **options: Any) -> None:
    """Fails unless a result on the device is near that on the host; both or none are complex."""
    assert actual.is_complex() == expected.is_complex()
    near(actual.detach().cpu(), expected.detach().cpu(), tolerance, **options)


def all_near(actual: Any, expected: Any, tolerance: float = STEP) -> None:
    """Fails unless each result on the device is near that on the host."""
    for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
        near_host(a, b, tolerance, message=f"result {index}")


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
