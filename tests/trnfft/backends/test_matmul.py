"""The stored tables of the matmul backend are plain tensors, whatever mode a first call has."""

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near, transforms
from trnfft.backends.device_tables import OBJECT_BYTES, SMALL_FACTOR, TABLE_BYTES, uploaded

from ..samples import single

LENGTHS = [12, 257]  # the second is a convolution, which has more tables


@pytest.fixture(autouse=True)
def no_tables():
    uploaded.cache_clear()
    with trnfft.backend("matmul"):
        yield


def energy(x):
    y = trnfft.fft(x)
    return (y.real**2 + y.imag**2).sum()


def kept():
    tables = [table for tables in uploaded.cache.values() for table in tables]
    assert tables
    return tables


@pytest.mark.parametrize("n", LENGTHS)
def test_tables_are_made_once(n):
    before = uploaded.cache_info().misses
    energy(torch.ones(n))
    made = uploaded.cache_info().misses
    assert made == before + len(uploaded.cache) > before
    energy(torch.ones(5, n))
    assert uploaded.cache_info().misses == made


def test_small_tables_of_many_lengths_take_an_eighth_of_the_bound(monkeypatch):
    bound = 1 << 20
    monkeypatch.setattr(uploaded.cache, "_Cache__maxsize", bound)
    for n in range(2, 60):
        energy(torch.ones(n))
    held = sum(table.untyped_storage().nbytes() + OBJECT_BYTES for table in kept())
    assert bound // 16 < held <= bound // SMALL_FACTOR


def test_tables_of_a_long_transform_are_kept():
    assert uploaded.cache.getsizeof((torch.empty(200 << 20, dtype=torch.uint8),)) < TABLE_BYTES


@sweeps.some("n", [337, 997, 5003], [337, 997])
def test_bluestein_does_not_overflow_on_its_way(n):
    x = torch.zeros(3, n)
    x[0, 3] = 3e38
    x[1] = 3e38 / n
    # Of which the spectrum on the way has one large number.
    x[2] = 1e38 / n**0.5 * torch.cos(torch.pi * torch.arange(n).double() ** 2 / n)
    assert_near_in_both_directions(x)


def test_bluestein_has_small_numbers_as_well():
    x = torch.zeros(2, 997)
    x[0, 3] = 1e-35
    x[1] = 1e-35 * single(997)
    assert_near_in_both_directions(x)


def assert_near_in_both_directions(x):
    for name, norm in (("fft", "backward"), ("ifft", "forward")):
        exact = getattr(torch.fft, name)(x.double(), norm=norm)
        found = getattr(trnfft, name)(x, norm=norm)
        near(found, exact, transforms(4 * x.shape[1], 2), rows=True)
