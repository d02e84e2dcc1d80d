"""The layers and their gradients, compared with the same formulas in native complex numbers."""

import copy
import io
import math

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import trnfft
from tests.definitions import OF_LAYERS, complex_of
from tests.refusals import called, refused
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.nn.layers import COMPLEX_LAYERS, F64, LAYERS, REAL_LAYERS, case, randomized
from tests.trnfft.samples import native, random, random_complex
from trnfft import ComplexTensor
from trnfft.nn import (
    ComplexBatchNorm,
    ComplexConv1d,
    ComplexConv2d,
    ComplexLinear,
    FNetMixer,
    ModReLU,
    SpectralConv1d,
    SpectralConv2d,
    SpectralConv3d,
)


def tolerance(dtype):
    """Returns that of sums of up to 18 complex products between transforms of up to 256 points.

    Two transforms are in the layer and two in the formula. No layer of these tests has more.
    """
    return together(transforms(256, 4, dtype), sums(4 * 18, dtype))


def assert_same(actual, expected):
    """Fails unless dtypes are equal and values near."""
    assert native(actual).dtype == expected.dtype
    near(actual, expected, tolerance(expected.dtype))


every_layer = pytest.mark.parametrize("name", LAYERS)
every_complex_layer = pytest.mark.parametrize("name", COMPLEX_LAYERS)


# What is common to all layers


@every_complex_layer
def test_inputs_and_outputs_of_complex_layers(name):
    layer, x = case(name)
    layer.eval()
    y = layer(x)
    assert y.is_complex() and not isinstance(y, ComplexTensor)
    split = layer(ComplexTensor.from_complex(x))
    assert isinstance(split, ComplexTensor)
    assert_same(split, y)
    assert_same(layer(x.real), layer(x.real + 0j))
    with trnfft.backend("matmul"):
        assert isinstance(layer(x), ComplexTensor) and isinstance(layer(x.real), ComplexTensor)
    with pytest.raises(TypeError, match="float"):
        layer(torch.ones(x.shape, dtype=torch.int64))
    with pytest.raises(TypeError, match="argument 'input' is of type list"):
        layer(x.tolist())


@pytest.mark.parametrize("name", REAL_LAYERS)
def test_inputs_and_outputs_of_real_layers(name):
    layer, x = case(name)
    assert not layer(x).is_complex()
    with pytest.raises(TypeError, match="argument 'input' is of type list"):
        layer(x.tolist())
    for dtype in (torch.float16, torch.bfloat16):
        rough, small = x.to(dtype), copy.deepcopy(layer).to(dtype)
        for own in (layer, small):
            y = own(rough)
            assert y.dtype == dtype
            near(y, copy.deepcopy(own).double()(rough.double()), sums(1, dtype))


@every_layer
def test_parameters_are_real_and_can_be_saved_moved_copied_and_printed(name):
    layer, x = case(name)
    layer.eval()
    assert not any(tensor.is_complex() for tensor in layer.state_dict().values())
    assert not any(isinstance(tensor, ComplexTensor) for tensor in layer.state_dict().values())
    expected = native(layer(x))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = LAYERS[name][0](**F64).eval()
    other.load_state_dict(torch.load(file))
    assert torch.equal(native(other(x)), expected)
    assert torch.equal(native(copy.deepcopy(layer)(x)), expected)
    assert layer.to("meta")(x.to("meta")).shape == expected.shape
    assert repr(layer).startswith(name.split()[0])


@every_layer
def test_dtype_and_device(name):
    layer = LAYERS[name][0](dtype=torch.float64, device="meta")
    tensors = [*layer.parameters(), *layer.buffers()]
    assert all((t.dtype, t.device.type) == (torch.float64, "meta") for t in tensors)
    if tensors:
        with pytest.raises(TypeError, match="argument 'dtype' is torch.complex64"):
            LAYERS[name][0](dtype=torch.complex64)


