"""Complex tensors that programs make on the device, which may store no complex numbers."""

import os

import pytest
import torch

import trnfft
from tests.complex_calls import all_makers
from tests.tolerances import sums
from trnfft import ComplexTensor

from .comparison import all_near, near_host

X = torch.arange(1.0, 7).reshape(3, 2)

pytestmark = pytest.mark.skipif(
    os.environ.get("TRNFFT_STAND_IN_COMPLEX") == "1", reason="the device stores complex numbers"
)


@pytest.fixture(scope="module")
def makers():
    """All calls that have a device, or a tensor on one; the device has no float64."""
    wanted = torch.complex64, torch.complex32
    return {
        maker: result
        for maker, result in all_makers(X).items()
        if result.dtype in wanted and stays_on_the_device(maker)
    }


def stays_on_the_device(maker):
    """Whether the result is on the device; with a number on the host, if it is so for real ones."""
    if maker.pattern != "x, tensor of 1j":
        return maker.has_tensor or maker.has_device
    try:
        return maker.function(X.to("neuron"), torch.tensor(1.0)).device.type == "neuron"
    except RuntimeError:
        return False


def call(maker, x, looked_up=False):
    options = {} if maker.has_tensor else {"device": "neuron"}
    return (maker.looked_up if looked_up else maker)(x, **options)


def assert_split(actual, expected, is_random=False):
    assert isinstance(actual, ComplexTensor) and actual.device.type == "neuron"
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if not is_random:
        near_host(actual, expected, sums(8, expected.dtype))


def test_in_a_block(makers, subtests):
    assert len(makers) > 200
    for maker, expected in makers.items():
        with subtests.test(maker=str(maker)), trnfft.patch_torch():
            assert_split(call(maker, X.to("neuron")), expected, maker.is_random)


def test_in_a_whole_program(makers, subtests):
    patch = trnfft.patch_torch()
    patch.start()
    try:
        for maker, expected in makers.items():
            if maker.has_place and maker.pattern != "x, tensor of 1j":
                with subtests.test(maker=str(maker)):
                    actual = call(maker, X.to("neuron"), looked_up=True)
                    assert_split(actual, expected, maker.is_random)
    finally:
        patch.stop()


def phases(x):
    rotated = torch.exp(1j * x) * (x + 2j) / (1 - 1j * x)
    chosen = torch.where(x > 2, rotated, 1j) * torch.eye(2, dtype=torch.cfloat, device=x.device)[0]
    spectrum = torch.fft.fft(chosen + x.new_ones(2, dtype=torch.cfloat))
    return torch.stack([spectrum.real, spectrum.imag, (x.to(torch.cfloat) ** 2).real])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_program_and_its_derivative(compiled):
    x = X.clone().requires_grad_()
    expected = phases(x)
    expected.square().sum().backward()
    there = X.to("neuron").requires_grad_()
    torch._dynamo.reset()
    run = torch.compile(phases, backend="neuron", fullgraph=True) if compiled else phases
    with trnfft.patch_torch():
        actual = run(there)
        actual.square().sum().backward()
    all_near([actual, there.grad], [expected, x.grad])


def test_moves_between_the_host_and_the_device():
    z = torch.complex(X, -X)
    with trnfft.patch_torch():
        there = z.to("neuron")
        assert isinstance(there, ComplexTensor) and isinstance(there.cpu(), ComplexTensor)
        real = z.to("neuron", torch.float32)
        assert type(real) is torch.Tensor and torch.equal(real.cpu(), X)
        back = X.to("neuron").to("cpu", torch.cfloat)
        assert type(back) is torch.Tensor and torch.equal(back, X + 0j)
        assert type(z * 1j) is torch.Tensor and type(torch.full((2,), 1j)) is torch.Tensor


def test_a_module_of_complex_parameters():
    with trnfft.patch_torch():
        made = torch.nn.Linear(2, 3, dtype=torch.cfloat, device="neuron")
        moved = torch.nn.Linear(2, 3, dtype=torch.cfloat).to("neuron")
        converted = torch.nn.Linear(2, 3, device="neuron").to(torch.cfloat)
        x = 1j * X.to("neuron")
        for module in (made, moved, converted):
            assert isinstance(module.weight, ComplexTensor)
            module(x).abs().sum().backward()
            assert isinstance(module.weight.grad, ComplexTensor)


def test_scripted_code_says_that_the_device_stores_no_complex_numbers():
    scripted = torch.jit.script(Spectrum())
    with trnfft.patch_torch(), pytest.raises(NotImplementedError, match="aten::fft_rfft.*neuron"):
        scripted(X.to("neuron"))


class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).abs()
