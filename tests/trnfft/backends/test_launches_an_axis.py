"""Transforms of several axes by one launch an axis: results, derivatives, launches and copies."""

from __future__ import annotations

import re

import pytest
import torch

import nki_sim
import trnfft
from nki_sim.hardware import TARGET_VARIABLE
from tests.tolerances import near, together, transforms
from trnfft.planner.kinds import C2C, C2R, R2C, Transform
from trnfft.planner.separate import SEPARATE
from trnfft.planner.workspace import workspace_bytes

from ..ops.derivatives import parts
from ..samples import random_complex, single

# Of no launch, as 131 is a prime above 128, or of a dearer one, with a radix of 127.
ALONE = ((131, 10), (3, 131, 5), (131, 2, 1, 4))
DEARER = ((3, 254, 4), (64, 254, 3), (64, 5, 127, 4))


@pytest.fixture(autouse=True)
def on_trn1(monkeypatch):
    monkeypatch.setenv(TARGET_VARIABLE, "trn1")


def complex_(*shape):
    return random_complex(*shape, dtype=torch.complex64)


def dims_of(shape):
    """The transformed dimensions: the last, but a batch of more than 32."""
    return tuple(range(1 if shape[0] in (256, 128, 64) else 0, len(shape)))


def exact(function, *inputs):
    """The result by torch.fft in float64."""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    with trnfft.backend("torch"):
        return function(*(x.to(wide[x.dtype]) for x in inputs))


def allowed(shape, count=1):
    """The tolerance; primes above 128 are transformed by Bluestein's algorithm."""
    return together(*(transforms(4 * n, 2 * count) for n in shape if n > 1))


def plan_of(shape, dims, **arguments):
    lengths = tuple(shape[dim] for dim in dims)
    batch = shape[0] if dims[0] else 1
    return trnfft.plan(shape=lengths, batch=batch, **arguments)


def simulated(function, *inputs):
    """The result on the backend "nki-sim", and how many kernels were launched for it."""
    with trnfft.backend("nki-sim"), nki_sim.strict(), nki_sim.record() as timeline:
        result = function(*inputs)
    return result, timeline


@pytest.mark.parametrize("shape", [*ALONE, *DEARER], ids=str)
@pytest.mark.parametrize("function", [trnfft.fftn, trnfft.ifftn], ids=["fftn", "ifftn"])
def test_complex_data(function, shape):
    dims, x = dims_of(shape), complex_(*shape)
    plan = plan_of(shape, dims)
    assert plan.algorithm == SEPARATE
    found, timeline = simulated(lambda x: function(x, dim=dims), x)
    near(found, exact(lambda x: function(x, dim=dims), x), allowed(shape))
    longer = [shape[dim] for dim in dims if shape[dim] > 1]
    assert timeline.launches == plan.launches == len(longer)
    assert (plan.operators, plan.bound) == (2 * len(longer), "dma")


@pytest.mark.parametrize("shape", [*ALONE, *DEARER], ids=str)
def test_real_data(shape):
    dims, x = dims_of(shape), single(*shape)
    plan = plan_of(shape, dims, real=True)
    assert plan.algorithm == SEPARATE
    found, timeline = simulated(lambda x: trnfft.rfftn(x, dim=dims), x)
    near(found, exact(lambda x: trnfft.rfftn(x, dim=dims), x), allowed(shape))
    assert timeline.launches == plan.launches


