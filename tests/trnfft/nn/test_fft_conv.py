"""FFTConv1d and FFTConv2d, compared with torch's layers, and the spectra that they keep."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nki_sim
import trnfft
from tests import sweeps
from tests.refusals import called, refused
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.nn.steps import exact_step, step, terms_of_step
from tests.trnfft.samples import random, single
from trnfft.nn import FFTConv1d, FFTConv2d, fft_conv
from trnfft.planner import lengths

pytestmark = pytest.mark.filterwarnings("ignore:Using padding")  # torch's, of even filters

THEIRS = {FFTConv1d: nn.Conv1d, FFTConv2d: nn.Conv2d}
LAYERS = pytest.mark.parametrize("layer", THEIRS)
POINTS = {FFTConv1d: (20,), FFTConv2d: (9, 12)}


def pair(layer, *args, dtype=torch.float64, **options):
    """The layer and torch's with the same parameters, loaded by state_dict."""
    ours, theirs = (
        layer(*args, dtype=dtype, **options),
        THEIRS[layer](*args, dtype=dtype, **options),
    )
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def tolerance(layer, x):
    """Returns that of transforms of input and filter and one back, and of sums over channels."""
    points = 4 * x[0, 0].numel()  # at most, with padding
    return together(transforms(points, 3, x.dtype), sums(2 * layer.weight[0].numel(), x.dtype))


def assert_as_torch(ours, theirs, x):
    """Fails unless results and gradients are those of torch's layer, computed in float64."""
    cotangent = random(*theirs(x).shape, dtype=x.dtype, seed=1)
    exact = exact_step(theirs, x, cotangent)
    terms = terms_of_step(theirs, x, cotangent)
    # Gradients of parameters sum over points and the batch.
    allowed = together(tolerance(ours, x), sums(cotangent[..., 0, :].numel(), x.dtype))
    for found, expected, scale in zip(step(ours, x, cotangent), exact, terms, strict=True):
        assert found.dtype == x.dtype
        near(found, expected, allowed, scale=scale)


@st.composite
def layers(draw):
    layer = draw(st.sampled_from(list(THEIRS)))
    size = st.integers(1, 4)
    each = size if layer is FFTConv1d else size | st.tuples(size, size)
    groups = draw(st.sampled_from([1, 2, 3]))
    padding = draw(st.sampled_from(["int", "same", "valid"]))
    options = dict(
        kernel_size=draw(each),
        stride=1 if padding == "same" else draw(each),
        padding=draw(each) if padding == "int" else padding,
        dilation=draw(each),
        groups=groups,
        bias=draw(st.booleans()),
        padding_mode=draw(st.sampled_from(["zeros", "circular", "reflect", "replicate"])),
    )
    channels = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    points = tuple(draw(st.integers(13, 19)) for _ in POINTS[layer])
    batch = draw(st.sampled_from([(), (1,), (3,)]))
    return layer, channels, options, (*batch, channels[0], *points)


@given(
    layers(), st.sampled_from([torch.float32, torch.float64]), st.sampled_from(["torch", "matmul"])
)
@settings(deadline=None, max_examples=30)
def test_as_torch(chosen, dtype, backend):
    layer, channels, options, shape = chosen
    ours, theirs = pair(layer, *channels, dtype=dtype, **options)
    x = random(*shape, dtype=dtype)
    with trnfft.backend(backend):
        assert_as_torch(ours, theirs, x)


@pytest.mark.parametrize("size", [300, 257, 1])
def test_long_filters(size):
    ours, theirs = pair(FFTConv1d, 3, 5, size, padding="same")
    assert_as_torch(ours, theirs, random(2, 3, 700))


@LAYERS
def test_kernels(layer):
    ours, theirs = pair(layer, 2, 3, 3, padding=1, dtype=torch.float32)
    x = single(2, 2, *POINTS[layer])
    with trnfft.backend("nki-sim"):
        assert_as_torch(ours, theirs, x)


def test_a_batch_of_nothing():
    assert FFTConv1d(2, 3, 4)(torch.ones(0, 2, 9)).shape == (0, 3, 6)


# The spectrum that is kept


@pytest.fixture
def calls(monkeypatch):
    """The arguments of all calls of rfftn."""
    arguments = []

    def counted(*args):
        arguments.append(args)
        return trnfft.rfftn(*args)

    monkeypatch.setattr(fft_conv, "rfftn", counted)
    return arguments


def filters_transformed(calls, run, count=1):
    """Returns how many of the transforms in `count` runs were not of the input."""
    calls.clear()
    for _ in range(count):
        run()
    return len(calls) - count


