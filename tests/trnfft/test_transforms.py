"""fft and ifft on both backends: values of float64 NumPy, behaviour of torch.fft."""

import itertools

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

from .samples import NORMS, random_complex

BACKENDS = ["torch", "nki-sim"]
PAIRS = [(trnfft.fft, torch.fft.fft), (trnfft.ifft, torch.fft.ifft)]
NUMPY = {trnfft.fft: np.fft.fft, trnfft.ifft: np.fft.ifft}

both_directions = pytest.mark.parametrize("ours, theirs", PAIRS, ids=["fft", "ifft"])
direction = st.sampled_from([trnfft.fft, trnfft.ifft])
lengths = st.integers(1, 300)
seeds = st.integers(0, 2**32 - 1)


def check(actual, expected, n, count=1):
    """Compares complex values after transforms of n points, also by Bluestein's algorithm."""
    assert actual.is_complex()
    near(actual, expected, transforms(4 * n, 2 * count, actual.dtype))


# Values


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 16, 17, 64, 97, 100, 128, 243, 256, 1000])
@both_directions
def test_values_against_numpy(ours, theirs, n):
    z = random_complex(3, n, seed=n)
    expected = NUMPY[ours](z.numpy())
    check(ours(z), expected, n)
    check(ours(z.to(torch.complex64)), expected, n)
    check(ours(z.real), NUMPY[ours](z.real.numpy()), n)


@sweeps.pairs(functions=PAIRS, dim=[0, 1, 2, -1, -2, -3], norm=NORMS)
def test_every_length_dimension_and_norm(functions, dim, norm):
    ours, theirs = functions
    z = random_complex(4, 5, 6)
    for n in (None, 1, 2, 4, 5, 6, 9):
        expected = theirs(z, n, dim, norm)
        check(ours(z, n, dim, norm), expected, 9)


def test_arguments_by_keyword_and_as_integer_likes():
    z = random_complex(4, 5)
    expected = torch.fft.fft(z, n=3, dim=0, norm="ortho")
    actual = trnfft.fft(input=z, n=np.int64(3), dim=torch.tensor(0), norm="ortho")
    check(actual, expected, 3)


@pytest.mark.parametrize(
    "dtype, result",
    [
        (torch.bool, torch.complex64),
        (torch.uint8, torch.complex64),
        (torch.int64, torch.complex64),
        (torch.float32, torch.complex64),
        (torch.float64, torch.complex128),
        (torch.complex64, torch.complex64),
        (torch.complex128, torch.complex128),
    ],
)
@both_directions
def test_dtypes_as_torch(ours, theirs, dtype, result):
    x = torch.tensor([[1, 0, 3, 2]]).to(dtype)
    assert theirs(x).dtype == result
    assert ours(x).dtype == result
    check(ours(x), theirs(x), 4)


@both_directions
def test_integers_become_the_default_dtype(ours, theirs):
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        assert ours(torch.arange(3)).dtype == theirs(torch.arange(3)).dtype == torch.complex128
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_and_returned_in_float32(dtype, backend):
    z = random_complex(2, 16)
    x = ComplexTensor(z.real.to(dtype), z.imag.to(dtype))
    with trnfft.backend(backend):
        actual = trnfft.fft(x)
        assert trnfft.fft(x.real).dtype == torch.complex64
    assert actual.real.dtype == torch.float32
    expected = np.fft.fft(trnfft.as_native(x.to(torch.float64)).numpy())
    near(actual, expected, transforms(16))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_native_complex32():
    z = random_complex(8).to(torch.complex32)
    near(trnfft.fft(z), np.fft.fft(z.to(torch.complex128).numpy()), transforms(8))


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_of_any_layout(backend):
    z = random_complex(6, 5, 4, dtype=torch.complex64)
    kinds = [
        z.transpose(0, 2),
        z[::2, :, 1:],
        z.conj(),
        z.imag,
        z.conj().imag,
        z[:, :1].expand(6, 7, 4),
    ]
    with trnfft.backend(backend):
        for view, dim in itertools.product(kinds, range(3)):
            expected = np.fft.fft(view.resolve_conj().resolve_neg().numpy(), axis=dim)
            check(trnfft.fft(view, dim=dim), expected, view.shape[dim])


@pytest.mark.parametrize("backend", BACKENDS)
@both_directions
def test_input_is_left_alone_and_shares_no_memory(ours, theirs, backend):
    for n in (1, 4):
        x = ComplexTensor.from_complex(random_complex(2, n, dtype=torch.complex64))
        before = trnfft.as_native(x)
        with trnfft.backend(backend):
            y = ours(x)
        y.real.fill_(7)
        y.imag.fill_(7)
        assert torch.equal(trnfft.as_native(x), before)


