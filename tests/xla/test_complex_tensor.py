"""ComplexTensors on an XLA device as parameters of optimizers, and in graphs of torch.compile."""

import copy

import pytest
import torch
from torch import nn

import trnfft
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


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_training_is_that_on_the_cpu(optimizer, device):
    model, x = Filter(12), torch.randn(4, 12)
    trained = []
    for place in ("cpu", device):
        own = copy.deepcopy(model).to(place)
        steps = optimizer(own.parameters(), lr=0.1)
        for _ in range(3):
            steps.zero_grad()
            (own(x.to(place)) - x.to(place).roll(1, -1)).square().mean().backward()
            steps.step()
        assert isinstance(own.factors, ComplexTensor)
        trained.append(own.factors.detach().cpu())
    torch.testing.assert_close(trained[1], trained[0], rtol=1e-5, atol=1e-5)
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
    torch.testing.assert_close(z.cpu(), (trnfft.fft(x) * weight + 1j).exp(), rtol=1e-5, atol=1e-5)
    expected = (trnfft.rfft(x) * model.factors.detach().cpu()).abs()
    torch.testing.assert_close(size.detach().cpu(), expected, rtol=1e-5, atol=1e-5)
