"""Cosine and sine transforms of types I to IV, by `c2c`, `r2c` and `c2r`.

Along one dimension of N points, for k = 0 ... N-1 (the definitions of scipy.fft):

    DCT-I    y[k] = x[0] + (-1)^k x[N-1] + 2 sum_(0<n<N-1) x[n] cos(pi k n / (N-1))
    DCT-II   y[k] = 2 sum_n x[n] cos(pi k (2n+1) / 2N)
    DCT-III  y[k] = x[0] + 2 sum_(n>0) x[n] cos(pi (2k+1) n / 2N)
    DCT-IV   y[k] = 2 sum_n x[n] cos(pi (2k+1) (2n+1) / 4N)
    DST-I    y[k] = 2 sum_n x[n] sin(pi (k+1) (n+1) / (N+1))
    DST-II   y[k] = 2 sum_n x[n] sin(pi (k+1) (2n+1) / 2N)
    DST-III  y[k] = (-1)^k x[N-1] + 2 sum_(n<N-1) x[n] sin(pi (2k+1) (n+1) / 2N)
    DST-IV   y[k] = 2 sum_n x[n] sin(pi (2k+1) (2n+1) / 4N)

Type I is the real (or imaginary) part of the transform of x between its mirror images. It has 2
(N-1) points, or, for sines, 2 (N+1) points with odd images between zeros.

Types II and III (Makhoul, "A fast cosine transform in one and two dimensions", 1980) take the even
numbers of x, then the odd ones from the last on. These have a transform V of length N with

    y[k] = w[k] V[k] + conj(w[k]) V[-k],    w[k] = exp(-pi i k / 2N)
    V[k] = conj(w[k]) (y[k] - i y[N-k]) / 2,    y[N] = 0

For real x, V[-k] = conj V[k], and half of V contains everything: y[k] = 2 Re(w V)[k] and y[N-k] =
-2 Im(w V)[k]. As these formulas are linear along each dimension, several dimensions take one
transform of several dimensions.

Type IV of even N is a complex transform of half the length, with t[n] = exp(-pi i (8n+1) / 8N):

    z[k] = 2 t[k] sum_n t[n] (x[2n] + i x[N-1-2n]) exp(-2 pi i n k / (N/2))
    y[2k] = Re z[k],    y[N-1-2k] = -Im z[k]

Type IV of odd N (Chan & Ho, "Direct methods for computing discrete sinusoidal transforms", 1990) is
a real transform U of length N. Continue x beyond its end by -x[N-1] ... -x[0], -x[0] ..., take
every second number from c = (N-1)/2 on, and change the sign of every second of these: this is u[j].
Then

    y[k] = 2 Re(exp(-pi i (2k+1) / 4) U[k - c])

The sine transforms are those of cosines, with signs and in reverse order:

    DST-II x = DCT-II((-1)^n x) backwards, DST-III x = (-1)^k DCT-III(x backwards), IV as III

Factors, also those of `norm` and of orthogonal matrices, are contained in the tables of w and t.
Derivatives are those of torch's operations and of the transforms.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trnfft.backends.backend import Call, Parts
from trnfft.backends.device_tables import tables_like
from trnfft.ops.operand import Operand
from trnfft.ops.transforms import transformed_parts, transformed_values

SQRT2 = 2**0.5


@dataclass(frozen=True)
class RealTransform:
    """A cosine or sine transform of several dimensions.

    Attributes:
        type: 1, 2, 3 or 4.
        is_sine: whether it is a sum of sines.
        sizes: lengths, which are those of the input.
        dims: the dimensions, each once, counted from the end: -1 is the last one.
        scale: a factor on the result.
        is_orthogonal: whether the matrix is made orthogonal up to a factor. y[0] is then divided by
            sqrt(2) (II), or x[0] multiplied by it (III), or both, and so y[N-1] and x[N-1] (DCT-I).
            For DST-II and DST-III, y[N-1] and x[N-1] take the place of y[0] and x[0].
    """

    type: int
    is_sine: bool
    sizes: tuple[int, ...]
    dims: tuple[int, ...]
    scale: float
    is_orthogonal: bool

    def scale_along(self, dim: int) -> float:
        """Returns the factor of one dimension: the whole factor for the last one, else 1."""
        return self.scale if dim == self.dims[-1] else 1.0

    def twiddles(self, x: torch.Tensor, dim: int, n: int) -> Parts:
        """Returns parts of conj w along a dimension, with all factors; half for the last."""
        is_last = dim == self.dims[-1]
        scale = self.scale_along(dim) * (2.0 if self.type == 2 and is_last else 1.0)
        root = SQRT2 if self.type == 3 else 1 / SQRT2
        first = root if self.is_orthogonal else 1.0
        count = n // 2 + 1 if is_last else n
        return tables_like(x, _twiddles, n, count, -dim - 1, scale, first)

    def whole_dims(self, x: torch.Tensor) -> tuple[int, ...]:
        """Returns the dimensions, counted from 0."""
        return tuple(dim + x.ndim for dim in self.dims)


def transformed(given: Operand, asked: RealTransform) -> torch.Tensor:
    """Returns the transform of real numbers in float32 or float64. Differentiable."""
    return (_type_1, _type_2, _type_3, _type_4)[asked.type - 1](given, asked)


def _type_1(given: Operand, asked: RealTransform) -> torch.Tensor:
    x, weights = given.like, []
    if asked.is_orthogonal and not asked.is_sine:
        for dim, n in zip(asked.dims, asked.sizes, strict=True):
            weights.append(tables_like(x, _edges, n, -dim - 1))
    for before, _ in weights:
        x = x * before
    for dim in asked.dims:
        x = _odd_images(x, dim) if asked.is_sine else _even_images(x, dim)
    dims = asked.whole_dims(x)
    sizes = tuple(x.shape[dim] for dim in dims)
    real, imag = transformed_parts(given.of(x), Call("r2c", False, sizes, dims))
    y, sign = real, 1
    if asked.is_sine:  # i^-d, whose sign the product of the sines has
        y = imag if len(dims) % 2 else real
        sign = 1 if len(dims) % 4 in (0, 3) else -1
    for dim, n in zip(asked.dims, asked.sizes, strict=True):
        y = y.narrow(dim, int(asked.is_sine), n)
    y = y * (sign * asked.scale)
    for _, after in weights:
        y = y * after
    return y


def _even_images(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns x[0] ... x[N-1], x[N-2] ... x[1]."""
    return torch.cat([x, x.narrow(dim, 1, x.shape[dim] - 2).flip(dim)], dim)


