"""Transforms through torch.fft, for devices that have complex dtypes.

torch.fft has no compensated sums and no bfloat16. The precision modes "kahan" and "double" are
computed in float64 and rounded once, "double" on the host, because many devices have no float64.
The other modes are computed in the dtype of the input.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from trnfft.backends.backend import Backend, Call, Parts
from trnfft.complex.tensor import ComplexTensor, described, join_to_read, parts_to_read

Input = torch.Tensor | ComplexTensor

# torch.fft as it is now, because `trnfft.patch_torch` replaces its functions by this library's.
torchs = SimpleNamespace(**vars(torch.fft))

MOST_DIMENSIONS = 7  # the limit of MKL
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


class Transform(NamedTuple):
    """Arguments of torch.fft, and the precision mode."""

    sizes: tuple[int, ...]
    dims: tuple[int, ...]
    inverse: bool
    norm: str
    precision: str


class TorchNative(Backend):
    """torch.fft. Results for ComplexTensors are copied, so that the parts share no memory."""

    name = "torch"
    takes_whole = True

    def whole(self, kind: str, x: Input, asked: Transform, native: bool) -> torch.Tensor:
        """Transforms a tensor of any kind, trimmed or padded to the sizes.

        Args:
            kind: "c2c", "r2c" or "c2r".
            x: the input, whose transformed dimensions may lie anywhere.
            asked: the arguments of torch.fft.
            native: whether a complex result is native, or a ComplexTensor.
        """
        y, device = _transformed(kind, x, asked), described(x).device
        if not native:
            return split_whole(y, device)
        return y if y.device == device else y.to(device)

    def c2c(self, parts: Parts, call: Call) -> Parts:
        if call.planned:
            return self._in_planned_order(parts, call)
        y = _transformed("c2c", torch.complex(*parts), _last_dimensions(call))
        return _scaled(y, call.scale, call.scale, parts[0].device)

    # ihfftn is not used, because it takes a pass to conjugate; here the sign of the scale does
    # this.
    def r2c(self, parts: Parts, call: Call) -> Parts:
        y = _transformed("r2c", parts[0], _last_dimensions(replace(call, inverse=False)))
        sign = -1.0 if call.inverse else 1.0
        return _scaled(y, call.scale, sign * call.scale, parts[0].device)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        real, imag = parts
        x = torch.complex(real, imag if call.inverse else -imag)
        return (
            _transformed("c2r", x, _last_dimensions(replace(call, inverse=True))).to(real.device)
            * call.scale,
        )


def _last_dimensions(call: Call) -> Transform:
    """Returns a call as torch's transform without a factor, because a scale may be any number."""
    dims = tuple(range(-len(call.sizes), 0))
    norm = "forward" if call.inverse else "backward"
    return Transform(call.sizes, dims, call.inverse, norm, call.precision)


# By kind and direction: torch's function for one dimension, which is faster, and for several.
_FUNCTIONS = {
    ("c2c", False): (torchs.fft, torchs.fftn),
    ("c2c", True): (torchs.ifft, torchs.ifftn),
    ("r2c", False): (torchs.rfft, torchs.rfftn),
    ("r2c", True): (torchs.ihfft, torchs.ihfftn),
    ("c2r", False): (torchs.hfft, torchs.hfftn),
    ("c2r", True): (torchs.irfft, torchs.irfftn),
}


def _transformed(kind: str, x: Input, asked: Transform) -> torch.Tensor:
    one, several = _FUNCTIONS[kind, asked.inverse]
    if len(asked.dims) == 1:
        return _computed(one, x, asked.sizes[0], asked.dims[0], asked)
    return _computed(several, x, asked.sizes, asked.dims, asked)


def _computed(function: Any, x: Input, sizes: Any, dims: Any, asked: Transform) -> torch.Tensor:
    """Calls torch.fft's function in the precision; the result of "double" is on the host."""
    if asked.precision == "double" and described(x).device.type != "meta":
        x = x.to("cpu")  # before the parts become complex, which the device may not support
    z = torch.complex(*parts_to_read(x)) if isinstance(x, ComplexTensor) else x
    wide = _WIDE.get(z.dtype) if asked.precision in ("kahan", "double") else None
    # Some functions conjugate lazily, and the imaginary part would show this as a bit.
    with torch._C.DisableTorchFunction():  # `trnfft.patch_torch` would call this again
        try:
            y = function(z if wide is None else z.to(wide), sizes, dims, asked.norm).resolve_conj()
        except RuntimeError as error:
            if "MKL FFT error" not in str(error) or len(asked.dims) <= MOST_DIMENSIONS:
                raise
            raise RuntimeError(
                f"argument 'dim' has {len(asked.dims)} dimensions, and torch.fft with MKL allows "
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
    parts: Any = (y,)
    if y.is_complex():
        parts = torch.unbind_copy(torch.view_as_real(y), -1)  # type: ignore[func-returns-value]
    if y.device != device:
        parts = [part.to(device) for part in parts]
    return join_to_read(*parts) if len(parts) == 2 else parts[0]


def _scaled(y: torch.Tensor, real: float, imag: float, device: torch.device) -> Parts:
    """Returns the parts of `y`, each times its factor, on the device."""
    return (y.real * real).to(device), (y.imag * imag).to(device)
