"""The cache is bounded, and computes once for many threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from trnfft.cache import cached
from trnfft.planner import tables


def test_the_cache_forgets_what_was_not_used_for_longest():
    computed = []

    @cached(24, tables.bytes_of)
    def table(name, length=1):
        computed.append(name)
        return np.zeros(length)

    first = table("first")
    table("second")
    table("third")
    assert table("first") is first
    table("fourth")
    assert table.cache_info().currsize == 24
    assert table("first") is first
    table("second")
    assert computed == ["first", "second", "third", "fourth", "second"]


def test_what_is_too_large_is_not_kept_and_displaces_nothing():
    @cached(24, tables.bytes_of)
    def table(length):
        return np.zeros(length)

    small = table(1)
    assert table(4) is not table(4)
    assert table(1) is small
    assert table.cache_info().currsize == 8


def test_the_cache_computes_once_for_many_threads():
    computed = []

    @cached(2**20, tables.bytes_of)
    def table(name):
        computed.append(1)
        return np.zeros(10)

    with ThreadPoolExecutor(8) as pool:
        arrays = list(pool.map(table, ["key"] * 64))
    assert len(computed) == 1
    assert all(array is arrays[0] for array in arrays)


def test_a_failure_is_not_kept():
    computed = []

    @cached(1)
    def fail_once(name):
        computed.append(name)
        return 1 / (len(computed) - 1)

    with pytest.raises(ZeroDivisionError):
        fail_once("key")
    assert fail_once("key") == 1