@pytest.mark.parametrize("shape", [*ALONE, *DEARER], ids=str)
def test_real_results(shape):
    dims, x = dims_of(shape), complex_(*shape[:-1], shape[-1] // 2 + 1)
    sizes = [shape[dim] for dim in dims]
    plan = plan_of(shape, dims, real=True, inverse=True)
    assert plan.algorithm == SEPARATE

    def function(x):
        return trnfft.irfftn(x, sizes, dim=dims)

    found, timeline = simulated(function, x)
    near(found, exact(function, x), allowed(shape))
    assert timeline.launches == plan.launches


@pytest.mark.parametrize("shape", [(131, 10), (1, 131, 1), (10, 131), (3, 131, 1)], ids=str)
def test_planes_with_axes_of_one_point_and_in_another_order(shape):
    dims = (len(shape) - 1, len(shape) - 2)
    x = complex_(*shape)
    found, _ = simulated(lambda x: trnfft.fftn(x, dim=dims), x)
    near(found, exact(lambda x: trnfft.fftn(x, dim=dims), x), allowed(shape))
    real = single(*shape)
    for given in (real, real.mT.contiguous().mT):
        found, _ = simulated(trnfft.rfft2, given)
        near(found, exact(trnfft.rfft2, real), allowed(shape))


@pytest.mark.parametrize("shape", [(131, 10), (64, 254, 6)], ids=str)
@pytest.mark.parametrize("name", ["rfft2", "irfft2", "fft2"])
def test_derivatives(name, shape):
    x = complex_(*shape) if name == "fft2" else single(*shape)

    def gradient(x):
        x = x.detach().clone().requires_grad_()
        y = getattr(trnfft, name)(x)
        energy = parts(y).pow(3).sum() if y.is_complex() else y.pow(3).sum()
        return torch.autograd.grad(energy, x)[0]

    found, timeline = simulated(gradient, x)
    near(found, exact(gradient, x), allowed(shape, 3))
    assert timeline.launches == 4


def test_an_array_of_several_batches_is_contiguous():
    x = complex_(3, 2, 131, 10)
    found, _ = simulated(trnfft.fft2, x)
    assert found.is_contiguous() and found.real.is_contiguous()
    near(found, exact(trnfft.fft2, x), allowed((131, 10)))


def test_eager_mode_takes_one_launch_where_several_would_cost_more():
    shape = dict(shape=(254, 16), batch=4, target="trn2")
    graph, eager = (trnfft.plan(**shape, execution=each) for each in ("graph", "eager"))
    assert (graph.algorithm, graph.launches, graph.operators) == (SEPARATE, 2, 4)
    assert (eager.algorithm, eager.launches, eager.operators) == ("four_step_axes", 1, 0)
    assert graph.predicted_ns < eager.predicted_ns
    assert eager.with_launches_ns < graph.with_launches_ns


@pytest.mark.parametrize("part", [C2C, R2C, C2R])
@pytest.mark.parametrize("shape, batch", [((421, 421), 1), ((226, 6), 64), ((3, 254, 4), 2)])
def test_prices_are_those_of_the_launches_and_of_what_torch_moves(part, shape, batch):
    """Each copy reads and writes both parts of a spectrum, and waits for a load and a store."""
    real = part != C2C
    plan = trnfft.plan(shape=shape, batch=batch, real=real, inverse=part == C2R, target="trn1")
    half = shape[-1] // 2 + 1 if real else shape[-1]
    numbers = batch * half * torch.Size(shape[:-1]).numel()
    last = trnfft.plan(
        shape[-1],
        batch=batch * torch.Size(shape[:-1]).numel(),
        real=real,
        inverse=part == C2R,
        target="trn1",
    )
    others = [trnfft.plan(n, batch=numbers // n, target="trn1") for n in shape[:-1]]
    rows = [last, *others]
    mirrors = 1 if part == R2C else 0
    assert plan.algorithm == SEPARATE and plan.launches == len(shape)
    copies = 2 * len(shape)
    assert plan.operators == copies + mirrors + last.operators
    chip = nki_sim.hardware.TRN1
    waits = 2 * (copies + mirrors) * (chip.dma_start_ns + chip.dma_finish_ns)
    moved = chip.dma_floor_ns(2 * copies * numbers, 4)
    expected = sum(each.predicted_ns for each in rows) + waits + moved
    assert plan.predicted_ns == pytest.approx(expected, rel=1e-3)
    errors = [each.predicted_error for each in rows]
    assert plan.predicted_error == pytest.approx(sum(e * e for e in errors) ** 0.5, rel=0.01)


def test_the_kind_names_its_launches():
    whole = Transform((6, 1, 10), part=R2C).separate(7)
    rows, columns = whole.transforms
    assert (rows.transform, rows.batch) == (Transform((10,), part=R2C), 42)
    assert (columns.transform, columns.batch) == (Transform((6,)), 42)
    back = Transform((6, 10), part=C2R).separate(7)
    assert [each.transform.part for each in back.transforms] == [C2C, C2R]
    assert back.transforms[1].inverse and back.numbers == 8 * 7 * 36
    assert Transform((64,)).separate(3) is Transform((1, 1)).separate(3) is None


def test_a_budget_of_error_holds_for_all_launches_together():
    plan = trnfft.plan(shape=(131, 10), max_error=3e-7, target="trn1")
    assert plan.algorithm == SEPARATE and plan.predicted_error <= 3e-7
    kahan = trnfft.plan(shape=(64, 64), precision="kahan", target="trn1")
    assert kahan.algorithm == SEPARATE and kahan.predicted_error <= 5e-8
    with pytest.raises(NotImplementedError, match="exceeds 5e-08.*exceeds 5e-08"):
        trnfft.plan(shape=(4,) * 5, precision="kahan", target="trn1")
    x = complex_(*(4,) * 5)
    with pytest.raises(NotImplementedError, match="exceeds 5e-08"), trnfft.precision("kahan"):
        simulated(trnfft.fftn, x)


@pytest.mark.parametrize(
    "shape, batch, target, text",
    [
        ((256, 256), 16, "trn2", "takes 2.* times as long or more"),  # by floors
        ((254, 8, 4), 1, "trn1", "takes about 1.* times as long"),  # by estimates
    ],
)
def test_a_dearer_candidate_is_not_planned(shape, batch, target, text):
    plan = trnfft.plan(shape=shape, batch=batch, target=target, max_error=9e-7)
    (way,) = [each for each in plan.candidates if each.recipe.algorithm == SEPARATE]
    assert way.predicted_ns is None and way.launches == 0 and plan.launches == 1
    assert re.fullmatch(text, way.rejected)


def test_the_launch_that_needs_most_memory_counts():
    rows = trnfft.plan(131, batch=10, target="trn1"), trnfft.plan(10, batch=131, target="trn1")
    most = max(workspace_bytes(each) for each in rows)
    assert trnfft.fft_workspace_bytes((131, 10), target="trn1") == most > 0
