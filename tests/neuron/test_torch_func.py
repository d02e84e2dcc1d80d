"""Derivatives by torch.func of a ComplexTensor's parts, on a device without complex dtypes."""

import pytest
import torch

import trnfft
from trnfft import ComplexTensor

from .comparison import near_host


def cubed(part):
    """A function of a part of complex numbers, whose second derivative is no constant."""
    return lambda z: (part(z) ** 3).sum()


PARTS = {
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "of a spectrum": lambda z: trnfft.fft(z).real,
    "both": lambda z: z.real * z.imag,
}


def twice(part, z):
    once = torch.func.grad(cubed(part))
    return torch.func.grad(lambda z: once(z).abs().square().sum())(z)


TRANSFORMS = {
    "reverse over reverse": twice,
    "forward over reverse": lambda part, z: torch.func.jvp(
        torch.func.grad(cubed(part)), (z,), (z * 2,)
    )[1],
    "tangent": lambda part, z: torch.func.jvp(part, (z,), (z * 1j,))[1],
    "of rows": lambda part, z: torch.func.vmap(torch.func.grad(cubed(part)))(
        torch.stack([z, 2 * z])
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_transforms_of_functions_of_parts(part, transform):
    z = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))
    near_host(transform(part, ComplexTensor.from_complex(z).to("neuron")), transform(part, z))
