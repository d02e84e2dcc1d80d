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
    """A subject on a device.

    of: what wants a gradient: "all", the "tensors" alone, or the "parameters" alone.
    """

    def __init__(
        self, subject: Subject, device: str, how: Callable[..., Any] = as_it_is, of: str = "all"
    ) -> None:
        function, parameters = subject.on(device)
        self.run = how(function)
        self.tensors = [x.to(device) for x in subject.tensors()]
        for x in self.tensors:
            x.requires_grad_(of != "parameters")
        for parameter in parameters:
            parameter.requires_grad_(of != "tensors")
        self.leaves = [x for x in (*self.tensors, *parameters) if x.requires_grad]

    def step(self) -> tuple[torch.Tensor, ...]:
        """Results, and the gradients of a sum of squares in all that wants one."""
        for leaf in self.leaves:
            leaf.grad = None
        y = self.run(*self.tensors)
        sum((part**2).sum() for part in y).backward()
        return *y, *(leaf.grad for leaf in self.leaves)


def trained(
    subject: Subject,
    how: Callable[..., Any] = as_it_is,
    of: str = "all",
    tolerance: float = STEP,
) -> Training:
    """Returns a training on the device, after a step; fails unless that is as on the host."""
    training = Training(subject, "neuron", how, of)
    found = training.step()
    assert {x.device.type for x in found} == {"neuron"}
    all_near(found, Training(subject, "cpu", of=of).step(), tolerance)
    return training
