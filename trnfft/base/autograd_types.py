"""The types of what torch hands to autograd functions and to rules of vmap."""

from __future__ import annotations

from typing import Any, Protocol

import torch

Gradients = tuple[torch.Tensor | None, ...]

# Along which dimension of each argument vmap batches, None for arguments without batches.
InDims = tuple[int | None, ...]


class Context(Protocol):
    """What a call of an autograd function keeps for its derivatives, in attributes of its own too.

    A saved tensor can be None, and the function that saves it knows which.
    """

    saved_tensors: tuple[torch.Tensor, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None: ...

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...

    def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: object) -> None: ...


class BatchInfo(Protocol):
    """What a rule of vmap gets about the batch."""

    @property
    def batch_size(self) -> int: ...