@pytest.mark.parametrize("backend", BACKENDS)
@both_directions
def test_empty_batches(ours, theirs, backend):
    with trnfft.backend(backend):
        for shape, dim in (((0, 3), -1), ((3, 0), 0), ((2, 0, 5), 2)):
            x = torch.zeros(shape, requires_grad=True)
            y = ours(x, dim=dim)
            assert y.shape == shape
            y.real.sum().backward()
            assert x.grad.shape == shape
        assert ours(torch.zeros(0, 3), n=5).shape == (0, 5)
        assert torch.equal(trnfft.as_native(ours(torch.zeros(3, 0), n=4)), torch.zeros(3, 4) * 1j)


def test_meta_tensors_have_shapes():
    y = trnfft.fft(torch.empty(2, 6, device="meta"), n=5)
    assert (y.shape, y.device.type, y.dtype) == ((2, 5), "meta", torch.complex64)


# Properties


@given(direction, lengths, seeds, st.sampled_from(NORMS), st.complex_numbers(max_magnitude=1e3))
@settings(deadline=None, max_examples=30)
def test_linearity(transform, n, seed, norm, factor):
    x, y = random_complex(2, n, seed=seed)
    combined = transform(x * factor + y, norm=norm)
    separate = transform(x, norm=norm) * factor + transform(y, norm=norm)
    scale = torch.stack([separate, transform(x, norm=norm) * factor, transform(y, norm=norm)])
    near(combined, separate, transforms(4 * n, 4, "float64"), scale=scale)


@given(direction, lengths, seeds)
@settings(deadline=None, max_examples=30)
def test_parseval(transform, n, seed):
    x = random_complex(n, seed=seed)
    energy = transform(x, norm="ortho").abs().square().sum()
    near(energy, x.abs().square().sum(), 2 * transforms(4 * n, 2, "float64"))


@given(lengths, seeds, st.integers(-1000, 1000))
@settings(deadline=None, max_examples=30)
def test_shift_theorem(n, seed, shift):
    x = random_complex(n, seed=seed)
    phase = np.exp(-2j * np.pi * (np.arange(n) * shift % n) / n)
    expected = trnfft.fft(x) * torch.from_numpy(phase)
    check(trnfft.fft(x.roll(shift)), expected, n, 2)


@given(lengths, seeds, st.sampled_from(NORMS))
@settings(deadline=None, max_examples=30)
def test_round_trip(n, seed, norm):
    x = random_complex(n, seed=seed)
    check(trnfft.ifft(trnfft.fft(x, norm=norm), norm=norm), x, n, 2)
    check(trnfft.fft(trnfft.ifft(x, norm=norm), norm=norm), x, n, 2)


@given(lengths, seeds)
@settings(deadline=None, max_examples=30)
def test_spectra_of_real_input_are_hermitian(n, seed):
    y = trnfft.fft(random_complex(n, seed=seed).real)
    mirrored = y[-torch.arange(n) % n].conj()
    check(y, mirrored, n, 2)


# Errors