@LAYERS
def test_the_spectrum_is_kept_without_gradients(layer, calls):
    ours, x = layer(2, 3, 3), single(1, 2, *POINTS[layer])
    assert filters_transformed(calls, lambda: ours(x), 3) == 3
    with torch.no_grad():
        assert filters_transformed(calls, lambda: ours(x), 3) == 1
    with torch.inference_mode():
        assert filters_transformed(calls, lambda: ours(x), 3) == 1
    ours.requires_grad_(False)
    assert filters_transformed(calls, lambda: ours(x), 3) == 1
    y = x.clone().requires_grad_()
    ours(y).sum().backward()  # through a spectrum that no inference mode made
    assert y.grad is not None


CHANGES = {
    "step": lambda layer: stepped(layer),
    "load_state_dict": lambda layer: layer.load_state_dict(FFTConv1d(2, 3, 3).state_dict()),
    "assign": lambda layer: layer.load_state_dict(FFTConv1d(2, 3, 3).state_dict(), assign=True),
    "in place": lambda layer: nn.init.ones_(layer.weight),
    "another": lambda layer: setattr(layer, "weight", nn.Parameter(torch.ones(3, 2, 3))),
    "to": lambda layer: layer.bfloat16().float(),
    # These write below autograd, which counts no version of the weight.
    "fused Adam": lambda layer: stepped(layer, torch.optim.Adam, fused=True),
    "fused SGD": lambda layer: stepped(layer, torch.optim.SGD, fused=True),
    "fused Adagrad": lambda layer: stepped(layer, torch.optim.Adagrad, fused=True),
    "vector": lambda layer: nn.utils.vector_to_parameters(torch.ones(21), layer.parameters()),
    "numpy": lambda layer: np.copyto(layer.weight.detach().numpy(), 2),
    "data": lambda layer: layer.weight.data.mul_(2),
    "set data": lambda layer: setattr(layer.weight, "data", torch.ones(3, 2, 3)),
    "init of data": lambda layer: nn.init.ones_(layer.weight.data),
    "one number": lambda layer: layer.weight.data[1, 1, 1].add_(1),
    "another dtype": lambda layer: setattr(layer, "weight", nn.Parameter(layer.weight.half())),
}


def stepped(layer, optimizer=torch.optim.Adam, **options):
    with torch.enable_grad():
        layer(torch.ones(1, 2, 20)).sum().backward()
    optimizer(layer.parameters(), lr=0.1, **options).step()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_weight_is_seen(change, calls):
    ours, x = FFTConv1d(2, 3, 3), single(1, 2, 20)
    with torch.no_grad():
        ours(x)
        CHANGES[change](ours)
        assert filters_transformed(calls, lambda: ours(x), 2) == 1
        expected = nn.functional.conv1d(x, ours.weight.float(), ours.bias)
        near(ours(x), expected, tolerance(ours, x))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_traced_layer_sees_a_change_of_its_weight():
    ours, x = FFTConv1d(2, 3, 3), single(1, 2, 20)
    with torch.no_grad():
        ours(x)
        traced = torch.jit.trace(ours, x)
        nn.init.ones_(ours.weight)
        near(traced(x), nn.functional.conv1d(x, ours.weight, ours.bias), tolerance(ours, x))


def test_other_sizes_dtypes_and_settings_are_seen(calls):
    ours, x = FFTConv1d(2, 3, 3), single(1, 2, 20)
    with torch.no_grad():
        ours(x)
        for other in (torch.ones(1, 2, 30), x.double()):
            assert filters_transformed(calls, lambda other=other: ours(other), 2) == 1
        with trnfft.backend("matmul"):
            assert filters_transformed(calls, lambda: ours(x), 2) == 1
        with trnfft.precision("double"):
            assert filters_transformed(calls, lambda: ours(x), 2) == 1


@LAYERS
def test_the_kept_spectrum_is_not_saved(layer):
    ours, x = layer(2, 3, 3), single(1, 2, *POINTS[layer])
    with torch.no_grad():
        expected = ours(x)
        assert set(ours.state_dict()) == {"weight", "bias"}
        for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            assert twin._kept is None
            assert torch.equal(twin(x), expected)
            nn.init.zeros_(twin.weight)
            assert not torch.equal(twin(x), expected)
        assert torch.equal(ours(x), expected)


@LAYERS
def test_functional_calls(layer):
    ours, theirs = pair(layer, 2, 3, 3)
    x = random(1, 2, *POINTS[layer])
    with torch.no_grad():
        ours(x)
        zeros = {name: torch.zeros_like(value) for name, value in ours.named_parameters()}
        assert not torch.func.functional_call(ours, zeros, x).any()
        stacked = {name: torch.stack([value, 2 * value]) for name, value in ours.named_parameters()}
        both = torch.func.vmap(torch.func.functional_call, (None, 0, None))(ours, stacked, (x,))
        near(both, torch.stack([theirs(x), 2 * theirs(x)]), tolerance(ours, x))


def test_compiled_code_beside_a_kept_spectrum():
    ours, theirs = pair(FFTConv1d, 2, 3, 3)
    x = random(1, 2, 20)
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    with torch.no_grad():
        ours(x)
        near(compiled(x), theirs(x), tolerance(ours, x))


