"""torch's functions on ComplexTensors, compared with the same functions on native tensors.

test_operators.py compares those of torch's list of operators by torch's samples.
"""

import re

import hypothesis.extra.numpy as st_numpy
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import trnfft
from tests.tolerances import near, sums
from tests.trnfft.complex.comparison import assert_same, split
from tests.trnfft.complex.strict import NoComplexDtypes
from tests.trnfft.samples import random_complex
from trnfft import ComplexTensor

INDEX = torch.tensor([1, 0, 1])
MASK = torch.tensor([True, False, True])


def on_parts(function, *operands):
    operands = [split(x) for x in operands]
    with NoComplexDtypes():
        return function(*operands)


# What the samples of test_operators.py do not have: of z and w of shape (3, 3), and of x of shape
# (2, 3, 4). Each is named by its function, perhaps with more words.
FUNCTIONS = {
    "cat with a real tensor": lambda z, w, x: torch.cat([torch.ones(1, 3), z]),
    "cat with an integer tensor": lambda z, w, x: torch.cat([z, INDEX[None]]),
    "conv1d of a real kernel": lambda z, w, x: F.conv1d(
        x, x.real if isinstance(x, ComplexTensor) else x.real.to(x.dtype), stride=2
    ),
    "cpu": lambda z, w, x: z.cpu(),
    "detach": lambda z, w, x: z.detach(),
    "dim": lambda z, w, x: z.dim(),
    "einsum of one": lambda z, w, x: torch.einsum("ijk->kj", x),
    "einsum of three": lambda z, w, x: torch.einsum("ijk,jm,imn->kn", x, z, 2 * x.flip(0)),
    "einsum of a list": lambda z, w, x: torch.einsum("...j,...k", [z, w]),
    "full_like of a real number": lambda z, w, x: torch.full_like(z, 2.0),
    "full_like in a real dtype": lambda z, w, x: torch.full_like(z, 2.0, dtype=torch.float64),
    "is_complex": lambda z, w, x: torch.is_complex(z),
    "is_conj": lambda z, w, x: torch.is_conj(z),
    "is_floating_point": lambda z, w, x: torch.is_floating_point(z),
    "linalg.norm 1": lambda z, w, x: torch.linalg.norm(z, 1),
    "linalg.norm dim": lambda z, w, x: torch.linalg.norm(x, 2, dim=1, keepdim=True),
    "linalg.vector_norm 3": lambda z, w, x: torch.linalg.vector_norm(x, 3, (0, 1)),
    "masked_fill by a tensor": lambda z, w, x: z.masked_fill(MASK, w[0, 0].detach()),
    "method": lambda z, w, x: z.reshape(-1).unsqueeze(0).exp().sum(dim=0).abs(),
    "nonzero as tuple": lambda z, w, x: torch.nonzero(z, as_tuple=True),
    "norm 1": lambda z, w, x: torch.norm(x, 1, dim=(0, 1)),
    "numel": lambda z, w, x: torch.numel(z),
    "ones_like in a complex dtype": lambda z, w, x: torch.ones_like(z, dtype=torch.complex64),
    "pad and crop": lambda z, w, x: F.pad(x, (1, 2, 0, -1), value=2.0),
    "permute of a tuple": lambda z, w, x: x.permute((1, 0, 2)),
    "pow 1": lambda z, w, x: torch.pow(z, 1),
    "pow 2": lambda z, w, x: torch.pow(z, 2),
    "pow 7": lambda z, w, x: z**7,
    "pow -3": lambda z, w, x: z**-3,
    "pow 0.5": lambda z, w, x: z**0.5,
    "pow -1.5": lambda z, w, x: z**-1.5,
    "pow complex": lambda z, w, x: z ** (0.5 - 2j),
    "pow of a number": lambda z, w, x: 2**z,
    "pow of a complex number": lambda z, w, x: (1 - 2j) ** z,
    "pow of itself": lambda z, w, x: z**z,
    "prod dtype": lambda z, w, x: torch.prod(x, 0, dtype=torch.complex128),
    "properties": lambda z, w, x: (z.T, x.mT, z.H, x.mH),
    "reshape to a torch.Size": lambda z, w, x: x.reshape(torch.Size((6, 4))),
    "reshape to a tuple": lambda z, w, x: x.reshape((4, 6)),
    "rsub alpha": lambda z, w, x: torch.rsub(z, w, alpha=3),
    "std dim": lambda z, w, x: x.std(1, keepdim=True),
    "subtract alpha": lambda z, w, x: z.subtract(w, alpha=1j),
    "sum by names": lambda z, w, x: torch.sum(input=x, dim=1, keepdim=True),
    "sum dtype": lambda z, w, x: x.sum(0, dtype=torch.complex128),
    "var dims": lambda z, w, x: x.var((0, 1)),
    "where by its method": lambda z, w, x: z.where(MASK, w),
    "where of a number": lambda z, w, x: torch.where(MASK, z, 2.5),
    "where of one argument": lambda z, w, x: torch.where(z),
    "zeros_like in a real dtype": lambda z, w, x: torch.zeros_like(z, dtype=torch.float32),
}

