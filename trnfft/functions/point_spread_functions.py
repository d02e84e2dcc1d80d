"""Point spread functions for `trnfft.bloom`: float32 tensors of shape [size, size] with sum 1.

No number in them is negative. Their centre is the pixel (size // 2, size // 2), as `bloom` expects.
`docs/convolution.md` shows them. All functions raise these errors:

- `TypeError`: an argument is not a number, or `size` is not an int.
- `ValueError`: `size` is not in 1 ... 16384, or another argument is outside its range.
"""

import math

import numpy as np
import torch

from trnfft.backends.torch_native import torchs
from trnfft.base.checks import brief, finite, index
from trnfft.base.torch_private import DisableTorchFunction
from trnfft.functions.arguments import check_positive, integer

_LARGEST = 2**14  # pixels a side: 2 GiB in float64
_MOST_BLADES = 360
_HOST = "cpu"  # torch's default device may be a NeuronCore, which has no float64
_SAMPLES = 4  # along each axis of a pixel; their mean smooths edges
_WAVELENGTHS = np.linspace(0.75, 1.25, 16).tolist()  # relative to their mean: 413 - 688 nm


def gaussian(size: int, sigma: float) -> torch.Tensor:
    """Returns a normal distribution, exp(-r^2 / (2 sigma^2)), for soft focus.

    Args:
        size: width and height in pixels, 1 to 16384.
        sigma: standard deviation in pixels, above 0.

    Examples:
        >>> import trnfft
        >>> psf = trnfft.point_spread_functions.gaussian(3, sigma=0.5)
        >>> psf.round(decimals=3)
        tensor([[0.0110, 0.0840, 0.0110],
                [0.0840, 0.6190, 0.0840],
                [0.0110, 0.0840, 0.0110]])
    """
    _check_size(size)
    if not finite("sigma", sigma) > 0:
        raise ValueError(f"argument 'sigma' is {sigma}, allowed are finite numbers above 0")
    y, x = _coordinates(size, 1)
    return _normalised(torch.exp(-((x / sigma) ** 2 + (y / sigma) ** 2) / 2))


def star(size: int, blades: int = 6) -> torch.Tensor:
    """Returns the diffraction of white light behind an aperture of straight blades.

    It has a sharp peak, a wide halo and spikes. It is the mean, over wavelengths, of the Fraunhofer
    diffraction |F(aperture / wavelength)|^2 (Goodman, "Introduction to Fourier Optics", section
    4.4). The spikes are perpendicular to the blades. There are `blades` spikes for even numbers and
    twice as many for odd numbers. They fall as 1 / r^2, and the halo between them falls as 1 / r^4.

    Args:
        size: width and height in pixels, 1 to 16384.
        blades: number of blades, 3 to 360. An aperture of more blades would be a disc.

    Examples:
        >>> import trnfft
        >>> psf = trnfft.point_spread_functions.star(64, blades=6)
        >>> psf.shape, int(psf.argmax()) == 32 * 64 + 32  # the peak is in the centre
        (torch.Size([64, 64]), True)
    """
    _check_size(size)
    if not 3 <= integer("blades", blades) <= _MOST_BLADES:
        raise ValueError(f"argument 'blades' is {blades}, allowed is 3 to {_MOST_BLADES}")
    # The transform has twice the size, because waves wrap around at its border.
    distance = _to_nearest_side(*_coordinates(2 * size, 1), blades)
    pattern = torch.zeros(2 * size, 2 * size, dtype=torch.float64, device=_HOST)
    for wavelength in _WAVELENGTHS:
        aperture = (size / 3 / wavelength - distance + 0.5).clamp(0, 1)
        # torch's own function, also inside of patch_torch: other backends may have no float64.
        with DisableTorchFunction():
            pattern += torchs.fft2(aperture / aperture.sum()).abs() ** 2
    middle = slice(size - size // 2, size - size // 2 + size)
    return _normalised(torch.fft.fftshift(pattern)[middle, middle])


def heart(size: int) -> torch.Tensor:
    """Returns a heart of uniform light, (x^2 + y^2 - 1)^3 <= x^2 y^3, as an aperture of that shape.

    Args:
        size: width and height in pixels, which the heart nearly fills, 1 to 16384.

    Examples:
        >>> import trnfft
        >>> psf = trnfft.point_spread_functions.heart(11)
        >>> for row in psf > 0.5 * psf.max():
        ...     print("".join(" #"[int(lit)] for lit in row).rstrip())
          ##   ##
         #########
        ###########
        ###########
        ###########
         #########
         #########
          #######
           #####
            ###
    """
    _check_size(size)
    y, x = _coordinates(size, _SAMPLES)
    x, y = 2.4 * x / size, 0.1 - 2.4 * y / size  # the curve spans 2.28 by 2.24, y upwards
    inside = (x**2 + y**2 - 1) ** 3 <= x**2 * y**3
    # the part of every pixel that is inside
    return _normalised(torch.nn.functional.avg_pool2d(inside.double()[None], _SAMPLES)[0])


def _check_size(size: int) -> None:
    if index("size", size) > _LARGEST:
        raise ValueError(f"argument 'size' is {brief(size)}, allowed is 1 to {_LARGEST}")
    check_positive(size=size)


def _coordinates(size: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns y [size * samples, 1] and x [1, size * samples] relative to the centre, in pixels."""
    fine = torch.arange(size * samples, dtype=torch.float64, device=_HOST)
    x = (fine + 0.5) / samples - 0.5 - size // 2
    return x[:, None], x[None, :]


def _to_nearest_side(y: torch.Tensor, x: torch.Tensor, sides: int) -> torch.Tensor:
    """Returns how far out every point is, along the normal of the polygon's side nearest to it."""
    distance = torch.full((y.numel(), x.numel()), -math.inf, dtype=torch.float64, device=_HOST)
    for side in range(sides):
        angle = 2 * math.pi * side / sides
        distance = torch.maximum(distance, x * math.cos(angle) + y * math.sin(angle))
    return distance


def _normalised(psf: torch.Tensor) -> torch.Tensor:
    return (psf / psf.sum()).float().to(torch.get_default_device())
