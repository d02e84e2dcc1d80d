"""The error for an operator that ComplexTensors do not have.

It says whether torch has the operator for native complex tensors, or for real tensors only. torch
has no list of that, so the operator is called for native tensors of the same shapes: with complex
ones, and where it refuses them with real ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten


def refusal(overload: OpOverload, args: Any, kwargs: Any) -> NotImplementedError:
    """Returns the error for a call of an operator with ComplexTensors."""
    error = f"{overload} has no implementation for ComplexTensor"
    allowed = "allowed are the operators of docs/complex_operators.md"
    found = _asked(overload, args, kwargs)
    if found is None:
        return NotImplementedError(f"{error}, {allowed}")
    if not found:
        return NotImplementedError(
            f"{error}, {allowed}; call it on a native tensor: x.cpu().to_complex()"
        )
    return NotImplementedError(
        f"{error}, and torch has it for real numbers only: {found}; call it on real tensors, such "
        f"as x.real, x.imag or x.abs()"
    )


def is_for_real_numbers(overload: OpOverload, args: Any, kwargs: Any) -> bool:
    """Returns whether torch refuses these arguments because of their complex numbers."""
    return bool(_asked(overload, args, kwargs))


def _asked(overload: OpOverload, args: Any, kwargs: Any) -> str | None:
    """Returns torch's error because of complex numbers, "" for none, and None if that is open."""
    if overload.namespace != "aten":  # others may launch kernels, or do anything
        return None
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.random.fork_rng([]):
        error = _error_of(overload, args, kwargs, torch.complex64)
        if error is None:
            return ""
        others = (torch.float32, torch.int64)
        has_others = any(_error_of(overload, args, kwargs, x) is None for x in others)
    text = str(error).strip().split("\n")[0]
    return text if has_others or "complex" in text.lower() else None


def _error_of(overload: OpOverload, args: Any, kwargs: Any, dtype: Any) -> Exception | None:
    """Returns the error for native stand-ins, which have this dtype in place of a complex one."""

    def stand_in(x: torch.Tensor) -> torch.Tensor:
        of_x = dtype if x.is_complex() else x.dtype
        number = (aten.ones if of_x.is_floating_point else aten.zeros).default
        return number([], dtype=of_x).expand(tuple(map(int, x.shape)))  # one number in memory

    try:
        args, kwargs = tree_map_only(torch.Tensor, stand_in, (args, kwargs))
        overload(*args, **kwargs)
    except Exception as error:
        return error
    return None
