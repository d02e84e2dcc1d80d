"""Bloom: a point spread function (PSF) spreads the light of every pixel, as lenses and eyes do.

    y = x * ((1 - s) delta + s psf),   Y = X ((1 - s) + s PSF),   s the strength

Every channel is convolved separately, by real transforms along both axes of the padded picture.
These steps avoid work (F. Letterio, "FFT Bloom Optimized to the Bone in Nabla"):

- The spectrum of the PSF is computed once for a filter. The interpolation with the identity needs
  no transform, because the spectrum of delta is all ones.
- The PSF is centred in its array. A multiplication of its spectrum by (-1)^(j+k) moves the centre
  to the origin, exactly, because the padded sizes are even. No data moves.
- Along the first axis, only lines with data are transformed. On the way back, only lines that are
  kept are transformed. With mirror padding, the spectra of the other lines are copies. `axis_order`
  chooses the first axis.
- Along the second axis, only half of every line's spectrum is transformed. Backends that compute
  real transforms as complex ones transform two lines at once, with the half spectra packed.
- On backends with NKI kernels the whole filter is one launch. The spectra stay in the order in
  which the stages leave them, and the filter's spectrum is brought into this order once.
"""

import contextlib
import copy
import math
from collections.abc import Sequence
from typing import TypeVar

import torch

from trnfft.backends.choice import named
from trnfft.base import config
from trnfft.base.checks import brief
from trnfft.base.devices import backend_for
from trnfft.complex.kinds import made_of, with_parts_in
from trnfft.complex.parts import each_part, is_followed, is_sharded
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import (
    check_choice,
    check_device,
    check_real,
    computed_dtype,
    integers,
)
from trnfft.functions.fft import fft, ifft, irfft, rfft
from trnfft.functions.packed_spectrum import pack_spectrum, unpack_spectrum
from trnfft.functions.row_pairs import irfft_of_pairs, mirrored, rfft_of_pairs, separate_pair
from trnfft.ops.convolution import (
    convolve_images,
    has_kernels,
    spectrum_for_images,
)
from trnfft.ops.many_devices import of_shards
from trnfft.ops.operand import operand_of
from trnfft.planner.factorization import smooth_numbers

PADDINGS = ("zero", "mirror")
MOST_PIXELS = 2**29  # of a picture

Size = tuple[int, int]
Transposed = TypeVar("Transposed", torch.Tensor, ComplexTensor)


def bloom(
    image: torch.Tensor, psf: torch.Tensor, *, strength: float = 1.0, padding: str = "zero"
) -> torch.Tensor:
    """Returns a picture convolved with a centred point spread function. Differentiable in both.

        y[p] = (1 - s) x[p] + s sum_q psf[q + c] x[p - q],   c = (h // 2, w // 2)

    A `BloomFilter` serves many pictures of one size. float16 and bfloat16 are computed in float32.
    The convolution is `scipy.signal.fftconvolve` with mode "same". See `docs/convolution.md`.

    Args:
        image: a real tensor of shape [H, W], [C, H, W] or [..., C, H, W], in linear light.
        psf: a real tensor of shape [h, w], or [C, h, w] with a PSF for each channel. It is not
            normalised; a sum of 1 keeps the energy. `trnfft.point_spread_functions` makes PSFs.
        strength: s, from 0 (the picture as it is) to 1.
        padding: what surrounds the picture. "zero" is black, so the borders lose light. "mirror" is
            the picture's mirror images, in which edge pixels occur twice. A constant picture then
            stays constant.

    Returns:
        A tensor with the shape and dtype of `image`.

    Raises:
        TypeError: an argument has the wrong type or dtype.
        ValueError: a shape, `strength` or `padding` is not as described.
        NotImplementedError: the backend cannot compute the padded lengths or the precision.

    Examples:
        >>> import torch, trnfft
        >>> image = torch.zeros(4, 4)
        >>> image[1, 1] = 1.0  # one bright pixel
        >>> psf = torch.full((3, 3), 1 / 9)
        >>> (9 * trnfft.bloom(image, psf)).round(decimals=3).abs()
        tensor([[1., 1., 1., 0.],
                [1., 1., 1., 0.],
                [1., 1., 1., 0.],
                [0., 0., 0., 0.]])
    """
    check_real("image", image)
    _check_image(image)
    check_real("psf", psf)
    if is_sharded(image):
        along = range(-max(psf.ndim, 2), 0)
        return of_shards(bloom, image, along, psf, strength=strength, padding=padding)
    bloom_filter = BloomFilter(
        psf.to(computed_dtype(image.dtype)), image.shape[-2:], padding=padding
    )
    return bloom_filter(image, strength)


