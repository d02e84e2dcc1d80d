"""Derivatives by torch.func of a ComplexTensor's parts, on a device without complex dtypes."""

import pytest
import torch
from torch.func import grad, jvp, vjp, vmap

import trnfft
from trnfft import ComplexTensor

from .comparison import near_host

PARTS = {
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "of a spectrum": lambda z: trnfft.fft(z).real,
    "both": lambda z: z.real * z.imag,
}


def cubed(part):
    """A function of a part of complex numbers, whose second derivative is no constant."""
    return lambda z: (part(z) ** 3).sum()


def pulled_back(part, z):
    value, pull = vjp(part, z)
    return pull(torch.ones_like(value))[0]


DERIVATIVES = {
    "gradient": lambda part, z: grad(cubed(part))(z),
    "of rows": lambda part, z: vmap(grad(cubed(part)))(torch.stack([z, 2 * z])),
    "pulled back": pulled_back,
    "tangent": lambda part, z: jvp(part, (z,), (z * 1j,))[1],
    "twice": lambda part, z: grad(lambda z: grad(cubed(part))(z).abs().square().sum())(z),
    "forward over reverse": lambda part, z: jvp(grad(cubed(part)), (z,), (z * 2,))[1],
}


@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_derivatives_of_parts(part, derivative):
    z = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))
    found = derivative(part, ComplexTensor.from_complex(z).to("neuron"))
    assert found.real.device.type == "neuron"
    near_host(found, derivative(part, z))
