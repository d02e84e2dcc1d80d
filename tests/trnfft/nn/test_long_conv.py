"""Causal convolutions, compared with sums in float64."""

import pytest
import torch

import trnfft
from tests import sweeps
from trnfft.nn import LongConv

from ..samples import random


def causal(u, k):
    """y[l] = sum_m k[m] u[l - m], as a product with a triangular matrix."""
    length = u.shape[-1]
    k = torch.nn.functional.pad(k, (0, max(0, length - k.shape[-1])))
    lags = torch.arange(length)[:, None] - torch.arange(length)
    matrices = torch.where(lags >= 0, k[:, lags.clamp(min=0)], 0)
    return torch.einsum("hlm,...hm->...hl", matrices, u)


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
@pytest.mark.parametrize("shape", [(2, 3, 40), (3, 40)])
@pytest.mark.parametrize("filters", [(3, 40), (3, 7), (3, 50), (1, 40)])
def test_values_and_gradients(backend, shape, filters):
    tensors = random(*shape, dtype=torch.float32), random(*filters, dtype=torch.float32, seed=1)
    u, k = (x.requires_grad_() for x in tensors)
    with trnfft.backend(backend):
        y = LongConv()(u, k)
        gradients = torch.autograd.grad(y.square().sum(), (u, k))
    wide_u, wide_k = (x.detach().double().requires_grad_() for x in tensors)
    expected = causal(wide_u, wide_k)
    assert (y.shape, y.dtype) == (expected.shape, torch.float32)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    wide = torch.autograd.grad(expected.square().sum(), (wide_u, wide_k))
    for actual, exact in zip(gradients, wide, strict=True):
        torch.testing.assert_close(actual.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
@pytest.mark.parametrize("n", [8192, sweeps.whole(65536)])
def test_many_points(n, backend):
    u, k = random(1, n, dtype=torch.float32), random(1, n, dtype=torch.float32, seed=1)
    with trnfft.backend(backend):
        y = LongConv()(u, k)
    spectrum = torch.fft.rfft(u.double(), 2 * n) * torch.fft.rfft(k.double(), 2 * n)
    exact = torch.fft.irfft(spectrum, 2 * n)[:, :n]
    assert (y - exact).norm() / exact.norm() < 2e-6


def test_small_dtypes():
    u, k = random(2, 16).bfloat16(), random(2, 16, seed=1)
    y = LongConv()(u, k)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, causal(u.double(), k).bfloat16(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    "u, k, error, message",
    [
        (torch.ones(4), torch.ones(1, 4), ValueError, "argument 'u' has shape"),
        (torch.ones(2, 4), torch.ones(4), ValueError, "argument 'k' has shape"),
        (torch.ones(2, 4), torch.ones(3, 4), ValueError, "argument 'k' has shape"),
        (torch.ones(2, 4), torch.ones(2, 0), ValueError, r"'k' has shape \(2, 0\), .* 1 point"),
        (torch.ones(2, 0), torch.ones(2, 4), ValueError, r"'u' has shape \(2, 0\), .* 1 point"),
        (torch.ones(2, 4).int(), torch.ones(2, 4), TypeError, "argument 'u' has dtype"),
        (torch.ones(2, 4), torch.ones(2, 4, device="meta"), ValueError, "argument 'k' is on"),
    ],
)
def test_errors(u, k, error, message):
    with pytest.raises(error, match=message):
        LongConv()(u, k)