def _odd_images(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns 0, x[0] ... x[N-1], 0, -x[N-1] ... -x[0]."""
    zero = torch.zeros_like(x.narrow(dim, 0, 1))
    return torch.cat([zero, x, zero, -x.flip(dim)], dim)


def _type_2(given: Operand, asked: RealTransform) -> torch.Tensor:
    x = given.like
    for dim in asked.dims:
        even, odd = _every_second(x, dim, 0), _every_second(x, dim, 1)
        x = torch.cat([even, _signed(odd.flip(dim), asked)], dim)
    call = Call("r2c", False, asked.sizes, asked.whole_dims(x))
    parts = transformed_parts(given.of(x), call)
    for dim, n in zip(asked.dims[:-1], asked.sizes[:-1], strict=True):
        parts = _with_mirrored(parts, dim, asked.twiddles(x, dim, n))
    real, imag = parts
    dim, n = asked.dims[-1], asked.sizes[-1]
    cosine, sine = asked.twiddles(x, dim, n)
    first = real * cosine + imag * sine
    rest = (real * sine - imag * cosine).narrow(dim, 1, (n - 1) // 2)
    y = torch.cat([first, rest.flip(dim)], dim)
    return y.flip(asked.dims) if asked.is_sine else y


def _with_mirrored(parts: Parts, dim: int, tables: Parts) -> Parts:
    """Returns w V[k] + conj(w) V[-k] along a dimension, for complex V and the parts of conj w."""
    (real, imag), (cosine, sine) = parts, tables
    opposite_real, opposite_imag = (_opposite(part, dim) for part in parts)
    return (
        cosine * (real + opposite_real) + sine * (imag - opposite_imag),
        cosine * (imag + opposite_imag) - sine * (real - opposite_real),
    )


def _opposite(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns x[-k]: the first number, then the others in reverse order."""
    first, rest = x.narrow(dim, 0, 1), x.narrow(dim, 1, x.shape[dim] - 1)
    return torch.cat([first, rest.flip(dim)], dim)


def _type_3(given: Operand, asked: RealTransform) -> torch.Tensor:
    x = given.like.flip(asked.dims) if asked.is_sine else given.like
    dim, n = asked.dims[-1], asked.sizes[-1]
    cosine, sine = asked.twiddles(x, dim, n)
    first, backwards = (part.narrow(dim, 0, n // 2 + 1) for part in (x, _from_zero(x, dim)))
    real, imag = cosine * first + sine * backwards, sine * first - cosine * backwards
    for dim, n in zip(asked.dims[:-1], asked.sizes[:-1], strict=True):
        cosine, sine = asked.twiddles(x, dim, n)
        a, b = real + _from_zero(imag, dim), imag - _from_zero(real, dim)
        real, imag = cosine * a - sine * b, sine * a + cosine * b
    call = Call("c2r", True, asked.sizes, asked.whole_dims(x), "forward")
    (y,) = transformed_values(given.of(real, imag), call)
    for dim, n in zip(asked.dims, asked.sizes, strict=True):
        even, odd = y.narrow(dim, 0, (n + 1) // 2), y.narrow(dim, (n + 1) // 2, n // 2)
        y = _interleaved(even, _signed(odd.flip(dim), asked), dim)
    return y


def _from_zero(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns x[N-k] with x[N] = 0."""
    rest = x.narrow(dim, 1, x.shape[dim] - 1)
    return torch.cat([torch.zeros_like(x.narrow(dim, 0, 1)), rest.flip(dim)], dim)


def _type_4(given: Operand, asked: RealTransform) -> torch.Tensor:
    for dim, n in zip(asked.dims, asked.sizes, strict=True):
        # not x.shape[dim], of which compiled code may not know the number
        given = given.of((_type_4_odd if n % 2 else _type_4_even)(given, dim, n, asked))
    return given.like


def _type_4_even(given: Operand, dim: int, n: int, asked: RealTransform) -> torch.Tensor:
    x = given.like
    a, b = _every_second(x, dim, 0), _every_second(x, dim, 1).flip(dim)
    a, b = (b, a) if asked.is_sine else (a, b)
    scale = asked.scale_along(dim)
    cosine, sine, last_cosine, last_sine = tables_like(x, _halves, n, -dim - 1, scale)
    z = given.of(a * cosine + b * sine, b * cosine - a * sine)
    z_real, z_imag = transformed_parts(z, Call("c2c", False, (n // 2,), (dim + x.ndim,)))
    real = z_real * last_cosine + z_imag * last_sine
    imag = z_real * last_sine - z_imag * last_cosine
    return _interleaved(real, _signed(imag.flip(dim), asked), dim)


def _type_4_odd(given: Operand, dim: int, n: int, asked: RealTransform) -> torch.Tensor:
    x = given.like
    backwards = x.flip(dim)
    x, backwards = (backwards, x) if asked.is_sine else (x, backwards)
    scale = asked.scale_along(dim)
    signs, cosine, sine = tables_like(x, _chan_ho, n, -dim - 1, scale, asked.is_sine)
    u = _every_second(torch.cat([x, -backwards, -x], dim), dim, n // 2).narrow(dim, 0, n) * signs
    half = transformed_parts(given.of(u), Call("r2c", False, (n,), (dim + x.ndim,)))
    real, imag = (torch.cat([part.narrow(dim, 1, n // 2).flip(dim), part], dim) for part in half)
    return real * cosine + imag * sine


def _every_second(x: torch.Tensor, dim: int, first: int) -> torch.Tensor:
    """Returns x[first], x[first + 2] ... along a dimension, which is counted from the end."""
    index: Any = (..., slice(first, None, 2), *[slice(None)] * (-dim - 1))
    return x[index]


def _interleaved(even: torch.Tensor, odd: torch.Tensor, dim: int) -> torch.Tensor:
    """Inverts `_every_second`: returns a tensor from its even and its odd numbers."""
    pairs = odd.shape[dim]
    last = even.narrow(dim, pairs, even.shape[dim] - pairs)  # the last number of an odd length
    y = torch.stack([even.narrow(dim, 0, pairs), odd], dim).flatten(dim - 1, dim)
    return torch.cat([y, last], dim) if last.shape[dim] else y


def _signed(odd: torch.Tensor, asked: RealTransform) -> torch.Tensor:
    return -odd if asked.is_sine else odd


# Tables of parts [N], followed by a dimension of size 1 for each of the other dimensions


def _edges(n: int, others: int) -> list[np.ndarray]:
    before = np.ones(n)
    before[[0, -1]] = SQRT2
    return _shaped([before, 1 / before], others)


def _twiddles(n: int, count: int, others: int, scale: float, first: float) -> list[np.ndarray]:
    """Returns the parts of scale conj w[k], k < count; those of k = 0 are multiplied by `first`."""
    angles = np.pi / (2 * n) * np.arange(count)
    weights = np.where(np.arange(count) == 0, scale * first, scale)
    return _shaped([weights * np.cos(angles), weights * np.sin(angles)], others)


def _halves(n: int, others: int, scale: float) -> list[np.ndarray]:
    angles = np.pi / (8 * n) * (8 * np.arange(n // 2) + 1)
    parts = [np.cos(angles), np.sin(angles)]
    return _shaped(parts + [2 * scale * part for part in parts], others)


def _chan_ho(n: int, others: int, scale: float, is_sine: bool) -> list[np.ndarray]:
    """Returns the signs of u, and the factors of the real and the imaginary part of U[|k - c|]."""
    signs = 1 - 2 * (np.arange(n) % 2)
    angles = np.pi / 4 * ((2 * np.arange(n) + 1) % 8)
    weights = 2 * scale * (signs if is_sine else 1)
    cosine, sine = weights * np.cos(angles), weights * np.sin(angles)
    return _shaped([signs, cosine, np.sign(np.arange(n) - n // 2) * sine], others)


def _shaped(parts: list[np.ndarray], others: int) -> list[np.ndarray]:
    return [part.reshape(-1, *[1] * others) for part in parts]
