"""Causal convolutions, compared with sums in float64."""

import itertools

import pytest
import torch

import trnfft
from tests import sweeps
from tests.definitions import causal
from tests.refusals import refused
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.samples import BACKENDS, random, single
from trnfft.nn import LongConv


@sweeps.some(
    "backend, shape, filters",
    itertools.product(BACKENDS, [(2, 3, 40), (3, 40)], [(3, 40), (3, 7), (3, 50), (1, 40)]),
    [
        ("torch", (3, 40), (3, 50)),
        *[("matmul", (2, 3, 40), filters) for filters in [(3, 40), (3, 7), (3, 50), (1, 40)]],
        ("nki-sim", (2, 3, 40), (1, 40)),
        ("nki-sim", (3, 40), (3, 7)),
    ],
)
def test_values_and_gradients(backend, shape, filters):
    tensors = single(*shape), single(*filters, seed=1)
    u, k = (x.requires_grad_() for x in tensors)
    with trnfft.backend(backend):
        y = LongConv()(u, k)
        gradients = torch.autograd.grad(y.square().sum(), (u, k))
    wide_u, wide_k = (x.detach().double().requires_grad_() for x in tensors)
    expected = causal(wide_u, wide_k)
    assert (y.shape, y.dtype) == (expected.shape, torch.float32)
    # Both factors are transformed, and the product back; gradients of squares are two more such.
    near(y, expected, transforms(2 * 40, 3))
    wide = torch.autograd.grad(expected.square().sum(), (wide_u, wide_k))
    for actual, exact in zip(gradients, wide, strict=True):
        near(actual, exact, together(transforms(2 * 40, 6), sums(6)))  # of a batch, or of channels


@pytest.mark.weekly
@sweeps.some(
    "n, backend",
    [(n, backend) for n in (8192, 65536) for backend in BACKENDS],
    [(8192, "torch"), (8192, "nki-sim")],
)
def test_many_points(n, backend):
    u, k = single(1, n), single(1, n, seed=1)
    with trnfft.backend(backend):
        y = LongConv()(u, k)
    spectrum = torch.fft.rfft(u.double(), 2 * n) * torch.fft.rfft(k.double(), 2 * n)
    exact = torch.fft.irfft(spectrum, 2 * n)[:, :n]
    near(y, exact, transforms(2 * n, 3))


def test_small_dtypes():
    u, k = random(2, 16).bfloat16(), random(2, 16, seed=1)
    y = LongConv()(u, k)
    assert y.dtype == torch.bfloat16
    near(y, causal(u.double(), k), sums(1, y.dtype))


test_errors = refused(
    lambda u, k: LongConv()(u, k),
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