@every_layer
@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_backends(name, backend):
    layer, x = case(name, dtype=torch.float32)
    x = x.to(torch.complex64) if x.is_complex() else x.float()
    expected = native(copy.deepcopy(layer)(x))
    with trnfft.backend(backend):
        assert_same(layer(x), expected)


class Counted(nn.Module):
    """A parametrization that counts how often it is computed, as a spectral norm changes then."""

    calls = 0

    def forward(self, parameter):
        self.calls += 1
        return parameter


WITH_PARAMETERS = {
    **{name: case for name, case in LAYERS.items() if name != "FNetMixer"},
    "SpectralConv": (lambda: trnfft.nn.SpectralConv(2, 2, 3), (2, 2, 9)),
}


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_parametrizations_are_computed_once_a_call(name):
    make, shape = WITH_PARAMETERS[name]
    layer, counts = make(), {}
    for parameter in [name for name, _ in layer.named_parameters(recurse=False)]:
        counts[parameter] = Counted()
        nn.utils.parametrize.register_parametrization(layer, parameter, counts[parameter])
    before = {parameter: counted.calls for parameter, counted in counts.items()}
    layer(random(*shape).float())
    for parameter, counted in counts.items():
        assert counted.calls == before[parameter] + 1, parameter


# Definitions


CONVOLUTIONS = {
    "plain": dict(kernel_size=3),
    "steps": dict(kernel_size=2, stride=2, bias=False),
    "dilated": dict(kernel_size=3, padding=2, dilation=2),
    "same": dict(kernel_size=3, padding="same"),
    "groups": dict(kernel_size=1, groups=2),
    "a group each": dict(kernel_size=2, groups=4, padding="valid"),
}
# Layers and shapes of inputs.
DEFINED = {
    "linear": (lambda: ComplexLinear(3, 5, **F64), [(3,), (4, 3), (2, 4, 3)]),
    "linear without bias": (lambda: ComplexLinear(3, 5, bias=False, **F64), [(4, 3)]),
    **{
        f"convolution {order}d, {name}": (
            lambda make=make, options=options: make(4, 8, **options, **F64),
            [(2, 4, *points), (4, *points)],
        )
        for order, make, points in ((1, ComplexConv1d, (9,)), (2, ComplexConv2d, (9, 8)))
        for name, options in CONVOLUTIONS.items()
    },
    "convolution with sizes of each dimension": (
        lambda: ComplexConv2d(2, 3, (3, 2), (2, 1), (1, 0), (1, 2), **F64),
        [(2, 2, 9, 8)],
    ),
    **{
        f"spectral, {modes} of {points}": (
            lambda make=make, modes=modes: make(2, 3, *modes, **F64),
            [(4, 2, *points)],
        )
        for make, points, modes in (
            *[(SpectralConv1d, (n,), (count,)) for n, count in ((8, 3), (8, 5), (9, 5), (7, 1))],
            (SpectralConv2d, (8, 8), (3, 3)),
            (SpectralConv2d, (6, 9), (3, 5)),
            (SpectralConv2d, (7, 6), (1, 4)),
            (SpectralConv3d, (4, 6, 8), (2, 3, 5)),
            (SpectralConv3d, (5, 3, 7), (2, 1, 4)),
            (SpectralConv3d, (4, 8, 5), (1, 3, 1)),
        )
    },
    "mixer": (FNetMixer, [(3, 4), (2, 5, 6), (2, 2, 8, 4)]),
    "activation": (lambda: ModReLU(3, **F64), [(4, 3), (2, 3, 5), (2, 3, 2, 2)]),
}


@pytest.mark.parametrize("name", DEFINED)
def test_definitions(name):
    make, shapes = DEFINED[name]
    layer = randomized(make())
    is_complex = name.startswith(("linear", "convolution", "activation"))
    for shape in shapes:
        x = random(*shape, dtype=torch.complex128 if is_complex else torch.float64)
        assert_same(layer(x), OF_LAYERS[type(layer)](layer, x))


