"""How far a result may be from its exact value: the one place where all tests find tolerances.

A floating-point operation returns its exact result times 1 + d with |d| <= u, half the distance
between numbers near 1. Rounding errors of different operations are independent and have mean zero,
as in "A new approach to probabilistic rounding error analysis" (N. Higham, T. Mary, SIAM J. Sci.
Comput. 41, 2019), and d has a variance of u^2 / 3 at most. Errors of consecutive steps then add
like independent random numbers.

Sums: A processor may add in any order, and the worst order adds one term after the other. The sum
of the first k of L terms with random signs has a norm that grows like sqrt(k). Its rounding adds at
most u^2 k / 3 to the square of the error, and the rounding of a product adds u^2 / 3. All of them
together are at most u^2 L (L + 3) / 6, where the square of the result is L. This is a relative L2
error below 0.82 u sqrt(L). `sums` allows 2 u sqrt(L).

Transforms: A stage of radix r computes sums of 2 r products for each part of a number. Its error is
0.41 u sqrt(2 r + 3) by the formula above, and log2(N) is the sum of the logarithms of the radices.
Up to 128, the largest radix of a tensor engine, the error is largest for r = 128: 2.5 u for
each sqrt(log2(N)). `transforms` allows 4 u sqrt(log2(N)).

In float64, MKL computes some prime factors p of a length by a sum. On some processors the twiddles
are products of earlier ones, and errors grow with p, up to 2.8 u p for p = 103. A complex product
has a relative error of sqrt(5) u at most ("Error bounds on complex floating-point multiplication",
R. Brent, C. Percival, P. Zimmermann, Math. Comp. 76, 2007), and the root of unity by which MKL
multiplies has one of sqrt(1/2) u. After p products a twiddle is off by (sqrt(5) + sqrt(1/2)) p u at
most. `transforms` allows that in float64, for p up to 256.

`near` compares relative L2 errors with these tolerances, which have room for a factor of 1.6.
Additionally, no single number may be wrong by more than 4 times the tolerance of the largest one:
of 1.7 million normal errors one exceeds 5 of their standard deviations. The norm of n such errors
exceeds sqrt(n) + 5 standard deviations with a probability below exp(-25 / 2), by the concentration
of Gaussian measure. So `near` allows (1 + 5 / sqrt(n)) / 1.6 times the tolerance for fewer than 70
numbers.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

# Half the distance between numbers near 1, for each dtype.
UNITS = {
    "bfloat16": 2.0**-8,
    "float16": 2.0**-11,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
    "complex32": 2.0**-11,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}
MARGINS = "TRNFFT_MARGINS"  # the variable with the file to which `near` appends its margins


def unit(dtype: Any) -> float:
    """Returns the unit roundoff of a dtype of NumPy or torch, or of its name."""
    if isinstance(dtype, type):
        dtype = np.dtype(dtype)
    return UNITS[str(dtype).removeprefix("torch.")]


def sums(length: int, dtype: Any = "float32") -> float:
    """Returns the tolerance of sums of `length` products; 1 for products and other single steps."""
    return 2 * unit(dtype) * math.sqrt(max(length, 1))


def transforms(n: int | Sequence[int], count: float = 1, dtype: Any = "float32") -> float:
    """Returns the tolerance of `count` transforms of length or shape `n`, one after the other.

    Bluestein's algorithm is two transforms of a length of up to 4 N: `transforms(4 * n, 2)`.
    """
    points = n if isinstance(n, int) else math.prod(n)
    allowed = 4 * unit(dtype) * math.sqrt(count * math.log2(max(points, 2)))
    if unit(dtype) != UNITS["float64"]:
        return allowed
    twiddles = (math.sqrt(5) + math.sqrt(1 / 2)) * min(points, 256) * unit(dtype)
    return together(allowed, count * twiddles)


def operands(stages: float, dtype: Any = "bfloat16") -> float:
    """Returns the tolerance of stages that round their data and their matrices to `dtype`.

    Sums are exact beside these two roundings of each product, each of which has an error of u /
    sqrt(3) at most.
    """
    return math.sqrt(2 * stages) * unit(dtype)


def contractions(length: int, dtype: Any = "float32") -> float:
    """Returns the tolerance of `sums` that a matrix product makes of 128 products at a time."""
    return together(sums(min(length, 128), dtype), sums(-(-length // 128), dtype))


def equal_sums(length: int, dtype: Any = "float32") -> float:
    """Returns the tolerance of sums of equal numbers, whose roundings are equal, too.

    While partial sums have one exponent, each addition has the same error. So errors add up like
    numbers, not like their squares: to u / 2 for each addition at most, and as much for products.
    """
    return sums(max(1, length * length // 4), dtype)


def elementary(dtype: Any = "float32") -> float:
    """Returns the tolerance of a function such as exp, whose result is rounded to `dtype`.

    It is computed in float32 at least, where NumPy's functions are within 4 units in the last
    place, which are 8 u at most.
    """
    return 8 * min(unit("float32"), unit(dtype)) + sums(1, dtype)


def phases(largest: float, step: float) -> float:
    """Returns the tolerance of factors exp(i phase) of phases whose tolerance is `step`.

    |exp(i (phase + d)) - exp(i phase)| is at most |d|.

    Args:
        largest: the absolute value of the largest phase, or of a number whose difference it is.
        step: the relative tolerance of a phase, such as that of `sums` or `elementary`.
    """
    return largest * step


def pairs(stages: float) -> float:
    """Returns the tolerance of stages whose operands are pairs of bfloat16 numbers.

    The second number of a pair rounds what the first one's rounding has left, and the product of
    two second numbers is left out: three errors of u^2 / 3 in place of two of u / sqrt(3).
    """
    return unit("bfloat16") * operands(stages / 2)


def together(*tolerances: float) -> float:
    """Returns the tolerance of steps one after the other, whose errors are independent."""
    return math.hypot(*tolerances)


def near(
    actual: Any,
    expected: Any,
    tolerance: float,
    *,
    scale: Any = None,
    rows: bool = False,
    each: bool = False,
    message: str = "",
) -> None:
    """Fails unless `actual` equals `expected` to within a tolerance from this file.

    Both have to have the same shape. Values that are not finite have to be the same.

    Args:
        actual: a number or an array of NumPy or torch, also a ComplexTensor.
        expected: what it should be, in whatever precision.
        tolerance: of the L2 error, relative to the norm of `expected`.
        scale: an array, relative to whose norm the error is measured, where numbers cancel: the
            result before it cancels. By default `expected`.
        rows: measures each index of the first dimension on its own, where rows differ in size.
        each: measures each number on its own, for functions of one number.
        message: what a failure says in addition, such as the case.
    """
    found, exact = as_array(actual), as_array(expected)
    assert found.shape == exact.shape, f"shapes {found.shape} and {exact.shape}; {message}"
    against = exact if scale is None else as_array(scale)
    if rows:
        for row, (one, other) in enumerate(zip(found, exact, strict=True)):
            size = None if scale is None else against[row]
            near(one, other, tolerance, scale=size, each=each, message=f"row {row} {message}")
        return
    is_finite = np.isfinite(exact)
    np.testing.assert_array_equal(found[~is_finite], exact[~is_finite], message)
    found, exact = found[is_finite], exact[is_finite]
    if each:
        ratio = largest_ratio(np.abs(found - exact), np.abs(exact)) / tolerance
    else:
        ratio = error_ratio(found - exact, against[np.isfinite(against)]) / tolerance
    write_margin(ratio)
    assert ratio <= 1, f"the error is {ratio:.3g} times the tolerance {tolerance:.3g}; {message}"


def error_ratio(difference: np.ndarray, against: np.ndarray) -> float:
    """Returns the relative L2 error, less for few numbers, or a fourth of the largest one.

    The largest error is relative to the largest number.
    """
    error, size = np.abs(difference), np.abs(against)
    root = math.sqrt(error.size / max(size.size, 1))  # `against` may have another shape
    norms = largest_ratio(np.linalg.norm(error), root * np.linalg.norm(size))
    norms /= max(1.0, (1 + 5 / math.sqrt(max(error.size, 1))) / 1.6)
    return max(norms, largest_ratio(error.max(initial=0.0), 4 * size.max(initial=0.0)))


def largest_ratio(errors: Any, sizes: Any) -> float:
    """Returns the largest error / size, where that of no error is 0, and NaN is the largest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(errors == 0, 0.0, np.divide(errors, sizes))
    return float(ratios.max(initial=0.0))


