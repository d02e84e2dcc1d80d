"""Threads that switch every few microseconds get the same results as one thread."""

import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import trnfft
from tests.tolerances import near, transforms
from trnfft import nn
from trnfft.backends import device_tables
from trnfft.base import cache

from .samples import single

LENGTHS = [*range(1, 17), 97, 257]
THREADS = 8


@pytest.fixture(autouse=True)
def restless():
    """Threads change places often, and no table is there yet."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    device_tables.uploaded.cache_clear()
    yield
    sys.setswitchinterval(before)


def everywhere(function):
    """Returns a function's results in several threads that start together."""
    start = threading.Barrier(THREADS)

    def run(thread):
        start.wait()
        return function(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


@pytest.mark.parametrize("backend", ["torch", "matmul"])
def test_transforms(backend):
    def check(thread):
        with trnfft.backend(backend):
            for n in LENGTHS[thread:] + LENGTHS[:thread]:
                x = single(3, n)
                near(trnfft.rfft(x), torch.fft.rfft(x.double()), transforms(4 * n, 2))
                near(trnfft.ifft(trnfft.fft(x)).real, x, transforms(4 * n, 4))

    everywhere(check)


def test_tables_that_do_not_all_fit(monkeypatch):
    """What is forgotten while others look for it is made anew."""
    small = cache.cached(16384, device_tables.held_bytes)(device_tables.uploaded.__wrapped__)
    monkeypatch.setattr(device_tables, "uploaded", small)

    def check(thread):
        with trnfft.backend("matmul"):
            for n in range(thread + 1, 20):
                x = single(2, n)
                near(trnfft.fft(x), torch.fft.fft(x), transforms(n))

    everywhere(check)
    assert 0 < small.cache_info().currsize <= 16384


def test_the_simulator():
    def check(thread):
        with trnfft.backend("nki-sim"):
            for n in (8, 12, 16):
                x = single(2, n)
                near(trnfft.fft(x), torch.fft.fft(x), transforms(n))

    everywhere(check)


class Interrupted(nn.FFTConv1d):
    """Whenever it keeps a spectrum, another thread convolves something longer."""

    other = None

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "_kept" and value is not None and self.other is not None:
            x, self.other = self.other, None
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self, x).result()


def test_a_layer_that_threads_share_takes_the_spectrum_of_its_own_input():
    layer = Interrupted(1, 1, 5).requires_grad_(False)
    x = single(1, 1, 20)
    expected = torch.nn.functional.conv1d(x, layer.weight, layer.bias)
    layer.other = single(1, 1, 200)
    near(layer(x), expected, transforms(4 * 24, 4))
    assert layer.other is None


@pytest.mark.parametrize("backend", ["torch", "matmul"])
def test_transforms_while_another_thread_imports_dtensor(monkeypatch, backend):
    """A module is there before its names, of which torch's optimizers import this one late."""
    half_imported = types.ModuleType("torch.distributed.tensor")
    monkeypatch.setitem(sys.modules, "torch.distributed.tensor", half_imported)
    x = torch.arange(8.0)
    with trnfft.backend(backend):
        spectrum = trnfft.rfft(x)
        again = trnfft.irfft(spectrum * 1, 8)
    near(again, x, transforms(8, 2))
