"""The operators of spectral convolutions: one launch or transforms, with all derivatives."""

from __future__ import annotations

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from trnfft.complex.dispatch import Parts
from trnfft.nn import SpectralConv, SpectralConv1d, SpectralConv2d, SpectralConv3d
from trnfft.ops.spectral_convolution import by_transforms, spectral_convolution
from trnfft.planner import planner
from trnfft.planner.separate import SEPARATE

# Layers that one launch computes, of which the last has negative frequencies first.
LAYERS = {
    "one axis": (lambda: SpectralConv1d(8, 6, 9), (5, 8, 64)),
    "two axes": (lambda: SpectralConv2d(4, 8, 3, 4), (3, 4, 16, 20)),
    "three axes": (lambda: SpectralConv3d(2, 3, 2, 2, 3), (3, 2, 8, 6, 8)),
    "neural operator": (lambda: SpectralConv(4, 5, (7, 6)), (3, 4, 12, 12)),
}


@pytest.fixture(params=LAYERS)
def layer_and_input(request, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)
    make, shape = LAYERS[request.param]
    return make(), torch.randn(shape)


def weights_of(y):
    """Weights of a sum of a result, of which no frequency is much larger than others."""
    return torch.cos(torch.arange(y.numel()).double().square()).to(y.dtype).reshape(y.shape)


def derivatives(layer, x):
    """The result, and the gradients of the input and of the parameters."""
    x = x.clone().requires_grad_()
    y = layer(x)
    weights = weights_of(y)
    found = torch.autograd.grad((y * weights).sum(), [x, *layer.parameters()])
    return [y.detach(), *found]


def exact(layer, x):
    """The same in float64, by torch.fft."""
    copy = type(layer).__new__(type(layer))
    copy.__dict__.update(layer.__dict__)
    parameters = {name: p.detach().double() for name, p in layer.named_parameters()}
    leaf = [x.double().requires_grad_(), *(p.requires_grad_() for p in parameters.values())]
    with trnfft.backend("torch"):
        y = torch.func.functional_call(layer, parameters, (leaf[0],))
    weights = weights_of(y)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), leaf)]


def check(found, expected, tolerance=1e-6):
    for one, other in zip(found, expected, strict=True):
        assert (one.double() - other).norm() <= tolerance * other.norm()


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
def test_values_and_gradients(layer_and_input, backend):
    layer, x = layer_and_input
    with trnfft.backend(backend):
        check(derivatives(layer, x), exact(layer, x))


def test_launches(layer_and_input):
    layer, x = layer_and_input
    with trnfft.backend("nki-sim"):
        with torch.no_grad(), nki_sim.record() as timeline:
            layer(x)
        assert timeline.launches == 1
        with nki_sim.record() as timeline:
            derivatives(layer, x)
        assert timeline.launches <= 3  # where the gradients are no kernel, transforms


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
def test_compiled(layer_and_input, backend):
    layer, x = layer_and_input
    torch.compiler.reset()
    with trnfft.backend(backend):
        compiled = torch.compile(layer, fullgraph=True)
        graph = []
        torch.compile(
            layer, backend=lambda module, _: graph.append(module) or module.forward, fullgraph=True
        )(x)
        names = [str(node.target) for node in graph[0].graph.nodes]
        assert sum("trnfft.spectral_convolution" in name for name in names) == 1
        x = x.clone().requires_grad_()
        y = compiled(x)
        y.mul(weights_of(y)).sum().backward()
        found = [y.detach(), x.grad, *(p.grad for p in layer.parameters())]
        check(found, exact(layer, x.detach()))
        with torch.no_grad():
            check([compiled(x)], [y.detach().double()], 1e-5)


@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_functional_transforms(layer_and_input, backend):
    layer, x = layer_and_input
    with trnfft.backend(backend):
        one, other = layer(x), layer(2 * x)
        both = torch.func.vmap(layer)(torch.stack([x, 2 * x]))
        torch.testing.assert_close(both, torch.stack([one, other]), rtol=1e-4, atol=1e-5)
        weight = dict(layer.named_parameters())["weight_real"].detach()

        def of_weight(values):
            found = torch.func.functional_call(layer, {"weight_real": values}, (x,))
            return found.square().mean()

        many = torch.func.vmap(of_weight)(torch.stack([weight, -weight]))
        torch.testing.assert_close(many[0], of_weight(weight), rtol=1e-4, atol=1e-6)