# torch has no derivatives of these for complex numbers.
UNDIFFERENTIATED = {
    "bilinear": lambda z, x: F.bilinear(x, x, x[:, :, None, :].expand(-1, -1, 4, -1)[0], z[0]),
    "bilinear no bias": lambda z, x: F.bilinear(x[0], x[1], torch.stack([x[0, :1].mT @ x[1, :1]])),
    "native_dropout": lambda z, x: torch.native_dropout(x, 0.5, True),
    "native_dropout in use": lambda z, x: torch.native_dropout(x, 0.5, False),
    "scatter_reduce mean": lambda z, x: z.scatter_reduce(0, INDEX[None], z, "mean"),
    "scatter_reduce sum": lambda z, x: torch.scatter_reduce(
        z, 1, INDEX[:, None], z, "sum", include_self=False
    ),
    "scatter_reduce_": lambda z, x: z.clone().scatter_reduce_(0, INDEX[None], z, "sum"),
    "vander": lambda z, x: torch.vander(z[0]),
    "vander of few": lambda z, x: torch.vander(z[0], 1),
    "vander of many": lambda z, x: torch.vander(z[0], N=5, increasing=True),
    "vander of none": lambda z, x: torch.vander(z[0], 0),
    "vmap of bilinear": lambda z, x: torch.func.vmap(F.bilinear, (0, 0, None))(x, x, x.mT @ x[:1]),
}


@pytest.mark.parametrize("name", UNDIFFERENTIATED)
def test_functions_without_a_derivative_in_torch(name):
    z, x = random_complex(3, 3), random_complex(2, 3, 4)
    torch.manual_seed(0)
    expected = UNDIFFERENTIATED[name](z, x)
    torch.manual_seed(0)
    assert_same(on_parts(UNDIFFERENTIATED[name], z, x), expected, 48)  # sums of 16 products of 3


# Special values


@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "log", "angle", "abs", "sgn", "square", "tanh"])
def test_special_values(name):
    """Zeros, where the sign chooses the side of a cut, and infinite and tiny absolute values."""
    z = [complex(a, b) for a in (0.0, -0.0, 4.0, -4.0, 1e-300) for b in (0.0, -0.0, 9.0, -1e-300)]
    z = torch.tensor(z, dtype=torch.complex128)
    function, native = getattr(torch, name), getattr(np, {"sgn": "sign"}.get(name, name), None)
    # Of tiny numbers, NumPy knows more than torch.
    z = z[z != 0] if name in ("rsqrt", "log", "sgn") else z
    expected = 1 / np.sqrt(z.numpy()) if native is None else native(z.numpy())
    near(function(split(z)), expected, sums(8, z.dtype), each=True)


