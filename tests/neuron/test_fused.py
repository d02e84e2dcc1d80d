"""Fused launches in graphs of torch.compile(backend="neuron"): Fourier layers and spectrograms."""

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

from .comparison import Training, all_near
from .stand_in import compile_backend
from .subjects import (
    C2R,
    FOURIER_LAYERS,
    MODULES,
    R2C,
    SPECTROGRAMS,
    Subject,
    layer_of_real,
    seeded,
)

compiled = functools.partial(torch.compile, backend="neuron", fullgraph=True)
KERNELS = {"powers": "frame_powers", "magnitudes": "frame_powers", "bands": "frame_bands"}
layers = pytest.mark.parametrize("name", FOURIER_LAYERS)
spectrograms = pytest.mark.parametrize("name", SPECTROGRAMS)


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is compiled yet."""
    torch._dynamo.reset()
    compile_backend.GRAPHS.clear()


def subject_of(name):
    layer, shape = FOURIER_LAYERS[name]
    return Subject(layer_of_real, (shape,), (), layer)


def on_device(layer, x, how=compiled):
    """The layer's result on the device, without gradients of parameters."""
    layer = copy.deepcopy(layer).to("neuron").requires_grad_(False)
    return how(layer)(x.to("neuron"))


def names(launches):
    return [name for name, _ in launches]


@sweeps.some(
    "name, is_autocast",
    itertools.product(FOURIER_LAYERS, [False, True]),
    [*((name, False) for name in FOURIER_LAYERS), ("two axes", True)],
)
def test_a_layer_and_its_gradients(name, is_autocast, launches, counted):
    training = Training(subject_of(name), "neuron", compiled)
    with torch.autocast("neuron", torch.bfloat16, enabled=is_autocast):
        actual = training.step()
    all_near(actual, Training(subject_of(name), "cpu").step())
    assert len(compile_backend.GRAPHS) == 2, "one graph forward, one backward"
    assert names(launches) == ["spectral_convolution", "spectral_gradients"]
    with counted() as counts:
        training.step()
    assert (counts.to_host, counts.to_device) == (0, 0)


def compare_gradients(name, of_input):
    """Those of the input alone, or those of the parameters alone."""
    layer, shape = FOURIER_LAYERS[name]
    x = torch.randn(shape)
    results = []
    for device, how in (("neuron", compiled), ("cpu", lambda layer: layer)):
        own = copy.deepcopy(layer).to(device).requires_grad_(not of_input)
        given = x.to(device).requires_grad_(of_input)
        y = how(own)(given)
        y.square().sum().backward()
        leaves = [leaf for leaf in (given, *own.parameters()) if leaf.requires_grad]
        results.append([y, *(leaf.grad for leaf in leaves)])
    all_near(*results)


@layers
@pytest.mark.parametrize(
    "of_input, backward", [(True, "spectral_convolution"), (False, "spectral_gradients")]
)
def test_gradients_of_one_operand_alone(name, of_input, backward, launches):
    """That of the input is the convolution with the adjoint weight."""
    compare_gradients(name, of_input)
    assert names(launches) == ["spectral_convolution", backward]


def test_the_gradient_of_the_input_alone_by_transforms(launches, monkeypatch):
    """Where a layer is one launch, but its adjoint is cheaper by transforms."""
    found = spectral_convolution._recipe
    monkeypatch.setattr(
        spectral_convolution, "_recipe", lambda *a: found(*a) if a[1][:2] == (4, 8) else None
    )
    compare_gradients("two axes", of_input=True)
    assert names(launches)[:1] == ["spectral_convolution"]
    assert len(launches) == 3


def test_the_gradients_of_the_weight_alone_by_transforms(launches, monkeypatch):
    """Nothing computes that of the input, if the gradients are cheaper by transforms."""
    found = spectral_convolution._recipe
    monkeypatch.setattr(
        spectral_convolution,
        "_recipe",
        lambda *a: None if a[-1] == "gradients" else found(*a),
    )
    compare_gradients("one axis", of_input=False)
    forward, backward = names(launches)
    assert forward == "spectral_convolution" and backward in R2C


def test_two_layers_share_a_graph(launches):
    first, second = seeded(nn.SpectralConv1d, 4, 4, 9), seeded(nn.SpectralConv1d, 4, 4, 9)
    layers = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    subject = Subject(layer_of_real, ((5, 4, 128),), (), layers)
    actual = Training(subject, "neuron", compiled).step()
    all_near(actual, Training(subject, "cpu").step())
    assert names(launches)[:2] == ["spectral_convolution"] * 2
    assert len(compile_backend.GRAPHS) == 2


@spectrograms
def test_a_spectrogram(name, launches):
    layer, shape = SPECTROGRAMS[name]
    x = torch.randn(shape)
    all_near([on_device(layer, x)], [layer(x)])
    assert names(launches) == [KERNELS[name]]
    assert len(compile_backend.GRAPHS) == 1


@spectrograms
def test_a_spectrogram_with_gradients_is_a_transform(name, launches):
    """The derivative reads the spectra that a kernel would not keep."""
    layer, shape = SPECTROGRAMS[name]
    subject = Subject(layer_of_real, (shape,), (), layer)
    actual = Training(subject, "neuron", compiled).step()
    all_near(actual, Training(subject, "cpu").step())
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
    actual = Training(subject, "neuron", compiled).step()
    all_near(actual, Training(subject, "cpu").step())
    assert not any("spectral" in name or "frame" in name for name in names(launches))


def test_a_spectrogram_with_rounded_operands_is_a_transform(launches):
    layer, shape = SPECTROGRAMS["powers"]
    x = torch.randn(shape)
    with trnfft.precision("bf16"):
        all_near([on_device(layer, x)], [layer(x)], 2 * operands(3))  # of squares
    assert launches and all(each in (*R2C, *C2R) for each in names(launches))


@sweeps.some(
    "name, has_launch",
    itertools.product(FOURIER_LAYERS, [True, False]),
    [*((name, True) for name in FOURIER_LAYERS), ("one axis", False)],
)
def test_gradients_with_rounded_operands(name, has_launch, launches, monkeypatch):
    found = spectral_convolution._recipe
    recipes = []

    def recipe(*arguments):
        recipes.append(found(*arguments) if has_launch or arguments[-1] != "gradients" else None)
        return recipes[-1]

    monkeypatch.setattr(spectral_convolution, "_recipe", recipe)
    with trnfft.precision("bf16"):
        actual = Training(subject_of(name), "neuron", compiled).step()
    # Forward and backward: a transform and its inverse of each axis, and the products between.
    tolerance = operands(2 * (2 * (len(FOURIER_LAYERS[name][1]) - 2) + 1))
    all_near(actual, Training(subject_of(name), "cpu").step(), tolerance)
    assert all(one is None or one.algorithm.endswith("_bf16") for one in recipes)
    if has_launch:
        assert names(launches) == ["spectral_convolution", "spectral_gradients"]
    else:
        assert "spectral_convolution" not in names(launches)


@pytest.mark.parametrize("name", ["two axes", "bands"])
def test_patched_torch_leaves_them_working(name, launches):
    layer, shape = MODULES[name]
    x = torch.randn(shape)
    with trnfft.patch_torch():
        all_near([on_device(layer, x)], [layer(x)])
        all_near([on_device(layer, x, lambda layer: layer)], [layer(x)])
    assert len(launches) == 2
