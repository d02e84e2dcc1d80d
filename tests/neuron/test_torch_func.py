"""torch.func's derivatives of the parts of a ComplexTensor, on a device without complex dtypes."""

import pytest
import torch

import trnfft


def weighed(z):
    """A number to which both parts contribute, differently."""
    index = torch.arange(1.0, 7.0, device=z.device).view(2, 3)
    return (index * z.real + index.square() * z.imag * z.real).sum()


def gradient(z):
    return torch.func.grad(weighed)(z)


def gradient_of_rows(z):
    return torch.func.vmap(torch.func.grad(lambda row: (row.real + 2 * row.imag.square()).sum()))(z)


def pulled_back(z):
    value, pull = torch.func.vjp(lambda z: 3 * z.imag - z.real.square(), z)
    return pull(torch.ones_like(value))[0]


@pytest.mark.parametrize("function", [gradient, gradient_of_rows, pulled_back])
def test_derivatives_of_parts(function):
    z = torch.randn(2, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    expected = function(z)
    own = function(trnfft.as_complex_tensor(z).to("neuron"))
    assert own.real.device.type == "neuron"
    torch.testing.assert_close(own.real.cpu(), expected.real)
    torch.testing.assert_close(own.imag.cpu(), expected.imag)