def relative_error(actual: Any, expected: Any) -> float:
    """Returns the relative L2 error, for quoted figures and where it has to be large."""
    exact = as_array(expected)
    return float(np.linalg.norm(as_array(actual) - exact) / np.linalg.norm(exact))


def holds(measured: float, quoted: float, message: str = "") -> None:
    """Fails unless a quoted error is above a measured one, with room, and by a factor of 4 at most.

    A page quotes at least 1.5 times what was measured: another processor adds in another order.
    """
    write_margin(measured / quoted)
    assert measured <= quoted, f"{measured:.3g} is above the quoted {quoted:.3g}; {message}"
    assert quoted <= 4 * measured, f"{quoted:.3g} is quoted, {measured:.3g} measured; {message}"


def as_array(x: Any) -> np.ndarray:
    """Returns numbers in float64 or complex128: of NumPy, of torch or of a ComplexTensor."""
    if (torch := sys.modules.get("torch")) and isinstance(x, torch.Tensor):
        import trnfft

        x = trnfft.as_native(x.detach().cpu()).resolve_conj().resolve_neg()
        x = x.to(torch.complex128 if x.is_complex() else torch.float64).numpy()
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def write_margin(ratio: float) -> None:
    """Appends the running test and error / tolerance to the file that `MARGINS` names, if any."""
    if path := os.environ.get(MARGINS):
        test = os.environ.get("PYTEST_CURRENT_TEST", "no test").rsplit(" (", 1)[0]
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{ratio:.4g}\t{test}\n")
