"""Transforms through torch.fft, for devices that have complex dtypes.

torch.fft has no compensated sums and no bfloat16. The precision modes "kahan" and "double" are
computed in float64 and rounded once, "double" on the host, because many devices have no float64.
The other modes are computed in the dtype of the input.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from trnfft.backends.backend import Backend, Call, Parts
from trnfft.base.torch_private import DisableTorchFunction
from trnfft.complex.parts import join_to_read
from trnfft.complex.tensor import of_parts

# torch.fft as it is now, because `trnfft.patch_torch` replaces its functions by this library's.
torchs = SimpleNamespace(**vars(torch.fft))

MOST_DIMENSIONS = 7  # the limit of MKL
_unbind_copy: Any = torch.unbind_copy  # whose type says that it returns None
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


class TorchNative(Backend):
    """torch.fft. Results for ComplexTensors are copied, so that the parts share no memory."""

    name = "torch"
    takes_whole = True

    def whole(self, x: Parts, call: Call, native: bool) -> torch.Tensor:
        """Transforms a tensor of any kind, trimmed or padded to the sizes.

        Args:
            x: a tensor, or both parts of a ComplexTensor. The dimensions may lie anywhere.
            call: the transform, with a named norm.
            native: whether a complex result is native, or a ComplexTensor.
        """
        device = x[0].device
        if call.precision == "double" and device.type != "meta":
            # before the parts become complex, which the device may not support
            x = tuple(part.to("cpu") for part in x)
        y = _computed(torch.complex(*x) if len(x) == 2 else x[0], call)
        if not native:
            return split_whole(y, device)
        return y if y.device == device else y.to(device)

    def c2c(self, parts: Parts, call: Call) -> Parts:
        if call.planned:
            return self._in_planned_order(parts, call)
        y = _of_last("c2c", torch.complex(*parts), call, call.inverse)
        return _scaled(y, call.scale, call.scale, parts[0].device)

    # ihfftn is not used, because it takes a pass to conjugate; here the sign of the scale does
    # this.
    def r2c(self, parts: Parts, call: Call) -> Parts:
        y = _of_last("r2c", parts[0], call, False)
        sign = -1.0 if call.inverse else 1.0
        return _scaled(y, call.scale, sign * call.scale, parts[0].device)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        real, imag = parts
        x = torch.complex(real, imag if call.inverse else -imag)
        return (_of_last("c2r", x, call, True).to(real.device) * call.scale,)


def _of_last(kind: str, x: torch.Tensor, call: Call, inverse: bool) -> torch.Tensor:
    """Transforms the last dimensions without a factor, because a scale may be any number."""
    dims = tuple(range(-len(call.sizes), 0))
    norm = "forward" if inverse else "backward"
    x = x.to("cpu") if call.precision == "double" and x.device.type != "meta" else x
    return _computed(x, Call(kind, inverse, call.sizes, dims, norm, call.precision))


# By kind and direction: torch's function for one dimension, which is faster, and for several.
_FUNCTIONS = {
    ("c2c", False): (torchs.fft, torchs.fftn),
    ("c2c", True): (torchs.ifft, torchs.ifftn),
    ("r2c", False): (torchs.rfft, torchs.rfftn),
    ("r2c", True): (torchs.ihfft, torchs.ihfftn),
    ("c2r", False): (torchs.hfft, torchs.hfftn),
    ("c2r", True): (torchs.irfft, torchs.irfftn),
}


def _computed(x: torch.Tensor, call: Call) -> torch.Tensor:
    """Calls torch.fft's function in the precision."""
    function, several = _FUNCTIONS[call.kind, call.inverse]
    sizes: Any = call.sizes
    dims: Any = call.dims
    if len(dims) == 1:
        (sizes,), (dims,) = sizes, dims
    else:
        function = several
    wide = _WIDE.get(x.dtype) if call.precision in ("kahan", "double") else None
    # Some functions conjugate lazily, and the imaginary part would show this as a bit.
    with DisableTorchFunction():  # `trnfft.patch_torch` would call this again
        try:
            y = function(x if wide is None else x.to(wide), sizes, dims, call.norm).resolve_conj()
        except RuntimeError as error:
            if "MKL FFT error" not in str(error) or len(call.dims) <= MOST_DIMENSIONS:
                raise
            raise RuntimeError(
                f"argument 'dim' has {len(call.dims)} dimensions, and torch.fft with MKL allows "
                f"at most {MOST_DIMENSIONS}: transform some dimensions first, then the others"
            ) from error
    if wide is None:
        return y
    return y.to(torch.complex64 if y.is_complex() else torch.float32)


def split_whole(y: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Returns a complex tensor as a ComplexTensor, a real one as it is; contiguous, on the device.

    The parts have memory of their own.
    """
    y = y.contiguous()  # twice as fast as transposing each part
    parts = _unbind_copy(torch.view_as_real(y), -1) if y.is_complex() else (y,)
    if y.device != device:
        parts = tuple(part.to(device) for part in parts)
    return join_to_read(*parts) if len(parts) == 2 else parts[0]


def split_fresh(y: torch.Tensor) -> torch.Tensor:
    """Returns the same for a tensor that nothing follows, on its device."""
    y = y.contiguous()
    return of_parts(*_unbind_copy(torch.view_as_real(y), -1)) if y.is_complex() else y


def _scaled(y: torch.Tensor, real: float, imag: float, device: torch.device) -> Parts:
    return (y.real * real).to(device), (y.imag * imag).to(device)