class BloomFilter:
    """`bloom` for pictures of one size. It computes the spectrum of the PSF once and keeps it.

    See `docs/convolution.md`.

    Args:
        psf: as for `bloom`; in float64 if pictures are computed in float64.
        size: (H, W) of the pictures.
        padding: as for `bloom`.

    Attributes:
        size: (H, W) of the pictures.
        padded_size: (H, W) of the transforms, both even.
        order: "rows" or "columns", which are transformed first. `axis_order` decides or, on
            backends with NKI kernels, the prices of the planner.

    Examples:
        >>> import torch, trnfft
        >>> psf = trnfft.point_spread_functions.gaussian(9, sigma=1.5)
        >>> bloom_filter = trnfft.BloomFilter(psf, (32, 48), padding="mirror")
        >>> frames = torch.ones(10, 3, 32, 48)
        >>> blurred = bloom_filter(frames, strength=0.5)
        >>> blurred.shape, torch.allclose(blurred, frames, atol=1e-5)
        (torch.Size([10, 3, 32, 48]), True)
    """

    def __init__(self, psf: torch.Tensor, size: Sequence[int], *, padding: str = "zero") -> None:
        check_real("psf", psf)
        if psf.ndim not in (2, 3) or psf.numel() == 0:
            raise ValueError(
                f"argument 'psf' has shape {tuple(psf.shape)}, allowed are [h, w] and [C, h, w], "
                f"not empty; reshape it"
            )
        if is_sharded(psf):
            raise NotImplementedError(
                "argument 'psf' is a DTensor, allowed are tensors of which every device has a "
                "copy; use psf.full_tensor(), or trnfft.bloom"
            )
        check_choice("padding", padding, PADDINGS)
        self.padding = padding
        self.channels = psf.shape[0] if psf.ndim == 3 else None
        self.psf_size = (psf.shape[-2], psf.shape[-1])
        self._device = psf.device
        self._lay_out(size)
        # [..., M, N/2 + 1] for transforms of N points first, then of M.
        self._spectrum = _centred_spectrum(
            self._transposed(psf.to(computed_dtype(psf.dtype))), self._padded
        )

    def __call__(self, image: torch.Tensor, strength: float = 1.0) -> torch.Tensor:
        """Returns a picture with bloom, of the shape and dtype of `image`.

        Args:
            image, strength: as for `bloom`.
        """
        check_real("image", image)
        self._check_fits(image)
        try:
            fits = bool(0 <= strength <= 1)
        except (TypeError, RuntimeError, ValueError):  # the last two for tensors and arrays
            kind = type(strength).__name__
            raise TypeError(f"argument 'strength' must be a number, not {kind}") from None
        if not fits:
            raise ValueError(f"argument 'strength' is {brief(strength)}, allowed is 0 to 1")
        if is_sharded(image):
            along = (-2, -1) if self.channels is None else (-3, -2, -1)
            return of_shards(self._of_shard, image, along, self._spectrum, strength)
        x = self._transposed(image.to(computed_dtype(image.dtype)))
        if has_kernels(operand_of(x)) and not self._spectrum.requires_grad:
            with contextlib.suppress(NotImplementedError):
                return self._transposed(self._launched(x, strength)).contiguous().to(image.dtype)
        spectrum = _mixed(with_parts_in(self._spectrum, x.dtype), strength)
        return self._transposed(self._convolved(x, spectrum)).contiguous().to(image.dtype)

    def resampled(self, size: Sequence[int]) -> "BloomFilter":
        """Returns this filter for another size of pictures, as an approximation with no transform.

        The spectrum is interpolated linearly along both axes. In space, the interpolation
        multiplies the PSF by sinc^2(x / N), with N the padded size of this filter. It also leaves
        copies of the PSF N pixels apart, which the same factor damps but does not remove, so bright
        points get faint ghosts and rings there. The sum of the PSF stays exact. The error falls
        with the square of N over the size of the PSF. Filters for large pictures therefore serve
        smaller pictures well, and a filter for pictures of (1, 1) pixel needs the least memory and
        rings most. The errors of several resamplings add up, so start from the first filter.

        Args:
            size: (H, W) of the pictures.
        """
        other = copy.copy(self)
        other._lay_out(size)
        full = self._transposed(_full(self._spectrum))
        for dim, padded in zip((-2, -1), other.padded_size, strict=True):
            full = _interpolated(full, dim, padded)
        half = other._transposed(full)[..., : other._padded[1] // 2 + 1]
        other._spectrum = each_part(torch.Tensor.contiguous, half)
        return other

    def _of_shard(
        self, image: torch.Tensor, spectrum: torch.Tensor, strength: float
    ) -> torch.Tensor:
        """Returns a picture with bloom, for the spectrum as an input that autograd follows."""
        if spectrum is self._spectrum:
            return self(image, strength)
        other = copy.copy(self)
        other._spectrum, other._ordered = spectrum, None
        return other(image, strength)

    def _lay_out(self, size: Sequence[int]) -> None:
        """Sets what depends on the size of the pictures, except for the spectrum."""
        self.size = _checked_size(size)
        self._ordered: torch.Tensor | None = None
        least = tuple(
            least_length(points, taps, self.padding)
            for points, taps in zip(self.size, self.psf_size, strict=True)
        )
        height, width = (_next_even_fast_length(points) for points in least)
        self.padded_size = (height, width)
        self.order = axis_order(self.size, self.padded_size)
        # Compiled code does not know the backend and launches no kernel.
        if not torch.compiler.is_compiling() and named(backend_for(self._device)).has_kernels:
            with contextlib.suppress(NotImplementedError):
                self._plan(least)
                height, width = self.padded_size
        # The order of the transforms: the axis that is transformed first is the last one.
        self._padded = (height, width) if self.order == "rows" else (width, height)

    def _plan(self, least: tuple[int, ...]) -> None:
        """Sets the padded size and the order that the planner finds cheapest."""
        from trnfft.planner.lengths import plan_images  # imported here: it loads the kernels

        plan = plan_images(self.size, (least[0], least[1]))
        is_transposed = plan.kind.held != self.size
        self.order = "columns" if is_transposed else "rows"
        m, n = plan.kind.lengths
        self.padded_size = (n, m) if is_transposed else (m, n)

    def _launched(self, x: torch.Tensor, strength: float) -> torch.Tensor:
        """Returns `_convolved`, computed by one kernel. NotImplementedError where none exists."""
        ordered = self._ordered
        if ordered is None:
            with torch.inference_mode(False):  # such tensors could not be used in a graph later
                ordered = spectrum_for_images(with_parts_in(self._spectrum, x.dtype))
            if not is_followed(self._spectrum):
                self._ordered = ordered
        (m, n), kept = self._padded, (x.shape[-2], x.shape[-1])
        if self.padding == "mirror":
            taps = self.psf_size if self.order == "rows" else self.psf_size[::-1]
            x = _mirror_padded(_mirror_padded(x, -1, n, taps[1]), -2, m, taps[0])
        return convolve_images(x, _mixed(ordered, strength), (m, n), kept)

    def _transposed(self, x: Transposed) -> Transposed:
        """Returns x with its axes exchanged where columns are transformed first, or back again."""
        return x if self.order == "rows" else x.mT

    def _convolved(self, x: torch.Tensor, spectrum: torch.Tensor) -> torch.Tensor:
        """Returns x [..., R, P], which has R lines of P points, convolved."""
        (lines, points), (m, n) = x.shape[-2:], self._padded
        taps = self.psf_size if self.order == "rows" else self.psf_size[::-1]
        if self.padding == "mirror":
            x = _mirror_padded(x, -1, n, taps[1])
        columns = _line_spectra(x, n)
        if self.padding == "mirror":
            columns = each_part(lambda part: _mirror_padded(part, -2, m, taps[0]), columns)
        product = _product(fft(columns, m, dim=-2), spectrum)
        return _lines(ifft(product, dim=-2)[..., :lines, :], n)[..., :points]

    def _check_fits(self, image: torch.Tensor) -> None:
        _check_image(image)
        check_device("image", image.device, "the psf", self._device)
        if tuple(image.shape[-2:]) != self.size:
            raise ValueError(
                f"argument 'image' has shape {tuple(image.shape)}, allowed is "
                f"[..., {self.size[0]}, {self.size[1]}], the size of this filter; make another "
                f"filter, or use resampled"
            )
        if self.channels is not None and (image.ndim < 3 or image.shape[-3] != self.channels):
            raise ValueError(
                f"argument 'image' has shape {tuple(image.shape)}, allowed is "
                f"[..., {self.channels}, H, W] because argument 'psf' has {self.channels} "
                f"channels; pass a psf [h, w] for all channels"
            )


def axis_order(size: Size, padded_size: Size) -> str:
    """Returns which axis to transform first, "rows" or "columns": the one that makes less work.

    L lines of N points, padded to M x N, are L/2 complex transforms of N points, because two real
    lines are transformed at once, and then N/2 transforms of M points. A transform of N points
    counts as N log2 N. The way back takes the same again and is left out.

    Args:
        size: (H, W) of the picture.
        padded_size: (H, W) of the padded picture.
    """
    (height, width), (padded_height, padded_width) = size, padded_size
    rows = _work(math.ceil(height / 2), padded_width, padded_height)
    columns = _work(math.ceil(width / 2), padded_height, padded_width)
    return "rows" if rows <= columns else "columns"


def _work(transforms: int, first: int, second: int) -> float:
    """Returns the work of transforms of `first` points and of `first` / 2 of `second` points."""
    return first * (transforms * math.log2(first) + second * math.log2(second) / 2)


def _mixed(spectrum: torch.Tensor, strength: float) -> torch.Tensor:
    """Returns a spectrum interpolated with that of the identity, which is all ones in any order."""
    return spectrum if strength == 1 else spectrum * strength + (1 - strength)


def least_length(points: int, taps: int, padding: str) -> int:
    """Returns the least length without wraparound between picture and PSF.

    One margin of zeros between the end of a line and its beginning serves both sides. Mirror images
    need a margin on each side.
    """
    margin = taps - 1 if padding == "mirror" else taps // 2
    return max(points + margin, taps)


def _next_even_fast_length(n: int) -> int:
    half = (n + 1) // 2
    return 2 * smooth_numbers(half, 2 * half, odd_primes=(3, 5))[0]


def _centred_spectrum(psf: torch.Tensor, padded: Size) -> torch.Tensor:
    """Returns the spectrum [..., M, N/2 + 1] of a PSF whose centre is moved to the origin."""
    before = [size // 2 - taps // 2 for size, taps in zip(padded, psf.shape[-2:], strict=True)]
    after = [
        size - start - taps
        for size, start, taps in zip(padded, before, psf.shape[-2:], strict=True)
    ]
    lines = rfft(torch.nn.functional.pad(psf, (before[1], after[1])))
    rows = (0, 0, before[0], after[0])
    columns = fft(each_part(lambda part: torch.nn.functional.pad(part, rows), lines), dim=-2)
    odd = [torch.arange(size, device=psf.device) % 2 for size in columns.shape[-2:]]
    return columns * (1 - 2 * (odd[0][:, None] ^ odd[1])).to(psf.dtype)


def _mirror_padded(x: torch.Tensor, dim: int, padded: int, taps: int) -> torch.Tensor:
    """Returns x, the mirror images after it and, at the end of the period, those before it."""
    before = (taps - 1) // 2
    period = torch.cat([x, x.flip(dim)], dim)
    images = torch.cat([period] * math.ceil(padded / period.shape[dim]), dim)
    after = images.narrow(dim, 0, padded - before)
    return torch.cat([after, images.narrow(dim, images.shape[dim] - before, before)], dim)


def _line_spectra(x: torch.Tensor, n: int) -> torch.Tensor:
    """Returns `rfft(x, n)`, packed, by pairs of lines where the backend has no real transforms."""
    if _has_real_transforms(x.device):
        return rfft(x, n)
    return pack_spectrum(rfft_of_pairs(x, n))


def _lines(spectra: torch.Tensor, n: int) -> torch.Tensor:
    if spectra.shape[-1] > n // 2:
        return irfft(spectra, n)
    return irfft_of_pairs(unpack_spectrum(spectra), n)


def _has_real_transforms(device: torch.device) -> bool:
    # Compiled code assumes that the backend computes `rfft` faster than `fft`.
    if torch.compiler.is_compiling():
        return True
    return config.get_precision() == "double" or backend_for(device) != "matmul"


def _product(columns: torch.Tensor, spectrum: torch.Tensor) -> torch.Tensor:
    """Returns columns [..., M, N/2 + 1], or packed [..., M, N/2], times a spectrum.

    The packed column 0 is the transform of two real columns, X[0] and X[N/2], each with its own
    factor.
    """
    if columns.shape[-1] == spectrum.shape[-1]:
        return columns * spectrum
    first, last = separate_pair(columns[..., :1], -2)
    a, b = first * spectrum[..., :1], last * spectrum[..., -1:]
    pair = made_of(a.real - b.imag, a.imag + b.real, a)
    return torch.cat([pair, columns[..., 1:] * spectrum[..., 1:-1]], -1)


def _full(half: torch.Tensor) -> torch.Tensor:
    # from [..., M, N/2 + 1] to [..., M, N]
    rest = mirrored(half[..., 1:-1], -2).flip(-1).conj()
    return torch.cat([half, rest], -1)


def _interpolated(x: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """Returns `size` numbers over one period of x along `dim`, linear between the numbers of x."""
    period = x.shape[dim]
    steps = torch.arange(size, device=x.device) * period
    lower = steps // size
    weight = (steps % size).to(x.real.dtype) / size
    weight = weight[:, None] if dim == -2 else weight

    def along(part: torch.Tensor) -> torch.Tensor:
        below = part.index_select(dim, lower)
        return below + weight * (part.index_select(dim, (lower + 1) % period) - below)

    return each_part(along, x)


def _checked_size(size: Sequence[int]) -> Size:
    sizes = integers("size", size)
    if len(sizes) != 2 or min(sizes) < 1:
        raise ValueError(f"argument 'size' is {brief(size)}, allowed are (H, W) of 1 pixel or more")
    if sizes[0] * sizes[1] > MOST_PIXELS:
        raise ValueError(
            f"argument 'size' is {brief(size)}, allowed are (H, W) of up to {MOST_PIXELS} pixels, "
            f"2 GiB; split the picture into tiles that overlap by the size of the PSF"
        )
    return sizes[0], sizes[1]


def _check_image(image: torch.Tensor) -> None:
    if image.ndim < 2 or 0 in image.shape[-2:]:
        raise ValueError(
            f"argument 'image' has shape {tuple(image.shape)}, allowed are [H, W], [C, H, W] and "
            f"[..., C, H, W] with H and W of 1 or more; reshape it"
        )
