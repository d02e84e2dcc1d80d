"""Native complex tensors on the device: functions accept them, and return them on request.

The stand-in stores complex numbers in its second mode, in which these tests run a second time.
"""

import copy
import functools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import trnfft
from trnfft import ComplexTensor

from .comparison import all_near, near_host
from .stand_in import compile_backend
from .stand_in.device import stores_complex
from .test_patch import FourierLayer, step

of_second_mode = pytest.mark.skipif(not stores_complex(), reason="the device stores none")
HOWS = {
    "eager": lambda function: function,
    "compiled": functools.partial(torch.compile, backend="neuron", fullgraph=True),
}
hows = pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    compile_backend.GRAPHS.clear()


@pytest.fixture
def asked():
    """Native results are asked for."""
    trnfft.set_complex_storage(True)
    yield
    trnfft.set_complex_storage(False)


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))


TRANSFORMS = {
    "fft": lambda z: trnfft.fft(z),
    "ifft, longer": lambda z: trnfft.ifft(z, 20, norm="ortho"),
    "fftn": lambda z: trnfft.fftn(z, dim=(0, 1)),
    "irfft": lambda z: trnfft.irfft(z, 16),
    "rfft": lambda z: trnfft.rfft(z.real.contiguous()),
    "hfft": lambda z: trnfft.hfft(z, 12),
    "ihfft": lambda z: trnfft.ihfft(z.imag.contiguous()),
    "products": lambda z: trnfft.ifft(trnfft.fft(z) * z.conj()),
    "stft": lambda z: trnfft.stft(
        z.real.contiguous(), 8, window=torch.ones(8, device=z.device), return_complex=True
    ),
    "convolve": lambda z: trnfft.convolve(z, z),
    "czt": lambda z: trnfft.czt(z, 5),
    "fftshift": lambda z: trnfft.fftshift(z),
}


# What PyTorch's decomposition has no rule for, and says so; a ComplexTensor gets through.
UNDECOMPOSED = {"fftshift": "aten.roll.default"}


@of_second_mode
@hows
@pytest.mark.parametrize("name", TRANSFORMS)
def test_native_numbers_give_native_ones(name, how, asked, launches):
    z, function = numbers(3, 12), TRANSFORMS[name]
    if name in UNDECOMPOSED and how is HOWS["compiled"]:
        with pytest.raises(RuntimeError, match=UNDECOMPOSED[name]):
            how(function)(z.to("neuron"))
        return
    actual = how(function)(z.to("neuron"))
    assert not isinstance(actual, ComplexTensor) and actual.device.type == "neuron"
    near_host(actual, function(z))
    assert name == "fftshift" or launches or how is HOWS["compiled"]


@of_second_mode
@hows
def test_gradients(how, asked):
    def energy(x, z, w):
        # Not abs: for its derivative, sgn, PyTorch's decomposition has a rule that fails.
        return torch.view_as_real(trnfft.rfft(x) * w * trnfft.fft(z)[..., :7]).square().sum()

    def gradients(device, how):
        leaves = [torch.ones(3, 12), numbers(3, 12), numbers(7)]
        leaves = [leaf.to(device).requires_grad_() for leaf in leaves]
        how(energy)(*leaves).backward()
        assert not any(isinstance(leaf.grad, ComplexTensor) for leaf in leaves)
        return [leaf.grad for leaf in leaves]

    for actual, expected in zip(
        gradients("neuron", how), gradients("cpu", HOWS["eager"]), strict=True
    ):
        near_host(actual, expected)


@of_second_mode
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(asked, use_reentrant):
    """Their second forward runs in a thread of autograd's."""
    x = torch.randn(2, 8)

    def gradient(x):
        x = x.detach().requires_grad_()
        y = checkpoint(lambda x: trnfft.rfft(x).abs(), x, use_reentrant=use_reentrant)
        y.square().sum().backward()
        return x.grad

    near_host(gradient(x.to("neuron")), gradient(x))


@of_second_mode
def test_views_and_derivatives_of_native_tensors_are_torchs():
    """Those of ComplexTensors are of this library."""
    z = numbers(4)

    def edited(z):
        y = z.detach().clone().requires_grad_() * 1
        y.real.mul_(10)
        torch.view_as_real(y)[0, 1] = 3
        return y

    assert torch.equal(edited(z.to("neuron")).cpu(), edited(z))

    def twice(z):
        once = torch.func.grad(lambda z: (z.real**3).sum())
        return torch.func.grad(lambda z: once(z).abs().square().sum())(z)

    near_host(twice(z.to("neuron")), twice(z))

    def tangent(z):
        return torch.func.jvp(lambda z: z.real * 2, (z,), (z,))[1]

    assert torch.equal(tangent(z.to("neuron")).cpu(), tangent(z))


@of_second_mode
def test_native_numbers_give_split_ones_unless_asked(launches):
    z = numbers(3, 12)
    actual = trnfft.fft(z.to("neuron"))
    assert isinstance(actual, ComplexTensor) and launches
    near_host(actual, trnfft.fft(z))
    near_host(trnfft.irfft(z.to("neuron")), trnfft.irfft(z))


@of_second_mode
def test_a_complex_tensor_stays_one(asked):
    z = ComplexTensor(torch.ones(8), torch.zeros(8)).to("neuron")
    assert isinstance(trnfft.fft(z), ComplexTensor)
    assert not isinstance(trnfft.as_native(trnfft.fft(z)), ComplexTensor)


@of_second_mode
def test_a_compiled_function_follows_the_setting():
    compiled = torch.compile(trnfft.rfft, backend="neuron", fullgraph=True)
    x = torch.randn(2, 8, device="neuron")
    for stored in (False, True, False):
        trnfft.set_complex_storage(stored)
        assert isinstance(compiled(x), ComplexTensor) != stored


@of_second_mode
def test_a_model_that_is_patched_keeps_native_parameters(asked, launches):
    """In eager mode: zeros of complex64 are left as they are by PyTorch's decomposition."""
    model, x = FourierLayer(), torch.randn(2, 2, 16)
    expected = step(copy.deepcopy(model), x)
    with trnfft.patch_torch():
        model = model.to("neuron")
        assert not isinstance(model.weight, ComplexTensor) and model.weight.is_complex()
        actual = step(model, x.to("neuron"))
        grads = [parameter.grad for parameter in model.parameters()]
        assert not any(isinstance(grad, ComplexTensor) for grad in grads)
        assert torch.zeros(3, dtype=torch.cfloat, device="neuron").is_complex()
    assert launches
    all_near(actual, expected)


@pytest.mark.skipif(stores_complex(), reason="the device stores some")
def test_to_ask_for_what_the_device_lacks_is_an_error_of_the_device(asked):
    x = torch.ones(8, device="neuron")
    with pytest.raises(TypeError, match="no storage"):
        trnfft.rfft(x)