# Errors


test_errors = refused(
    lambda input: FFTConv1d(2, 3, 5)(input),
    [
        ([1.0], TypeError, "argument 'input' is of type list"),
        (torch.ones(1, 2, 9, dtype=torch.int64), TypeError, "has dtype torch.int64"),
        (torch.ones(1, 2, 9) + 0j, TypeError, "for complex numbers use ComplexConv"),
        (torch.ones(9), ValueError, r"has shape \(9,\), allowed are \[B, 2, L\] and \[2, L\]"),
        (torch.ones(1, 3, 9), ValueError, "bring the channels before the points"),
        (torch.ones(1, 2, 4), ValueError, "has 4 points with its padding, allowed are 5"),
        (torch.ones(1, 2, 9, device="meta"), ValueError, "on device 'meta' and the weight on"),
    ],
)


test_errors_that_torch_raises = refused(
    called,
    [
        (lambda: FFTConv1d(2, 3, 3, groups=2), ValueError, "groups"),
        (lambda: FFTConv2d(2, 3, 3, padding_mode="mirror"), ValueError, "padding_mode"),
        (
            lambda: FFTConv1d(2, 3, 3, padding=4, padding_mode="reflect")(torch.ones(1, 2, 4)),
            RuntimeError,
            "Padding size should be less",
        ),
    ],
)

test_sizes_that_no_filter_has = refused(
    lambda arguments: FFTConv1d(**{"in_channels": 2, "out_channels": 2, **arguments}),
    [
        ({"kernel_size": 0}, ValueError, "'kernel_size' is 0, allowed is an int or a tuple of 1"),
        ({"kernel_size": (3, 3)}, ValueError, r"'kernel_size' is \(3, 3\)"),
        ({"kernel_size": 1.5}, TypeError, "'kernel_size' must be an int"),
        ({"kernel_size": 3, "padding": -1}, ValueError, "'padding' is -1, .* each 0 or more"),
        ({"kernel_size": 3, "padding": (1, 2)}, ValueError, r"'padding' is \(1, 2\)"),
        ({"kernel_size": 3, "padding": "most"}, ValueError, "most|padding"),
        ({"kernel_size": 3, "stride": 0}, ValueError, "'stride' is 0"),
        ({"kernel_size": 3, "stride": iter([1])}, TypeError, "'stride' is of type list_iterator"),
        ({"kernel_size": 3, "dilation": ()}, ValueError, r"'dilation' is \(\)"),
        ({"kernel_size": 3, "in_channels": -1}, ValueError, "'in_channels' is -1"),
        ({"kernel_size": 3, "dtype": "x"}, TypeError, "'dtype' is 'x'"),
    ],
)


@sweeps.some(
    "shape, padding, mode",
    itertools.product(
        [(3, 40), (2, 3, 9, 30), (2, 3, 30, 9)], [0, 3, "same"], ["zeros", "reflect"]
    ),
    [
        ((3, 40), 3, "zeros"),
        ((3, 40), "same", "reflect"),
        ((2, 3, 9, 30), "same", "zeros"),
        ((2, 3, 30, 9), 0, "zeros"),
        ((2, 3, 30, 9), 3, "reflect"),
    ],
)
def test_a_filter_for_each_channel_is_one_launch(shape, padding, mode):
    layer = FFTConv1d if len(shape) == 2 else FFTConv2d
    options = dict(padding=padding, dilation=2, groups=3, padding_mode=mode, dtype=torch.float32)
    ours, theirs = pair(layer, 3, 3, 4, **options)
    x = single(*shape)
    with trnfft.backend("nki-sim"), torch.no_grad():
        ours(x)  # makes the filter's spectrum
        with nki_sim.record() as timeline:
            y = ours(x)
    assert timeline.launches == 1
    near(y, theirs.double()(x.double()), tolerance(ours, x.view(-1, *x.shape[-len(shape) + 1 :])))


@LAYERS
def test_derivatives_of_a_filter_for_each_channel(layer):
    ours, theirs = pair(layer, 3, 3, 4, padding=2, groups=3, dtype=torch.float32)
    with trnfft.backend("nki-sim"):
        assert_as_torch(ours, theirs, single(2, 3, *POINTS[layer]))


def test_images_without_a_kernel_take_two_launches(monkeypatch):
    def refuse(*arguments):
        raise NotImplementedError

    monkeypatch.setattr(lengths, "plan_images", refuse)
    layer = FFTConv2d(2, 2, (5, 3), groups=2).requires_grad_(False)
    x = single(2, 20, 12)
    with trnfft.backend("nki-sim"):
        layer(x)
        with nki_sim.record() as timeline:
            y = layer(x)
    assert timeline.launches == 2
    expected = nn.functional.conv2d(x, layer.weight, layer.bias, groups=2)
    near(y, expected, tolerance(layer, x))
