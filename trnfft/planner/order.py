"""The planned order: the order in which the stages leave the frequencies if nothing reorders them.

A stage replaces one digit of the position by one digit of the frequency. With radices r1 ... rs,
whose digits are k1 ... ks,

    position  = ((k1 r2 + k2) r3 + k3) ... + ks      frequency = k1 + r1 (k2 + r2 (k3 + ...)),

so for two stages position K r2 + q holds frequency K + r1 q. The radices are those by which the
backend "matmul" transforms the length. They are used on every backend, chip and precision, so the
order depends on the length alone. It is the natural order for a single stage, for Bluestein's
convolution, and for lengths without a plan.

`trnfft.fft(..., order="planned")` returns a spectrum in this order, and `trnfft.ifft` with the same
argument reads it. An operation on each frequency separately, such as the product with another
spectrum, needs no reordering. See `docs/planner.md`.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from trnfft.base.checks import brief
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds.kind import at_least_one
from trnfft.planner.planner import LONGEST, plan

MOST_POSITIONS = 2**28  # 2 GiB of int64


def frequencies(n: int) -> np.ndarray:
    """Returns the frequency at each position: planned = natural[..., frequencies(n)].

    Args:
        n: length of the transform.

    Returns:
        A permutation of 0 ... n - 1, an int64 array of shape [n].

    Raises:
        TypeError: `n` is not an int.
        ValueError: `n` is less than 1, or more than 2^28, for which the array would have 2 GiB.

    Examples:
        >>> import trnfft
        >>> trnfft.order.radices(256)
        (8, 32)
        >>> trnfft.order.frequencies(256)[:5]
        array([ 0,  8, 16, 24, 32])
    """
    return _digits_reversed(radices(n)[::-1])


def positions(n: int) -> np.ndarray:
    """Returns the position of each frequency: natural = planned[..., positions(n)].

    `n`, the array and the errors are as for `frequencies`.

    Examples:
        >>> import torch, trnfft
        >>> x = torch.arange(256.0)
        >>> planned = trnfft.fft(x, order="planned")
        >>> natural = planned[trnfft.order.positions(256)]
        >>> torch.allclose(natural, trnfft.fft(x), atol=0.01)
        True
    """
    return _digits_reversed(radices(n))


def mirrors(n: int) -> np.ndarray:
    """Returns the position of frequency -k for each position of a frequency k.

    For real data, X[-k] = conj X[k], so planned[..., mirrors(n)] = conj planned.

    `n`, the array and the errors are as for `frequencies`.

    Examples:
        >>> import trnfft
        >>> frequencies, mirrors = trnfft.order.frequencies(256), trnfft.order.mirrors(256)
        >>> int(frequencies[5]), int(frequencies[mirrors[5]])
        (40, 216)
    """
    return positions(n)[-frequencies(n)]


def radices(n: int) -> tuple[int, ...]:
    """Returns the radices whose digits the planned order reverses; (n,) for the natural order."""
    try:
        digits, transformed = stages(n)
    except NotImplementedError:
        return (n,)
    return digits if transformed == n else (n,)


def stages(n: int) -> tuple[tuple[int, ...], int]:
    """Returns the radices by which the backend "matmul" transforms length n, and their product.

    The product is longer than n for Bluestein's convolution.
    """
    return _stages(at_least_one("n", n))


# Every transform by matrix products calls this function. `cache.cached` would take 5 us,
# functools.lru_cache takes 0.1 us and is bounded and safe in threads as well. Threads that need the
# same plan wait in `plan`, which uses `cache.cached`.
@functools.lru_cache(4096)
def _stages(n: int) -> tuple[tuple[int, ...], int]:
    fast = plan(n, precision="fast", target="trn1", cores=1)
    ways = (candidate.recipe for candidate in fast.candidates)
    recipe = next(way for way in ways if ALGORITHMS[way.algorithm].has_stages)
    if recipe.inner is not None:
        return recipe.inner.radices, recipe.inner.n
    # DFT-GEMM is one stage. So is the butterfly of two points, the only butterfly ever chosen.
    return recipe.radices or (recipe.n,), recipe.n


def _digits_reversed(radices: tuple[int, ...]) -> np.ndarray:
    """Returns the numbers whose digits in these radices, reversed, are those of 0, 1, ..."""
    n = math.prod(radices)
    if n > MOST_POSITIONS:
        raise ValueError(
            f"argument 'n' is {brief(n)}, allowed is 1 to {MOST_POSITIONS}; from {LONGEST + 1} on "
            f"there is no plan, and the planned order is the natural one"
        )
    return np.arange(n).reshape(radices).transpose().reshape(-1)
