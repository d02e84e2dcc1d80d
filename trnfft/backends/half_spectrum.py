"""Half spectra of real data, which are the first N // 2 + 1 numbers, and whole spectra."""

from typing import Any

import torch

Parts = tuple[torch.Tensor, torch.Tensor]


def half_of(real: torch.Tensor, imag: torch.Tensor) -> Parts:
    """Returns the first N // 2 + 1 numbers."""
    half = real.shape[-1] // 2 + 1
    return real[..., :half], imag[..., :half]


def with_real_mirrors(
    half: tuple[torch.Tensor, ...], sizes: tuple[int, ...], inverse: bool
) -> Parts:
    """Writes zeros into a fresh half spectrum of real data where it has to be real; returns it.

    This is where X[k] = conj X[-k] is its own mirror: 2 k = 0 modulo N along each of the last
    dimensions. For an inverse the zeros have the signs of torch.fft's results. torch.fft conjugates
    the spectrum of the last dimension and sums along the others: a sum of -0.0 is -0.0, a
    difference is 0.0.
    """
    real, imag = half
    if imag.device.type == "xla":  # the graphs of XLA would scatter
        return real, _with_zeros_chosen(imag, sizes, inverse)
    mirrors: Any = (..., *(slice(None, None, n // 2 if n % 2 == 0 else n) for n in sizes))
    own = imag[mirrors].zero_()
    if inverse:
        first: Any = (..., *[0] * (len(sizes) - 1), slice(None))
        own[first].neg_()
    return real, imag


def _with_zeros_chosen(imag: torch.Tensor, sizes: tuple[int, ...], inverse: bool) -> torch.Tensor:
    """Returns the imaginary part of `with_real_mirrors` without writing into a tensor."""
    zero = imag.new_zeros(())
    own = first = torch.ones((), dtype=torch.bool, device=imag.device)
    for n, length in zip(sizes, imag.shape[-len(sizes) :], strict=True):
        k = torch.arange(length, device=imag.device)
        own = own[..., None].bitwise_and(2 * k % n == 0)
        first = first[..., None].bitwise_and(k == 0)
    first = first[..., :1]  # all of the last dimension
    return torch.where(own, torch.where(first, -zero, zero) if inverse else zero, imag)


def whole_of(real: torch.Tensor, imag: torch.Tensor, n: int) -> Parts:
    """Returns the N numbers with X[N-k] = conj X[k], of which the first N // 2 + 1 are given.

    The imaginary parts of X[0] and, for even N, of X[N/2] count as zero.
    """
    interior = slice(1, (n + 1) // 2)
    zero = torch.zeros_like(imag[..., :1])
    edge = [zero] if n % 2 == 0 else []
    inner = imag[..., interior]
    real = torch.cat([real, real[..., interior].flip(-1)], -1)
    return real, torch.cat([zero, inner, *edge, -inner.flip(-1)], -1)


def interior(like: torch.Tensor, n: int, weight: float) -> torch.Tensor:
    """Returns `weight` for each of n // 2 + 1 numbers whose conjugate is not among them, else 1."""
    ones = like.new_ones(1)
    inner = like.new_full(((n - 1) // 2,), weight)
    return torch.cat([ones, inner, ones[: 1 - n % 2]])
