"""The error for an operator that ComplexTensors do not have.

It says whether torch has the operator for native complex tensors, or for real tensors only. torch
has no list of that, so the operator is called for native complex tensors of the same shapes. Where
it refuses them, it is asked for real tensors on device meta, which computes nothing.
"""

from __future__ import annotations

from typing import NoReturn

import torch

from trnfft.base import torch_private as private
from trnfft.complex.table import Arguments, Function, NamedArguments

aten = torch.ops.aten

_MOST = 2**16  # numbers of a stand-in that has all of them in memory


def refusing(error: type[Exception], message: str) -> Function:
    """Returns what stands for a function of torch that ComplexTensors do not have."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise error(message)

    return refuse


def refusal(
    overload: private.OpOverload, args: Arguments, kwargs: NamedArguments
) -> NotImplementedError:
    """Returns the error for a call of an operator with ComplexTensors."""
    error = f"{overload} has no implementation for ComplexTensor"
    allowed = "allowed are the operators of docs/complex_operators.md"
    reason = _asked(overload, args, kwargs)
    if reason is None:
        return NotImplementedError(f"{error}, {allowed}")
    if not reason:
        return NotImplementedError(
            f"{error}, {allowed}; call it on a native tensor: x.cpu().to_complex()"
        )
    return NotImplementedError(
        f"{error}, and torch has it for real numbers only: {reason}; call it on real tensors, such "
        f"as x.real, x.imag or x.abs()"
    )


def is_for_real_numbers(
    overload: private.OpOverload, args: Arguments, kwargs: NamedArguments
) -> bool:
    """Returns whether torch refuses these arguments because of their complex numbers."""
    return bool(_asked(overload, args, kwargs))


def _asked(overload: private.OpOverload, args: Arguments, kwargs: NamedArguments) -> str | None:
    """Returns torch's error because of complex numbers, "" for none, and None if that is open."""
    if overload.namespace != "aten":  # others may launch kernels, or do anything
        return None
    tensors = [x for x in private.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    sizes = [x.numel() for x in tensors]
    is_large = any(not isinstance(size, int) or size > _MOST for size in sizes)
    if is_large and _writes(overload):  # into every number of a stand-in
        return None
    with private.disable_current_modes(), private.DisableTorchFunction(), torch.random.fork_rng([]):
        error = _error_of(overload, args, kwargs, torch.complex64, "cpu", is_large)
        if error is None:
            return ""
        others = (torch.float32, torch.int64)
        has_others = any(
            _error_of(overload, args, kwargs, dtype, "meta", is_large) is None for dtype in others
        )
    text = str(error).strip().split("\n")[0]
    is_of_dtype = "complex" in text.lower() or has_others and "float" in text.lower()
    return text if is_of_dtype else None


def _error_of(
    overload: private.OpOverload,
    args: Arguments,
    kwargs: NamedArguments,
    dtype: torch.dtype,
    device: str,
    is_large: bool,
) -> Exception | None:
    """Returns the error for native stand-ins, which have this dtype in place of a complex one."""

    def stand_in(x: torch.Tensor) -> torch.Tensor:
        of_x = dtype if x.is_complex() else x.dtype
        number = (aten.ones if of_x.is_floating_point else aten.zeros).default
        shape = tuple(map(int, x.shape))
        if is_large:  # one number in memory
            return number([], dtype=of_x, device=device).expand(shape)
        return number(shape, dtype=of_x, device=device)

    try:
        args, kwargs = private.tree_map_only(torch.Tensor, stand_in, (args, kwargs))
        overload(*args, **kwargs)
    except Exception as error:
        return error
    return None


def _writes(overload: private.OpOverload) -> bool:
    arguments = overload._schema.arguments
    return any(x.alias_info is not None and x.alias_info.is_write for x in arguments)
