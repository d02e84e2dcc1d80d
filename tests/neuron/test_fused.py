"""Launches in graphs of torch.compile(backend="neuron"): layers, spectrograms and transforms."""

from __future__ import annotations

import copy
import functools
import itertools

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import operands
from trnfft import nn
from trnfft.ops import spectral_convolution

from .comparison import all_near, trained
from .stand_in import compile_backend
from .subjects import C2R, R2C, Subject, layer_of_real, seeded

compiled = functools.partial(torch.compile, backend="neuron", fullgraph=True)
LAYERS = {
    "one axis": (seeded(nn.SpectralConv1d, 8, 6, 9), (5, 8, 64)),
    "two axes": (seeded(nn.SpectralConv2d, 4, 8, 3, 4), (3, 4, 16, 20)),
    "neural operator": (seeded(nn.SpectralConv, 4, 5, (7, 6)), (3, 4, 12, 12)),
}
SPECTROGRAMS = {
    "powers": (nn.Spectrogram(400, hop_length=160), (3, 20000), "frame_powers"),
    "magnitudes": (
        nn.Spectrogram(400, hop_length=160, power=1, normalized="frame_length"),
        (2, 1, 30001),
        "frame_powers",
    ),
    "bands": (nn.MelSpectrogram(n_fft=512, hop_length=128, n_mels=16), (3, 20000), "frame_bands"),
}


class ThereAndBack(torch.nn.Module):
    """Two launches."""

    def forward(self, x):
        return trnfft.irfft(trnfft.rfft(x))


EVERY = {**LAYERS, **SPECTROGRAMS, "transforms": (ThereAndBack(), (3, 16))}
layers = pytest.mark.parametrize("name", LAYERS)
each_kind = pytest.mark.parametrize("name", ["one axis", "powers", "transforms"])
spectrograms = pytest.mark.parametrize("name", SPECTROGRAMS)


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is compiled yet."""
    torch._dynamo.reset()
    compile_backend.GRAPHS.clear()


def subject_of(name):
    layer, shape, *_ = EVERY[name]
    return Subject(layer_of_real, (shape,), (), layer)


def on_device(layer, x, how=compiled):
    """The layer's result on the device, without gradients of parameters."""
    layer = copy.deepcopy(layer).to("neuron").requires_grad_(False)
    return how(layer)(x.to("neuron"))


def names(launches):
    return [name for name, _ in launches]


@sweeps.some(
    "name, is_autocast",
    itertools.product(LAYERS, [False, True]),
    [*((name, False) for name in LAYERS), ("two axes", True)],
)
def test_a_layer_and_its_gradients(name, is_autocast, launches, counted):
    with torch.autocast("neuron", torch.bfloat16, enabled=is_autocast):
        training = trained(subject_of(name), compiled)
    assert len(compile_backend.GRAPHS) == 2, "one graph forward, one backward"
    assert names(launches) == ["spectral_convolution", "spectral_gradients"]
    with counted() as counts:
        training.step()
    assert (counts.to_host, counts.to_device) == (0, 0)


@layers
def test_the_gradient_of_the_input_alone(name, launches):
    """It is the convolution with the adjoint weight."""
    trained(subject_of(name), compiled, "tensors")
    assert names(launches) == ["spectral_convolution"] * 2


def test_the_gradient_of_the_input_alone_by_transforms(launches, monkeypatch):
    """Where a layer is one launch, but its adjoint is cheaper by transforms."""
    found = spectral_convolution._recipe
    monkeypatch.setattr(
        spectral_convolution, "_recipe", lambda *a: found(*a) if a[1][:2] == (4, 8) else None
    )
    trained(subject_of("two axes"), compiled, "tensors")
    assert names(launches)[:1] == ["spectral_convolution"]
    assert len(launches) == 3


@layers
def test_the_gradients_of_the_weight_alone(name, launches):
    trained(subject_of(name), compiled, "parameters")
    assert names(launches) == ["spectral_convolution", "spectral_gradients"]


def test_the_gradients_of_the_weight_alone_by_transforms(launches, monkeypatch):
    """Nothing computes that of the input, if the gradients are cheaper by transforms."""
    found = spectral_convolution._recipe
    monkeypatch.setattr(
        spectral_convolution,
        "_recipe",
        lambda *a: None if a[-1] == "gradients" else found(*a),
    )
    trained(subject_of("one axis"), compiled, "parameters")
    forward, backward = names(launches)
    assert forward == "spectral_convolution" and backward in R2C


