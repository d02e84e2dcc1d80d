"""How a length that devices hold together is split into rows and columns: n = P Q.

One rule for what runs, `four_step.py`, and for what is planned, `plan.py`.
"""

from __future__ import annotations

import functools

from trnfft.planner.factorization import prime_factors


@functools.lru_cache(1024)
def split_of(n: int, devices: int) -> tuple[int, int]:
    """The rows and columns P, Q with P Q = n; (1, n) where there are none.

    Those that the devices divide evenly come first, as they need no alignment; then equal ones,
    and of two pairs alike the one with fewer rows.
    """
    found = [
        (n // q, q) for q in _divisors(n) if q >= devices and n // q >= devices and devices > 1
    ]
    if not found:
        return 1, n

    def badness(pair: tuple[int, int]) -> tuple[int, ...]:
        rows, columns = pair
        return rows % devices and 1, columns % devices and 1, abs(rows - columns), rows

    return min(found, key=badness)


def is_split(n: int, devices: int) -> bool:
    """Whether n is a product of two numbers, neither below the number of devices."""
    return split_of(n, devices) != (1, n)


def _divisors(n: int) -> list[int]:
    found = [1]
    factors = prime_factors(n)
    for prime in set(factors):
        powers = [prime**i for i in range(factors.count(prime) + 1)]
        found = [divisor * power for divisor in found for power in powers]
    return found
