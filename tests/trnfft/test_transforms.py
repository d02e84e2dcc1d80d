"""Every transform of torch.fft, compared with trnfft's on the backends torch, matmul and nki-sim.

The tests compare values, shapes, dtypes, gradients and errors. hypothesis draws the examples. A
case is one function, input and set of arguments, and each example runs on every backend.
"""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_sim
import trnfft
from tests import sweeps
from tests.tolerances import near, transforms
from trnfft import ComplexTensor
from trnfft.planner.accuracy import MAX_ERRORS

from .samples import BACKENDS, NORMS, native, random

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
NAMES = [name + form for form in ("", "2", "n") for name in ONE]
REAL_INPUT = ("rfft", "ihfft")
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
DTYPES += [torch.int32, torch.bool]


def takes_real(name):
    return name.rstrip("2n") in REAL_INPUT


def example(shape, dtype, seed=0):
    """Returns numbers of any dtype."""
    if dtype in (torch.int32, torch.bool):
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(-9 if dtype == torch.int32 else 0, 2, shape, generator=generator).to(
            dtype
        )
    return random(*shape, dtype=dtype, seed=seed)


def input_of(name, *shape, seed=0):
    """Returns numbers in float32 or complex64, which a transform takes."""
    return example(shape, torch.float32 if takes_real(name) else torch.complex64, seed)


def check(actual, name, x, *args, **kwargs):
    """Compares kind, dtype and values with those of torch.fft's function of this name.

    Real results are the real parts of sums. The norm of the whole sums is their scale.
    """
    expected = getattr(torch.fft, name)(x, *args, **kwargs)
    assert (actual.is_complex(), actual.dtype) == (expected.is_complex(), expected.dtype)
    scale = None
    if not expected.is_complex():
        whole = name.replace("irfft", "ifft").replace("hfft", "fft")
        scale = getattr(torch.fft, whole)(x, *args, **kwargs)
    # The longest transforms of short and prime lengths are Bluestein's.
    points = max(x.numel(), expected.numel())
    near(actual, expected, transforms(4 * points, 2, expected.dtype), scale=scale)


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
@settings(deadline=None, max_examples=40)
def test_values(call, seed):
    name, shape, dtype, arguments = call
    x = example(shape, dtype, seed)
    for backend in backends_for(dtype):
        with trnfft.backend(backend):
            check(getattr(trnfft, name)(x, **arguments), name, x, **arguments)
            if dtype.is_complex:
                split = ComplexTensor.from_complex(x)
                check(getattr(trnfft, name)(split, **arguments), name, x, **arguments)


@pytest.mark.weekly
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize(
    "lengths",
    [
        (*range(1, 10), 11, 16, 25, 64, 100, 257),
        sweeps.whole((10, *range(12, 34), 97, 256, 1000, 1021)),
    ],
    ids=["some", "others"],
)
def test_every_short_length(lengths, name, backend):
    for n, norm in zip(lengths, itertools.cycle(NORMS), strict=False):
        x = input_of(name, 2, n, seed=n)
        with trnfft.backend(backend):
            check(getattr(trnfft, name)(x, n, norm=norm), name, x, n, norm=norm)


VIEWS = {
    "transposed": lambda x: x.transpose(0, 2),
    "conjugated or negated": lambda x: x.conj() if x.is_complex() else (1j * x).conj().imag,
    "sliced": lambda x: x[::2, 1:],
    "expanded": lambda x: x.expand(2, 4, 6, 8),
}


@sweeps.some(
    "name, backend, view",
    itertools.product(NAMES, BACKENDS, VIEWS),
    [
        (name, backend, list(VIEWS)[(index + place) % len(VIEWS)])
        for index, name in enumerate(NAMES)
        for place, backend in enumerate(BACKENDS)
        if backend != "torch" or index % 3 == 0  # where torch.fft takes the views
    ],
)
def test_views(name, backend, view):
    x = VIEWS[view](input_of(name, 4, 6, 8))
    with trnfft.backend(backend):
        check(getattr(trnfft, name)(x), name, x)


