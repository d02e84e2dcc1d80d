"""The split of a length that devices hold together into rows and columns: n = P Q.

There is one rule for transforms that run, `four_step.py`, and for plans, `plan.py`.
"""

from __future__ import annotations

import functools

from trnfft.planner.factorization import prime_factors


@functools.lru_cache(1024)
def rows_and_columns(n: int, devices: int) -> tuple[int, int]:
    """Returns the rows and columns P, Q with P Q = n, or (1, n) where there are none.

    Pairs that the devices divide evenly come first, because they need no alignment; then equal
    numbers; and of two pairs alike, the one with fewer rows.
    """
    pairs = [
        (n // q, q) for q in _divisors(n) if q >= devices and n // q >= devices and devices > 1
    ]
    if not pairs:
        return 1, n

    def badness(pair: tuple[int, int]) -> tuple[int, ...]:
        rows, columns = pair
        return rows % devices and 1, columns % devices and 1, abs(rows - columns), rows

    return min(pairs, key=badness)


def has_rows_and_columns(n: int, devices: int) -> bool:
    """Returns whether n is a product of two numbers, neither below the number of devices."""
    return rows_and_columns(n, devices) != (1, n)


def _divisors(n: int) -> list[int]:
    divisors = [1]
    factors = prime_factors(n)
    for prime in set(factors):
        powers = [prime**i for i in range(factors.count(prime) + 1)]
        divisors = [divisor * power for divisor in divisors for power in powers]
    return divisors
