"""The planned order: where the stages leave the frequencies when nothing reorders them.

A stage replaces one digit of the position by one digit of the frequency. With radices r1 ... rs,
whose digits are k1 ... ks,

    position  = ((k1 r2 + k2) r3 + k3) ... + ks      frequency = k1 + r1 (k2 + r2 (k3 + ...)),

so for two stages position K r2 + q holds frequency K + r1 q. The radices are those by which the
backend "matmul" transforms a length, whatever the backend, chip and precision: the order depends on
the length alone. It is the natural one for a single stage, for Bluestein's convolution, and for
lengths without a plan.

`trnfft.fft(..., order="planned")` gives a spectrum in this order and `trnfft.ifft` takes it. What
is done to each frequency by itself, as a product with another spectrum, needs no reordering.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from trnfft.checks import shown
from trnfft.planner.planner import LONGEST, plan
from trnfft.planner.problem import at_least_one

MOST_POSITIONS = 2**28  # 2 GiB of int64


def frequencies(n: int) -> np.ndarray:
    """The frequency at each position: planned = natural[..., frequencies(n)].

    Args:
        n: length of the transform.

    Returns:
        int64, [n]: a permutation of 0 ... n - 1.

    Raises:
        TypeError: `n` is no integer.
        ValueError: `n` is less than 1 or more than 2^28, which is 2 GiB of positions.
    """
    return _digits_reversed(radices(n)[::-1])


def positions(n: int) -> np.ndarray:
    """The position of each frequency: natural = planned[..., positions(n)]. As `frequencies`."""
    return _digits_reversed(radices(n))


def mirrors(n: int) -> np.ndarray:
    """The position of frequency -k for each position of a frequency k. As `frequencies`.

    Of real data X[-k] = conj X[k], so planned[..., mirrors(n)] = conj planned.
    """
    return positions(n)[-frequencies(n)]


def radices(n: int) -> tuple[int, ...]:
    """The radices whose digits the planned order reverses: (n,) where it is the natural one.

    Raises:
        TypeError, ValueError: as `frequencies`.
    """
    try:
        found, transformed = stages(n)
    except NotImplementedError:
        return (n,)
    return found if transformed == n else (n,)


def stages(n: int) -> tuple[tuple[int, ...], int]:
    """The radices by which the backend "matmul" transforms length n, and the length they transform.

    That is a longer one than n for Bluestein's convolution.

    Raises:
        TypeError, ValueError: as `frequencies`.
        NotImplementedError: there is no plan.
    """
    return _stages(at_least_one("n", n))


# Not `cache.cached`, which takes 5 us where every transform by matrix products asks: this one takes
# 0.1 us, and CPython bounds and locks it. Threads that want the same ask `plan`, which is of the
# other kind, so that one of them computes it.
@functools.lru_cache(4096)
def _stages(n: int) -> tuple[tuple[int, ...], int]:
    found = plan(n, precision="fast", target="trn1", cores=1)
    # The folded product is one for kernels: in torch it would be a whole DFT matrix.
    ways = (candidate.recipe for candidate in found.candidates)
    recipe = next(way for way in ways if way.algorithm != "folded_dft")
    if recipe.inner is not None:
        return recipe.inner.radices, recipe.inner.n
    # DFT-GEMM is one stage; so is the butterfly of two points, the only one that is a choice.
    return recipe.radices or (recipe.n,), recipe.n


def _digits_reversed(radices: tuple[int, ...]) -> np.ndarray:
    """The numbers whose digits of these radices, in reverse order, are those of 0, 1, ..."""
    n = math.prod(radices)
    if n > MOST_POSITIONS:
        raise ValueError(
            f"argument 'n' is {shown(n)}, allowed is 1 to {MOST_POSITIONS}; from {LONGEST + 1} on "
            f"there is no plan, and the planned order is the natural one"
        )
    return np.arange(n).reshape(radices).transpose().reshape(-1)