X = torch.ones(4, 6)
SCALAR = torch.tensor(1.0)
WRONG_CALLS = {
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
    "no dimension": (SCALAR, dict(), "no dimensions"),
    "no dimension with dim": (SCALAR, dict(dim=0), "no dimensions"),
    "no dimension with n": (SCALAR, dict(n=0, dim=5), "no dimensions"),
    "size zero": (torch.ones(3, 0), dict(), "size 0"),
    "size zero alone": (torch.ones(0), dict(), "size 0"),
    "empty batch and norm": (torch.ones(0, 3), dict(norm="bad"), "'norm' is 'bad'"),
    "8-bit float": (torch.ones(2).to(torch.float8_e4m3fn), dict(), "'input'.*float8_e4m3fn"),
    "sparse": (torch.eye(3).to_sparse(), dict(), "'input' has the layout torch.sparse_coo"),
    "list": ([1.0, 2.0], dict(), "'input'.*list"),
    "array": (np.ones(2), dict(), "'input'.*ndarray"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_errors_are_of_the_types_of_torch(name):
    x, arguments, message = WRONG_CALLS[name]
    for ours, theirs in PAIRS:
        with pytest.raises(Exception) as expected:  # noqa: PT011, B017
            theirs(x, **arguments)
        with pytest.raises(expected.type, match=message) as actual:
            ours(x, **arguments)
        assert actual.type is expected.type


# Derivatives


@pytest.mark.parametrize("norm", ["ortho", *map(sweeps.whole, (None, "backward", "forward"))])
@both_directions
def test_derivatives_of_the_torch_backend(ours, theirs, norm):
    def function(real, imag):
        y = ours(ComplexTensor(real, imag), n=4, dim=0, norm=norm)
        return y.real, y.imag

    inputs = [random_complex(3, 2).real.requires_grad_(), random_complex(5, 2)[:3].imag]
    inputs[1] = inputs[1].resolve_neg().clone().requires_grad_()
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def loss(y):
    """Returns a nonlinear function of both parts, whose derivatives of all orders depend on `y`."""
    return (y.real**3 + y.real * y.imag**2 + y.imag).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@both_directions
def test_gradients_are_those_of_torch(ours, theirs, backend):
    z = random_complex(3, 8, dtype=torch.complex64)
    mine, reference = z.clone().requires_grad_(), z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(
        loss(theirs(reference, norm="ortho")), reference, create_graph=True
    )
    with trnfft.backend(backend):
        result = loss(ours(mine, norm="ortho"))
    # Outside the block: the backward pass runs on the backend of its forward pass.
    (actual,) = torch.autograd.grad(result, mine, create_graph=True)
    near(actual, expected, transforms(8, 6))  # the loss has cubes
    actual.abs().pow(2).sum().backward()
    expected.abs().pow(2).sum().backward()
    near(mine.grad, reference.grad, transforms(8, 12))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_real_input_and_of_one_part(backend):
    x = random_complex(2, 8).real.float().requires_grad_()
    with trnfft.backend(backend):
        trnfft.fft(x).imag[:, 1].sum().backward()
    expected = -torch.sin(2 * torch.pi * torch.arange(8) / 8).expand(2, 8)
    near(x.grad, expected, transforms(8))


# The simulated kernel


@sweeps.some(
    "n",
    [1, 2, 3, 8, 31, 64, 100, 128, 129, 255, 256, 257, 1000, 1024],
    [1, 2, 3, 31, 64, 128, 129, 256, 257],
)
@both_directions
def test_simulated_values_against_torch(ours, theirs, n):
    z = random_complex(3, n, seed=n)
    with trnfft.backend("nki-sim"):
        actual = ours(z.to(torch.complex64))
    assert actual.dtype == torch.complex64
    check(actual, theirs(z.to(torch.complex64).to(torch.complex128)), n)


@pytest.mark.parametrize("shape", [(16,), (1, 16), (130, 16), (2, 3, 5, 16)])
@pytest.mark.parametrize("norm", NORMS)
def test_simulated_batches_and_norms_against_torch(shape, norm):
    z = random_complex(*shape, dtype=torch.complex64)
    with trnfft.backend("nki-sim"):
        actual = trnfft.ifft(z, norm=norm)
    near(actual, torch.fft.ifft(z.to(torch.complex128), norm=norm), transforms(16))


def test_the_simulator_has_no_float64():
    with trnfft.backend("nki-sim"), pytest.raises(TypeError, match=r"float64.*\.float\(\).*torch"):
        trnfft.fft(torch.ones(4, dtype=torch.float64))


def test_the_simulator_has_lengths_that_no_kernel_can_do():
    with trnfft.backend("nki-sim"):
        trnfft.fft(torch.ones(5000), n=256)
        with pytest.raises(NotImplementedError, match=r"N = 5000011 .*set_precision"):
            trnfft.fft(torch.ones(1), n=5000011)


def test_the_operator_is_a_scaled_sum():
    x = random_complex(2, 5)
    for inverse, scale in itertools.product((False, True), (1.0, -0.3)):
        real, imag = torch.ops.trnfft.c2c(x.real, x.imag, inverse, scale)
        expected = (np.fft.ifft(x) * 5 if inverse else np.fft.fft(x)) * scale
        near(torch.complex(real, imag), expected, transforms(5, dtype="float64"))


# Tables


def test_matrices_are_computed_once_and_read_only():
    from trnfft.planner import tables

    matrix = tables.dft_matrix(8, inverse=True, scale=0.125)
    assert matrix.dtype == np.float32
    assert tables.dft_matrix(8, True, 0.125) is matrix
    assert tables.dft_matrix(8, True) is not matrix
    with pytest.raises(ValueError, match="read-only"):
        matrix[0] = 0


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
