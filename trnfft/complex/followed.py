"""Who observes operations on a tensor: autograd, a compiler, a mode, a transform of torch.func."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from trnfft.base import torch_private as private

_BATCHING = private.dispatch_key_parse("VmapMode")


def is_followed(*values: object) -> bool:
    """Whether autograd, a compiler, a mode or torch.func observes operations on these values."""
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return True
    if is_transformed() or private.len_torch_dispatch_stack():
        return True
    # It accepts other values than tensors, and reads a ComplexTensor without __torch_function__.
    return torch.is_grad_enabled() and private.any_requires_grad(*values)


def is_transformed() -> bool:
    """Whether forward mode or a transform of torch.func is active."""
    return private.are_functorch_transforms_active() or private.is_forward_mode()


def is_vectorized() -> bool:
    """Whether torch.autograd.functional batches tensors, where it vectorizes."""
    return private.dispatch_tls_is_dispatch_key_included(_BATCHING)


def not_vectorized(what: str) -> NotImplementedError:
    """Returns the error of what torch.autograd.functional cannot vectorize."""
    return NotImplementedError(
        f"argument 'vectorize' of torch.autograd.functional is True, allowed is False for {what}; "
        f"or use torch.func.jacrev or torch.func.jacfwd"
    )


@contextlib.contextmanager
def naming_vectorize(what: object) -> Iterator[None]:
    """Says where an error comes from that torch raises because the parts are batched."""
    try:
        yield
    except RuntimeError as error:
        raise not_vectorized(f"{what} of these ComplexTensors") from error


def ungraded() -> Any:
    """Returns torch.no_grad only where it has an effect, as exported programs contain it."""
    return torch.no_grad() if torch.is_grad_enabled() else contextlib.nullcontext()