def test_second_derivatives(layer_and_input):
    layer, x = layer_and_input
    weight, other = (p.detach() for p in list(layer.parameters())[:2])
    is_centered = isinstance(layer, SpectralConv)

    def loss(function, x, weight):
        return function(x, Parts(weight, other.to(weight.dtype)), is_centered).pow(3).sum()

    def second(function, dtype):
        values = [t.to(dtype).clone().requires_grad_() for t in (x, weight)]
        first = torch.autograd.grad(loss(function, *values), values, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), values)

    with trnfft.backend("nki-sim"):
        found = second(spectral_convolution, torch.float32)
    with trnfft.backend("torch"):
        expected = second(lambda *a: by_transforms(*a)[0], torch.float64)
    check(found, expected, 1e-5)


def test_what_no_kernel_takes_are_transforms(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn1")
    plan = planner.plan_spectral_convolution((64, 64), (1024,), (513,), batch=4, target="trn1")
    assert plan.algorithm == SEPARATE and plan.launches == 2
    assert plan.candidates[1].rejected.startswith("takes ")
    for lengths, reason in (
        ((4, 4, 4, 4), "takes one to three axes, not 4"),
        ((4, 130, 4), "takes up to 128 points along three axes"),
    ):
        counts = (2,) * len(lengths)
        plan = planner.plan_spectral_convolution((2, 2), lengths, counts, target="trn1")
        assert plan.algorithm == SEPARATE
        assert plan.candidates[1].rejected == reason
    layer, x = SpectralConv3d(2, 2, 1, 1, 2), torch.randn(1, 2, 4, 130, 4)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        check(derivatives(layer, x), exact(layer, x))
    assert timeline.launches == 4


@pytest.mark.parametrize("precision", ["kahan", "double"])
def test_other_precisions_are_transforms(precision):
    layer, x = SpectralConv1d(2, 3, 5), torch.randn(2, 2, 32)
    with trnfft.backend("nki-sim"), trnfft.precision(precision), torch.no_grad():
        y = layer(x)
    with trnfft.backend("torch"), torch.no_grad():
        expected = layer.double()(x.double())
    check([y], [expected], 1e-6)
    with pytest.raises(NotImplementedError, match=f"precision '{precision}'"):
        planner.plan_spectral_convolution((2, 3), (32,), (5,), precision=precision)


@pytest.mark.parametrize(
    "precision, least, most", [("bf16", 1e-4, 1e-2), ("bf16_refined", 0, 2e-5)]
)
def test_bfloat16_modes(layer_and_input, precision, least, most):
    """One launch for the layer, of which every result has an error that the mode allows."""
    layer, x = layer_and_input
    with trnfft.backend("nki-sim"), trnfft.precision(precision):
        with torch.no_grad(), nki_sim.record() as timeline:
            layer(x)
        found = derivatives(layer, x)
    assert timeline.launches == 1
    expected = exact(layer, x)
    check(found, expected, most)
    if x.ndim < 5:  # along three axes, the kernel of "fast" is used
        assert (found[0].double() - expected[0]).norm() >= least * expected[0].norm()


def test_arguments_of_the_plan():
    plan = planner.plan_spectral_convolution
    for arguments, name in (
        (((2,), (8,), (3,)), "channels"),
        (((2, 0), (8,), (3,)), "channels"),
        (((2, 2), (8,), (6,)), "modes"),
        (((2, 2), (8, 8), (3,)), "modes"),
        (((2, 2), (), (3,)), "lengths"),
    ):
        with pytest.raises(ValueError, match=f"argument '{name}'"):
            plan(*arguments)
    with pytest.raises(TypeError, match="argument 'keeps'"):
        plan((2, 2), (8,), (3,), keeps=2)
