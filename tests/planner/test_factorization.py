"""Prime factors, lists of radices, and the seed article's [8^a, 4^b]."""

import math

import pytest

from trnfft.planner.factorization import (
    prime_factors,
    radix_lists,
    seed_radices,
    smooth_numbers,
)


def test_prime_factors_multiply_to_the_number():
    for n in range(1, 2000):
        factors = prime_factors(n)
        assert math.prod(factors) == n
        assert list(factors) == sorted(factors)
        assert all(all(p % d for d in range(2, p)) for p in factors)


def test_radix_lists_hold_every_order_and_follow_the_rank():
    lists = radix_lists(4096, lambda radices: (len(radices), radices[0]), limit=3)
    assert lists == [(32, 128), (64, 64), (128, 32)]


def ordered_products(n, largest):
    """Every tuple of factors from 2 to `largest` with the product n."""
    found = [(n,)] if n <= largest else []
    for first in range(2, min(n, largest) + 1):
        if n % first == 0 and n > first:
            found += [(first, *rest) for rest in ordered_products(n // first, largest)]
    return found


@pytest.mark.parametrize("largest", [7, 16])
def test_radix_lists_are_all_there_are_of_so_few_stages(largest):
    for n in range(2, 257):
        possible = ordered_products(n, largest)
        fewest = min(map(len, possible), default=0)
        expected = {radices for radices in possible if len(radices) <= fewest + 1}
        assert set(radix_lists(n, len, limit=10**6, largest=largest)) == expected


def test_smooth_numbers_of_every_range():
    smooth = [n for n in range(1, 150) if max(prime_factors(n), default=2) <= 5]
    for least in range(1, 70):
        for most in range(least, 150, 7):
            assert smooth_numbers(least, most, (3, 5)) == [n for n in smooth if least <= n <= most]


def test_the_seeds_radices():
    assert seed_radices(512) == (8, 8, 8)
    assert seed_radices(1024) == (8, 8, 4, 4)
    assert seed_radices(2048) == (8, 8, 8, 4)
    assert seed_radices(4096) == (8, 8, 8, 8)
    for n in (2, 12, 1000):
        assert seed_radices(n) is None
    for exponent in range(2, 30):
        assert math.prod(seed_radices(2**exponent)) == 2**exponent