@pytest.mark.parametrize(
    "make, fans",
    [
        (lambda: ComplexLinear(300, 100), 400),
        (lambda: ComplexConv1d(40, 80, 5, groups=2), 20 * 5 + 40 * 5),
        (lambda: ComplexConv2d(16, 32, 3), 48 * 9),
        (lambda: SpectralConv1d(20, 30, 40), 50),
        (lambda: SpectralConv2d(20, 30, 4, 4), 50),
        (lambda: SpectralConv3d(20, 30, 2, 2, 4), 50),
    ],
)
def test_first_weights(make, fans):
    torch.manual_seed(0)
    layer = make()
    w = complex_of("weight", layer)
    assert w.abs().square().mean().item() == pytest.approx(2 / fans, rel=0.05)
    # Rayleigh's distribution, and no phase preferred
    assert w.abs().mean().item() == pytest.approx(math.sqrt(math.pi / 2 / fans), rel=0.05)
    assert w.mean().abs().item() < 0.05 / math.sqrt(fans)
    assert w.square().mean().abs().item() < 0.05 / fans
    assert complex_of("bias", layer) is None or torch.equal(
        complex_of("bias", layer), torch.zeros_like(complex_of("bias", layer))
    )


# Normalisation and activation


def whitened(x, mean, covariance, eps):
    """By eigenvalues, in place of the layer's closed form. x: [C, points]."""
    points = torch.stack([(x - mean[:, None]).real, (x - mean[:, None]).imag], 1)
    values, vectors = torch.linalg.eigh(covariance + eps * torch.eye(2, dtype=torch.float64))
    inverse_root = vectors @ torch.diag_embed(values**-0.5) @ vectors.mT
    return inverse_root @ points


def statistics(x):
    """Mean [C] and biased covariance [C, 2, 2] of x [C, points]."""
    points = torch.stack([x.real, x.imag], 1)
    return x.mean(1), torch.stack([torch.cov(p, correction=0) for p in points])


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 2, 3)])
def test_batch_norm(shape):
    x = random_complex(*shape)
    x = x.real * 3 + 1j * (x.imag + x.real) + 2
    channels = x.transpose(0, 1).flatten(1)
    layer = randomized(ComplexBatchNorm(3, eps=0.01, momentum=0.3, **F64))
    mean, covariance = statistics(channels)

    def expected(mean, covariance):
        white = whitened(channels, mean, covariance, 0.01)
        stretch = torch.stack([layer.weight_rr, layer.weight_ri, layer.weight_ii])
        stretched = stretch[[0, 1, 1, 2]].T.reshape(3, 2, 2) @ white
        y = torch.complex(stretched[:, 0], stretched[:, 1]) + complex_of("bias", layer)[:, None]
        return y.reshape(3, shape[0], *shape[2:]).transpose(0, 1)

    assert_same(layer(x), expected(mean, covariance))
    count = channels.shape[1]
    mean = 0.3 * mean
    covariance = 0.7 * math.sqrt(0.5) * torch.eye(2, **F64) + 0.3 * count / (count - 1) * covariance
    running = torch.complex(layer.running_mean_real, layer.running_mean_imag)
    assert_same(running, mean)
    assert_same(layer.running_rr, covariance[:, 0, 0])
    assert_same(layer.running_ri, covariance[:, 0, 1])
    assert_same(layer.running_ii, covariance[:, 1, 1])
    layer.eval()
    before = copy.deepcopy(dict(layer.named_buffers()))
    assert_same(layer(x), expected(mean, covariance))
    assert all(torch.equal(before[name], value) for name, value in layer.named_buffers())


def test_batch_norm_without_running_averages():
    layer = ComplexBatchNorm(3, track_running_stats=False, **F64)
    assert not list(layer.buffers())
    x = random_complex(5, 3)
    expected = trnfft.as_native(layer(x))
    assert_same(layer.eval()(x), expected)


