"""`trnfft.plan_fft` computes the same as the transforms, for one kind of input and its settings."""

import copy
import pickle

import pytest
import torch

import trnfft
from tests import sweeps
from tests.refusals import refused
from tests.tolerances import near, transforms
from trnfft.planner import planner

from .samples import BACKENDS, single

FUNCTIONS = {
    ("c2c", False): trnfft.fft,
    ("c2c", True): trnfft.ifft,
    ("r2c", False): trnfft.rfft,
    ("r2c", True): trnfft.ihfft,
    ("c2r", False): trnfft.hfft,
    ("c2r", True): trnfft.irfft,
}


def sample(kind, shape):
    """Returns numbers that a kind of transform takes."""
    real, imag = single(*shape, seed=len(shape)), single(*shape, seed=9)
    return real if kind == "r2c" else trnfft.ComplexTensor(real, imag)


def same(one, other):
    """Returns whether two results are equal in kind, dtype and values."""
    if isinstance(one, trnfft.ComplexTensor):
        return (
            type(other) is type(one) and same(one.real, other.real) and same(one.imag, other.imag)
        )
    return one.dtype == other.dtype and torch.equal(one, other)


@sweeps.pairs(
    backend=BACKENDS,
    function=FUNCTIONS,
    call=[
        ((3, 20), {}),
        ((3, 20), {"n": 12, "norm": "ortho"}),
        ((4, 11, 2), {"dim": 1, "n": 16, "norm": "forward"}),
        ((37,), {}),
        ((2, 2), {"n": 1}),
    ],
)
def test_results_are_those_of_the_function(backend, function, call):
    (kind, inverse), (shape, arguments) = function, call
    x = sample(kind, shape)
    with trnfft.backend(backend):
        plan = trnfft.plan_fft(x, kind, inverse=inverse, **arguments)
        expected = FUNCTIONS[kind, inverse](x, **arguments)
    assert same(plan(x), expected)  # with the backend that it was made with
    assert (plan.backend, plan.precision) == (backend, "fast")


