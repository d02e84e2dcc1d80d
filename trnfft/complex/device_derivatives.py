"""Derivatives of torch's views of parts, on devices where complex storage is not assumed.

Inside the transforms of torch.func, `z.real` is torch's own: torch.view_as_real, whose derivative
is a native complex tensor. Devices of other makers may have no such tensors. There the derivative
of a ComplexTensor consists of its two parts. A native tensor, where the device has them, has a
native derivative.
"""

from typing import Any

import torch

from trnfft.base import torch_private as private
from trnfft.base.autograd_types import Context
from trnfft.complex.parts import join
from trnfft.complex.tensor import ComplexTensor

_LIBRARY = torch.library.Library("aten", "IMPL")


class _Split(private.SingleLevelFunction):
    """Returns both parts, at the level of torch.func that asks for them."""

    @staticmethod
    def forward(ctx: Context, z: torch.Tensor, modes: tuple[bool, bool]) -> Any:
        ctx.is_split = _is_split(z)
        # Outer levels record the operations below this one, although a function's forward is not
        # recorded.
        reverse, forward = modes
        with (
            torch.set_grad_enabled(reverse),
            private.set_fwd_grad_enabled(forward),
            private.AutoDispatchBelowAutograd(),
        ):
            pairs = torch.ops.aten.view_as_real.default(z)
            return pairs.select(-1, 0).clone(), pairs.select(-1, 1).clone()

    @staticmethod
    def jvp(ctx: Context, tangent: torch.Tensor, _: None) -> Any:
        return tangent.real.clone(), tangent.imag.clone()

    @staticmethod
    def backward(ctx: Context, real: torch.Tensor, imag: torch.Tensor) -> Any:
        if not ctx.is_split:
            return torch.complex(real, imag), None
        return join(real, imag), None


def _is_split(z: torch.Tensor) -> bool:
    while private.is_functorch_wrapped_tensor(z):
        z = private.get_unwrapped(z)
    return isinstance(z, ComplexTensor)


def _view_as_real(keys: object, z: torch.Tensor) -> torch.Tensor:
    if _TORCHS is not None and not _is_split(z):
        return _TORCHS.call_boxed(keys, z)
    is_followed = torch.is_grad_enabled() and z.requires_grad
    if not is_followed and not private.are_functorch_transforms_active():
        with private.AutoDispatchBelowAutograd():
            return torch.ops.aten.view_as_real.default(z)
    with private.enable_single_level_autograd_function():
        modes = torch.is_grad_enabled(), private.is_fwd_grad_enabled()
        parts = _Split.apply(z, modes)
    return torch.stack(parts, -1)


# torch's own implementation for native tensors, which torch 2.9 does not give away
_TORCHS: Any = None
if hasattr(torch.library, "get_kernel"):
    _TORCHS = torch.library.get_kernel("aten::view_as_real", "AutogradPrivateUse1")
_LIBRARY.impl(
    "view_as_real", _view_as_real, "AutogradPrivateUse1", with_keyset=True, allow_override=True
)
