"""FFTLog, the fast Hankel transform, with the arguments of `scipy.fft.fht`.

The Hankel transform is A(k) = integral of a(r) (kr)^q J_mu(kr) k dr over all r > 0. The function a
is given at n points r[j] = r_c exp((j - j_c) dln) with j_c = (n - 1)/2. The result A is at n points
k with the same distance in log k (Talman 1978; Hamilton, "Uncorrelated modes of the non-linear
power spectrum", 2000, appendix B). In log r and log k the transform is a correlation, and therefore
a product of half spectra:

    A = irfft(u rfft(a)) backwards,    y = 2 pi m / (n dln)
    u[m] = (k_c r_c)^(-iy) 2^(q+iy) G((mu + 1 + q + iy) / 2) / G((mu + 1 - q - iy) / 2)

Here G is the gamma function. For even n only the real part of the last u is used, because the
result is real. A `bias` q multiplies the input and the result by powers of r and k. `offset` is
log(k_c r_c). The inverse divides by conj u.

The product of rows and a spectrum is one launch where a kernel exists for the length, otherwise
two. u is computed in float64 and rounded once. Both transforms are differentiable, through the
derivative of the convolution.
"""

import math
import operator
import warnings

import numpy as np
import torch

from trnfft.backends.device_tables import tables_like
from trnfft.base.checks import finite
from trnfft.base.memory import check_memory
from trnfft.complex.kinds import made_of
from trnfft.complex.parts import is_sharded
from trnfft.functions.arguments import (
    Input,
    check_length,
    dimension,
    operand,
)
from trnfft.functions.fft import check_longest
from trnfft.ops.convolution import filtered_rows
from trnfft.ops.many_devices import of_shards
from trnfft.ops.operand import Operand

_LN2 = math.log(2)
_NEAREST = 1e-300  # the smallest distance whose phases float64 can hold
_LEAST, _MOST = -100.0, 1e6  # arguments of G: below, they take long; above, phases are not exact
_STIRLING_FROM = 10.0  # from this real part on, the terms below leave an error of 1e-17
# B[2k] / (2k (2k-1)): NIST Digital Library of Mathematical Functions, 5.11.1.
_STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400
)  # fmt: skip


def fht(
    a: torch.Tensor, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0
) -> torch.Tensor:
    """Returns the fast Hankel transform along the last dimension.

    The counterpart in SciPy is `scipy.fft.fht`. See `docs/more_transforms.md`. float64 is computed
    in float64, and all other floating-point dtypes in float32. Integers and bool are converted to
    torch's default dtype first. A transform is singular where u[0] is infinite; it then uses u[0] =
    0 and warns.

    Args:
        a: a real tensor of shape [..., n]: a function at points of equal distance in log r.
        dln: the distance of the points in log r.
        mu: order of the Bessel function.
        offset: log(k_c r_c), where r_c and k_c are the middles of both ranges; see `fhtoffset`.
        bias: exponent q of a power law, chosen such that a(r) r^(-q) is nearly periodic in log r.

    Returns:
        The transform at points of equal distance in log k, a real tensor with the shape of `a`.

    Raises:
        TypeError: an argument has the wrong type, or the backend lacks the dtype.
        IndexError: `a` has no dimension.
        ValueError: a number is not finite; `dln` is 0 or so small that u is not finite; or `mu` and
            `bias` are outside the range in which u can be computed.
        RuntimeError: `a` is complex, has another dtype that cannot be transformed, or has no
            points.
        NotImplementedError: the backend cannot compute this length or precision.

    Examples:
        >>> import torch, trnfft
        >>> r = torch.logspace(-4, 4, 128, dtype=torch.float64)
        >>> a = r * torch.exp(-(r**2) / 2)  # its Hankel transform of order 0 is k exp(-k^2 / 2)
        >>> dln = float(torch.log(r[1] / r[0]))
        >>> A = trnfft.fht(a, dln, mu=0.0)  # at k = r, because the offset is 0
        >>> float((A - a).abs().max()) < 1e-3
        True
    """
    return _transformed("a", a, dln, mu, offset, bias, inverse=False)


def ifht(
    A: torch.Tensor, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0
) -> torch.Tensor:
    """Returns the inverse of `fht` along the last dimension.

    The inverse is singular where u[0] is 0; it then uses 1 / u[0] = 0 and warns.

    Args:
        A: a real tensor of shape [..., n], as `fht` returns it.
        dln, mu, offset, bias: as given to `fht`.

    Examples:
        >>> import torch, trnfft
        >>> a = torch.tensor([1.0, 2.0, 3.0, 2.0, 1.0])
        >>> A = trnfft.fht(a, dln=0.1, mu=0.5)
        >>> trnfft.ifht(A, dln=0.1, mu=0.5).round(decimals=3)
        tensor([1., 2., 3., 2., 1.])
    """
    return _transformed("A", A, dln, mu, offset, bias, inverse=True)


def fhtoffset(dln: float, mu: float, initial: float = 0.0, bias: float = 0.0) -> float:
    """Returns the offset nearest to `initial` for which the last u of `fht` is real.

    Such an offset reduces ringing. The counterpart in SciPy is `scipy.fft.fhtoffset`.

    Args:
        dln, mu, bias: as for `fht`.
        initial: where the search begins.

    Examples:
        >>> import trnfft
        >>> print(f"{trnfft.fhtoffset(dln=0.1, mu=0.5):.4f}")
        -0.0276
    """
    dln, mu, initial, q = _numbers(dln, mu, "initial", initial, bias)
    y = math.pi / dln / 2
    with np.errstate(over="ignore", invalid="ignore"):
        upper, lower = (_log_gamma(np.array([(mu + 1 + s) / 2 + 1j * y]))[0].imag for s in (q, -q))
    turns = (_LN2 - initial) / dln + (upper + lower) / math.pi
    _check_finite(turns, dln, "initial", initial)
    return initial + (turns - round(turns)) * dln


