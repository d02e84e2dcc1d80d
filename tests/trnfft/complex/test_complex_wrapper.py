"""ComplexTensors in graphs whose complex operations PyTorch decomposes, TorchNeuron's default.

PyTorch's own decomposition, the flag `enable_complex_wrapper`, has no rules for FFTs. A
ComplexTensor passes it unchanged, because its graphs contain only real numbers.
"""

import pytest
import torch
from torch._functorch import config as functorch_config

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.complex.comparison import split
from tests.trnfft.samples import random_complex, single
from trnfft import ComplexTensor

pytestmark = pytest.mark.skipif(
    not hasattr(functorch_config, "enable_complex_wrapper"), reason="PyTorch 2.13 has the flag"
)

TRANSFORMS = {
    "fft": lambda x, z: trnfft.fft(z),
    "fftn": lambda x, z: trnfft.fftn(z, dim=(0, 1)),
    "rfft": lambda x, z: trnfft.rfft(x).abs(),
    "irfft": lambda x, z: trnfft.irfft(trnfft.rfft(x) * 2, 12),
    "hfft": lambda x, z: trnfft.hfft(z, 9),
    "stft": lambda x, z: trnfft.stft(x, 4, window=torch.ones(4), return_complex=True),
}
PRODUCTS = {
    "products": lambda x, z: z * z.conj(),
    "matrix products": lambda x, z: z @ z.mT,
    "elementary": lambda x, z: (z.exp() + 1j).angle(),
    "selection": lambda x, z: torch.cat([z, z[:1]])[:, 2:5],
}


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize(
    "backend, functions",
    [
        ("matmul", TRANSFORMS),
        ("torch", TRANSFORMS),
        ("matmul", PRODUCTS),
        sweeps.whole("torch", PRODUCTS),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_transforms_and_products(backend, functions):
    """All functions are one graph, because each graph of its own costs half a second."""

    def results(x):
        z = ComplexTensor(x, x.flip(-1))
        return tuple(function(x, z) for function in functions.values())

    x = single(2, 12)
    with trnfft.backend(backend), functorch_config.patch(enable_complex_wrapper=True):
        actual = compiled(results)(x)
    with trnfft.backend(backend):
        expected = results(x)
    for name, found, right in zip(functions, actual, expected, strict=True):
        assert type(found) is type(right)
        near(found, right, together(transforms(12, 2), sums(12)), message=name)


@pytest.mark.parametrize("backend", ["matmul", sweeps.whole("torch")])
def test_a_training_step(backend):
    x, start = single(2, 12), random_complex(7, dtype=torch.complex64)

    def loss(x, weight):
        y = trnfft.irfft(trnfft.rfft(x) * weight, 12)
        return (y - x.roll(1, -1)).square().mean()

    def trained(function):
        weight = torch.nn.Parameter(split(start))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            value = function(x, weight)
            value.backward()
            optimizer.step()
            losses.append(value.item())
        assert isinstance(weight.grad, ComplexTensor)
        return losses, weight

    with trnfft.backend(backend):
        expected_losses, expected = trained(loss)
        with functorch_config.patch(enable_complex_wrapper=True):
            losses, weight = trained(compiled(loss))
    # Each of 3 steps is two transforms forth and two back, and sums of 24 numbers.
    tolerance = together(transforms(12, 12), sums(3 * 24))
    near(losses, expected_losses, tolerance)
    near(weight, expected, tolerance)
    assert losses[2] < losses[0]
