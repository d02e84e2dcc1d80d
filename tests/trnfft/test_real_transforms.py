"""Cosine and sine transforms, compared with scipy.fft in float64, on every backend.

test_scipy_backend.py compares them with all of scipy's lengths, axes, norms and matrices.
"""

import pytest
import scipy.fft
import torch

import nki_sim
import trnfft
from tests import sweeps
from tests.refusals import refused
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor

from .samples import BACKENDS, random, single

ONE = ["dct", "idct", "dst", "idst"]
MANY = [f"{name}n" for name in ONE]
TYPES = [1, 2, 3, 4]


def tolerance(x, dtype="float64", count=1):
    """Returns that of cosine or sine transforms of an array.

    Each is a Fourier transform of twice the length, which may be by Bluestein's algorithm, with
    products with phases before or after it.
    """
    points = 2 * x.numel()
    return together(transforms(4 * points, 2 * count, dtype), sums(2 * count, dtype))


def exact(name, x, *args, **kwargs):
    """Returns scipy.fft's transform in float64."""
    return getattr(scipy.fft, name)(x.double().numpy(), *args, **kwargs)


def is_defined(name, type, *lengths):
    """A DCT-I of one point is not."""
    return not (type == 1 and "dct" in name and 1 in lengths)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize(
    "lengths",
    [(*range(1, 13), 31, 32, 97, 100), sweeps.whole((*range(13, 65), 127, 500, 1021))],
    ids=["some", "others"],
)
def test_every_short_length_in_double_precision(lengths, name, type):
    for n in lengths:
        if is_defined(name, type, n):
            x = random(2, n)
            near(getattr(trnfft, name)(x, type), exact(name, x, type), tolerance(x))


@pytest.mark.weekly
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["dct", "dst"])
@pytest.mark.parametrize(
    "lengths",
    [(1, 2, 3, 4, 31), sweeps.whole((*range(5, 18), 64, 101, 256))],
    ids=["some", "others"],
)
def test_single_precision_on_every_backend(lengths, name, type, backend):
    for n in lengths:
        if is_defined(name, type, n):
            x = single(2, n)
            with trnfft.backend(backend):
                y = getattr(trnfft, name)(x, type)
            assert y.dtype == torch.float32
            near(y, exact(name, x, type), tolerance(x, "float32"))


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2), (3, 4, 2, 5)])
def test_signs_of_sines_along_several_dimensions(shape):
    x = random(*shape)
    near(trnfft.dstn(x, 1), exact("dstn", x, 1), tolerance(x))


@pytest.mark.parametrize("type", TYPES)
def test_complex_input_is_transformed_part_by_part(type):
    x = random(3, 8, dtype=torch.complex64)
    for z in (x, ComplexTensor.from_complex(x)):
        with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
            y = trnfft.dct(z, type, norm="ortho", orthogonalize=False)
        assert timeline.launches == 1
        for actual, part in ((y.real, x.real), (y.imag, x.imag)):
            options = dict(norm="ortho", orthogonalize=False)
            near(actual, exact("dct", part, type, **options), tolerance(x, "float32"))


def test_dtypes():
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.bool):
        x = torch.tensor([[1, 0, 1, 1]], dtype=dtype)
        y = trnfft.dct(x)
        assert y.dtype == torch.float32
        near(y, exact("dct", x), tolerance(x, "float32"))
    assert trnfft.dct(torch.ones(0, 4)).shape == (0, 4)
    x = random(2, 3)
    y = trnfft.dctn(x, axes=())
    assert torch.equal(y, x) and y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("n", [1, 16, *map(sweeps.whole, (7, 61, 100))])
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ONE)
def test_one_launch(name, type, n):
    if not is_defined(name, type, n):
        return
    x = single(3, n)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        getattr(trnfft, name)(x, type)
    assert timeline.launches == (1 if n > 1 or (type, name[-3:]) == (1, "dst") else 0)


@pytest.mark.parametrize("name", MANY)
def test_several_dimensions_in_one_launch_but_for_type_4(name):
    x = single(2, 6, 10)
    for type, launches in ((1, 1), (2, 1), (3, 1), (4, 2)):
        with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
            y = getattr(trnfft, name)(x, type, axes=(1, 2))
        assert timeline.launches == launches
        near(y, exact(name, x, type, axes=(1, 2)), tolerance(x, "float32"))


def test_types_2_and_3_have_the_plan_of_a_real_transform_of_their_length():
    x = single(4, 1000)
    times = []
    for function in (trnfft.rfft, trnfft.dct, trnfft.dst):
        with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
            function(x)
        times.append(timeline.total_ns)
    assert times[1] == times[2] == times[0]


@pytest.mark.parametrize("type", TYPES)
def test_gradients_on_the_simulator(type):
    x = single(2, 9).requires_grad_()
    weights = single(2, 9, seed=1)
    with trnfft.backend("nki-sim"):
        (actual,) = torch.autograd.grad((trnfft.dct(x, type) * weights).sum(), x)
    (expected,) = torch.autograd.grad((trnfft.dct(x, type) * weights).sum(), x)
    near(actual, expected, tolerance(x, "float32"))


# Errors

X = torch.ones(3, 4)


test_errors = refused(
    lambda name, arguments: getattr(trnfft, name)(**dict(dict(x=X), **arguments)),
    [
        ("dct", dict(type=5), ValueError, "'type' is 5, allowed are 1, 2, 3, 4"),
        ("dst", dict(type=2.0), TypeError, "'type'"),
        ("dct", dict(n=0), RuntimeError, "'n' is 0"),
        ("dct", dict(n=True), TypeError, "'n'"),
        ("dct", dict(n=1, type=1), RuntimeError, "2 or more for a DCT of type 1"),
        ("idct", dict(axis=2), IndexError, "'axis' is 2, allowed is -2 to 1"),
        ("dct", dict(norm="both"), RuntimeError, "'norm' is 'both'"),
        ("dct", dict(x=[1.0]), TypeError, "'x'"),
        ("dct", dict(x=torch.tensor(1.0)), IndexError, "no dimensions"),
        ("dct", dict(x=torch.ones(3, 0)), RuntimeError, "size 0"),
        ("dctn", dict(axes=(0, 0)), RuntimeError, "'axes' is .*distinct"),
        ("dstn", dict(axes=(0, 2)), IndexError, "'axes' is 2"),
        ("dctn", dict(s=(1, 2, 3)), RuntimeError, "'s' has 3 lengths"),
        ("dctn", dict(s=(1, 2), axes=0), RuntimeError, "'s' has 2 lengths and argument 'axes' 1"),
        ("dctn", dict(s=(0, 2)), RuntimeError, "'s'"),
        ("dct", dict(n=2**45), RuntimeError, "'n' is .*35184372088832.* which needs"),
        ("dct", dict(orthogonalize=torch.ones(2)), TypeError, "'orthogonalize'"),
        ("dst", dict(orthogonalize="no"), TypeError, "'orthogonalize' is 'no'"),
    ],
)


def test_the_type_may_be_a_tensor():
    assert torch.equal(trnfft.dct(X, torch.tensor(3)), trnfft.dct(X, 3))


def test_lengths_beyond_the_kernels_are_refused_before_any_work():
    with trnfft.backend("nki-sim"), pytest.raises(NotImplementedError):
        trnfft.dct(X, n=2**40)
