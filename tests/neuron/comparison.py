"""Compares results on the device with those on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trnfft import ComplexTensor

from .subjects import Subject

BOUND = 2e-6  # on the relative error in the L2 norm, in float32


def host(x: Any) -> torch.Tensor:
    """A tensor in float64, or of parts in complex128, on the host."""
    x = x.detach().to("cpu")
    if isinstance(x, ComplexTensor):
        x = x.to_complex()
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def relative_error(actual: Any, expected: Any) -> float:
    """In the L2 norm."""
    actual, expected = host(actual), host(expected)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
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
