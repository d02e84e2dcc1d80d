"""What becomes of a call of a function of torch with a ComplexTensor, above autograd."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from trnfft.base import torch_private as private
from trnfft.complex import table
from trnfft.complex.parts import is_sharded, join, parts_of, split_argument
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor

aten = torch.ops.aten

# Functions of torch that need the very tensor that they are given, whatever its numbers.
OF_GRAPHS: set[Any] = {torch.autograd.grad, torch.Tensor.backward}

_OF_PARTS = {getattr(torch.Tensor, name).__get__ for name in ("real", "imag")}


def called(func: Function, args: Arguments, kwargs: NamedArguments) -> Any:
    """Returns the result of `ComplexTensor.__torch_function__`."""
    if torch.jit.is_tracing() and func not in _OF_PARTS:
        return _traced_as_native(func, args, kwargs)
    if func not in OF_GRAPHS and _has_native(args):
        # Native tensors need native gradients, and DTensors combine only with each other.
        kept = int(is_in_place(func))
        rest, kwargs = private.tree_map_only(torch.Tensor, _split_if_native, (args[kept:], kwargs))
        args = (*args[:kept], *rest)
    is_ours = not args or isinstance(args[0], ComplexTensor)
    if not is_ours and _is_native_target(args[0]) and is_in_place(func):
        # torch's derivative of the write would give what is written a native gradient.
        rest, kwargs = private.tree_map_only(
            ComplexTensor, ComplexTensor.to_complex, (args[1:], kwargs)
        )
        args = (args[0], *rest)
    try:
        return _called(func, args, kwargs)
    except RuntimeError as error:
        if "new_fn INTERNAL ASSERT FAILED" not in str(error):
            raise
        raise RuntimeError(
            "the tensor is a view of a ComplexTensor that was detached in place, so it has no "
            "derivative, allowed are views made after detach_(); use .detach()"
        ) from error


def _called(func: Function, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls a function of torch: its entry in FUNCTIONS, or torch's own, which calls operators."""
    function = table.FUNCTIONS.get(func)
    if function is not None:
        return function(*args, **kwargs)
    with private.DisableTorchFunctionSubclass():
        if torch.compiler.is_exporting():
            return table.exported(func, args, kwargs)
        return func(*args, **kwargs)


def _traced_as_native(func: Function, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls a function of torch so that torch.jit.trace records it: with native complex tensors.

    A trace sees the parts of a ComplexTensor, and not what is computed below autograd.
    """
    if is_in_place(func) or kwargs.get("out") is not None:
        raise NotImplementedError(
            f"torch.jit.trace cannot record {getattr(func, '__name__', func)}, which writes into a "
            f"ComplexTensor; write a new tensor, as z = 2 * z for z *= 2 and torch.where for "
            f"z[...] = 0, or use torch.export or torch.compile"
        )

    def native(z: torch.Tensor) -> Any:
        return aten.complex.default(*parts_of(z))

    def split(result: torch.Tensor) -> torch.Tensor:
        is_native = result.is_complex() and not isinstance(result, ComplexTensor)
        return join(result.real, result.resolve_conj().imag) if is_native else result

    args, kwargs = private.tree_map_only(ComplexTensor, native, (args, kwargs))
    return private.tree_map_only(torch.Tensor, split, func(*args, **kwargs))


def _has_native(values: Iterable[object]) -> bool:
    """Whether native tensors among these values must be split before a ComplexTensor meets them."""
    for x in values:
        if isinstance(x, (list, tuple)):
            if _has_native(x):
                return True
        elif isinstance(x, torch.Tensor) and not isinstance(x, ComplexTensor) and _is_native(x):
            return True
    return False


def is_in_place(function: Function) -> bool:
    name: str = getattr(function, "__name__", "").split(".")[0]  # without that of an overload
    return name.endswith("_") and not name.endswith("__") or name in _IN_PLACE


_IN_PLACE = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"}


def _is_native(x: torch.Tensor) -> bool:
    if not x.is_complex():
        return False
    return x.requires_grad or is_sharded(x) or private.is_forward_mode()


def _is_native_target(x: object) -> bool:
    """Whether x, which is written, is a native complex tensor, or a list that begins with one.

    Exported code and DTensors are left to operators below autograd.
    """
    if isinstance(x, (list, tuple)):
        return bool(x) and _is_native_target(x[0])
    if isinstance(x, ComplexTensor) or not isinstance(x, torch.Tensor) or not x.is_complex():
        return False
    return not (torch.compiler.is_exporting() or is_sharded(x))


def _split_if_native(x: torch.Tensor) -> torch.Tensor:
    return x if isinstance(x, ComplexTensor) or not _is_native(x) else split_argument("z", x)


table.called = called
for _function in (called, _called):
    private.keep_from_compiler(_function)
