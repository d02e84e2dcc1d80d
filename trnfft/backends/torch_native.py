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