@spectrograms
def test_a_spectrogram(name, launches):
    layer, shape, kernel = SPECTROGRAMS[name]
    x = torch.randn(shape)
    all_near([on_device(layer, x)], [layer(x)])
    assert names(launches) == [kernel]
    assert len(compile_backend.GRAPHS) == 1


@spectrograms
def test_a_spectrogram_with_gradients_is_a_transform(name, launches):
    """The derivative reads the spectra that a kernel would not keep."""
    trained(subject_of(name), compiled)
    forward, backward = names(launches)
    assert forward in R2C and backward in C2R


@pytest.mark.parametrize(
    "layer, shape",
    [
        (seeded(nn.SpectralConv1d, 2, 2, 513), (2, 2, 1024)),  # many frequencies
        (nn.MelSpectrogram(n_fft=1009, hop_length=500, n_mels=8), (1, 1500)),  # a prime length
    ],
    ids=["layer", "spectrogram"],
)
def test_what_is_cheaper_by_transforms_stays_so(layer, shape, launches):
    subject = Subject(layer_of_real, (shape,), (), layer)
    trained(subject, compiled)
    assert not any("spectral" in name or "frame" in name for name in names(launches))


@sweeps.some(
    "name, has_launch",
    itertools.product(LAYERS, [True, False]),
    [*((name, True) for name in LAYERS), ("one axis", False)],
)
def test_gradients_with_rounded_operands(name, has_launch, launches, monkeypatch):
    found = spectral_convolution._recipe
    recipes = []

    def recipe(*arguments):
        recipes.append(found(*arguments) if has_launch or arguments[-1] != "gradients" else None)
        return recipes[-1]

    monkeypatch.setattr(spectral_convolution, "_recipe", recipe)
    # Forward and backward: a transform and its inverse of each axis, and the products between.
    tolerance = operands(2 * (2 * (len(LAYERS[name][1]) - 2) + 1))
    with trnfft.precision("bf16"):
        trained(subject_of(name), compiled, tolerance=tolerance)
    assert all(one is None or one.algorithm.endswith("_bf16") for one in recipes)
    if has_launch:
        assert names(launches) == ["spectral_convolution", "spectral_gradients"]
    else:
        assert "spectral_convolution" not in names(launches)


@each_kind
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(name, mode, launches):
    layer, shape, *_ = EVERY[name]
    x = torch.randn(shape)
    with mode():
        y = compiled(copy.deepcopy(layer).to("neuron"))(x.to("neuron"))
        all_near([y], [layer(x)])
    assert len(launches) == 1 + (name == "transforms")


@each_kind
def test_settings_without_kernels_are_refused_with_advice(name, launches):
    layer, shape, *_ = EVERY[name]
    for setting, message in (
        (lambda: trnfft.backend("matmul"), 'backend "matmul" has no kernels for the graphs'),
        (lambda: trnfft.precision("double"), "leave the transform out with torch.compiler.disable"),
    ):
        with setting(), pytest.raises(Exception, match=message):
            on_device(layer, torch.randn(shape))
        torch._dynamo.reset()
    assert launches == []


@pytest.mark.parametrize("name", ["one axis", "powers"])
def test_rounded_operands(name, launches):
    layer, shape, *_ = EVERY[name]
    x = torch.randn(shape)
    with trnfft.precision("bf16"):
        all_near([on_device(layer, x)], [layer(x)], 2 * operands(3))  # of squares, or of one layer
    if name == "powers":  # which no fused kernel rounds
        assert launches and all(each in (*R2C, *C2R) for each in names(launches))
    else:
        assert names(launches) == ["spectral_convolution"]