def test_batch_norm_of_proportional_parts():
    # det V cancels in float32; computed as rr * ii - ri * ri it could be negative.
    x = 1e3 * random(64, 2).float()
    for z in (ComplexTensor(x, x), ComplexTensor(x, -3 * x), ComplexTensor(x, 0 * x)):
        parts = z.real.requires_grad_(), z.imag
        y = ComplexBatchNorm(2)(ComplexTensor(*parts))
        assert trnfft.as_native(y).isfinite().all()
        assert trnfft.as_native(y).abs().max() < 10


def test_batch_norm_in_half_precision():
    x = random_complex(64, 2)
    rough = ComplexTensor(x.real.bfloat16(), x.imag.bfloat16())
    y = ComplexBatchNorm(2)(rough)
    assert y.real.dtype == torch.bfloat16
    expected = trnfft.as_native(ComplexBatchNorm(2)(rough.to(torch.float32)))
    near(y, expected, sums(1, y.real.dtype))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_takes_pruned_parameters(training):
    x, mask = random_complex(4, 2, 3), torch.tensor([1.0, 0.0])
    pruned, expected = (randomized(ComplexBatchNorm(2, **F64)) for _ in range(2))
    prune.custom_from_mask(pruned, "bias_real", mask)
    with torch.no_grad():
        expected.bias_real.mul_(mask)
    for layer in (pruned, expected):
        layer(x)  # in training, for the running averages
        layer.train(training)
    near(native(pruned(x)), native(expected(x)), sums(1, torch.float64))


def test_batch_norm_of_one_number():
    layer = ComplexBatchNorm(3, **F64)
    with pytest.raises(ValueError, match="more than one number per channel"):
        layer(random_complex(1, 3))
    assert layer.eval()(random_complex(1, 3)).shape == (1, 3)


def test_mod_relu_of_no_bias_and_of_one():
    x = random_complex(4, 3)
    assert_same(ModReLU(3, **F64)(x), x)
    one = randomized(ModReLU(1, **F64))
    assert_same(one(x[0]), torch.relu(x[0].abs() + one.bias) * x[0].sgn())


def test_mod_relu_refuses_a_bias_that_became_complex():
    layer = ModReLU(2)
    layer.bias.data = torch.zeros(2, dtype=torch.complex64)  # as torch.nn.utils may, of a vector
    with pytest.raises(TypeError, match="'bias' has dtype torch.complex64"):
        layer(random_complex(1, 2, 3))


def test_mod_relu_at_and_near_zero():
    layer = ModReLU(1)
    for value in (-1.0, 0.0, 1.0):
        nn.init.constant_(layer.bias, value)
        zero = torch.zeros(2, 1, requires_grad=True)
        y = layer(ComplexTensor(zero, zero))
        assert torch.equal(trnfft.as_native(y), torch.zeros(2, 1) * 1j)
        (y.real + y.imag).sum().backward()
        assert zero.grad.isfinite().all()
    near(layer(torch.full((1, 1), 1e-38)), torch.ones(1, 1) + 0j, sums(4))


# Spectral layers


# Errors


LINEAR = ComplexLinear(4, 6)

