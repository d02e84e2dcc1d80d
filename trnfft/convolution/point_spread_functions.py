"""Point spread functions for `trnfft.bloom`: float32 [size, size], none negative, with sum 1.

Their centre is the pixel (size // 2, size // 2), as `bloom` takes it, and all raise

    TypeError: an argument is no number, `size` no int.
    ValueError: `size` is not 1 to 16384, or another argument is outside its range.
"""

import math

import numpy as np
import torch

from trnfft.arguments import check_positive, integer
from trnfft.backends.torch_native import torchs
from trnfft.checks import finite, index, shown

_LARGEST = 2**14  # pixels a side, which take 2 GiB in float64
_MOST_BLADES = 360
_HOST = "cpu"  # a NeuronCore, which may be torch's default device, has no float64
_SAMPLES = 4  # along each axis of a pixel, of which the mean smooths edges
_WAVELENGTHS = np.linspace(0.75, 1.25, 16).tolist()  # over their mean: 413 - 688 nm


def gaussian(size: int, sigma: float) -> torch.Tensor:
    """A normal distribution, exp(-r^2 / (2 sigma^2)): soft focus.

    Args:
        size: width and height in pixels.
        sigma: standard deviation in pixels, above 0.
    """
    _check_size(size)
    if not finite("sigma", sigma) > 0:
        raise ValueError(f"argument 'sigma' is {sigma}, allowed are finite numbers above 0")
    y, x = _coordinates(size, 1)
    return _normalised(torch.exp(-((x / sigma) ** 2 + (y / sigma) ** 2) / 2))


def star(size: int, blades: int = 6) -> torch.Tensor:
    """White light behind an aperture of straight blades: a sharp peak, a wide halo, and spikes.

    That is the mean, over wavelengths, of the Fraunhofer diffraction |F(aperture / wavelength)|^2
    (Goodman, "Introduction to Fourier Optics", section 4.4). Spikes are perpendicular to the
    blades, `blades` of them or twice as many for odd numbers, and fall as 1 / r^2, the halo between
    them as 1 / r^4.

    Args:
        size: width and height in pixels.
        blades: number of blades, 3 to 360; an aperture of more is a disc.
    """
    _check_size(size)
    if not 3 <= integer("blades", blades) <= _MOST_BLADES:
        raise ValueError(f"argument 'blades' is {blades}, allowed is 3 to {_MOST_BLADES}")
    # Twice the size, as waves wrap around at the border of the transform; the middle is kept.
    distance = _to_nearest_side(*_coordinates(2 * size, 1), blades)
    pattern = torch.zeros(2 * size, 2 * size, dtype=torch.float64, device=_HOST)
    for wavelength in _WAVELENGTHS:
        aperture = (size / 3 / wavelength - distance + 0.5).clamp(0, 1)
        # torch's, as backends for a NeuronCore have no float64; also inside of patch_torch.
        with torch._C.DisableTorchFunction():
            pattern += torchs.fft2(aperture / aperture.sum()).abs() ** 2
    middle = slice(size - size // 2, size - size // 2 + size)
    return _normalised(torch.fft.fftshift(pattern)[middle, middle])


def heart(size: int) -> torch.Tensor:
    """A heart of uniform light, (x^2 + y^2 - 1)^3 <= x^2 y^3: what an aperture of that shape does.

    Args:
        size: width and height in pixels, nearly filled.
    """
    _check_size(size)
    y, x = _coordinates(size, _SAMPLES)
    x, y = 2.4 * x / size, 0.1 - 2.4 * y / size  # the curve spans 2.28 by 2.24, y upwards
    return _normalised(_pixels((x**2 + y**2 - 1) ** 3 <= x**2 * y**3))


def _check_size(size: int) -> None:
    if index("size", size) > _LARGEST:
        raise ValueError(f"argument 'size' is {shown(size)}, allowed is 1 to {_LARGEST}")
    check_positive(size=size)


def _coordinates(size: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """y and x relative to the centre, in pixels, [size * samples, 1] and [1, size * samples]."""
    fine = torch.arange(size * samples, dtype=torch.float64, device=_HOST)
    x = (fine + 0.5) / samples - 0.5 - size // 2
    return x[:, None], x[None, :]


def _pixels(inside: torch.Tensor) -> torch.Tensor:
    """What part of every pixel is inside of a shape, given its samples."""
    return torch.nn.functional.avg_pool2d(inside.double()[None], _SAMPLES)[0]


def _to_nearest_side(y: torch.Tensor, x: torch.Tensor, sides: int) -> torch.Tensor:
    """How far out every point is, along the normal of the side nearest to it, of a polygon."""
    distance = torch.full((y.numel(), x.numel()), -math.inf, dtype=torch.float64, device=_HOST)
    for side in range(sides):
        angle = 2 * math.pi * side / sides
        distance = torch.maximum(distance, x * math.cos(angle) + y * math.sin(angle))
    return distance


def _normalised(psf: torch.Tensor) -> torch.Tensor:
    return (psf / psf.sum()).float().to(torch.get_default_device())