def test_logarithm_and_powers_of_zero():
    x = ComplexTensor(torch.zeros(3), torch.zeros(3))
    assert torch.equal(torch.log(x).real, torch.full((3,), -torch.inf))
    assert_same(x**0, torch.ones(3, dtype=torch.complex64))
    assert_same(x**2.5, torch.zeros(3, dtype=torch.complex64))
    assert_same(x ** (1 + 1j), torch.zeros(3, dtype=torch.complex64))
    assert not torch.isfinite(x**-1).any() and not torch.isfinite(x**-0.3).any()


ACCURATE = ["exp", "log", "sqrt", "rsqrt", "sin", "cos", "sinh", "cosh", "tan", "tanh"]


@pytest.mark.parametrize("name", [*ACCURATE, "reciprocal", "sgn", "square"])
def test_accuracy(name):
    """Relative errors of float32 of small, large and close to one numbers, against float64."""
    z = random_complex(2000) * torch.logspace(-3, 1, 2000, dtype=torch.float64)
    z = torch.cat([z, 1 + z / 1000]).to(torch.complex64)
    expected = getattr(torch, name)(z.to(torch.complex128))
    found = getattr(torch, name)(split(z))
    near(found, expected, sums(8), each=True)


@pytest.mark.parametrize("name", ["sigmoid", "atanh"])
def test_accuracy_where_a_formula_could_cancel(name):
    """Both near -1, sigmoid also where it is tiny."""
    z = random_complex(2000) * torch.logspace(-3, 1.4, 2000, dtype=torch.float64)
    z = torch.cat([z, -1 + z / 1000, -20 + z]).to(torch.complex64)
    near(
        getattr(torch, name)(split(z)),
        getattr(torch, name)(z.to(torch.complex128)),
        sums(16),
        each=True,
    )


def test_sigmoid_of_infinite_numbers():
    x = torch.tensor([torch.inf, -torch.inf])
    for imag in (0.0, 2.0, torch.inf):
        assert_same(
            torch.sigmoid(ComplexTensor(x, torch.full((2,), imag))), torch.tensor([1 + 0j, 0])
        )


NOT_FINITE = [complex(a, b) for a in (1, torch.nan, torch.inf) for b in (0, torch.nan, -torch.inf)]


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "isreal"])
def test_classes_of_numbers(name):
    z = torch.tensor(NOT_FINITE)
    assert_same(getattr(torch, name)(split(z)), getattr(torch, name)(z))
    assert_same(getattr(split(z), name)(), getattr(z, name)())


@pytest.mark.parametrize("equal_nan", [False, True])
def test_closeness(equal_nan):
    z = torch.tensor(NOT_FINITE)
    for w in (z, z + 1e-6, z * (1 + 1e-7j), z.conj()):
        expected = torch.isclose(z, w, equal_nan=equal_nan)
        assert_same(torch.isclose(split(z), split(w), equal_nan=equal_nan), expected)
    assert torch.allclose(split(z), split(z), equal_nan=equal_nan) == equal_nan
    assert torch.allclose(split(z[:1]), split(z[:1] + 0.1), atol=0.2)
    assert not torch.equal(split(z[:1]), split(z[:1, None]))


# Derivatives


def weighted_sum(result):
    """A real number that depends on every element of the result in another way."""
    if isinstance(result, (list, tuple)):
        return sum(map(weighted_sum, result))
    result = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
    return (result * torch.linspace(1, 2, result.numel()).reshape(result.shape)).sum()


