"""The operator of real parts of planes: one launch or a transform, with all derivatives."""

from __future__ import annotations

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from trnfft.nn import FNetMixer
from trnfft.ops.real_fft2 import by_transform, real_fft2
from trnfft.planner import planner
from trnfft.planner.separate import SEPARATE

SHAPE = (2, 66, 68)


@pytest.fixture
def x(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)
    return torch.randn(SHAPE)


def exact(x):
    return torch.fft.fft2(x.double()).real


def check(y, expected, tolerance=1e-6):
    assert y.shape == expected.shape
    assert (y.double() - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
@pytest.mark.parametrize("shape", [SHAPE, SHAPE[1:], (2, 1, *SHAPE[1:])])
def test_values_and_gradients(x, backend, shape):
    x = x.expand(2, *SHAPE)[0] if shape == SHAPE else torch.randn(shape)
    x.requires_grad_()
    weights = torch.randn(shape)
    with trnfft.backend(backend):
        y = FNetMixer()(x)
        (gradient,) = torch.autograd.grad((y * weights).sum(), x)
    check(y.detach(), exact(x.detach()))
    check(gradient, exact(weights))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(x, dtype):
    x = (x / 100).to(dtype)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        if dtype == torch.float64:
            with trnfft.precision("double"):
                y = FNetMixer()(x)
        else:
            y = FNetMixer()(x)
    assert y.dtype == dtype and y.is_contiguous()
    check(y, exact(x), 1e-12 if dtype == torch.float64 else 1e-2)
    assert timeline.launches == (dtype != torch.float64)


def test_launches(x):
    x.requires_grad_()
    with trnfft.backend("nki-sim"):
        with nki_sim.record() as timeline:
            y = FNetMixer()(x)
        assert timeline.launches == 1 and timeline.kernels == ["real_planes"]
        with nki_sim.record() as timeline:
            torch.autograd.grad(y.square().sum(), x)
        assert timeline.launches == 1


def test_strides_of_the_input(x):
    with trnfft.backend("nki-sim"):
        for one in (x.mT, x[:, :, ::1].permute(2, 0, 1)[:, :1].expand(68, 68, 66), x.flip(0)):
            check(FNetMixer()(one), exact(one))


def test_a_result_is_its_own(x):
    """Writing into a result changes neither the input nor gradients."""
    x.requires_grad_()
    with trnfft.backend("nki-sim"):
        y = FNetMixer()(x)
        y.mul_(2)
        (gradient,) = torch.autograd.grad(y.sum(), x)
    check(gradient, exact(torch.full(SHAPE, 2.0)))


@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_compiled(x, backend):
    torch.compiler.reset()
    graphs = []
    with trnfft.backend(backend):
        torch.compile(
            FNetMixer(),
            backend=lambda module, _: graphs.append(module) or module.forward,
            fullgraph=True,
        )(x)
        names = [str(node.target) for node in graphs[0].graph.nodes]
        assert sum("trnfft.real_fft2" in name for name in names) == 1
        x.requires_grad_()
        y = torch.compile(FNetMixer(), fullgraph=True)(x)
        y.sin().sum().backward()
    check(y.detach(), exact(x.detach()))
    check(x.grad, exact(y.detach().cos()))


def test_checks_of_the_operator(x):
    operator = torch.ops.trnfft.real_fft2.default
    with trnfft.backend("nki-sim"):
        torch.library.opcheck(operator, (x.requires_grad_(), ""))


def test_functional_transforms(x):
    other = torch.randn(SHAPE)
    with trnfft.backend("nki-sim"):
        layer = FNetMixer()
        many = torch.func.vmap(layer, 1, 1)(torch.stack([x, other], 1))
        check(many, exact(torch.stack([x, other], 1)))
        each = torch.func.vmap(torch.func.grad(lambda x: layer(x).square().sum() / 2))(x)
        check(each, exact(exact(x)), 2e-6)
        y, tangent = torch.func.jvp(layer, (x,), (other,))
    check(y, exact(x))
    check(tangent, exact(other))


def test_second_derivatives(x):
    def second(function, x):
        x = x.requires_grad_()
        (first,) = torch.autograd.grad(function(x).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    with trnfft.backend("nki-sim"):
        found = second(real_fft2, x.clone())
    check(found, second(by_transform, x.double()), 1e-5)


def test_second_derivatives_by_a_transform():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(by_transform, x)
    assert torch.autograd.gradgradcheck(lambda x: by_transform(x).square(), x)


@pytest.mark.parametrize("precision", ["kahan", "double", "bf16"])
def test_other_precisions_are_transforms(precision):
    x = torch.randn(2, 64, 128)
    with trnfft.backend("nki-sim"), trnfft.precision(precision), nki_sim.record() as timeline:
        y = FNetMixer()(x)
    check(y, exact(x), 2e-2 if precision == "bf16" else 1e-6)
    assert "real_planes" not in timeline.kernels


def test_small_planes_are_transforms():
    plan = planner.plan_real_planes((20, 30), batch=4, target="trn1")
    assert plan.algorithm == SEPARATE and plan.launches == 1
    assert plan.candidates[1].rejected == "takes 66 rows or more"
    x = torch.randn(2, 6, 10)
    with trnfft.backend("nki-sim"):
        check(FNetMixer()(x), exact(x))


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_one_launch_takes_less_time(chip):
    plan = planner.plan_real_planes((512, 768), target=chip)
    separate = next(one for one in plan.candidates if one.recipe.algorithm == SEPARATE)
    assert plan.algorithm == "real_planes"
    assert plan.predicted_ns < 0.9 * separate.predicted_ns


def test_arguments_of_the_plan():
    plan = planner.plan_real_planes
    for shape in ((8,), (8, 8, 8), (8, 0)):
        with pytest.raises(ValueError, match="argument 'shape'"):
            plan(shape)
    with pytest.raises(TypeError, match="argument 'shape'"):
        plan(8)
    with pytest.raises(ValueError, match="argument 'batch'"):
        plan((8, 8), batch=0)