@pytest.mark.parametrize("backend", ["torch", "matmul"])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.complex64]
)
def test_dtypes(backend, dtype):
    x = torch.arange(16).reshape(2, 8).to(dtype)
    with trnfft.backend(backend):
        assert same(trnfft.plan_fft(x)(x), trnfft.fft(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_forms_of_complex_numbers(backend):
    x = sample("c2c", (2, 8))
    with trnfft.backend(backend):
        for plan in (trnfft.plan_fft(x), trnfft.plan_fft(trnfft.as_native(x))):
            assert same(plan(x), trnfft.fft(x))
            assert same(plan(trnfft.as_native(x)), trnfft.fft(x))


def test_halves_of_complex_numbers_are_no_complex64():
    half = sample("c2c", (2, 8)).to(torch.bfloat16)
    plan = trnfft.plan_fft(half)
    assert same(plan(half), trnfft.fft(half))
    with pytest.raises(RuntimeError, match="argument 'x' has shape"):
        plan(trnfft.as_native(sample("c2c", (2, 8))))
    with pytest.raises(RuntimeError, match="argument 'x' has shape"):
        trnfft.plan_fft(sample("c2c", (2, 8)))(half)


def test_a_spec_on_meta_is_for_the_default_device():
    plan = trnfft.plan_fft(torch.empty(4, 8, dtype=torch.complex64, device="meta"))
    assert plan.device == torch.device("cpu")
    x = sample("c2c", (4, 8))
    assert same(plan(x), trnfft.fft(x))
    shapes = trnfft.plan_fft(torch.empty(4, 8), "r2c", device="meta")
    assert shapes(torch.empty(4, 8, device="meta")).shape == (4, 5)


@pytest.mark.parametrize("backend", ["torch", "matmul"])
@pytest.mark.parametrize("precision", ["kahan", "double"])
def test_the_precision_is_that_of_the_context(backend, precision):
    x = sample("c2c", (2, 100))
    with trnfft.backend(backend), trnfft.precision(precision):
        plan, expected = trnfft.plan_fft(x), trnfft.fft(x)
    assert plan.precision == precision
    assert same(plan(x), expected)


def test_kernels_are_planned_once(monkeypatch):
    x = sample("c2c", (2, 24))
    with trnfft.backend("nki-sim"):
        plan, expected = trnfft.plan_fft(x), trnfft.fft(x)
    monkeypatch.setattr(planner, "search", None)
    assert same(plan(x), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap_trace_and_autocast(backend):
    x = torch.randn(3, 8)
    with trnfft.backend(backend):
        plan, expected = trnfft.plan_fft(x[0], "r2c"), trnfft.rfft(x)
        whole = trnfft.plan_fft(x, "r2c")
    near(torch.func.vmap(lambda row: plan(row).real)(x), expected.real, transforms(8))
    traced = torch.jit.trace(lambda y: whole(y).imag, x)
    near(traced(x), expected.imag, transforms(8), scale=expected)
    with pytest.raises(RuntimeError):
        traced(torch.randn(3, 9))
    with torch.autocast("cpu"):
        assert same(whole(x), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_batches(backend):
    x = torch.empty(0, 8)
    with trnfft.backend(backend):
        assert trnfft.plan_fft(x)(x).shape == (0, 8)
        assert trnfft.plan_fft(x, "c2r", n=6)(x).shape == (0, 6)


test_another_input_is_an_error = refused(
    lambda x: trnfft.plan_fft(torch.zeros(4, 8))(x),
    [
        (torch.zeros(4, 9), RuntimeError, r"has shape \(4, 9\), .* allows shape \(4, 8\), dtype"),
        (torch.zeros(8), RuntimeError, r"has shape \(8,\)"),
        (torch.zeros(4, 8).double(), RuntimeError, "dtype torch.float64"),
        (torch.zeros(4, 8) * 1j, RuntimeError, "dtype torch.complex64"),
        (sample("c2c", (4, 8)), RuntimeError, "dtype torch.complex64"),
        (torch.zeros(4, 8, device="meta"), RuntimeError, "on meta, this plan allows"),
        ([1.0], TypeError, "argument 'x' is of type list"),
        (torch.nested.nested_tensor([torch.ones(2)]), TypeError, "argument 'x' is a nested tensor"),
        (torch.zeros(4, 8).numpy(), TypeError, "argument 'x' is of type ndarray"),
    ],
)


test_wrong_arguments = refused(
    lambda arguments: trnfft.plan_fft(**{"x_spec": torch.zeros(4, 8), **arguments}),
    [
        ({"kind": "fft"}, ValueError, "'kind' is 'fft', allowed are 'c2c', 'r2c', 'c2r'"),
        ({"inverse": 1}, TypeError, "'inverse' must be a bool, not int"),
        ({"n": 0}, RuntimeError, "'n' is 0"),
        ({"n": 2.5}, TypeError, "'n' must be an int"),
        ({"dim": 2}, IndexError, "'dim' is 2"),
        ({"norm": "none"}, RuntimeError, "'norm' is 'none'"),
        ({"device": "x"}, RuntimeError, "'device' is 'x'"),
        ({"device": 1.5}, TypeError, "'device' is 1.5"),
        ({"x_spec": (4, 8)}, TypeError, "'x_spec' is of type tuple"),
        ({"x_spec": torch.zeros(4, 8) * 1j, "kind": "r2c"}, RuntimeError, "real dtypes only"),
    ],
)


def test_what_it_says_of_itself():
    plan = trnfft.plan_fft(torch.empty(4, 8), "r2c", norm="ortho")
    assert repr(plan) == (
        "<r2c, 8 points along dimension 1, norm 'ortho' of shape (4, 8), dtype torch.float32, "
        "on cpu; backend 'torch', precision 'fast'>"
    )


def test_a_plan_is_copied_with_its_module_and_not_pickled():
    whole = trnfft.plan_fft(torch.empty(4, 8))
    assert copy.deepcopy({"plan": whole})["plan"] is whole
    with pytest.raises(TypeError, match="cannot be pickled; .* trnfft.plan_fft"):
        pickle.dumps(whole)