def assert_same_gradients(function, *operands, steps=8):
    """Fails unless results and gradients of ComplexTensors are those of native tensors."""
    natives = [z.clone().requires_grad_() for z in operands]
    xs = [split(z.detach().clone()).clone().requires_grad_() for z in operands]
    result, expected = function(*xs), function(*natives)
    assert_same(result, expected, steps)
    if not isinstance(expected, (torch.Tensor, list, tuple)):
        return
    result, expected = weighted_sum(result), weighted_sum(expected)
    assert result.requires_grad == expected.requires_grad
    if expected.requires_grad:
        expected.backward()
        result.backward()
        for x, z in zip(xs, natives, strict=True):
            if z.grad is not None:
                assert_same(x.grad, z.grad, 4 * steps)
            else:
                assert x.grad is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    exponent = float(name.removeprefix("pow ")) if re.fullmatch(r"pow [-\d.]+", name) else 0
    operands = [random_complex(3, 3), random_complex(3, 3, seed=1), random_complex(2, 3, 4, seed=2)]
    # The exponent multiplies the rounding of a logarithm, whose size is at most 4 here.
    assert_same_gradients(FUNCTIONS[name], *operands, steps=max(8, (4 * exponent) ** 2))


@pytest.mark.parametrize("name", ["abs", "angle", "exp", "log", "sgn", "sqrt", "tanh", "prod"])
def test_gradients_on_the_axes(name):
    z = torch.tensor([4, -4, 4j, -4j], dtype=torch.complex128)
    assert_same_gradients(getattr(torch, name), z)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: F.bilinear(x, y, (x[0, :, None] * y[0])[None], y[0, :1]),
        lambda x, y: torch.vander(x[0]),
    ],
)
def test_gradients_that_torch_does_not_have(function):
    parts = [x.real.contiguous().requires_grad_() for x in random_complex(4, 2, 3).unbind()]

    def of_parts(a, b, c, d):
        result = function(ComplexTensor(a, b), ComplexTensor(c, d))
        return result.real, result.imag

    assert torch.autograd.gradcheck(of_parts, parts)


def test_errors_of_bilinear_and_vander_are_those_of_torch():
    z = random_complex(2, 3)
    for function in (lambda x: F.bilinear(x, x[:1], x[None]), lambda x: torch.vander(x)):
        with pytest.raises(RuntimeError) as expected:
            function(z)
        with pytest.raises(RuntimeError) as found:
            function(split(z))
        assert str(found.value) == str(expected.value)


def test_gradients_at_zero():
    z = torch.tensor([0, 0, 2j], dtype=torch.complex128)
    for function in (torch.prod, torch.abs, torch.linalg.norm, torch.sgn, torch.square):
        assert_same_gradients(function, z)
    assert_same_gradients(torch.linalg.norm, torch.zeros(3, dtype=torch.complex128))


# Broadcasting and indexing


@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_broadcasting(data):
    shapes = data.draw(st_numpy.mutually_broadcastable_shapes(num_shapes=2, max_dims=4))
    z, w = (random_complex(*shape, seed=i) for i, shape in enumerate(shapes.input_shapes))
    for function in (torch.add, torch.mul, torch.div, torch.eq, torch.broadcast_tensors):
        assert_same(function(split(z), split(w)), function(z, w), 16)  # of one number, perhaps
    assert_same(split(z) * w.real, z * w.real)


INDICES = st.one_of(
    st_numpy.basic_indices((3, 1, 4), allow_newaxis=True),
    st_numpy.integer_array_indices((3, 1, 4), dtype=np.dtype(np.int64)),
    st_numpy.arrays(bool, (3, 1)),
)


@given(index=INDICES)
@settings(deadline=None, max_examples=60)
def test_indexing(index):
    arrays = isinstance(index, tuple) and any(isinstance(i, np.ndarray) for i in index)
    index = tuple(map(torch.from_numpy, index)) if arrays else index
    index = torch.from_numpy(index) if isinstance(index, np.ndarray) else index
    z = random_complex(3, 1, 4)
    try:
        expected = z[index]
    except ValueError:
        with pytest.raises(ValueError, match="step must be greater than zero"):
            split(z)[index]
        return
    assert_same(split(z)[index], expected)
    values = [2, 1 - 1j, torch.tensor(3.0, dtype=torch.float64), z[0, 0, 0] + 1]
    # The order of writing is open where an index is there twice.
    values += [] if arrays else [expected * 2, expected.real]
    for value in values:
        written, x = z.clone(), split(z).clone()
        written[index] = value.to(z.dtype) if isinstance(value, torch.Tensor) else value
        x[index] = split(value)
        assert_same(x, written)


