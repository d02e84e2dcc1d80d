"""A transform of one point multiplies its number by a factor: zeros and infinities keep signs."""

import copy
import math

import pytest
import torch

import trnfft
from trnfft import ComplexTensor

NUMBERS = [-0.0, 0.0, math.inf, -math.inf, -2.5]


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
@pytest.mark.parametrize("shape", [(5, 1), (5, 1, 1)])
def test_numbers_stay(shape, backend):
    a = torch.tensor(NUMBERS).view(shape)
    z = ComplexTensor(a, a.flip(0))
    dims = tuple(range(1, len(shape)))
    with trnfft.backend(backend):
        whole = [trnfft.fftn(z, dim=dims), trnfft.ifftn(z, dim=dims)]
        real = [trnfft.irfftn(z, (1,) * len(dims), dims), trnfft.hfftn(z, (1,) * len(dims), dims)]
        half = [trnfft.rfftn(a, dim=dims)]
    for y in whole:
        assert bits(y.real) == bits(z.real)
        assert bits(y.imag) == bits(z.imag)
    for y in (*real, half[0].real):
        assert bits(y) == bits(a)
    assert not half[0].imag.any()


@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_factors_and_derivatives(backend):
    x = torch.tensor([[3.0], [-1.0]], requires_grad=True)
    with trnfft.backend(backend):
        y = trnfft.irfft(trnfft.rfft(x), 1)
        (y**2).sum().backward()
        assert trnfft.fft(x, order="planned").real.tolist() == x.tolist()
    assert x.grad.tolist() == (2 * x).tolist()


def bits(x):
    return copy.deepcopy(x).contiguous().view(torch.int32).flatten().tolist()
