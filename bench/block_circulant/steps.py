"""The transforms and the memory of a training step with block circulant layers.

Both are found by running a step: the module counts the calls of rfft and irfft, and adds up the
bytes of the tensors that autograd keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import nn

import trnfft.nn.block_circulant
import trnfft.ops.block_circulant
from bench.block_circulant import naive_flow


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts the rows with which rfft and irfft of trnfft are called inside the block."""
    counts: Counter[str] = Counter()

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, *rest: int) -> Any:
            counts[function.__name__] += x.shape[:-1].numel()
            return function(x, *rest)

        return call

    both: dict[str, Any] = {"rfft": counting(trnfft.rfft), "irfft": counting(trnfft.irfft)}
    with (
        mock.patch.multiple(trnfft.ops.block_circulant, **both),
        mock.patch.multiple(naive_flow, **both),
    ):
        yield counts


def transforms_of_a_step(model: nn.Module, x: torch.Tensor, is_naive: bool) -> int:
    """Returns the number of transforms of one forward and backward pass."""

    def naive(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return naive_flow.NaiveProduct.apply(x, weight) + bias

    given = naive if is_naive else trnfft.ops.block_circulant.block_circulant_product
    with (
        mock.patch.object(trnfft.nn.block_circulant, "block_circulant_product", given),
        counted() as counts,
    ):
        model(x).sum().backward()
    model.zero_grad()
    return sum(counts.values())


def saved_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """Returns the bytes that a forward pass keeps for the backward pass, without the parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)
    del y
    return sum(kept.values())