@sweeps.pairs(name=NAMES, backend=BACKENDS, dtype=[torch.float16, torch.bfloat16])
def test_half_precision(name, backend, dtype):
    x = example((4, 6, 8), torch.float32).to(dtype)
    function = getattr(trnfft, name)
    with trnfft.backend(backend):
        check(function(x), name, x.float())
        if not takes_real(name):
            z = ComplexTensor(x, x.flip(0))
            check(function(z), name, torch.complex(z.real.float(), z.imag.float()))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_native_complex32():
    z = random(8, dtype=torch.complex128).to(torch.complex32)
    near(trnfft.fft(z), torch.fft.fft(z.to(torch.complex128)), transforms(8))


def test_arguments_by_keyword_and_as_integer_likes():
    z = random(4, 5, dtype=torch.complex128)
    actual = trnfft.fft(input=z, n=np.int64(3), dim=torch.tensor(0), norm="ortho")
    check(actual, "fft", z, 3, 0, "ortho")


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64])
@pytest.mark.parametrize("name", NAMES)
def test_integers_become_the_default_dtype(name, dtype):
    x = torch.tensor([[1, 0, 3, 2]]).to(dtype)
    before = torch.get_default_dtype()
    try:
        for default in (torch.float32, torch.float64):
            torch.set_default_dtype(default)
            check(getattr(trnfft, name)(x), name, x)
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("name", NAMES)
def test_empty_batches_are_no_error(name):
    # torch.fft raises an error of MKL here.
    shape = (0, 4, 6) if not name.endswith("n") else (0, 4)
    arguments = {} if not name.endswith("n") else {"dim": (1,)}
    x = input_of(name, *shape)
    meta = getattr(torch.fft, name)(x.to("meta"), **arguments)
    for backend in BACKENDS:
        with trnfft.backend(backend):
            result = getattr(trnfft, name)(x, **arguments)
        assert result.shape == meta.shape and result.dtype == meta.dtype


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ONE)
def test_nothing_to_transform_and_nothing_in_the_batch(name, backend):
    function = getattr(trnfft, name)
    with trnfft.backend(backend):
        for shape, dim in (((0, 3), -1), ((3, 0), 0), ((5, 0, 3), 0), ((2, 0, 5), 2)):
            x = torch.zeros(shape, requires_grad=True)
            y = function(x, dim=dim)
            assert y.shape == getattr(torch.fft, name)(x.to("meta"), dim=dim).shape
            y.real.sum().backward()
            assert x.grad.shape == shape
        assert not native(function(torch.zeros(3, 0), 4)).any()  # padding makes numbers of none


def test_meta_tensors_have_shapes():
    y = trnfft.fft(torch.empty(2, 6, device="meta"), n=5)
    assert (y.shape, y.device.type, y.dtype) == ((2, 5), "meta", torch.complex64)


@pytest.mark.parametrize("name", NAMES)
def test_out_receives_the_result(name):
    x = input_of(name, 4, 6)
    function = getattr(trnfft, name)
    expected = function(x)
    outs = [torch.zeros_like(expected)]
    outs += [ComplexTensor.from_complex(outs[0])] if expected.is_complex() else []
    for out in outs:
        assert function(x, out=out) is out
        assert torch.equal(native(out), native(expected))
        with pytest.raises(RuntimeError, match="'out' has shape"):
            function(x, out=out[:1])
        with pytest.raises(RuntimeError, match="'out' cannot be written"):
            function(x, out=out[..., :1].expand(out.shape))
        wrong = out.real if expected.is_complex() else torch.complex(out, out)
        with pytest.raises(TypeError, match="'out' is of type"):
            function(x, out=wrong)
    double = expected.to(torch.complex128 if expected.is_complex() else torch.float64)
    with pytest.raises(RuntimeError, match="'out' has shape .*dtype torch.(float64|complex128)"):
        function(x, out=double)


# Errors