test_errors = refused(
    called,
    [
        (lambda: ComplexLinear(0, 1), ValueError, "in_features"),
        (lambda: ComplexLinear(1, 0), ValueError, "out_features"),
        (lambda: ComplexConv1d(0, 1, 1), ValueError, "in_channels"),
        (lambda: ComplexConv1d(4, 3, 1, groups=2), ValueError, "out_channels"),
        (lambda: ComplexConv1d(3, 4, 1, groups=2), ValueError, "in_channels"),
        (lambda: ComplexConv1d(4, 4, 1, groups=0), ValueError, "groups"),
        (lambda: ComplexConv1d(1, 1, (1, 2)), ValueError, "kernel_size"),
        (lambda: ComplexConv2d(1, 1, 0), ValueError, "kernel_size"),
        (lambda: ComplexBatchNorm(0), ValueError, "num_features"),
        (lambda: ModReLU(0), ValueError, "num_features"),
        (lambda: SpectralConv1d(1, 1, 0), ValueError, "modes"),
        (lambda: SpectralConv2d(1, 1, 1, 0), ValueError, "modes2"),
        (lambda: SpectralConv3d(1, 1, 1, 1, 0), ValueError, "modes3"),
        (lambda: SpectralConv3d(1, 1, 1, 2, 1)(torch.ones(1, 1, 2, 3, 2)), ValueError, "modes2=2"),
        (
            lambda: SpectralConv3d(1, 1, 1, 1, 1)(torch.ones(1, 2, 2, 2, 2)),
            ValueError,
            r"\[B, 1, D, H, W\]",
        ),
        (lambda: ComplexBatchNorm(3)(torch.ones(2, 4)), ValueError, "input"),
        (lambda: ComplexBatchNorm(3)(torch.ones(3)), ValueError, "input"),
        (lambda: ModReLU(3)(torch.ones(2, 4)), ValueError, "input"),
        (lambda: ModReLU(3)(torch.ones(3)), ValueError, "input"),
        (lambda: SpectralConv1d(2, 1, 3)(torch.ones(2, 2, 3)), ValueError, "modes=3"),
        (lambda: SpectralConv1d(2, 1, 3)(torch.ones(2, 8)), ValueError, "input"),
        (lambda: SpectralConv2d(2, 1, 3, 1)(torch.ones(2, 2, 5, 8)), ValueError, "modes1=3"),
        (lambda: SpectralConv2d(2, 1, 3, 4)(torch.ones(2, 2, 6, 5)), ValueError, "modes2=4"),
        (lambda: SpectralConv2d(2, 1, 3, 4)(torch.ones(2, 3, 6, 8)), ValueError, "input"),
        *[
            (
                lambda name=name: (lambda layer, x: layer(x + 0j))(*case(name)),
                RuntimeError,
                "argument 'input' has dtype torch.complex128",
            )
            for name in ("SpectralConv1d", "SpectralConv2d", "SpectralConv3d")
        ],
        *[
            (lambda make=make, sizes=sizes: make(*sizes, 2), TypeError, f"an int, not {kind}")
            for make in (ComplexLinear, trnfft.nn.BlockCirculantLinear)
            for sizes, kind in (((4, 4.0), "float"), ((None, 4), "NoneType"))
        ],
        *[
            (
                lambda dtype=dtype: ComplexLinear(2, 2, dtype=dtype),
                TypeError,
                "argument 'dtype' is .*, allowed are real",
            )
            for dtype in ("float32", torch.int64, torch.complex64)
        ],
        *[
            (lambda x=x: LINEAR(x), RuntimeError, "argument 'input' has")
            for x in (torch.ones(3), torch.ones(()), torch.ones(2, 4).double())
        ],
        *[
            (
                lambda layer=layer: layer(torch.ones(4, 4, device="meta")),
                ValueError,
                "argument 'input' is on device 'meta'",
            )
            for layer in (LINEAR, ModReLU(4), ComplexBatchNorm(4))
        ],
        *[
            (lambda x=x: FNetMixer()(x), TypeError, "argument 'input' has dtype")
            for x in (torch.full((4, 4), 2**62), torch.ones(4, 4, dtype=torch.complex64))
        ],
        (lambda: FNetMixer()(torch.ones(4)), IndexError, "argument 'input' has shape"),
        (
            lambda: SpectralConv2d(4, 6, 2, 2)(torch.ones(4)),
            ValueError,
            "argument 'input' has shape",
        ),
        (lambda: ComplexBatchNorm(4, eps=-1), ValueError, "argument 'eps' is"),
        (lambda: ComplexBatchNorm(4, eps=math.nan), ValueError, "argument 'eps' is"),
        (lambda: ComplexBatchNorm(4, momentum=2), ValueError, "argument 'momentum' is"),
    ],
)


def test_mod_relu_computes_in_the_wider_dtype():
    x = random_complex(3, 4, 5)
    bfloat16 = ComplexTensor(x.real.bfloat16(), x.imag.bfloat16())
    layer = ModReLU(4, **F64)
    y, expected = layer(bfloat16), layer(bfloat16.to(torch.float64))
    assert_same(y, native(expected))
