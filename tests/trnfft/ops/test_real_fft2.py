"""The operator of real parts of planes: one launch or a transform, with all derivatives."""

from __future__ import annotations

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from tests.operands import of_tensors
from tests.tolerances import near, sums, together, transforms
from trnfft.nn import FNetMixer
from trnfft.ops import real_fft2 as ops_real_fft2
from trnfft.planner import planner
from trnfft.planner.accuracy import MAX_ERRORS
from trnfft.planner.kinds import RealPlanes
from trnfft.planner.separate import SEPARATE

from .derivatives import BACKENDS

by_transform = of_tensors(ops_real_fft2.by_transform)
real_fft2 = of_tensors(ops_real_fft2.real_fft2)

SHAPE = (2, 66, 68)


@pytest.fixture
def x(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)
    return torch.randn(SHAPE)


def exact(x):
    return torch.fft.fft2(x.double()).real


def check(y, expected, count=1):
    near(y, expected, transforms(SHAPE[1:], count))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [SHAPE, SHAPE[1:], (2, 1, *SHAPE[1:])])
def test_values_and_gradients(x, backend, shape):
    x = x.expand(2, *SHAPE)[0] if shape == SHAPE else torch.randn(shape)
    x.requires_grad_()
    weights = torch.randn(shape)
    with trnfft.backend(backend):
        y = FNetMixer()(x)
        (gradient,) = torch.autograd.grad((y * weights).sum(), x)
    check(y, exact(x.detach()))
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
    computed = dtype if dtype == torch.float64 else torch.float32
    near(y, exact(x), together(transforms(SHAPE[1:], dtype=computed), sums(1, dtype)))
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
        for one in (x.mT, x.flip(0)):
            check(FNetMixer()(one), exact(one))
        equal_rows = x.permute(2, 0, 1)[:2, :1].expand(2, 68, 66)  # of which sums grow steadily
        allowed = together(transforms(SHAPE[1:]), sums(68))
        near(FNetMixer()(equal_rows), exact(equal_rows), allowed)


def test_second_derivatives(x):
    def second(function, x):
        x = x.requires_grad_()
        (first,) = torch.autograd.grad(function(x).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    with trnfft.backend("nki-sim"):
        found = second(real_fft2, x.clone())
    check(found, second(by_transform, x.double()), 8)


@pytest.mark.parametrize("precision", ["kahan", "double", "bf16"])
def test_other_precisions_are_transforms(precision):
    x = torch.randn(2, 64, 128)
    with trnfft.backend("nki-sim"), trnfft.precision(precision), nki_sim.record() as timeline:
        y = FNetMixer()(x)
    of_an_axis = MAX_ERRORS[precision]
    near(y, exact(x), together(of_an_axis, of_an_axis, sums(1) if precision == "double" else 0))
    assert "real_planes" not in timeline.kernels


def test_small_planes_are_transforms():
    plan = planner.plan_for(RealPlanes(20, 30), batch=4, target="trn1")
    assert plan.algorithm == SEPARATE and plan.launches == 1
    assert plan.candidates[1].rejected == "takes 66 rows or more"
    x = torch.randn(2, 6, 10)
    with trnfft.backend("nki-sim"):
        check(FNetMixer()(x), exact(x))


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_one_launch_takes_less_time(chip):
    plan = planner.plan_for(RealPlanes(512, 768), target=chip)
    separate = next(one for one in plan.candidates if one.recipe.algorithm == SEPARATE)
    assert plan.algorithm == "real_planes"
    assert plan.predicted_ns < 0.9 * separate.predicted_ns


def test_arguments_of_the_plan():
    with pytest.raises(ValueError, match="argument 'batch'"):
        planner.plan_for(RealPlanes(8, 8), batch=0)
    with pytest.raises(TypeError, match="argument 'kind' is .*, allowed are records of"):
        planner.plan_for((8, 8))
