"""convolve and oaconvolve, compared with scipy.signal and scipy.ndimage in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, signal

import trnfft
from tests import sweeps
from tests.tolerances import as_array, near, sums, together, transforms
from trnfft import ComplexTensor
from trnfft.functions import convolve as convolution
from trnfft.functions.convolve import convolve, oaconvolve
from trnfft.planner.accuracy import MAX_ERRORS

from ..samples import random, single

BOTH = [convolve, oaconvolve]

both = pytest.mark.parametrize("function", BOTH)
modes = pytest.mark.parametrize("mode", convolution.MODES)


def tolerance(x, h):
    """Returns that of a convolution of x and h, and of an expected one by scipy in float64.

    Each is two transforms, padded along every dimension to up to twice the length of the result.
    """
    points = [2 * (n + m) for n, m in zip(x.shape, h.shape, strict=True)]
    return transforms(points, 4, x.dtype)


def expected_of(function, x, h, mode, dims=None):
    """What scipy says; broadcast first, as its "same" would crop the other dimensions, too."""
    theirs = signal.fftconvolve if function is convolve else signal.oaconvolve
    if dims is not None:
        others = [n if d in dims else max(n, h.shape[d]) for d, n in enumerate(x.shape)]
        x = x.expand(others)
    return theirs(as_array(x), as_array(h), mode, axes=dims)


def assert_as_scipy(function, x, h, mode="full", dims=None, backend="torch"):
    """Fails unless a function of trnfft, along some dimensions, returns what scipy does."""
    with trnfft.backend(backend):
        actual = function(x, h, mode, dims)
    # Errors are relative to sums of products that do not cancel; few points may by chance.
    squares = expected_of(function, x.abs().square(), h.abs().square(), "full", dims)
    expected = expected_of(function, x, h, mode, dims)
    near(actual, expected, tolerance(x, h), scale=np.sqrt(np.abs(squares)))
    return actual


@st.composite
def operands(draw, longest=40):
    """Shapes of input and filter, and the dimensions to convolve along."""
    ndim = draw(st.integers(1, 3))
    dims = draw(st.none() | st.sets(st.integers(0, ndim - 1), min_size=1))
    shapes = [[], []]
    for dim in range(ndim):
        if dims is None or dim in dims:
            most = longest if ndim == 1 else 9
            sizes = draw(st.integers(1, most)), draw(st.integers(1, most))
        else:
            sizes = draw(st.sampled_from([(1, 1), (2, 2), (1, 3), (3, 1)]))
        for shape, size in zip(shapes, sizes, strict=True):
            shape.append(size)
    return *shapes, None if dims is None else tuple(dims)


@given(
    operands(),
    st.sampled_from(convolution.MODES),
    st.sampled_from(BOTH),
    st.sampled_from([torch.float32, torch.float64, torch.complex64, torch.complex128]),
    st.booleans(),
    st.sampled_from(["torch", "matmul"]),
)
@settings(deadline=None, max_examples=100)
def test_as_scipy(shapes, mode, function, dtype, real_filter, backend):
    *shapes, dims = shapes
    x, h = random(*shapes[0], dtype=dtype), random(*shapes[1], dtype=dtype, seed=1)
    h = h.real if real_filter else h
    pairs = [pair for d, pair in enumerate(zip(*shapes, strict=True)) if not dims or d in dims]
    longer = [n - m for n, m in pairs if 1 not in (n, m)]  # sizes of 1 broadcast
    if mode == "valid" and min(longer, default=0) < 0 < max(longer, default=0):
        with pytest.raises(ValueError, match="the longer one along all of 'dims'"):
            function(x, h, mode, dims)
        return
    actual = assert_as_scipy(function, x, h, mode, dims, backend)
    part = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    assert actual.real.dtype == part
    assert actual.is_complex() == dtype.is_complex


@sweeps.pairs(
    shapes=[((1, 10), (5, 3)), ((5, 3), (1, 10)), ((4, 1, 6), (1, 3, 2)), ((1, 1), (4, 5))],
    function=BOTH,
    mode=convolution.MODES,
    backend=["torch", "nki-sim"],
)
def test_sizes_of_one_broadcast(shapes, function, mode, backend):
    x, h = single(*shapes[0]), single(*shapes[1], seed=1)
    assert_as_scipy(function, x, h, mode, backend=backend)


@both
def test_missing_dimensions_broadcast(function):
    x, h = random(2, 3, 40), random(3, 40, seed=1)
    y = function(x, h, dims=-1)
    each = [signal.fftconvolve(a, b) for row in x for a, b in zip(row, h, strict=True)]
    near(y, np.stack(each).reshape(2, 3, 79), transforms(160, 4, x.dtype))
    near(function(h, x, dims=(2,)), y, transforms(160, 4, x.dtype))
    h.requires_grad_()
    function(x, h, dims=-1).square().sum().backward()
    assert h.grad.shape == h.shape
    with pytest.raises(ValueError, match="has 2 dimensions and argument 'input' has 3"):
        function(x, h)


@modes
@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize("sizes", [(3000, 37), (40, 700), (513, 512), (100_000, 3)])
def test_long_operands(function, sizes, mode):
    x, h = random(2, sizes[0]), random(1, sizes[1], seed=1)
    assert_as_scipy(function, x, h, mode, (1,))
    assert_as_scipy(function, x.float(), h.float(), mode, (1,))


@both
def test_long_planes(function):
    x, h = random(90, 70), random(5, 80, seed=1)  # each is the longer one once
    assert_as_scipy(function, x, h)
    assert_as_scipy(function, x, h, dims=(1, 0))


NDIMAGE = {"zero": "constant", "circular": "wrap", "mirror": "mirror"}


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 15)), min_size=1, max_size=3),
    st.sampled_from(convolution.PADDINGS),
)
@settings(deadline=None, max_examples=75)
def test_padding_as_ndimage(sizes, padding):
    x, h = random(*(n for n, _ in sizes)), random(*(m for _, m in sizes), seed=1)
    origin = [0 if m % 2 else -1 for _, m in sizes]

    def by_ndimage(x, h):
        return ndimage.convolve(x.numpy(), h.numpy(), mode=NDIMAGE[padding], origin=origin)

    expected = by_ndimage(x, h)
    allowed = together(tolerance(x, h), sums(h.numel(), x.dtype))
    actual = convolve(x, h, "same", padding=padding)
    near(actual, expected, allowed, scale=by_ndimage(x.square(), h.square()) ** 0.5)


@modes
@pytest.mark.parametrize("padding, extend", [("circular", "wrap"), ("mirror", "reflect")])
@pytest.mark.parametrize("n, m", [(8, 3), (8, 8), (5, 4), (3, 10), (1, 4), (2, 6)])
def test_padding_in_every_mode(n, m, padding, extend, mode):
    x, h = random(n), random(m, seed=1)
    if mode == "valid":  # needs no extension, and takes the longer one first
        expected = np.convolve(x.numpy(), h.numpy(), "valid")
    else:
        extended = np.pad(x.numpy(), m - 1, extend if n > 1 else "edge")
        start, size = (0, n + m - 1) if mode == "full" else ((m - 1) // 2, n)
        expected = np.convolve(extended, h.numpy())[m - 1 + start :][:size]
    actual = convolve(x, h, mode, padding=padding)
    near(actual, expected, tolerance(x, h), scale=np.convolve(x**2, h**2) ** 0.5)


@pytest.mark.parametrize("padding", convolution.PADDINGS)
def test_kernels_with_paddings(padding):
    x, h = single(9, 12), single(3, 4, seed=1)
    expected = convolve(x.double(), h.double(), "same", padding=padding)
    with trnfft.backend("nki-sim"):
        near(convolve(x, h, "same", padding=padding), expected, tolerance(x, h))
        z = ComplexTensor(x, x.flip(0))
        near(convolve(z, h, "same", padding=padding).real, expected, tolerance(x, h))


@pytest.mark.weekly
@both
@pytest.mark.parametrize("n, m, dims", [(8000, 101, (1,)), sweeps.whole(300, 30, None)])
def test_kernels_of_priced_lengths(function, n, m, dims):
    assert_as_scipy(function, single(1, n), single(1, m, seed=1), dims=dims, backend="nki-sim")


@both
def test_dtypes(function):
    x, h = torch.tensor([1, 2, 3]), torch.tensor([True, False])
    assert function(x, h).dtype == torch.float32
    assert function(x.half(), h).dtype == function(x.bfloat16(), h).dtype == torch.float32
    assert function(x.double(), x.float()).dtype == torch.float64
    mixed = function(ComplexTensor(x.float(), x.float()), x.double())
    assert isinstance(mixed, ComplexTensor) and mixed.real.dtype == torch.float64
    near(function(x, h), [1, 2, 3, 0], transforms(8, 2))


@both
def test_a_batch_of_nothing(function):
    assert function(torch.ones(0, 8), torch.ones(1, 3), "same", -1).shape == (0, 8)


def test_blocks_are_short_where_the_filter_is():
    device = torch.device("cpu")
    assert convolution._block_size(2**20, 30, device) < 2**10
    assert convolution._block_size(100, 90, device) >= 189
    with trnfft.backend("matmul"):  # prices of the plans that trnfft ships
        assert 2**8 <= convolution._block_size(2**20, 30, device) <= 2**16


ERRORS = [
    ((torch.ones(3), [1.0]), {}, TypeError, "argument 'filter' is of type list"),
    ((3.0, torch.ones(3)), {}, TypeError, "argument 'input' is of type float"),
    (
        (torch.ones(3), torch.ones(3).to(torch.float8_e4m3fn)),
        {},
        TypeError,
        "argument 'filter' has dtype torch.float8_e4m3fn",
    ),
    ((torch.ones(3), torch.ones(3)), dict(mode="whole"), ValueError, "argument 'mode' is 'whole'"),
    (
        (torch.ones(3), torch.ones(3, device="meta")),
        {},
        ValueError,
        "argument 'filter' is on device 'meta' and argument 'input' on 'cpu'",
    ),
    ((torch.ones(3), torch.ones(3, 3)), {}, ValueError, "argument 'filter' has 2 dimensions"),
    ((torch.ones(()), torch.ones(())), {}, ValueError, "at least one"),
    ((torch.ones(3), torch.ones(0)), {}, ValueError, r"argument 'filter' has shape \(0,\)"),
    ((torch.ones(0, 2), torch.ones(1, 2)), {}, ValueError, r"argument 'input' has shape \(0, 2\)"),
    ((torch.ones(3), torch.ones(3)), dict(dims=1), IndexError, "argument 'dims' is 1"),
    ((torch.ones(3), torch.ones(3)), dict(dims=(0, -1)), ValueError, "distinct"),
    ((torch.ones(3), torch.ones(3)), dict(dims=()), ValueError, "at least one"),
    ((torch.ones(3), torch.ones(3)), dict(dims=0.5), TypeError, "argument 'dims' must be an int"),
    (
        (torch.ones(2, 3), torch.ones(3, 3)),
        dict(dims=1),
        ValueError,
        "argument 'filter' has size 3 along dimension 0 and argument 'input' 2",
    ),
    (
        (torch.ones(2, 3), torch.ones(3, 2)),
        dict(mode="valid"),
        ValueError,
        "argument 'mode' is 'valid'",
    ),
]


@both
@pytest.mark.parametrize("operands, options, error, message", ERRORS)
def test_errors(function, operands, options, error, message):
    with pytest.raises(error, match=message):
        function(*operands, **options)


def test_unknown_padding():
    with pytest.raises(ValueError, match="argument 'padding' is 'reflect', allowed are 'zero'"):
        convolve(torch.ones(3), torch.ones(3), padding="reflect")


# Of two transforms to spectra, one back, and a product.
KAHAN = together(*[MAX_ERRORS["kahan"]] * 3, sums(1))


@sweeps.pairs(backend=["matmul", "nki-sim"], padding=["zero", "circular"], mode=convolution.MODES)
def test_lengths_are_those_that_the_precision_has(backend, padding, mode):
    x, h = single(2, 61), single(1, 3, seed=1)
    if padding == "circular":  # circles as long as the input
        x = x[:, :32]
    with trnfft.backend(backend), trnfft.precision("kahan"):
        actual = convolve(x, h, mode, -1, padding)
    near(actual, convolve(x.double(), h.double(), mode, -1, padding), KAHAN)


@pytest.mark.weekly
@sweeps.some("mode", convolution.MODES, ["same"])
def test_long_operands_in_blocks_that_the_precision_has(mode):
    # Blocks of 8192 would be the cheapest of those that float32 alone has.
    x, h = single(1, 9000), single(1, 1000, seed=1)
    with trnfft.backend("nki-sim"), trnfft.precision("kahan"):
        actual = oaconvolve(x, h, mode, -1)
        with pytest.raises(NotImplementedError, match="N = "):
            convolve(x, h, mode, -1)
    near(actual, expected_of(oaconvolve, x, h, mode, (1,)), KAHAN)


def test_blocks_need_dimensions():
    x = torch.ones((1,) * 64)
    with pytest.raises(ValueError, match="arguments 'input' and 'filter' have 64 dimensions"):
        trnfft.oaconvolve(x, x, dims=(-1, -2))
