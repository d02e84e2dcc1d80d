"""The computation of `trnfft bloom`: light from a picture, spread by a point spread function.

A picture in linear light x of any range (.npy, .exr, .hdr) is convolved as a whole:

    y = (1 - s) x + s psf * x,   s the strength

A PNG or JPEG has clipped its lights at white, so that a lamp is no brighter than a white wall, and
its glow would not show. What a light has lost is estimated there, and only that is spread:

    y = x + s psf * e,   e = t^2 (b - 1) x,   t = (v - 0.9) / 0.1 in [0, 1],   b = 1 / d in [1, M]

v is the largest channel of a pixel, and d is the mean of v around the pixel, with Gaussian weights.
A light is taken to be b times as bright as white: the brighter, the darker its surroundings are. e
is never negative, so that no pixel gets darker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nki_sim import hardware
from trnfft.convolution.bloom import BloomFilter, least_length
from trnfft.convolution.point_spread_functions import gaussian
from trnfft_demo.picture import Picture

NEAR_WHITE = 0.9  # linear light from which on a pixel of a PNG counts as a light, in part
WIDEST_PSF = 2048  # pixels: more would take minutes to make
SIGMAS = 8  # in the width of a Gaussian point spread function


@dataclass(frozen=True)
class Glow:
    """A picture with glow, and how it was made.

    Attributes:
        light: [C, H, W], linear.
        bloom_filter: what convolved the last channel.
        lights: how many pixels glow; None where all light is spread.
        brightest: how many times as bright as white the brightest of them is taken to be.
    """

    light: torch.Tensor
    bloom_filter: BloomFilter
    lights: int | None = None
    brightest: float = 1.0


def with_glow(
    picture: Picture, psf: torch.Tensor, strength: float, padding: str, highlights: float
) -> Glow:
    """Returns a picture with the glow of its lights; see the formulas above.

    Args:
        picture: whose `is_clipped` chooses the formula.
        psf: [h, w] or [C, h, w].
        strength: s, from 0 to 1.
        padding: as of `BloomFilter`.
        highlights: M, 1 or more.
    """
    light = torch.from_numpy(picture.light)
    if not picture.is_clipped:
        result = torch.empty_like(light)
        for channel, own in enumerate(_filters(psf, light, padding)):
            result[channel] = own(light[channel], strength)
        return Glow(result, own)
    seen = torch.from_numpy(picture.on_black())
    factor = brightness_above_white(seen, highlights)
    result = light.clone()
    for channel, own in enumerate(_filters(psf, light, padding)):
        # Rounding makes numbers below zero where there is no glow.
        result[channel] += strength * own(factor * seen[channel]).clamp(min=0)
    is_lit = factor > 0
    return Glow(result, own, int(is_lit.sum()), 1 + float(factor.max()))


def _filters(psf: torch.Tensor, light: torch.Tensor, padding: str) -> Iterator[BloomFilter]:
    """Yields the filter of each channel: one channel at a time, as that takes less memory."""
    for channel in range(len(light)):
        if channel == 0 or psf.ndim == 3:
            own = psf if psf.ndim == 2 else psf[channel]
            bloom_filter = BloomFilter(own, light.shape[-2:], padding=padding)
        yield bloom_filter


def brightness_above_white(light: torch.Tensor, highlights: float) -> torch.Tensor:
    """Returns t^2 (b - 1) of each pixel [H, W], given light [C, H, W] that is clipped at 1."""
    value = light.amax(0)
    surroundings = BloomFilter(gaussian_psf(default_size(light)), value.shape, padding="mirror")
    mean = surroundings(value).clamp(1 / highlights, 1)
    near_white = ((value - NEAR_WHITE) / (1 - NEAR_WHITE)).clamp(0, 1)
    return near_white.square() * (1 / mean - 1)


def default_size(light: torch.Tensor) -> int:
    """Returns the width of a point spread function: half of the shorter side of a picture."""
    return min(max(min(light.shape[-2:]) // 2, 1), WIDEST_PSF)


def gaussian_psf(size: int) -> torch.Tensor:
    """Returns a Gaussian point spread function whose tails end where they are invisible."""
    return gaussian(size, size / SIGMAS)


@dataclass(frozen=True)
class Modelled:
    """The launch that would convolve a picture on a chip: its times, the kernel's modelled."""

    kernel_ns: float
    with_launch_ns: float


def modelled(
    channels: int, bloom_filter: BloomFilter, chip: hardware.NeuronCore, cores: int
) -> Modelled:
    """Models one launch that convolves all channels, the spectrum of the filter given.

    Raises:
        NotImplementedError: no kernel convolves such pictures in one launch.
    """
    from trnfft.planner import cost
    from trnfft.planner.kinds import Convolution
    from trnfft.planner.lengths import plan_images
    from trnfft.planner.planner import plan_for

    size, is_mirrored = bloom_filter.size, bloom_filter.padding == "mirror"
    height, width = (
        least_length(points, taps, bloom_filter.padding)
        for points, taps in zip(size, bloom_filter.psf_size, strict=True)
    )
    padded = plan_images(size, (height, width), target=chip.name)
    lengths, kept = padded.kind.lengths, padded.kind.held
    held = lengths if is_mirrored else kept  # mirror images are made before the launch
    plan = plan_for(Convolution(lengths, held, kept), target=chip.name, cores=cores)
    try:
        price = cost.price(plan.recipe, channels, chip, cores)
    except cost.CannotRun as error:
        raise NotImplementedError(str(error)) from error
    return Modelled(price.predicted_ns, chip.with_launches_ns(price.predicted_ns, price.launches))
