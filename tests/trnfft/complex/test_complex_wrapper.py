"""ComplexTensors in graphs whose complex operations PyTorch decomposes, TorchNeuron's default.

PyTorch's own decomposition, the flag `enable_complex_wrapper`, has no rules for FFTs. A
ComplexTensor passes it unchanged, because its graphs contain only real numbers.
"""

import pytest
import torch
from torch._functorch import config as functorch_config

import trnfft
from trnfft import ComplexTensor

pytestmark = pytest.mark.skipif(
    not hasattr(functorch_config, "enable_complex_wrapper"), reason="PyTorch 2.13 has the flag"
)
X = torch.arange(24.0).reshape(2, 12).sin()
W = torch.arange(7.0).cos()


def split(x):
    return ComplexTensor(x, x.flip(-1))


CASES = {
    "fft": lambda x: trnfft.fft(split(x)),
    "fftn": lambda x: trnfft.fftn(split(x), dim=(0, 1)),
    "rfft": lambda x: trnfft.rfft(x).abs(),
    "irfft": lambda x: trnfft.irfft(trnfft.rfft(x) * 2, 12),
    "hfft": lambda x: trnfft.hfft(split(x), 9),
    "stft": lambda x: trnfft.stft(x, 4, window=torch.ones(4), return_complex=True),
    "products": lambda x: split(x) * split(x).conj(),
    "matrix products": lambda x: split(x) @ split(x).mT,
    "elementary": lambda x: (split(x).exp() + 1j).angle(),
    "selection": lambda x: torch.cat([split(x), split(x)[:1]])[:, 2:5],
}


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@pytest.fixture(params=["matmul", "torch"], autouse=True)
def chosen(request):
    with trnfft.backend(request.param):
        yield


@pytest.mark.parametrize("name", CASES)
def test_transforms_and_products(name):
    expected = CASES[name](X)
    with functorch_config.patch(enable_complex_wrapper=True):
        actual = compiled(CASES[name])(X)
    assert type(actual) is type(expected)
    torch.testing.assert_close(trnfft.as_native(actual), trnfft.as_native(expected))


def test_a_training_step():
    def loss(x, weight):
        y = trnfft.irfft(trnfft.rfft(x) * weight, 12)
        return (y - x.roll(1, -1)).square().mean()

    def trained(function):
        weight = torch.nn.Parameter(split(W))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            value = function(X, weight)
            value.backward()
            optimizer.step()
            losses.append(value.item())
        assert isinstance(weight.grad, ComplexTensor)
        return losses, trnfft.as_native(weight.detach())

    expected_losses, expected = trained(loss)
    with functorch_config.patch(enable_complex_wrapper=True):
        losses, weight = trained(compiled(loss))
    assert losses == pytest.approx(expected_losses, rel=1e-5) and losses[2] < losses[0]
    torch.testing.assert_close(weight, expected)
