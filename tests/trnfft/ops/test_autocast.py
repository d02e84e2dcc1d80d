"""torch.autocast changes nothing: transforms are computed in float32, forward and backward."""

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near, transforms
from trnfft import nn
from trnfft.ops import autocast

from ..samples import Noted, single
from .derivatives import BACKENDS, all_near

FUNCTIONS = {
    "fft": lambda x: trnfft.fft(x).real,
    "ifft": lambda x: trnfft.ifft(x).imag,
    "rfft": lambda x: trnfft.rfft(x).real,
    "ihfft": lambda x: trnfft.ihfft(x).imag,
    "irfft": lambda x: trnfft.irfft(x, 64),
    "hfft": lambda x: trnfft.hfft(x, 64),
    "fft2": lambda x: trnfft.fft2(x).real,
    "rfftn": lambda x: trnfft.rfftn(x).imag,
    "prime": lambda x: trnfft.fft(x, 61).real,
    "planned": lambda x: trnfft.fft(x, order="planned").real,
    "stft": lambda x: trnfft.stft(x, 16, window=torch.hann_window(16), return_complex=True).real,
    "convolve": lambda x: trnfft.convolve(x, x, "same", dims=-1),
}


def assert_as_without(function, *leaves, device="cpu"):
    """Fails unless results and gradients are in float32, as without autocast.

    The backward pass may run inside of autocast or outside.
    """

    def gradients(y):
        return [y.detach(), *torch.autograd.grad((y**2).sum(), leaves)]

    expected = gradients(function(*leaves))
    with torch.autocast(device, torch.bfloat16):
        inside = gradients(function(*leaves))
        y = function(*leaves)
    outside = gradients(y)
    for actual in (inside, outside):
        assert all(one.dtype == torch.float32 for one in (*actual, *expected))
        all_near(actual, expected, transforms(4 * 64, 4))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, backend):
    with trnfft.backend(backend):
        assert_as_without(FUNCTIONS[name], single(4, 64).requires_grad_())


TRAINED = {
    "one circulant row": (lambda: nn.BlockCirculantLinear(32, 16, 8), (1, 32)),
    "circulant rows": (lambda: nn.BlockCirculantLinear(32, 16, 8), (5, 32)),
    "spectral, 1d": (lambda: nn.SpectralConv1d(2, 3, 5), (2, 2, 32)),
    "spectral, 2d": (lambda: nn.SpectralConv2d(2, 3, 2, 3), (1, 2, 8, 8)),
    "neural operator": (lambda: nn.SpectralConv(2, 3, (4, 4)), (1, 2, 8, 8)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TRAINED)
def test_gradients_of_layers(name, backend):
    make, shape = TRAINED[name]
    layer = make()
    with trnfft.backend(backend):
        x = single(*shape).requires_grad_()
        assert_as_without(lambda x, *weights: layer(x), x, *layer.parameters())


@pytest.mark.parametrize("backend", BACKENDS)
def test_filters_train(backend):
    layer = nn.FFTConv1d(2, 2, 9)
    with trnfft.backend(backend), torch.autocast("cpu", torch.bfloat16):
        layer(single(2, 2, 32)).pow(2).sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in layer.parameters())


class Filtered(torch.nn.Module):
    """A LongConv with a filter of its own, longer than the signal."""

    def __init__(self):
        super().__init__()
        self.filter = torch.nn.Parameter(single(2, 40))

    def forward(self, x):
        return nn.LongConv()(x, self.filter)


EXACT = {
    "LongConv": (Filtered, (3, 2, 32)),
    "FFTConv1d": (lambda: nn.FFTConv1d(2, 2, 9, groups=2), (3, 2, 32)),
    "mixed channels": (lambda: nn.FFTConv1d(2, 2, 9), (3, 2, 32)),
    "FNetMixer": (nn.FNetMixer, (2, 16, 8)),
    "SpectralConv1d": (lambda: nn.SpectralConv1d(2, 2, 4), (2, 2, 32)),
    "separable": (lambda: nn.SpectralConv(2, 2, (4,), separable=True), (2, 2, 32)),
    "cp": (lambda: nn.SpectralConv(2, 2, (4,), factorization="cp"), (2, 2, 32)),
    "Spectrogram": (lambda: nn.Spectrogram(16), (2, 64)),
    "MelScale": (lambda: nn.MelScale(4, n_stft=9), (9, 5)),
    "MelSpectrogram": (lambda: nn.MelSpectrogram(n_fft=16, n_mels=4), (2, 64)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, sweeps.whole(torch.float16)])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXACT)
def test_results_of_layers_are_float32_on_every_backend(name, backend, dtype):
    make, shape = EXACT[name]
    layer, x = make(), single(*shape)
    exact = layer.double()(x.double())
    with trnfft.backend(backend), torch.autocast("cpu", dtype):
        y = layer.float()(x)
    assert y.dtype == torch.float32
    near(y, exact, transforms(4 * 64, 2))


KEEPING = [name for name in EXACT if "Mel" not in name and "gram" not in name]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", KEEPING)
def test_layers_keep_the_dtype_of_bfloat16_rows_as_without(name, backend):
    make, shape = EXACT[name]
    layer, x = make(), single(*shape).bfloat16()
    with trnfft.backend(backend):
        without = layer(x)
        with torch.autocast("cpu", torch.bfloat16):
            inside = layer(x)
    assert inside.dtype == without.dtype == torch.bfloat16
    assert torch.equal(inside, without)


@pytest.mark.parametrize("backend", BACKENDS)
def test_bfloat16_widens_as_without(backend):
    x = single(3, 32).bfloat16()
    with trnfft.backend(backend), torch.autocast("cpu", torch.bfloat16):
        y = trnfft.as_native(trnfft.rfft(x))
        product = torch.ones(3, 3) @ x
        of_product = trnfft.as_native(trnfft.rfft(product))
    assert product.dtype == torch.bfloat16
    for found, of in ((y, x), (of_product, product)):
        assert found.dtype == torch.complex64
        near(found, torch.fft.rfft(of.double()), transforms(32))


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_operators_take_the_place_of_matrix_products_only_under_it(name):
    device = torch.device("cpu")
    with trnfft.backend("matmul"):
        for enabled in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled), Noted() as noted:
                getattr(trnfft, name)(single(2, 8))
                assert autocast.is_on(device) == enabled
            assert ("trnfft" in {call[0].namespace for call in noted.calls}) == enabled


@pytest.mark.weekly
@sweeps.some("backend", BACKENDS, ["matmul"])
def test_compiled_code(backend):
    torch._dynamo.reset()
    run = torch.compile(lambda x: trnfft.ifft(trnfft.rfft(x)).real, backend="aot_eager")
    with trnfft.backend(backend):
        assert_as_without(run, single(4, 32).requires_grad_())


def test_second_derivatives_and_forward_mode():
    x = single(12)

    def energy(x):
        y = trnfft.rfft(x)
        return (y.real**3 + y.imag**3).sum()

    with trnfft.backend("matmul"), torch.autocast("cpu", torch.bfloat16):
        actual = torch.func.hessian(energy)(x)
    with trnfft.backend("torch"):
        near(actual, torch.func.hessian(energy)(x.double()), transforms(12, 3))
