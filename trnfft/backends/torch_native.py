"""Transforms through torch.fft, for devices that have complex dtypes.

torch.fft has no compensated sums and no bfloat16: the precision modes "kahan" and "double" are
computed in float64, "double" on the host as many devices have none, and rounded once; the others
in the dtype of the input.
"""

from typing import Any

import torch

from trnfft.complex.tensor import ComplexTensor

Input = torch.Tensor | ComplexTensor
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def c2c(
    x: Input,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
    precision: str,
) -> ComplexTensor:
    """As `trnfft.ops.c2c`. The parts of the result are views of one complex tensor."""
    if len(dims) == 1:  # torch.fft.fft is faster than fftn where the input is real
        function = torch.fft.ifft if inverse else torch.fft.fft
        return _split(_computed(function, x, sizes[0], dims[0], norm, precision), x.device)
    function = torch.fft.ifftn if inverse else torch.fft.fftn
    return _split(_computed(function, x, sizes, dims, norm, precision), x.device)


def r2c(
    x: torch.Tensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
    precision: str,
) -> ComplexTensor:
    """As `trnfft.ops.r2c`."""
    function = torch.fft.ihfftn if inverse else torch.fft.rfftn
    return _split(_computed(function, x, sizes, dims, norm, precision), x.device)


def c2r(
    x: Input,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
    precision: str,
) -> torch.Tensor:
    """As `trnfft.ops.c2r`."""
    function = torch.fft.irfftn if inverse else torch.fft.hfftn
    return _computed(function, x, sizes, dims, norm, precision).to(x.device)


def c2c_parts(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float, precision: str, dims: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """As the operator `trnfft::c2c`."""
    # The one of torch's norms that leaves the sum as it is; ours is any scale.
    norm = "forward" if inverse else "backward"
    last = tuple(range(real.ndim - dims, real.ndim))
    sizes = tuple(real.shape[-dims:])
    y = c2c(ComplexTensor(real, imag), sizes, last, inverse, norm, precision)
    return y.real * scale, y.imag * scale


def _computed(
    function: Any, x: Input, sizes: Any, dims: Any, norm: str, precision: str
) -> torch.Tensor:
    """torch.fft's function in the precision; the result of "double" is on the host."""
    if precision == "double" and x.device.type != "meta":
        x = x.to("cpu")  # before the parts become complex, which the device may not have
    z = x if isinstance(x, torch.Tensor) else torch.complex(x.real, x.imag)
    if precision not in ("kahan", "double"):
        return function(z, sizes, dims, norm)
    wide = _WIDE.get(z.dtype)
    if wide is None:
        return function(z, sizes, dims, norm)
    y = function(z.to(wide), sizes, dims, norm)
    return y.to(torch.complex64 if y.is_complex() else torch.float32)


def _split(y: torch.Tensor, device: torch.device) -> ComplexTensor:
    """The parts of `y`, on the device."""
    parts = ComplexTensor.of_parts(y.real, y.imag)
    return parts if y.device == device else parts.to(device)
