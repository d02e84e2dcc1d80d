"""Models that do not use this library themselves, on an XLA device."""

import copy

import pytest
import torch

import trnfft
from tests.complex_calls import all_makers
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor

pytest.importorskip("torch_xla", reason="needs torch_xla: ./scripts/test.sh --xla")


class FourierLayer(torch.nn.Module):
    """A layer like published ones: a native complex weight, and spectra written into zeros."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.rand(2, 3, 4, dtype=torch.cfloat))

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros(x.shape[0], 3, x.shape[-1] // 2 + 1, device=x.device, dtype=torch.cfloat)
        out[..., :4] = torch.einsum("bik,iok->bok", spectrum[..., :4], self.weight)
        return torch.fft.irfft(out, n=x.shape[-1])


def step(model, x):
    """Returns the output, and the weight after a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    y = model(x)
    y.square().sum().backward()
    optimizer.step()
    return [y.detach().cpu(), torch.view_as_real(model.weight.detach()).cpu()]


@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_a_fourier_layer_unchanged(backend, device):
    model, x = FourierLayer(), torch.randn(2, 2, 16)
    expected = step(copy.deepcopy(model), x)
    with trnfft.backend(backend), trnfft.patch_torch():
        model = model.to(device)
        assert isinstance(model.weight, ComplexTensor)
        actual = step(model, x.to(device))
    for a, e in zip(actual, expected, strict=True):
        near(a, e, together(transforms(16, 2 * 4), sums(2 * 2 * 3)))


def test_complex_tensors_that_programs_make(device):
    x = torch.arange(1.0, 7).reshape(3, 2)
    makers = {
        maker: result
        for maker, result in all_makers(x).items()
        if maker.pattern != "x, tensor of 1j"
        and (maker.has_tensor or maker.has_device)
        and "nansum" not in str(maker)  # torch's decomposition makes a native complex zero
    }
    assert len(makers) > 200
    wrong = []
    with trnfft.patch_torch():
        for maker, expected in makers.items():
            options = {} if maker.has_tensor else {"device": device}
            try:
                actual = maker(x.to(device), **options)
            except RuntimeError as error:
                wrong.append(f"{maker}: {error}")
                continue
            is_split = isinstance(actual, ComplexTensor) and actual.device.type == "xla"
            if not is_split or (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
                wrong.append(str(maker))
            elif not maker.is_random:
                near(actual.cpu(), expected, sums(8, expected.dtype), message=str(maker))
    assert not wrong
