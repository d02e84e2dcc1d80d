"""Derivatives by torch.func of a ComplexTensor's parts, on a device without complex dtypes."""

import pytest
import torch

import trnfft
from trnfft import ComplexTensor

from .comparison import near_host


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
    near_host(own, expected)


def cubed(part):
    """A function of a part of complex numbers, whose second derivative is no constant."""
    return lambda z: (part(z) ** 3).sum()


PARTS = {
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "of a spectrum": lambda z: trnfft.fft(z).real,
    "both": lambda z: z.real * z.imag,
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_second_derivatives_through_parts(part):
    z = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))
    split = ComplexTensor.from_complex(z).to("neuron")

    def twice(z):
        once = torch.func.grad(cubed(part))
        return torch.func.grad(lambda z: once(z).abs().square().sum())(z)

    near_host(twice(split), twice(z))

    def forward_over_reverse(z):
        return torch.func.jvp(torch.func.grad(cubed(part)), (z,), (z * 2,))[1]

    near_host(forward_over_reverse(split), forward_over_reverse(z))


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_tangents_of_parts(part):
    z = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))
    split = ComplexTensor.from_complex(z).to("neuron")

    def tangent(z):
        return torch.func.jvp(part, (z,), (z * 1j,))[1]

    near_host(tangent(split), tangent(z))

    def of_rows(z):
        return torch.func.vmap(torch.func.grad(cubed(part)))(torch.stack([z, 2 * z]))

    near_host(of_rows(split), of_rows(z))