def test_numbers_of_numpy():
    z = random_complex(3)
    for number in (np.float32(2), np.complex64(1 - 2j), np.int64(3)):
        assert_same(split(z).masked_fill(MASK, number), z.masked_fill(MASK, number.item()))
        assert_same(split(z).pow(number), z ** number.item())


def test_what_cannot_be_written():
    x = split(random_complex(2, 3))
    with pytest.raises(TypeError, match="str"):
        x[0] = "a"
    with pytest.raises(RuntimeError, match="size"):
        x[0] = torch.ones(4)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        x += torch.ones(4, 2, 3)


# What has no implementation

REAL_ONLY = {
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool1d(x[None], 1),
    "atan2": lambda x: torch.atan2(x, x),
    "bincount": lambda x: torch.bincount(x[0]),
    "erf": lambda x: torch.erf(x),
    "max": lambda x: torch.max(x),
    "max_pool": lambda x: F.max_pool1d(x[None], 2),
    "multinomial": lambda x: torch.multinomial(x, 1),
    "relu": lambda x: F.relu(x),
    "rrelu_with_noise": lambda x: F.rrelu(x, training=True),
    "safe_softmax": lambda x: F.scaled_dot_product_attention(x, x, x),
    "scatter_reduce": lambda x: x.scatter_reduce(0, INDEX[None], x, "amax"),
    "softmax": lambda x: torch.softmax(x, 0),
    "sort": lambda x: torch.sort(x),
    "unique": lambda x: torch.unique(x),
}


@pytest.mark.parametrize("name", REAL_ONLY)
def test_functions_of_real_numbers_are_named_with_the_error_of_torch(name):
    z = random_complex(2, 3, dtype=torch.complex64)
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError) as found:
        REAL_ONLY[name](z)
    (reason, *_) = str(found.value).strip().splitlines()
    message = rf"{name}.*for real numbers only: .*; call it on real tensors.*x\.real"
    with pytest.raises(NotImplementedError, match=message) as ours:
        REAL_ONLY[name](split(z))
    if name != "max_pool":  # whose operator below autograd is another one
        assert reason in str(ours.value)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "name, function",
    [
        ("resize_", lambda x: x.resize_(2)),
        ("_to_sparse", lambda x: x.to_sparse()),
        ("conv_tbc", lambda x: torch.conv_tbc(x[None], x[None].mT, x[0, :2])),
    ],
)
def test_functions_that_torch_has_for_complex_numbers_are_named(name, function):
    z = random_complex(2, 3)
    function(z)
    with pytest.raises(
        NotImplementedError, match=rf"{name}.*native tensor: x\.cpu\(\)\.to_complex"
    ):
        function(split(z))


def test_functions_of_large_tensors_are_named():
    x = ComplexTensor(*torch.zeros(2, 2**17))
    with pytest.raises(NotImplementedError, match="sort.*for real numbers only"):
        torch.sort(x)
    with pytest.raises(NotImplementedError, match=r"rrelu_with_noise.*complex_operators\.md$"):
        F.rrelu(x, training=True)


def test_functions_that_torch_has_for_no_numbers_are_named_without_advice():
    with pytest.raises(NotImplementedError, match=r"native_norm.*complex_operators\.md$"):
        torch.native_norm(split(random_complex(2, 2)))


def test_an_error_about_an_argument_is_that_of_torch():
    x = split(random_complex(2, 3))
    with pytest.raises(RuntimeError, match="pivoting is not implemented"):
        torch.linalg.lu_factor(x.to_complex(), pivot=False)
    with pytest.raises(RuntimeError, match="pivoting is not implemented"):
        torch.linalg.lu_factor(x, pivot=False)
    with pytest.raises(RuntimeError, match="must be even"):
        F.glu(x)