X = torch.ones(4, 6)
Z = torch.ones(4, 6, dtype=torch.complex64)
WRONG_OF_ONE = {
    "n zero": (X, dict(n=0), "'n' is 0"),
    "n negative": (X, dict(n=-1), "'n' is -1"),
    "n float": (X, dict(n=2.0), "'n'.*float"),
    "n str": (X, dict(n="a"), "'n'.*str"),
    "n bool": (X, dict(n=True), "'n'.*bool"),
    "dim too large": (X, dict(dim=2), "'dim' is 2.*-2 to 1"),
    "dim too small": (X, dict(dim=-3), "'dim' is -3.*-2 to 1"),
    "dim float": (X, dict(dim=1.0), "'dim'.*float"),
    "dim None": (X, dict(dim=None), "'dim'.*NoneType"),
    "dim bool": (X, dict(dim=True), "'dim'.*bool"),
    "norm unknown": (X, dict(norm="bad"), "'norm' is 'bad'.*'ortho'"),
    "norm empty": (X, dict(norm=""), "'norm' is ''.*'ortho'"),
    "norm int": (X, dict(norm=1), "'norm'.*int"),
    "dim before n and norm": (X, dict(n=0, dim=9, norm="bad"), "'dim' is 9"),
    "n before norm": (X, dict(n=0, norm="bad"), "'n' is 0"),
    "no dimension": (torch.tensor(1.0), dict(), "no dimensions"),
    "no dimension with dim": (torch.tensor(1.0), dict(dim=0), "no dimensions"),
    "no dimension with n": (torch.tensor(1.0), dict(n=0, dim=5), "no dimensions"),
    "size zero": (torch.ones(3, 0), dict(), "size 0"),
    "size zero alone": (torch.ones(0), dict(), "size 0"),
    "empty batch and norm": (torch.ones(0, 3), dict(norm="bad"), "'norm' is 'bad'"),
    "8-bit float": (torch.ones(2).to(torch.float8_e4m3fn), dict(), "'input'.*float8_e4m3fn"),
    "sparse": (torch.eye(3).to_sparse(), dict(), "'input' has the layout torch.sparse_coo"),
    "list": ([1.0, 2.0], dict(), "'input'.*list"),
    "array": (np.ones(2), dict(), "'input'.*ndarray"),
}


@pytest.mark.parametrize("name", WRONG_OF_ONE)
def test_errors_are_of_the_types_of_torch(name):
    x, arguments, message = WRONG_OF_ONE[name]
    for function in ("fft", "ifft"):
        with pytest.raises(Exception) as expected:  # noqa: PT011, B017
            getattr(torch.fft, function)(x, **arguments)
        with pytest.raises(expected.type, match=message) as actual:
            getattr(trnfft, function)(x, **arguments)
        assert actual.type is expected.type


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


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ONE])
def test_errors_of_several_dimensions(name):
    for what, (x, arguments) in WRONG.items():
        with pytest.raises(Exception) as expected:  # noqa: PT011, B017
            getattr(torch.fft, name)(x, **arguments)
        with pytest.raises(expected.type):
            getattr(trnfft, name)(x, **arguments)
            pytest.fail(f"{what} is no error")


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
            check(getattr(trnfft, name)(x, **arguments), name, x, **arguments)
    else:
        for x, arguments in ((scalar, {}), (X, {"dim": ()})):
            with pytest.raises(RuntimeError, match="at least one dimension"):
                getattr(trnfft, name)(x, **arguments)


# Derivatives


OPTIONS = {
    "ortho": lambda name: {"norm": "ortho"},
    "longer and shorter": lambda name: (
        {"n": 5, "dim": 1} if name in ONE else {"s": (2, 8), "dim": (2, 1)}
    ),
}


def loss(y):
    """Returns a nonlinear function of both parts, whose derivatives of all orders depend on `y`."""
    return (y.real**3 + y.real * y.imag**2 + y.imag if y.is_complex() else y**3).sum()


@sweeps.pairs(name=NAMES, backend=["matmul", "nki-sim"], options=OPTIONS)
def test_first_and_second_derivatives_are_those_of_torch(name, backend, options):
    x, found = input_of(name, 2, 5, 6), []
    for module, context in ((trnfft, trnfft.backend(backend)), (torch.fft, nullcontext())):
        leaf = x.clone().requires_grad_()
        with context:
            result = loss(getattr(module, name)(leaf, **OPTIONS[options](name)))
        # Outside of the block: a backward pass runs on the backend of its forward pass.
        (first,) = torch.autograd.grad(result, leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.abs().square().sum(), leaf)
        found.append((first.detach(), second))
    for actual, expected, count in zip(*found, (6, 12), strict=True):  # the loss has cubes
        near(actual, expected, transforms(x.shape, count))


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


