"""Ways to write a transform length as a product of radices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations

from trnfft.base.cache import cached

LARGEST_RADIX = 128  # rows of the systolic array
SMOOTH_PRIMES = (2, 3, 5, 7, 11, 13)  # the prime factors with which every FFT library is fast


def prime_factors(n: int) -> tuple[int, ...]:
    """Returns the prime factors of n >= 1 in ascending order, each as often as it divides n."""
    factors = []
    divisor = 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    if n > 1:
        factors.append(n)
    return tuple(factors)


def smooth_numbers(
    least: int, most: int, odd_primes: tuple[int, ...] = SMOOTH_PRIMES[1:]
) -> list[int]:
    """Returns the numbers from `least` to `most` whose prime factors are 2 and these, ascending."""
    odd = [1]
    for prime in odd_primes:
        for number in odd:  # the list grows meanwhile: every multiple is multiplied again
            if number * prime <= most:
                odd.append(number * prime)
    smooth = []
    for number in odd:
        # the first multiple by a power of two from `least` on
        number <<= (-(-least // number) - 1).bit_length()
        while number <= most:
            smooth.append(number)
            number *= 2
    return sorted(smooth)


@cached(4096)
def next_smooth_number(least: int) -> int:
    """Returns the first number from `least` on that has no prime factor above 13."""
    return smooth_numbers(least, 5 * least // 4)[0]


def radix_lists(
    n: int,
    rank: Callable[[tuple[int, ...]], float | tuple[float, ...]],
    limit: int,
    largest: int = LARGEST_RADIX,
    spare: int = 1,
) -> list[tuple[int, ...]]:
    """Returns ordered lists of radices with product n, the likeliest first.

    All stages cost about the same, whatever their radix. So only lists with the fewest possible
    stages, or a few more, are worth a price. Their order counts, because it decides how many
    matrices a stage needs.

    Args:
        n: length of the transform, at least 2.
        rank: the sorting key of a list; smaller is better.
        limit: the largest number of lists to return.
        largest: the largest radix; the smallest is 2.
        spare: how many more stages than the fewest a list may have.

    Returns:
        At most `limit` tuples; none where n has a prime factor above `largest`.
    """
    if prime_factors(n)[-1] > largest:
        return []
    fewest = 1
    while not any(_products(n, fewest, 2, largest)):
        fewest += 1
    counts = range(fewest, fewest + spare + 1)
    unordered = [radices for count in counts for radices in _products(n, count, 2, largest)]
    ordered = {order for radices in unordered for order in permutations(radices)}
    return sorted(ordered, key=lambda radices: (rank(radices), radices))[:limit]


def _products(n: int, count: int, least: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yields non-descending tuples of `count` numbers from `least` to `largest` with product n."""
    if count == 1:
        if least <= n <= largest:
            yield (n,)
        return
    for first in range(least, min(largest, math.isqrt(n)) + 1):
        if n % first == 0:
            for rest in _products(n // first, count - 1, first, largest):
                yield (first, *rest)


def seed_radices(n: int) -> tuple[int, ...] | None:
    """Returns n as [8^a, 4^b] with as many eights as possible, eights first, or None."""
    bits = n.bit_length() - 1
    if n != 1 << bits or bits < 2:
        return None
    fours = -bits % 3  # 2 bits each: 3 a + 2 b = bits with b < 3
    return (8,) * ((bits - 2 * fours) // 3) + (4,) * fours
