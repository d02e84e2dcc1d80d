"""Functions that access a tensor's memory; a ComplexTensor has none of its own, but two parts.

Each function returns a correct copy, or is refused with a message that says what to write instead.
torch keeps a storage for such a tensor to tell views from each other, but the storage holds
nothing: reading it would read stray memory.
"""

import torch

from trnfft.base import torch_private as private
from trnfft.complex.composites import as_torch
from trnfft.complex.graphs import is_seen_by_compiler
from trnfft.complex.pairs import RealPairs
from trnfft.complex.refusals import refusing
from trnfft.complex.table import FUNCTIONS, Function
from trnfft.complex.tensor import ComplexTensor

_LIBRARY = torch.library.Library("aten", "IMPL")
_OF_PARTS = (ComplexTensor, RealPairs)


def _untyped_storage(self: ComplexTensor) -> torch.UntypedStorage:
    """Returns a copy's storage; torch's compiler gets the storage that tells views apart."""
    if is_seen_by_compiler(self._real):
        return as_torch(torch.Tensor.untyped_storage, self)
    with torch.no_grad():
        return self.to_complex().untyped_storage()


def _apply(self: ComplexTensor, function: Function) -> torch.Tensor:
    return self.copy_(self.to_complex().apply_(function))


def _kinds(*tensors: torch.Tensor) -> set[type | None]:
    return {next((kind for kind in _OF_PARTS if isinstance(x, kind)), None) for x in tensors}


def _would_be_compatible(self: torch.Tensor, from_: torch.Tensor) -> bool:
    # torch.nn.Module asks this before it moves a parameter.
    asked = private.has_compatible_shallow_copy_type
    return len(_kinds(self, from_)) == 1 and bool(as_torch(asked, self, from_))


def _is_compatible(self: torch.Tensor, from_: torch.Tensor) -> bool:
    """Returns whether `self.data = from_` may take the memory of the other tensor.

    For a view of parts, as a parameter may be one, torch makes a new parameter, or raises an error.
    """
    kinds = _kinds(self, from_)
    if RealPairs in kinds:
        return False
    if len(kinds) > 1:
        raise RuntimeError(
            f"argument 'data' is a {type(from_).__name__}, allowed is a {type(self).__name__}, as "
            f"is the tensor whose data it becomes; convert it with trnfft.as_native or "
            f"trnfft.as_complex_tensor, or write x.copy_(data)"
        )
    with private.AutoDispatchBelowAutograd():
        return torch.ops.aten._has_compatible_shallow_copy_type.default(self, from_)


for _key in ("AutogradCPU", "AutogradCUDA", "AutogradPrivateUse1"):
    _LIBRARY.impl("_has_compatible_shallow_copy_type", _is_compatible, _key, allow_override=True)

for _function in (torch.Tensor.data_ptr, torch.Tensor.storage, private.typed_storage):
    _name = _function.__name__
    FUNCTIONS[_function] = refusing(
        RuntimeError,
        f"{_name} of a ComplexTensor is not allowed, as its parts are two tensors with memory "
        f"of their own; write z.real.{_name} and z.imag.{_name}, or trnfft.as_native(z).{_name}",
    )
FUNCTIONS |= {
    private.has_compatible_shallow_copy_type: _would_be_compatible,
    torch.Tensor.untyped_storage: _untyped_storage,
    torch.Tensor.apply_: _apply,
    torch.Tensor.__dlpack__: lambda self, *args, **kwargs: self.to_complex().__dlpack__(
        *args, **kwargs
    ),
    torch.Tensor.__dlpack_device__: lambda self: self._real.__dlpack_device__(),
}
