"""Models that do not use this library themselves, on a device without complex dtypes."""

import copy

import torch
from torch import nn

import trnfft
from trnfft import ComplexTensor

from .comparison import all_near


class FourierLayer(nn.Module):
    """As published ones are: a native complex weight, and spectra written into zeros."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.rand(2, 3, 4, dtype=torch.cfloat))
        self.phases = nn.Parameter(torch.rand(4, 2))

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros(x.shape[0], 3, x.shape[-1] // 2 + 1, device=x.device, dtype=torch.cfloat)
        mixed = torch.einsum("bik,iok->bok", spectrum[..., :4], self.weight)
        out[..., :4] = mixed * torch.view_as_complex(self.phases)
        return torch.fft.irfft(out, n=x.shape[-1])


def step(model, x):
    """The output, the gradients, and the parameters after a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    y = model(x)
    y.square().sum().backward()
    optimizer.step()
    tensors = [y, *(p.grad for p in model.parameters()), *model.parameters()]
    return [torch.view_as_real(t) if t.is_complex() else t for t in tensors]


def test_a_fourier_layer_unchanged(launches):
    model, x = FourierLayer(), torch.randn(2, 2, 16)
    expected = step(copy.deepcopy(model), x)
    with trnfft.patch_torch():
        model = model.to("neuron")
        assert isinstance(model.weight, ComplexTensor)
        assert isinstance(model.weight, nn.Parameter)
        actual = step(model, x.to("neuron"))
    assert {t.device.type for t in actual} == {"neuron"}
    assert launches
    all_near(actual, expected)


def test_a_frozen_complex_parameter_goes_to_the_device_as_others_do():
    model, x = FourierLayer(), torch.randn(2, 2, 16)
    model.weight.requires_grad_(False)
    expected = model(x)
    with trnfft.patch_torch():
        model = model.to("neuron")
        assert isinstance(model.weight, ComplexTensor) and isinstance(model.weight, nn.Parameter)
        assert not model.weight.requires_grad and model.phases.requires_grad
        actual = model(x.to("neuron"))
    all_near([actual], [expected])