@pytest.mark.parametrize("fullgraph", [True, False])
@each_kind
def test_dynamic_shapes_are_refused_before_the_backend_does(name, fullgraph, launches):
    layer, shape, *_ = EVERY[name]
    run = functools.partial(torch.compile, backend="neuron", fullgraph=fullgraph)
    with pytest.raises(RuntimeError, match="argument 'dynamic' of torch.compile is True"):
        on_device(layer, torch.ones(shape), functools.partial(run, dynamic=True))
    torch._dynamo.reset()
    x, y = torch.ones(2, *shape, device="neuron")
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(RuntimeError, match="marked by torch._dynamo.mark_dynamic: remove the mark"):
        on_device(layer, x, run)
    assert launches == []
    torch._dynamo.reset()
    torch._dynamo.maybe_mark_dynamic(y, 0)
    all_near([on_device(layer, y, run)], [layer(torch.ones(shape))])


@pytest.mark.parametrize(
    "name, shapes, count",
    [
        ("one axis", [(5, 8, 64), (5, 8, 128), (7, 8, 128)], 3),
        ("transforms", [(3, 8), (3, 12), (5, 12)], 6),
    ],
)
def test_shapes_that_vary_are_settled(name, shapes, count, launches):
    """Dynamo keeps numbers open that differ between calls, unless it is told otherwise."""
    layer = EVERY[name][0]
    run = compiled(copy.deepcopy(layer).to("neuron").requires_grad_(False))
    for shape in shapes:
        x = torch.randn(shape)
        all_near([run(x.to("neuron"))], [layer(x)])
    assert len(launches) == count


@each_kind
def test_forward_mode_is_left_to_eager_mode(name):
    """As a graph would lose the tangents: nki_op's operators have no rule for them."""
    layer, shape, *_ = EVERY[name]
    x, dx = torch.randn(2, *shape)

    def tangent(layer, x, dx):
        return torch.func.jvp(layer, (x,), (dx,))[1]

    own = copy.deepcopy(layer).to("neuron").requires_grad_(False)
    run = torch.compile(functools.partial(tangent, own), backend="neuron")
    all_near([run(x.to("neuron"), dx.to("neuron"))], [tangent(layer, x, dx)])


@each_kind
def test_functions_of_many_are_left_to_eager_mode(name):
    layer, shape, *_ = EVERY[name]
    x = torch.randn(2, *shape)
    own = copy.deepcopy(layer).to("neuron").requires_grad_(False)
    run = torch.compile(torch.func.vmap(own), backend="neuron")
    all_near([run(x.to("neuron"))], [torch.stack([layer(each) for each in x])])


@pytest.mark.parametrize(
    "name, strict",
    [("two axes", True), ("bands", True), ("transforms", True), ("transforms", False)],
)
def test_exported_programs_hold_the_operators_of_trnfft(name, strict, launches):
    """They launch the kernels of the moment that they run."""
    layer, shape, *_ = EVERY[name]
    own = copy.deepcopy(layer).to("neuron").requires_grad_(False)
    program = torch.export.export(own, (torch.ones(shape, device="neuron"),), strict=strict)
    targets = [str(node.target) for node in program.graph.nodes]
    count = 1 + (name == "transforms")
    operators = {target for target in targets if target.startswith("trnfft.")}
    assert len(operators - {"trnfft.join.default"}) == count, operators
    launches.clear()
    x = torch.randn(shape)
    all_near([program.module()(x.to("neuron"))], [layer(x)])
    assert len(launches) == count


@pytest.mark.parametrize("name", ["two axes", "bands"])
def test_patched_torch_leaves_them_working(name, launches):
    layer, shape, *_ = EVERY[name]
    x = torch.randn(shape)
    with trnfft.patch_torch():
        all_near([on_device(layer, x)], [layer(x)])
        all_near([on_device(layer, x, lambda layer: layer)], [layer(x)])
    assert len(launches) == 2


@pytest.mark.parametrize("name", ["one axis", "two axes", "powers"])
def test_gradients_by_torch_func_are_left_to_eager_mode(name):
    layer, shape, *_ = EVERY[name]
    x = torch.randn(shape)

    def gradient(layer, x):
        return torch.func.grad(lambda x: layer(x).square().sum())(x)

    own = copy.deepcopy(layer).to("neuron").requires_grad_(False)
    run = functools.partial(gradient, own)
    all_near([torch.compile(run, backend="neuron")(x.to("neuron"))], [gradient(layer, x)])
    torch._dynamo.reset()
    with pytest.raises(Exception, match="torch.func"):
        compiled(run)(x.to("neuron"))