def test_unsupported_functions_are_named_in_graphs():
    function = torch.compile(lambda x: torch.softmax(x, 0), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="softmax.*for real numbers only"):
        function(split(random_complex(2, 2)))


@pytest.mark.parametrize("write", [lambda a, x: a.add_(x), lambda a, x: a.__setitem__(0, x)])
def test_complex_numbers_are_not_written_into_real_tensors(write):
    with pytest.raises(RuntimeError, match=r"torch\.float32.*\.real or \.imag"):
        write(torch.ones(2, 2), split(random_complex(2)))


def test_views_of_another_dtype_are_refused():
    with pytest.raises(TypeError, match=r"torch\.float32.*view_as_real"):
        split(random_complex(2)).view(torch.float32)


def test_conditions_must_be_boolean():
    with pytest.raises(TypeError, match="'condition' has dtype torch.complex128.*x != 0"):
        torch.where(split(random_complex(2)), 1.0, 2.0)
    with pytest.raises(TypeError, match="'mask' has dtype torch.complex128.*x != 0"):
        torch.masked_fill(torch.ones(2), split(random_complex(2)), 0)


def test_norms_of_singular_values():
    z = random_complex(3, 2)
    for function in (
        lambda x: torch.norm(x, "nuc"),
        lambda x: torch.linalg.norm(x, 2),
        lambda x: torch.linalg.norm(x, -2, dim=(0, 1)),
    ):
        assert_same(on_parts(function, z), function(z))


# Creation, dtypes and places


@pytest.mark.parametrize("name", ["empty_like", "rand_like", "randn_like"])
def test_tensors_alike(name):
    z = random_complex(200, 100)
    x, z = getattr(torch, name)(split(z)), getattr(torch, name)(z)
    assert (x.shape, x.dtype) == (z.shape, z.dtype)
    if name != "empty_like":
        for part, expected in ((x.real, z.real), (x.imag, z.imag)):
            assert abs(part.mean() - expected.mean()) < 0.03 > abs(part.std() - expected.std())
        assert not torch.equal(x.real, x.imag)
    assert getattr(torch, name)(x, dtype=torch.float32).dtype == torch.float32
    assert x.new_empty(2, 3).shape == (2, 3)


@pytest.mark.parametrize("name", ["half", "bfloat16", "float", "double"])
def test_dtypes_of_the_parts(name):
    x = split(random_complex(3))
    assert getattr(x, name)().real.dtype == getattr(x.real, name)().dtype


def test_meta_tensors():
    x = split(random_complex(3, 4)).to("meta")
    assert torch.exp(x @ x.mH).sum(0).shape == (3,)


def test_results_are_written_into_out():
    x, out = split(random_complex(2, 3)), ComplexTensor(*torch.zeros(2, 3, dtype=torch.float64))
    assert torch.sum(x, 0, out=out) is not None
    assert torch.equal(out, x.sum(0))


def test_parameters_and_tensor_subclasses_as_operands():
    z = random_complex(3)
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    assert_same((weight * split(z)).detach(), z)
    assert_same((split(z) - weight).detach(), z - 1)


@pytest.mark.parametrize("name", ["fft", "ifft", "fft2", "irfft", "hfft", "fftn", "fftshift"])
def test_the_transforms_of_torch_are_those_of_trnfft(name):
    x = split(random_complex(4, 4))
    result, expected = getattr(torch.fft, name)(x), getattr(trnfft, name)(x)
    assert type(result) is type(expected) and torch.equal(result, expected)


def test_the_transforms_of_torch_take_its_arguments():
    x = split(random_complex(4, 3))
    expected = trnfft.fft(x, dim=0)
    assert torch.equal(torch.fft.fft(x, axis=0), expected)
    out = torch.empty(0, dtype=x.dtype)
    assert torch.fft.fft(x, dim=0, out=out) is out
    assert torch.equal(out, expected.to_complex())


