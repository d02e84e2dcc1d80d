"""Kind in, kind out: which functions give native complex tensors, and which ComplexTensors."""

import pytest
import torch

import trnfft
from tests.tolerances import near, sums, transforms
from trnfft import ComplexTensor

from .samples import single

TOLERANCE = transforms(4 * 16, 3)  # of a chirp z-transform of 8 numbers, or of a convolution

FROM_REAL = {
    **{name: getattr(trnfft, name) for name in ("fft", "ifft", "rfft", "ihfft", "fft2", "rfftn")},
    "planned": lambda x: trnfft.fft(x, order="planned"),
    "plan_fft": lambda x: trnfft.plan_fft(x, "c2c")(x),
    "stft": lambda x: trnfft.stft(x, 4, return_complex=True, window=torch.ones(4)),
    "czt": lambda x: trnfft.czt(x, 5),
    "zoom_fft": lambda x: trnfft.zoom_fft(x, 0.5),
    "pack_spectrum": lambda x: trnfft.pack_spectrum(trnfft.rfft(x)),
    "unpack_spectrum": lambda x: trnfft.unpack_spectrum(trnfft.fft(x)),
    "convolve": lambda x: trnfft.convolve(x, trnfft.fft(x[:1])),
    "torch.fft": lambda x: _patched(torch.fft.fft, x),
    "ModReLU": lambda x: trnfft.nn.ModReLU(1)(x),
    "two numbers": lambda x: trnfft.fft(x, 2, dim=0, norm="ortho"),
    "nothing": lambda x: trnfft.fft(x[:0]),
    "several": lambda x: trnfft.fftn(x, (2, 4), [0, 1]),
}
FROM_COMPLEX = {
    **{name: getattr(trnfft, name) for name in ("fft", "ifft", "ifftn", "dct", "fftshift")},
    "irfft": lambda x: trnfft.irfft(x, 6) * 1j,
    "istft": lambda x: trnfft.istft(
        trnfft.stft(x, 4, onesided=False, window=torch.ones(4)),
        4,
        window=torch.ones(4),
        return_complex=True,
    ),
    "oaconvolve": lambda x: trnfft.oaconvolve(x, x[:1]),
}


def _patched(function, x):
    with trnfft.patch_torch():
        return function(x)


@pytest.mark.parametrize("name", FROM_REAL)
def test_real_numbers(name):
    x = single(2, 8)
    results = {}
    for backend in ("auto", "torch", "matmul"):
        with trnfft.backend(backend):
            results[backend] = FROM_REAL[name](x)
    kinds = {backend: isinstance(y, ComplexTensor) for backend, y in results.items()}
    assert kinds == {"auto": False, "torch": False, "matmul": True}
    for y in results.values():
        assert y.is_complex()
        near(y, results["auto"], TOLERANCE)


@pytest.mark.parametrize("name", [name for name in FROM_COMPLEX if name != "irfft"])
def test_complex_numbers(name):
    x = torch.complex(single(2, 8), single(2, 8, seed=1))
    expected = FROM_COMPLEX[name](x)
    assert type(expected) is torch.Tensor
    for backend in ("auto", "matmul"):
        with trnfft.backend(backend):
            y = FROM_COMPLEX[name](ComplexTensor.from_complex(x))
            mixed = FROM_COMPLEX[name](x)
        assert isinstance(y, ComplexTensor)
        assert isinstance(mixed, ComplexTensor) == (backend == "matmul" and name != "fftshift")
        for z in (y, mixed):
            near(z, expected, TOLERANCE)


def test_compiled_functions_follow_the_backend():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(x):
        return trnfft.fft(x) * 2

    x = single(3, 8).requires_grad_()
    for backend in ("auto", "matmul", "auto"):
        with trnfft.backend(backend):
            y = compiled(x)
        assert isinstance(y, ComplexTensor) == (backend == "matmul")
        near(y, 2 * torch.fft.fft(x), TOLERANCE)
        (gradient,) = torch.autograd.grad(y.abs().sum(), x)
        (expected,) = torch.autograd.grad((2 * torch.fft.fft(x)).abs().sum(), x)
        near(gradient, expected, TOLERANCE)


def test_converters():
    z = torch.complex(single(3), single(3, seed=1)).requires_grad_()
    split = trnfft.as_complex_tensor(z)
    assert isinstance(split, ComplexTensor) and trnfft.as_complex_tensor(split) is split
    assert trnfft.as_native(z) is z and torch.equal(trnfft.as_native(split), z)
    trnfft.as_native(split * 2j).abs().sum().backward()
    near(z.grad, 2 * z.detach().sgn(), sums(4))
    real = single(3)
    assert trnfft.as_native(real) is real
    assert torch.equal(
        trnfft.as_native(trnfft.as_complex_tensor(real)), torch.complex(real, 0 * real)
    )
    for function in (trnfft.as_native, trnfft.as_complex_tensor):
        with pytest.raises(TypeError, match="argument 'x' is of type list"):
            function([1.0])
    with pytest.raises(TypeError, match="int64"):
        trnfft.as_complex_tensor(torch.arange(3))
