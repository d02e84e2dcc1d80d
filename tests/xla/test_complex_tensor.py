"""ComplexTensors on an XLA device as parameters of optimizers, and in graphs of torch.compile."""

import copy

import pytest
import torch
from torch import nn

import trnfft
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor

torch_xla = pytest.importorskip("torch_xla")


class Filter(nn.Module):
    """Multiplies each frequency by a complex factor."""

    def __init__(self, n):
        super().__init__()
        parts = torch.randn(2, n // 2 + 1, generator=torch.Generator().manual_seed(0))
        self.factors = nn.Parameter(ComplexTensor(*parts))

    def forward(self, x):
        return trnfft.irfft(trnfft.rfft(x) * self.factors, x.shape[-1])


ADAM = {"eps": 0.1}  # without which small gradients, and their errors, are as good as large ones


@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [(torch.optim.SGD, {}), (torch.optim.Adam, ADAM), (torch.optim.AdamW, ADAM)],
)
def test_training_is_that_on_the_cpu(optimizer, settings, device):
    model, x = Filter(12), torch.randn(4, 12)
    trained = []
    for place in ("cpu", device):
        own = copy.deepcopy(model).to(place)
        steps = optimizer(own.parameters(), lr=0.1, **settings)
        for _ in range(3):
            steps.zero_grad()
            (own(x.to(place)) - x.to(place).roll(1, -1)).square().mean().backward()
            steps.step()
        assert isinstance(own.factors, ComplexTensor)
        trained.append(own.factors.detach().cpu())
    # Each step has two transforms forward and two backward, on both places.
    near(trained[1], trained[0], together(transforms(12, 3 * 4 * 2), sums(4 * 3)))
    assert (trained[0] - model.factors.detach()).abs().min() > 1e-3


def test_compiled_in_one_graph(device):
    torch.compiler.reset()
    model, x = Filter(12).to(device), torch.randn(4, 12)

    @torch.compile(backend="openxla", fullgraph=True)
    def spectrum(x, weight):
        return (trnfft.fft(x) * weight + 1j).exp().detach(), (trnfft.rfft(x) * model.factors).abs()

    weight = ComplexTensor(torch.randn(12), torch.randn(12))
    z, size = spectrum(x.to(device), weight.to(device))
    assert isinstance(z, ComplexTensor)
    power = trnfft.fft(x) * weight + 1j
    # The errors of powers are absolute: relative to one, of which the result is a multiple.
    exponents = power.cpu().abs().max().item()
    near(z.cpu(), power.exp(), exponents * together(transforms(12, 2), sums(2)))
    expected = (trnfft.rfft(x) * model.factors.detach().cpu()).abs()
    near(size.cpu(), expected, together(transforms(12, 2), sums(4)))
