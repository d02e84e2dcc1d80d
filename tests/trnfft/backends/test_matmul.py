"""The stored tables of the matmul backend are plain tensors, whatever mode a first call has."""

import pytest
import torch

import trnfft
from tests import sweeps
from trnfft.backends.device_tables import uploaded

LENGTHS = [12, 257]  # the second is a convolution, which has more tables
CLOSE = {"rtol": 1e-4, "atol": 1e-3}


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
def test_after_inference_mode_autograd_works(n):
    with torch.inference_mode():
        energy(torch.ones(n))
    assert not any(table.is_inference() for table in kept())
    x = torch.randn(n, requires_grad=True)
    energy(x).backward()
    torch.testing.assert_close(x.grad, 2 * n * x.detach(), **CLOSE)  # Parseval


@pytest.mark.parametrize("n", LENGTHS)
def test_no_wrapper_of_torch_func_is_kept(n):
    x = torch.randn(3, n)
    gradient = torch.func.vmap(torch.func.grad(energy))(x)
    torch.testing.assert_close(gradient, 2 * n * x, **CLOSE)
    assert not any(torch._C._functorch.is_functorch_wrapped_tensor(table) for table in kept())


@pytest.mark.parametrize("n", LENGTHS)
def test_tables_are_made_once(n):
    before = uploaded.cache_info().misses
    energy(torch.ones(n))
    made = uploaded.cache_info().misses
    assert made == before + len(uploaded.cache) > before
    energy(torch.ones(5, n))
    assert uploaded.cache_info().misses == made


@sweeps.some("n", [337, 997, 5003], [337, 997])
def test_bluestein_does_not_overflow_on_its_way(n):
    x = torch.zeros(3, n)
    x[0, 3] = 3e38
    x[1] = 3e38 / n
    # Of which the spectrum on the way has one large number.
    x[2] = 1e38 / n**0.5 * torch.cos(torch.pi * torch.arange(n).double() ** 2 / n)
    assert relative_errors(x).max() < 1e-6


def test_bluestein_has_small_numbers_as_well():
    x = torch.zeros(2, 997)
    x[0, 3] = 1e-35
    x[1] = 1e-35 * torch.randn(997, generator=torch.Generator().manual_seed(0))
    assert relative_errors(x).max() < 1e-6


def relative_errors(x):
    """Of both directions, row by row."""
    errors = []
    for name, norm in (("fft", "backward"), ("ifft", "forward")):
        exact = getattr(torch.fft, name)(x.double(), norm=norm)
        difference = trnfft.as_native(getattr(trnfft, name)(x, norm=norm)) - exact
        errors.append(difference.norm(dim=1) / exact.norm(dim=1))
    return torch.stack(errors)
