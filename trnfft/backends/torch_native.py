"""Transforms through torch.fft, for devices that have complex dtypes."""

import torch


def c2c(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `trnfft.ops.c2c`."""
    z = torch.complex(real, imag)
    # The two of torch's norms that leave the sum as it is; ours is any scale.
    y = torch.fft.ifft(z, norm="forward") if inverse else torch.fft.fft(z, norm="backward")
    # Also with scale 1 the product makes parts of their own from views with stride 2.
    return y.real * scale, y.imag * scale


def c2c_double(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `trnfft.ops.c2c`, in float64 on the host, rounded once to the dtype of the input."""
    # The host only: many devices have no float64.
    device = real.device if real.device.type == "meta" else "cpu"
    parts = [part.to(device, torch.float64) for part in (real, imag)]
    y_real, y_imag = c2c(parts[0], parts[1], inverse, scale)
    return y_real.to(real), y_imag.to(imag)
