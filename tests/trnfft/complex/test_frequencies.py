"""Sample frequencies and their order, of real and complex data, for even and odd sizes."""

import pytest
import torch

import trnfft
from trnfft import ComplexTensor

Z = torch.complex(*torch.randn(2, 4, 5, 7, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("dim", [None, 0, 1, -1, (1, 2), (0, -1)])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts_are_those_of_torch(name, dim):
    ours, expected = getattr(trnfft, name), getattr(torch.fft, name)(Z, dim)
    assert torch.equal(ours(ComplexTensor.from_complex(Z), dim).to_complex(), expected)
    assert torch.equal(ours(Z.real, dim), expected.real)


def test_ifftshift_undoes_fftshift_and_fftshift_does_not():
    z = ComplexTensor.from_complex(Z)
    assert torch.equal(trnfft.ifftshift(trnfft.fftshift(z)).to_complex(), Z)
    assert not torch.equal(trnfft.fftshift(trnfft.fftshift(z)).to_complex(), Z)


@pytest.mark.parametrize("n", [5, 6])
def test_shifted_frequencies_ascend(n):
    frequencies = trnfft.fftshift(trnfft.fftfreq(n))
    assert torch.equal(frequencies, frequencies.sort().values)
    assert torch.equal(trnfft.ifftshift(frequencies), trnfft.fftfreq(n))