def _transformed(
    name: str, a: Input, dln: float, mu: float, offset: float, bias: float, inverse: bool
) -> torch.Tensor:
    if is_sharded(a):
        function = ifht if inverse else fht
        return of_shards(function, a, (-1,), dln, mu, offset, bias)
    given = _prepared(name, a)
    a = given.like
    n = operator.index(a.shape[-1])  # torch.compile's sizes may be symbolic
    dln, mu, offset, bias = _numbers(dln, mu, "offset", offset, bias)
    _warn_if_singular(mu, bias, inverse)
    before, after, *spectrum = tables_like(a, _tables, n, dln, mu, offset, bias, inverse)
    a = a * before if bias else a
    y = filtered_rows(given.of(a), made_of(*spectrum, a)).flip(-1)
    return y * after if bias else y


def _prepared(name: str, a: Input) -> Operand:
    given = operand(name, a)
    if given.is_complex:
        raise RuntimeError(
            f"argument '{name}' has dtype {a.dtype}, allowed are real dtypes only; transform its "
            f".real and .imag"
        )
    dimension("axis", -1, given.like.ndim)
    points = given.like.shape[-1]
    check_length(name, None, points, points)
    check_longest(points, given)
    check_memory(f"argument '{name}' has {points} points", (points,), 64, "cpu")
    return given


def _numbers(
    dln: float, mu: float, name: str, offset: float, bias: float
) -> tuple[float, float, float, float]:
    dln = finite("dln", dln)
    if abs(dln) < _NEAREST:
        raise ValueError(
            f"argument 'dln' is {dln}, allowed is any distance of points in log r of {_NEAREST} or "
            f"more, of either sign"
        )
    mu, offset, bias = finite("mu", mu), finite(name, offset), finite("bias", bias)
    if not ((mu + 1 - abs(bias)) / 2 >= _LEAST and (mu + 1 + abs(bias)) / 2 <= _MOST):
        raise ValueError(
            f"arguments 'mu' and 'bias' are {mu} and {bias}, allowed are those with "
            f"(mu + 1 - |bias|) / 2 from {_LEAST} on and (mu + 1 + |bias|) / 2 up to {_MOST}"
        )
    return dln, mu, offset, bias


def _check_finite(values: np.ndarray | float, dln: float, name: str, offset: float) -> None:
    """Raises ValueError where the phases y, or their product with the offset, are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"arguments 'dln' and '{name}' are {dln} and {offset}, for which phases are beyond "
            f"float64; use a larger 'dln' or a smaller '{name}'"
        )


def _warn_if_singular(mu: float, q: float, inverse: bool) -> None:
    upper, lower = _is_pole((mu + 1 + q) / 2), _is_pole((mu + 1 - q) / 2)
    if upper != lower and (lower if inverse else upper):
        what = "inverse transform" if inverse else "transform"
        message = f"the {what} is singular for mu = {mu} and bias = {q}; use another bias"
        warnings.warn(message, stacklevel=4)


def _is_pole(x: float) -> bool:
    return x <= 0 and x == math.floor(x)


def _tables(
    n: int, dln: float, mu: float, offset: float, q: float, inverse: bool
) -> list[np.ndarray]:
    """Returns the factors of the input and of the result, and both parts of the half spectrum."""
    logs = (np.arange(n) - (n - 1) / 2) * dln
    before, after = np.exp(-q * logs), np.exp(-q * (logs + offset))
    u = _coefficients(n, dln, mu, offset, q)
    _check_finite(u[1:], dln, "offset", offset)
    if inverse:
        before, after = 1 / after, 1 / before
        with np.errstate(divide="ignore", invalid="ignore"):
            u = 1 / u.conj()
    u[0] = u[0].real if np.isfinite(u[0]) else 0
    return [before, after, u.real, u.imag]


def _coefficients(n: int, dln: float, mu: float, offset: float, q: float) -> np.ndarray:
    """Returns u[0] ... u[n // 2], of which the first may be infinite."""
    upper, lower = (mu + 1 + q) / 2, (mu + 1 - q) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        y = np.pi / (n * dln) * np.arange(n // 2 + 1)
        # G(conj z) = conj G(z). `lower` belongs to the denominator, whose argument has -iy.
        numerator, denominator = _log_gamma(upper + 1j * y), _log_gamma(lower + 1j * y).conj()
        u = np.exp(numerator - denominator + _LN2 * q + 2j * y * (_LN2 - offset))
    if _is_pole(upper) or _is_pole(lower):
        u[0] = 2.0**q * _ratio_at_poles(upper, lower)
    if n % 2 == 0:
        u[-1] = u[-1].real
    return u


def _ratio_at_poles(upper: float, lower: float) -> float:
    """Returns G(upper) / G(lower), as a limit, where one argument or both are poles."""
    if not _is_pole(upper):
        return 0.0
    if not _is_pole(lower):
        return math.inf
    first, count = min(upper, lower), round(abs(upper - lower))
    product = math.prod(first + i for i in range(count))
    return product if upper > lower else 1 / product


def _log_gamma(z: np.ndarray) -> np.ndarray:
    """Returns log G(z), up to multiples of 2 pi i, of numbers that share their real part.

    It is Stirling's series of z + steps, and G(z + 1) = z G(z) leads back to z.
    """
    steps = max(0, math.ceil(_STIRLING_FROM - z[0].real))
    logs = np.zeros_like(z)
    for i in range(steps):
        logs += np.log(z + i)
    z = z + steps
    series = sum(term / z ** (2 * k + 1) for k, term in enumerate(_STIRLING))
    return (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + series - logs
