"""Every transform of torch.fft, compared with trnfft's on the backends torch, matmul and nki-sim.

The tests compare values, shapes, dtypes, gradients and errors. hypothesis draws the examples. A
case is one function, input and set of arguments, and each example runs on every backend.
"""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import trnfft
from tests import sweeps
from trnfft import ComplexTensor

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
NAMES = [name + form for form in ("", "2", "n") for name in ONE]
REAL_INPUT = ("rfft", "ihfft")
BACKENDS = ["torch", "matmul", "nki-sim"]
NORMS = [None, "backward", "ortho", "forward"]
SINGLE, DOUBLE = 1e-6, 1e-14  # relative errors in the L2 norm

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
DTYPES += [torch.int32, torch.bool]


def takes_real(name):
    return name.rstrip("2n") in REAL_INPUT


def example(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype in (torch.int32, torch.bool):
        return torch.randint(-9 if dtype == torch.int32 else 0, 2, shape, generator=generator).to(
            dtype
        )
    return torch.randn(shape, dtype=dtype, generator=generator)


def plain(x):
    return trnfft.as_native(x)


def assert_close(actual, expected, single=SINGLE):
    """Same kind, shape, dtype, and values up to the precision of the dtype."""
    assert actual.is_complex() == expected.is_complex()
    actual = plain(actual)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    a, b = (np.asarray(x.detach().resolve_conj().resolve_neg()) for x in (actual, expected))
    limit = DOUBLE if expected.dtype in (torch.float64, torch.complex128) else single
    assert np.linalg.norm(a - b) <= limit * np.linalg.norm(b)


def backends_for(dtype):
    """nki-sim has no float64."""
    wide = dtype in (torch.float64, torch.complex128)
    return [b for b in BACKENDS if not (wide and b == "nki-sim")]


# Values


@st.composite
def calls(draw):
    """(name, shape, dtype, arguments) that torch.fft accepts."""
    name = draw(st.sampled_from(NAMES))
    least = 2 if name.endswith("2") else 1
    shape = draw(st.lists(st.integers(1, 7), min_size=least, max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    if takes_real(name) and dtype.is_complex:
        dtype = dtype.to_real()
    arguments = {"norm": draw(st.sampled_from(NORMS))}
    lengths = st.integers(1, 9)
    if name in ONE:
        arguments["dim"] = draw(st.integers(-len(shape), len(shape) - 1))
        if draw(st.booleans()) or shape[arguments["dim"]] == 1:
            arguments["n"] = draw(lengths)
    else:
        order = draw(st.permutations(range(len(shape))))
        count = 2 if name.endswith("2") else draw(st.integers(1, len(shape)))
        dims = [d - len(shape) * draw(st.booleans()) for d in order[:count]]
        if name.endswith("n") and draw(st.booleans()):
            dims = None
        elif not (name.endswith("2") and draw(st.booleans())):
            arguments["dim"] = tuple(dims)
        last = dims[-1] if "dim" in arguments else -1
        if draw(st.booleans()) or shape[last] == 1:
            arguments["s"] = tuple(draw(lengths) for _ in range(count))
    return name, tuple(shape), dtype, arguments


@given(calls(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=100)
def test_values(call, seed):
    name, shape, dtype, arguments = call
    x = example(shape, dtype, seed)
    expected = getattr(torch.fft, name)(x, **arguments)
    for backend in backends_for(dtype):
        with trnfft.backend(backend):
            assert_close(getattr(trnfft, name)(x, **arguments), expected)
            if dtype.is_complex:
                split = ComplexTensor.from_complex(x)
                assert_close(getattr(trnfft, name)(split, **arguments), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize(
    "lengths",
    [
        (*range(1, 13), 16, 25, 32, 64, 100, 257),
        sweeps.whole((*range(13, 34), 97, 256, 1000, 1021)),
    ],
    ids=["some", "others"],
)
def test_every_short_length(lengths, name, backend):
    for n, norm in zip(lengths, itertools.cycle(NORMS), strict=False):
        x = example((2, n), torch.float32 if takes_real(name) else torch.complex64, n)
        expected = getattr(torch.fft, name)(x, n, norm=norm)
        with trnfft.backend(backend):
            assert_close(getattr(trnfft, name)(x, n, norm=norm), expected)


VIEWS = {
    "transposed": lambda x: x.transpose(0, 2),
    "sliced": lambda x: x[::2, 1:],
    "expanded": lambda x: x.expand(2, 4, 6, 8),
}


@sweeps.pairs(name=NAMES, backend=BACKENDS, view=VIEWS)
def test_views(name, backend, view):
    x = example((4, 6, 8), torch.float32 if takes_real(name) else torch.complex64)
    x = VIEWS[view](x)
    with trnfft.backend(backend):
        assert_close(getattr(trnfft, name)(x), getattr(torch.fft, name)(x))


@sweeps.pairs(name=NAMES, backend=BACKENDS, dtype=[torch.float16, torch.bfloat16])
def test_half_precision(name, backend, dtype):
    x = example((4, 6, 8), torch.float32).to(dtype)
    with trnfft.backend(backend):
        assert_close(getattr(trnfft, name)(x), getattr(torch.fft, name)(x.float()))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_empty_batches_are_no_error(name, backend):
    # torch.fft raises an error of MKL here.
    shape = (0, 4, 6) if not name.endswith("n") else (0, 4)
    kind = torch.float32 if takes_real(name) else torch.complex64
    arguments = {} if not name.endswith("n") else {"dim": (1,)}
    x = example(shape, kind)
    with trnfft.backend(backend):
        result = getattr(trnfft, name)(x, **arguments)
    meta = getattr(torch.fft, name)(x.to("meta"), **arguments)
    assert result.shape == meta.shape and result.dtype == meta.dtype


@pytest.mark.parametrize("name", NAMES)
def test_out_receives_the_result(name):
    x = example((4, 6), torch.float32 if takes_real(name) else torch.complex64)
    function = getattr(trnfft, name)
    expected = function(x)
    outs = [torch.zeros_like(expected)]
    outs += [ComplexTensor.from_complex(outs[0])] if expected.is_complex() else []
    for out in outs:
        assert function(x, out=out) is out
        assert_close(out, plain(expected))
        with pytest.raises(RuntimeError, match="'out' has shape"):
            function(x, out=out[:1])
        with pytest.raises(RuntimeError, match="'out' cannot be written"):
            function(x, out=out[..., :1].expand(out.shape))
        wrong = out.real if expected.is_complex() else torch.complex(out, out)
        with pytest.raises(TypeError, match="'out' is of type"):
            function(x, out=wrong)


# Errors

X = torch.ones(4, 6)
Z = torch.ones(4, 6, dtype=torch.complex64)
WRONG = {
    "s and dim": (X, dict(s=(2, 2), dim=(0,))),
    "s too long": (X, dict(s=(2, 2, 2))),
    "dims repeated": (X, dict(dim=(0, 0))),
    "dims repeated, one negative": (X, dict(dim=(1, -1))),
    "dim out of range": (X, dict(dim=(0, 2))),
    "dim float": (X, dict(dim=(0.5, 1))),
    "s zero": (X, dict(s=(0, 2))),
    "s below -1": (X, dict(s=(-2, 2))),
    "s bool": (X, dict(s=(True, 2))),
    "s float": (X, dict(s=(2.0, 2))),
    "norm": (X, dict(norm="unitary")),
    "norm type": (X, dict(norm=2)),
    "size zero": (torch.ones(4, 0), dict()),
    "one dimension": (torch.ones(4), dict(dim=(-2, -1))),
    "no dimension": (torch.tensor(1.0), dict(dim=(0,))),
    "dtype": (X.to(torch.float8_e5m2), dict()),
    "list": ([1.0, 2.0], dict()),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ONE])
def test_errors_of_several_dimensions(name, wrong):
    x, arguments = WRONG[wrong]
    with pytest.raises(Exception) as expected:  # noqa: PT011, B017
        getattr(torch.fft, name)(x, **arguments)
    with pytest.raises(expected.type):
        getattr(trnfft, name)(x, **arguments)


@pytest.mark.parametrize("name", [name for name in NAMES if takes_real(name)])
def test_complex_input_where_it_must_be_real(name):
    for x in (Z, ComplexTensor.from_complex(Z)):
        with pytest.raises(RuntimeError, match=rf"complex64, {name} allows real .*use i?fft"):
            getattr(trnfft, name)(x)


@pytest.mark.parametrize("name", ["irfft", "hfft"])
def test_one_number_has_no_default_length(name):
    for function in (getattr(torch.fft, name), getattr(trnfft, name)):
        with pytest.raises(RuntimeError):
            function(torch.ones(3, 1))


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("n")])
def test_no_dimensions_at_all(name):
    scalar = torch.tensor(2.0)
    if name in ("fftn", "ifftn"):
        for x, arguments in ((scalar, {}), (X, {"dim": ()}), (X, {"s": ()})):
            expected = getattr(torch.fft, name)(x, **arguments)
            assert_close(getattr(trnfft, name)(x, **arguments), expected)
    else:
        for x, arguments in ((scalar, {}), (X, {"dim": ()})):
            with pytest.raises(RuntimeError, match="at least one dimension"):
                getattr(trnfft, name)(x, **arguments)


# Derivatives


@sweeps.pairs(
    name=NAMES,
    backend=["torch", "matmul"],
    shape_and_norm=[((2, 3, 4), None), ((2, 4, 3), "ortho")],
)
def test_derivatives_are_exact(name, backend, shape_and_norm):
    shape, norm = shape_and_norm
    parts = [example(shape, torch.float64, seed).requires_grad_() for seed in (1, 2)]
    parts = parts[:1] if takes_real(name) else parts

    def function(*parts):
        x = parts[0] if len(parts) == 1 else ComplexTensor(*parts)
        y = getattr(trnfft, name)(x, norm=norm)
        return (y.real, y.imag) if y.is_complex() else y

    with trnfft.backend(backend):
        assert torch.autograd.gradcheck(function, parts, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, parts, fast_mode=True)


@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_torch(name, backend):
    x = example((2, 5, 6), torch.float32 if takes_real(name) else torch.complex64)

    def gradient(function):
        leaf = x.clone().requires_grad_()
        y = plain(function(leaf))
        weight = example(y.shape, y.dtype, 3)
        (y * weight).real.sum().backward()
        return leaf.grad

    expected = gradient(getattr(torch.fft, name))
    with trnfft.backend(backend):
        actual = gradient(getattr(trnfft, name))
    assert torch.linalg.norm(actual - expected) <= 1e-6 * torch.linalg.norm(expected)


# Operators


def spectrum(x):
    y = trnfft.rfft(x)
    return trnfft.irfft(y * y.conj(), n=x.shape[-1])


OPERANDS = {
    "c2c": lambda n: ([(2, n), (2, n)], ()),
    "r2c": lambda n: ([(2, n)], ()),
    "c2r": lambda n: ([(2, n // 2 + 1), (2, n // 2 + 1)], (n,)),
}


@sweeps.pairs(name=OPERANDS, n=[3, 4], backend=["torch", "matmul"])
def test_operators_are_valid(name, n, backend):
    operator = getattr(torch.ops.trnfft, name).default
    shapes, extra = OPERANDS[name](n)
    parts = [
        example(shape, torch.float64, seed).requires_grad_() for seed, shape in enumerate(shapes)
    ]
    arguments = (*parts, *extra, False, 0.5, backend, "fast")
    assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}

    def function(*parts):
        return operator(*parts, *extra, True, 0.5, backend, "fast")

    assert torch.autograd.gradcheck(function, parts)
    assert torch.autograd.gradgradcheck(function, parts)
    rows = [part.detach() for part in parts]
    batched = torch.vmap(function)(*rows)
    torch.testing.assert_close(batched, function(*rows))


@sweeps.some("backend", BACKENDS, ["matmul", "nki-sim"])
def test_compiled_functions_follow_the_settings_at_run_time(backend):
    x = example((4, 16), torch.float32)
    compiled = torch.compile(spectrum, fullgraph=True, backend="aot_eager")
    expected = spectrum(x)
    leaf = x.clone().requires_grad_()
    with trnfft.backend(backend):
        result = compiled(leaf)
        result.square().sum().backward()
    assert torch.linalg.norm(result - expected) <= 1e-6 * torch.linalg.norm(expected)
    other = x.clone().requires_grad_()
    spectrum(other).square().sum().backward()
    assert torch.linalg.norm(leaf.grad - other.grad) <= 1e-6 * torch.linalg.norm(other.grad)


def test_exported_programs_hold_the_operators():
    class Module(torch.nn.Module):
        def forward(self, x):
            return spectrum(x)

    x = example((4, 16), torch.float32)
    program = torch.export.export(Module(), (x,))
    names = {str(node.target) for node in program.graph.nodes}
    assert {"trnfft.r2c.default", "trnfft.c2r.default"} <= names
    assert torch.allclose(program.module()(x), spectrum(x), atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_torch_func(backend):
    x, t, rows = (
        example((16,), torch.float32),
        example((16,), torch.float32, 1),
        example((5, 16), torch.float32, 2),
    )

    def results():
        def loss(x):
            return spectrum(x).square().sum()

        return [
            torch.func.jvp(spectrum, (x,), (t,))[1],
            torch.func.vmap(spectrum)(rows),
            torch.func.vmap(spectrum, in_dims=1)(rows),
            torch.func.vmap(torch.func.grad(loss))(rows),
            torch.func.jacrev(spectrum)(x),
            torch.func.jacfwd(spectrum)(x),
            torch.func.hessian(loss)(x),
        ]

    with trnfft.backend("torch"):
        expected = results()
    with trnfft.backend(backend):
        for a, b in zip(results(), expected, strict=True):
            assert torch.linalg.norm(a - b) <= 1e-5 * torch.linalg.norm(b)


# What s and out may be


@pytest.mark.parametrize("s, dim", [((-1, 5), None), ((3, -1), (0, 1)), ((-1, -1), (1, 0))])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ONE])
def test_minus_one_in_s_is_the_size_of_the_dimension(name, s, dim):
    x = example((4, 6), torch.float64 if takes_real(name) else torch.complex128)
    arguments = {"s": s} if dim is None else {"s": s, "dim": dim}
    assert_close(getattr(trnfft, name)(x, **arguments), getattr(torch.fft, name)(x, **arguments))


@pytest.mark.parametrize("name", NAMES)
def test_out_of_another_dtype_is_refused(name):
    x = example((4, 6), torch.float32 if takes_real(name) else torch.complex64)
    function = getattr(trnfft, name)
    out = function(x)
    double = out.to(torch.complex128 if out.is_complex() else torch.float64)
    with pytest.raises(RuntimeError, match="'out' has shape .*dtype torch.(float64|complex128)"):
        function(x, out=double)