# Conversion


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_numpy(dtype):
    array = random_complex(2, 3).numpy().astype(dtype)
    x = ComplexTensor.from_numpy(array)
    for back in (x.numpy(), np.asarray(x)):
        assert back.dtype == dtype and np.array_equal(back, array)
    assert np.asarray(x, dtype=np.complex128).dtype == np.complex128
    x.real[0, 0] = 5
    assert array[0, 0].real != 5  # no two parts share memory, and so no array's
    assert x.half().numpy().dtype == np.complex64
    assert_same(ComplexTensor.from_numpy(np.ones(2)), torch.ones(2, dtype=torch.complex128))


def test_numpy_of_what_is_conjugated_lazily():
    z = trnfft.as_complex_tensor(torch.tensor([1 + 2j, 3 - 4j]))
    for array in (z.conj().numpy(), np.asarray(z.conj())):
        assert array.tolist() == [1 - 2j, 3 + 4j]


def test_numpy_errors():
    for array in (np.arange(3), [1j], np.array(["a"])):
        with pytest.raises(TypeError, match="'array'"):
            ComplexTensor.from_numpy(array)
    with pytest.raises(ValueError, match="'copy'"):
        np.array(split(random_complex(2)), copy=False)
    with pytest.raises(RuntimeError, match="detach"):
        split(random_complex(2)).clone().requires_grad_().numpy()


def test_python_numbers():
    z = random_complex(2, 2)
    assert split(z).clone().requires_grad_().tolist() == z.tolist()
    assert split(z[0, 0]).item() == complex(split(z[0, 0])) == z[0, 0].item()
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        split(z).item()


def test_polar_coordinates():
    absolute, angle = torch.rand(3, 1), torch.randn(4)
    x = ComplexTensor.from_polar(absolute, angle)
    assert_same(x, torch.polar(absolute.expand(3, 4), angle.expand(3, 4)))


# Compilation


def compiled(function):
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("backend", ["torch", "matmul"])
def test_compilation(backend):
    def function(real, imag):
        z = trnfft.fft(ComplexTensor(real, imag))
        w = torch.cat([z * z.conj() + real, 2 * z]) ** 2 / (1j + z.sum())
        w = torch.roll(w, 1, 0).exp().sqrt() - torch.einsum("ij,kj->ik", z, z).mean()
        w = torch.where(w.abs() > 1, w, 2.5).masked_fill(w.abs() > 2, 1j)
        w = w + F.pad(torch.fft.ifft(w), (1, 0))[:, :-1].tanh()
        w *= 2
        w[0] = 2j
        # torch cannot leave out the derivative of a compiled function's second result.
        return torch.abs(torch.sum(w)) + torch.linalg.norm(real @ z.mH), w.detach()

    inputs = [torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    with trnfft.backend(backend):
        (scalar, w), (expected, expected_w) = compiled(function)(*inputs), function(*inputs)
        assert_same(w.detach(), expected_w.detach().to_complex())
        for part, expected_part in zip(
            torch.autograd.grad(scalar, inputs),
            torch.autograd.grad(expected, inputs),
            strict=True,
        ):
            near(part, expected_part, sums(100, part.dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_powers_of_a_smaller_dtype_are_computed_in_the_larger_one(dtype, shape):
    base = torch.full(shape, 0.3, dtype=dtype)
    z = ComplexTensor(torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1.0, 0.25, -3.0]))
    exact = base.to(torch.complex128) ** z.to_complex().to(torch.complex128)
    power = (base**z).to_complex()
    assert power.dtype == torch.complex64
    near(power, exact, sums(4))
    exact = z.to_complex().to(torch.complex128) ** base.to(torch.complex128)
    near(z**base, exact, sums(4))


def test_a_number_does_not_widen_a_power():
    z = ComplexTensor(torch.ones(3), torch.ones(3))
    assert (torch.tensor(2.0, dtype=torch.float64) ** z).dtype == torch.complex64
    assert (z ** torch.tensor(2.5, dtype=torch.float64)).dtype == torch.complex64