@sweeps.some("backend", BACKENDS, ["nki-sim"])
def test_compiled_functions_follow_the_settings_at_run_time(backend):
    x = example((4, 16), torch.float32)
    compiled = torch.compile(spectrum, fullgraph=True, backend="aot_eager")
    expected = spectrum(x)
    leaf = x.clone().requires_grad_()
    with trnfft.backend(backend):
        result = compiled(leaf)
        result.square().sum().backward()
    near(result, expected, transforms(16, 2))
    other = x.clone().requires_grad_()
    spectrum(other).square().sum().backward()
    near(leaf.grad, other.grad, transforms(16, 6))


def test_exported_programs_hold_the_operators():
    class Module(torch.nn.Module):
        def forward(self, x):
            return spectrum(x)

    x = example((4, 16), torch.float32)
    program = torch.export.export(Module(), (x,))
    names = {str(node.target) for node in program.graph.nodes}
    assert {"trnfft.r2c.default", "trnfft.c2r.default"} <= names
    near(program.module()(x), spectrum(x), transforms(16, 2))


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
        for actual, exact, count in zip(results(), expected, (4, 2, 2, 6, 6, 6, 8), strict=True):
            near(actual, exact, transforms(16, count))


def test_the_operator_is_a_scaled_sum():
    x = random(2, 5, dtype=torch.complex128)
    for inverse, scale in itertools.product((False, True), (1.0, -0.3)):
        real, imag = torch.ops.trnfft.c2c(x.real, x.imag, inverse, scale)
        expected = (np.fft.ifft(x) * 5 if inverse else np.fft.fft(x)) * scale
        near(torch.complex(real, imag), expected, transforms(5, dtype="float64"))


# What s and out may be


@pytest.mark.parametrize("s, dim", [((-1, 5), None), ((3, -1), (0, 1)), ((-1, -1), (1, 0))])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ONE])
def test_minus_one_in_s_is_the_size_of_the_dimension(name, s, dim):
    x = random(4, 6, dtype=torch.float64 if takes_real(name) else torch.complex128)
    arguments = {"s": s} if dim is None else {"s": s, "dim": dim}
    check(getattr(trnfft, name)(x, **arguments), name, x, **arguments)


# The simulator


def test_the_simulator_has_no_float64():
    with trnfft.backend("nki-sim"), pytest.raises(TypeError, match=r"float64.*\.float\(\).*torch"):
        trnfft.fft(torch.ones(4, dtype=torch.float64))


def test_the_simulator_has_lengths_that_no_kernel_can_do():
    with trnfft.backend("nki-sim"):
        trnfft.fft(torch.ones(5000), n=256)
        with pytest.raises(NotImplementedError, match=r"N = 5000011 .*set_precision"):
            trnfft.fft(torch.ones(1), n=5000011)


@pytest.mark.weekly
@pytest.mark.parametrize("n", [2**20, *map(sweeps.whole, (655360, 524309))], ids=str)
def test_the_longest_transforms_are_one_launch(n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        y = trnfft.fft(torch.from_numpy(x))
    assert timeline.launches == 1
    near(y, np.fft.fft(x.astype(float)), MAX_ERRORS["fast"])
    with trnfft.backend("nki-sim"):
        z = trnfft.ifft(y)
    near(z, x.astype(complex), 2 * MAX_ERRORS["fast"])


def test_out_has_the_dtype_of_the_parts():
    """complex64 is the dtype of parts of bfloat16, too, which would round the result."""
    out = ComplexTensor(torch.zeros(8).bfloat16(), torch.zeros(8).bfloat16())
    with pytest.raises(RuntimeError, match="argument 'out' has .* parts of torch.bfloat16"):
        trnfft.fft(torch.ones(8), out=out)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with pytest.raises(TypeError, match="argument 'out' is a nested tensor"):
        trnfft.irfft(torch.ones(8), out=nested)
