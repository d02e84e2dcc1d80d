import pytest
import torch
import trnfft
from .stand_in import compile_backend

def loss_of(x):
    y = trnfft.fft(x)
    return (y.real**3 + y.imag).sum()

def test_forward(launches, counted):
    x = torch.randn(3, 64)
    f = torch.compile(lambda x: (lambda y: (y.real, y.imag))(trnfft.fft(x)), backend="neuron", fullgraph=True)
    re, im = f(x.to("neuron"))
    want = torch.fft.fft(x)
    assert (re.cpu() - want.real).abs().max() < 1e-4
    with counted() as c: f(x.to("neuron"))
    print(launches, c)

@pytest.mark.parametrize("name", ["fft","rfft"])
def test_grad(launches, name):
    def loss(x):
        y = getattr(trnfft, name)(x)
        return (y.real**3 + y.imag).sum()
    for b in (3, 5):
        x = torch.randn(b, 64)
        d = x.to("neuron").requires_grad_()
        f = torch.compile(loss, backend="neuron", fullgraph=True)
        f(d).backward()
        h = x.clone().requires_grad_()
        loss(h).backward()
        assert (d.grad.cpu() - h.grad).abs().max() < 1e-3 * h.grad.abs().max()
    print(launches)
    print(compile_backend.GRAPHS[-1].graph)
