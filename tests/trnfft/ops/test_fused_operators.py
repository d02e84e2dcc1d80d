"""Operators of fused launches beside torch: fake kernels, torch.func, graphs and patch_torch."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import lookup_backend

import trnfft
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from trnfft import nn
from trnfft.ops import frames, spectral_convolution

from .derivatives import all_near, double, gradients, in_double, layer_gradients, weights_of

# Layers that one launch computes, the name of its operator, and a shape of the input.
LAYERS = {
    "spectral, one axis": (lambda: nn.SpectralConv1d(4, 6, 9), "spectral", (5, 4, 32)),
    "spectral, two axes": (lambda: nn.SpectralConv2d(4, 3, 3, 4), "spectral", (3, 4, 8, 12)),
    "spectral, three axes": (lambda: nn.SpectralConv3d(2, 3, 2, 2, 3), "spectral", (2, 2, 8, 4, 6)),
    "neural operator": (lambda: nn.SpectralConv(4, 5, (7, 6)), "spectral", (3, 4, 12, 12)),
    "powers": (lambda: nn.Spectrogram(64, hop_length=20), "frame", (3, 300)),
    "frames apart": (
        lambda: nn.Spectrogram(100, hop_length=130, normalized="frame_length", center=False),
        *("frame", (3, 300)),
    ),
    "magnitudes": (
        lambda: nn.Spectrogram(64, hop_length=20, power=1.0, normalized=True),
        *("frame", (3, 300)),
    ),
    "bands": (lambda: nn.MelSpectrogram(n_fft=128, hop_length=50, n_mels=8), "frame", (3, 300)),
    "tokens": (nn.FNetMixer, "real_fft2", (2, 66, 68)),
}
EACH_OPERATOR = ("spectral, one axis", "bands", "tokens")
WEIGHT = [(4, 6, 9)] * 2
OPERATORS = {
    "convolution": (spectral_convolution._convolution, [(5, 4, 32), *WEIGHT], (True, False)),
    "adjoint": (spectral_convolution._convolution, [(5, 6, 32), *WEIGHT], (False, True)),
    "kept": (spectral_convolution._kept, [(5, 4, 32), *WEIGHT], (True,)),
    "gradients": (
        spectral_convolution._gradients,
        [(5, 6, 32), (5, 9, 2, 4), *WEIGHT],
        (False,),
    ),
    "powers": (frames._frame_bands, [(3, 300), (64,)], (None, 20, 2, 1.0)),
    "bands": (frames._frame_bands, [(3, 300), (64,), (33, 9)], (20, 1, 0.3)),
    "planes": (torch.ops.trnfft.real_fft2.default, [(2, 66, 68)], ()),
}


@pytest.fixture(autouse=True)
def on_a_chip(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)


def layer_and_input(name):
    make, _, shape = LAYERS[name]
    return make(), torch.randn(shape)


def exact(layer, x):
    """Returns the layer's result in float64, by torch.fft."""
    with trnfft.backend("torch"):
        return double(layer)(x.double())


def tolerance(x, count=4):
    """Returns that of `count` transforms, and of sums over bands, or channels and samples."""
    points = 128 if x.ndim == 2 else x[0, 0].numel() if x.ndim > 3 else x[0].numel()
    return together(transforms(points, count), sums(65))


@pytest.mark.parametrize("backend", ["", "nki-sim"])
@pytest.mark.parametrize("name", OPERATORS)
def test_schemas_and_fake_kernels(name, backend):
    """For both kinds of calls: of a backend, as in eager mode, and of that of the context."""
    operator, shapes, settings = OPERATORS[name]
    arguments = (*map(torch.randn, shapes), *settings, backend)
    with trnfft.backend("nki-sim"):
        torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


# Of a function and two inputs.
FUNCTIONAL = {
    "tangents": lambda f, x, other: torch.func.jvp(f, (x,), (other,))[1],
    "rows": lambda f, x, other: torch.func.vmap(f)(torch.stack([x, other])),
    "last rows": lambda f, x, other: torch.func.vmap(f, 1, 1)(torch.stack([x, other], 1)),
    "gradients of rows": lambda f, x, other: torch.func.vmap(
        torch.func.grad(lambda x: f(x).square().sum())
    )(torch.stack([x, other])),
}


@sweeps.some(
    "name, backend",
    [(name, backend) for name in LAYERS for backend in ("matmul", "nki-sim")],
    [*((name, "nki-sim") for name in LAYERS), *((name, "matmul") for name in EACH_OPERATOR)],
)
@pytest.mark.parametrize("transform", FUNCTIONAL)
def test_functional_transforms(name, backend, transform):
    layer, x = layer_and_input(name)
    layer.requires_grad_(False)
    other, run = torch.randn(x.shape), FUNCTIONAL[transform]
    with trnfft.backend(backend):
        found = run(layer, x, other)
    expected = in_double(run, double(layer), x, other)
    near(found, expected, tolerance(x))


SPECTRAL = [name for name, (_, operator, _) in LAYERS.items() if operator == "spectral"]


@sweeps.some("name", SPECTRAL, ["spectral, three axes", "neural operator"])
def test_weights_under_vmap(name):
    """Of one part, while the other one gets a gradient."""
    layer, x = layer_and_input(name)
    weight = layer.weight_real.detach().clone()

    def of_weight(values):
        return torch.func.functional_call(layer, {"weight_real": values}, (x,))

    with trnfft.backend("nki-sim"):
        found = torch.func.vmap(of_weight)(torch.stack([weight, 2 * weight]))
    for index in range(2):
        layer.weight_real.data = (index + 1) * weight
        near(found[index], exact(layer, x), tolerance(x))


@pytest.mark.weekly
@sweeps.some(
    "name, backend",
    [(name, backend) for name in LAYERS for backend in ("torch", "matmul", "nki-sim")],
    [
        *[("spectral, one axis", "nki-sim"), ("neural operator", "torch")],
        *[("magnitudes", "torch"), ("frames apart", "nki-sim"), ("tokens", "matmul")],
    ],
)
def test_compiled(name, backend):
    """A graph contains the operator, with derivatives and without. Code of inductor runs it too."""
    layer, x = layer_and_input(name)
    expected = layer_gradients(layer, x, lambda *given: in_double(gradients, *given))
    graphs = []

    def with_graphs(module, inputs):
        graphs.append(module.graph)
        return lookup_backend("aot_eager")(module, inputs)

    torch.compiler.reset()
    with trnfft.backend(backend):
        compiled = torch.compile(layer, fullgraph=True, backend=with_graphs)
        y = compiled(x.requires_grad_())
        y.mul(weights_of(y)).sum().backward()
        targets = [str(node.target) for node in graphs[0].nodes]
        assert sum(f"trnfft.{LAYERS[name][1]}" in target for target in targets) == 1
        all_near([y, x.grad, *(p.grad for p in layer.parameters())], expected, tolerance(x))
        with torch.no_grad():
            near(compiled(x), expected[0], tolerance(x))
            if name == "spectral, one axis":
                y = torch.compile(layer, fullgraph=True)(x)
                near(y, expected[0], tolerance(x))


@sweeps.some("name", LAYERS, ["spectral, one axis", "bands"])
def test_compiled_vmap_and_dynamic_shapes(name):
    layer, x = layer_and_input(name)
    layer.requires_grad_(False)
    expected = exact(layer, x)
    torch.compiler.reset()
    with trnfft.backend("nki-sim"):
        many = torch.func.vmap(layer)
        many = torch.compile(many, fullgraph=True, dynamic=True, backend="aot_eager")
        near(many(torch.stack([2 * x, x]))[1], expected, tolerance(x))
