"""What torch.view_as_real makes of a ComplexTensor: a real tensor [..., 2] that shares its parts.

As the two parts are not interleaved in memory, no tensor with strides can be that view. This one is
for what is written in place, as optimizers do with complex parameters; all else gets a copy.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from trnfft.complex.collectives import on_each_part
from trnfft.complex.dispatch import aten, each_of_lists, implements, joined, written_by
from trnfft.complex.tensor import ComplexTensor


class RealPairs(torch.Tensor):
    """A real tensor [..., 2] whose [..., 0] and [..., 1] are two tensors, the parts."""

    _real: torch.Tensor
    _imag: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: type[RealPairs], real: torch.Tensor, imag: torch.Tensor) -> RealPairs:
        made = torch.Tensor._make_wrapper_subclass(
            cls, (*real.shape, 2), dtype=real.dtype, device=real.device
        )
        made._real, made._imag = real, imag
        return made

    def __init__(self, real: torch.Tensor, imag: torch.Tensor) -> None:
        """All is done by `__new__`."""

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"RealPairs({self._copied()!r})"

    def _copied(self) -> torch.Tensor:
        return torch.stack([self._real, self._imag], -1)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["_real", "_imag"], None

    @staticmethod
    def __tensor_unflatten__(
        parts: dict[str, torch.Tensor], context: None, size: Any, stride: Any
    ) -> RealPairs:
        return RealPairs(parts["_real"], parts["_imag"])

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (aten.detach.default, aten.alias.default):
            return RealPairs(args[0]._real, args[0]._imag)
        if func == aten.view_as_complex.default:
            return joined(args[0]._real, args[0]._imag)
        if func == aten.select.int and args[1] in (-1, args[0].ndim - 1):
            part = args[0]._imag if args[2] in (1, -1) else args[0]._real
            return part.view_as(part)
        if func.overloadpacket.__name__.startswith("_foreach_"):
            return each_of_lists(func, *args, **kwargs)
        if func.namespace == "c10d":
            return on_each_part(func, RealPairs, args, kwargs)
        return _by_copies(func, args, kwargs)


def _by_copies(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator of copies, and what it writes in place written into the parts."""
    named = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
    written = [named[name] for name in written_by(func) if name in named]
    copies: dict[int, torch.Tensor] = {}

    def copied(x: RealPairs) -> torch.Tensor:
        return copies.setdefault(id(x), x._copied())

    args, kwargs = tree_map_only(RealPairs, copied, (args, kwargs))
    result = func(*args, **kwargs)
    for pairs in tree_leaves(written):
        if isinstance(pairs, RealPairs):
            copy = copies[id(pairs)]
            pairs._real.copy_(copy[..., 0])
            pairs._imag.copy_(copy[..., 1])
            result = pairs if result is copy else result
    return result


@implements(aten.view_as_real.default)
def view_as_real(self: ComplexTensor) -> torch.Tensor:
    return RealPairs(self._real, self._imag)
