"""Steps before and after a transform: the numbers of the same operations of torch, in one launch.

The tests protect right values and derivatives for steps in any order, one launch where a kernel
computes them, and errors that name the argument and the step.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_sim
import trnfft
from nki_sim import hardware
from tests.refusals import called, refused
from tests.tolerances import near, operands, sums, together, transforms
from trnfft.steps import Bands, Log, Magnitude, Multiply, Pad, Power, Trim

from .samples import BACKENDS, derivative

# A square doubles the error of a transform, as four transforms do. Then bands may follow.
TOLERANCE = together(transforms(96, 4), sums(49), sums(4))


@pytest.fixture(autouse=True)
def _chip(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    torch.manual_seed(0)


WINDOW, BANK = torch.hann_window(96), torch.rand(49, 12)
# steps, and the same in torch; the steps in one launch
CASES = {
    "a window": ((Multiply(WINDOW),), (), lambda x, w, b: torch.fft.rfft(x * w), 1),
    "powers": ((), (Power(),), lambda x, w, b: torch.fft.rfft(x).abs().square(), 1),
    "factors": (
        (Multiply(WINDOW), Multiply(-0.5)),
        (Magnitude(), Multiply(2.0)),
        lambda x, w, b: 2 * torch.fft.rfft(-0.5 * w * x).abs(),
        3,
    ),
    "log bands": (
        (Multiply(WINDOW), Multiply(WINDOW)),
        (Power(), Bands(BANK), Log(1e-6), Trim(2, 7)),
        lambda x, w, b: (
            (torch.fft.rfft(x * w * w).abs().square() @ b).clamp(min=1e-6).log()[..., 2:9]
        ),
        4,
    ),
    "a filter": (
        (Multiply(WINDOW),),
        (Multiply(torch.linspace(1, 0, 49)), Power()),
        lambda x, w, b: (torch.fft.rfft(x * w) * torch.linspace(1, 0, 49).to(x)).abs().square(),
        1,
    ),
    "a part of the row": (
        (Trim(0, 90), Pad(6), Multiply(WINDOW)),
        (Power(), Pad(0, 3)),
        lambda x, w, b: torch.nn.functional.pad(
            torch.fft.rfft(torch.nn.functional.pad(x[..., :90], (6, 0)) * w).abs().square(), (0, 3)
        ),
        2,
    ),
}


def in_float64(expected, x):
    """Returns what torch's operations of a case compute from x."""
    return expected(x.double(), WINDOW.double(), BANK.double())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_real_rows(name, backend):
    before, after, expected, count = CASES[name]
    x = torch.randn(5, 3, 96)
    with trnfft.backend(backend):
        plan = trnfft.plan_fft(x, "r2c", before=before, after=after)
    assert len(plan.in_launch) == (count if backend == "nki-sim" else 0)
    assert plan.before == before and plan.after == after
    with nki_sim.record() as timeline:
        y = plan(x)
    assert timeline.launches == (backend == "nki-sim")
    exact = in_float64(expected, x)
    assert y.is_complex() == exact.is_complex()
    near(y, exact, TOLERANCE)
    weights = torch.randn(exact.shape, dtype=exact.dtype)
    gradient = derivative(lambda x: in_float64(expected, x), x, weights)
    near(derivative(plan, x, weights), gradient, together(TOLERANCE, transforms(96)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_complex_rows_and_other_dimensions(backend):
    x = torch.randn(4, 20, 3, dtype=torch.complex64)
    chirp = torch.exp(1j * torch.arange(20) ** 2)
    with trnfft.backend(backend):
        plan = trnfft.plan_fft(
            x, dim=1, n=24, before=Multiply(chirp), after=[Trim(4, 8), Magnitude()]
        )
        y, z = plan(x), plan(trnfft.ComplexTensor(x.real, x.imag))
    expected = torch.fft.fft(x * chirp[:, None], 24, 1)[:, 4:12].abs()
    near(y, expected, TOLERANCE)
    near(z, expected, TOLERANCE)
    rows = torch.randn(4, 96, 3)
    with trnfft.backend(backend):
        plan = trnfft.plan_fft(rows, "r2c", dim=1, before=Multiply(WINDOW), after=Power())
        found = plan(rows)
    near(found, torch.fft.rfft(rows * WINDOW[:, None], dim=1).abs().square(), TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_in_space(backend):
    x = torch.randn(4, 33, dtype=torch.complex64)
    with trnfft.backend(backend):
        plan = trnfft.plan_fft(
            x, "c2r", n=64, before=Multiply(torch.linspace(1, 0, 33)), after=Trim(10, 20)
        )
        y = plan(x)
    expected = torch.fft.irfft(x * torch.linspace(1, 0, 33), 64)[:, 10:30]
    near(y, expected, together(transforms(64), sums(1)))


@settings(deadline=None, max_examples=10)
@given(st.data())
def test_any_steps(data):
    """Real steps in any order give the numbers of torch's operations on the simulator, too."""
    n = data.draw(st.sampled_from([16, 60, 96]))
    vector = torch.linspace(-1, 2, n)
    before = data.draw(
        st.lists(st.sampled_from([Multiply(vector), Multiply(3), Multiply(-0.25)]), max_size=3)
    )
    half = torch.linspace(1, 2, n // 2 + 1)
    after = data.draw(
        st.lists(st.sampled_from([Multiply(half), Multiply(0.5), Power(), Magnitude()]), max_size=3)
    )
    x = torch.randn(3, n)
    with trnfft.backend("torch"):
        expected = trnfft.plan_fft(x.double(), "r2c", before=before, after=after)(x.double())
    with trnfft.backend("nki-sim"):
        found = trnfft.plan_fft(x, "r2c", before=before, after=after)(x)
    squares = sum(isinstance(step, Power) for step in after)
    near(found, expected, 2**squares * together(transforms(n), sums(len(before) + len(after))))


def test_vectors_have_derivatives():
    x, window, bank = torch.randn(3, 96), WINDOW.clone(), BANK.clone()

    def gradients(dtype):
        values = [t.to(dtype).requires_grad_() for t in (window.detach(), bank.detach())]
        spec = torch.empty(3, 96, dtype=dtype)
        after = Power(), Bands(values[1]), Log()
        plan = trnfft.plan_fft(spec, "r2c", before=Multiply(values[0]), after=after)
        return torch.autograd.grad(plan(x.to(dtype)).sum(), values)

    with trnfft.backend("torch"):
        expected = gradients(torch.float64)
    with trnfft.backend("nki-sim"):
        for one, other in zip(gradients(torch.float32), expected, strict=True):
            near(one, other, TOLERANCE)


def test_compiled():
    torch.compiler.reset()
    x = torch.randn(3, 96)
    before, after, expected, _ = CASES["log bands"]
    with trnfft.backend("nki-sim"):
        plan = trnfft.plan_fft(x, "r2c", before=before, after=after)
        y = torch.compile(lambda x: plan(x), fullgraph=True, backend="aot_eager")(x)
    near(y, in_float64(expected, x), TOLERANCE)


@pytest.mark.parametrize("name", ["a filter", "log bands"])
def test_other_precisions_and_dtypes(name):
    before, after, expected, _ = CASES[name]
    for dtype, precision, tolerance in (
        (torch.float64, "double", TOLERANCE * sums(1, "float64") / sums(1)),
        (torch.float32, "bf16", 2 * operands(2)),
    ):
        x = torch.randn(3, 96, dtype=dtype)
        with trnfft.backend("nki-sim"), trnfft.precision(precision):
            plan = trnfft.plan_fft(x, "r2c", before=before, after=after)
            assert plan.in_launch == ()
            near(plan(x), in_float64(expected, x), tolerance)


def test_what_a_plan_says():
    before, after, _, _ = CASES["log bands"]
    with trnfft.backend("nki-sim"):
        plan = trnfft.plan_fft(torch.empty(3, 96), "r2c", before=before, after=after)
    text = repr(plan)
    assert (
        "before Multiply(96 numbers), Multiply(96 numbers), after Power(), Bands(49 x 12)" in text
    )
    assert "in one launch with Multiply(96 numbers), Multiply(96 numbers), Power(), Band" in text


test_steps_that_do_not_fit = refused(
    lambda arguments: trnfft.plan_fft(torch.empty(3, 96), "r2c", **arguments),
    [
        ({"before": [Power()]}, TypeError, r"argument 'before' has Power\(\), allowed are these"),
        ({"after": 3}, TypeError, "argument 'after' has 3, allowed are these steps"),
        ({"after": "log"}, TypeError, "argument 'after' has 'l', allowed are these steps"),
        ({"after": Log()}, ValueError, r"argument 'after': Log\(floor=1e-10\) takes real numbers"),
        ({"after": Bands(BANK)}, ValueError, "takes real numbers: write Power"),
        (
            {"before": Trim(90, 7)},
            ValueError,
            r"argument 'before': Trim\(start=90, length=7\) ends",
        ),
        ({"before": Multiply(torch.ones(5))}, ValueError, "has another length than the row"),
        ({"before": Multiply(1j)}, ValueError, "argument 'before' makes complex numbers"),
        ({"after": [Power(), Bands(torch.ones(3, 2))]}, ValueError, "takes another length"),
    ],
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["r2c", "c2c"])
def test_factors_take_the_precision_of_the_data(backend, kind):
    x, factor = torch.randn(3, 32), torch.randn(32, dtype=torch.float64)
    if kind == "c2c":
        factor = torch.complex(factor, factor.flip(0))
    with trnfft.backend(backend):
        y = trnfft.plan_fft(x, kind, before=Multiply(factor), after=Power())(x)
    assert y.dtype == torch.float32
    transform = torch.fft.rfft if kind == "r2c" else torch.fft.fft
    near(y, transform(x * factor).abs().square(), TOLERANCE)


test_steps_that_are_none = refused(
    called,
    [
        (lambda: Multiply("w"), TypeError, "argument 'factor' is 'w'"),
        (lambda: Multiply(True), TypeError, "argument 'factor' is True"),
        (lambda: Multiply(float("nan")), ValueError, "allowed are finite numbers"),
        (lambda: Multiply(torch.ones(2, 2)), ValueError, r"argument 'factor' has shape \(2, 2\)"),
        (lambda: Pad(-1), ValueError, "argument 'before' is -1, allowed is 0 or more"),
        (lambda: Pad(0, 1.5), TypeError, "argument 'after'"),
        (lambda: Trim(0, 0), ValueError, "argument 'length' is 0, allowed is 1 or more"),
        (lambda: Log(0), ValueError, "argument 'floor' is 0, allowed are numbers above 0"),
        (lambda: Bands(torch.ones(4)), ValueError, r"argument 'bank' has shape \(4,\)"),
        (lambda: Bands(torch.ones(4, 2) * 1j), ValueError, "allowed are real dtypes"),
        (lambda: Bands([1]), TypeError, "argument 'bank' is of type list"),
    ],
)
