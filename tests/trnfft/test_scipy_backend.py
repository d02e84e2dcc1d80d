"""scipy.fft with trnfft as its backend, compared with scipy.fft with its own."""

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, together, transforms

from .samples import NORMS

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TWO = [f"{name}2" for name in ONE]
MANY = [f"{name}n" for name in ONE]


def takes_complex(name):
    return not name.startswith(("rfft", "ihfft"))


def data(name, *shape, dtype=None):
    random = np.random.default_rng(0)
    x = random.standard_normal(shape)
    if takes_complex(name):
        x = x + 1j * random.standard_normal(shape)
    return x if dtype is None else x.astype(dtype)


def assert_as_scipy(name, x, *args, phase=0.0, **kwargs):
    """Compares kind, dtype and values; both round phases of factors up to `phase` in float64."""
    function = getattr(scipy.fft, name)
    expected = function(x, *args, **kwargs)
    with scipy.fft.set_backend(trnfft.scipy_backend, only=True):
        actual = function(x, *args, **kwargs)
    assert isinstance(actual, np.ndarray)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    tolerance = transforms(4 * np.size(x), 2, expected.dtype)
    near(actual, expected, together(tolerance, phase * sums(1, "float64")))


# Shapes of inputs, and lengths and axes by position, of which scipy takes many forms.
CALLS = {
    1: [
        (shape, (n, axis))
        for shape, axis in (((6,), -1), ((4, 5), 0), ((3, 4, 5), 1), ((3, 4, 5), -1))
        for n in (None, 1, 2, 5, 8)
    ],
    2: [
        ((3, 4, 5), (s, axes))
        for axes in ((-2, -1), (0, 2), (2, 0))
        for s in (None, [3, 4], (5, -1), (-1, 7))
    ],
    3: [
        *[(shape, (None, None)) for shape in ((5,), (4, 5), (2, 4, 5))],
        *[
            ((3, 4, 5), call)
            for call in (
                *[(None, (0, 1)), (None, [2, 0, 1]), (None, -2), ((4, 6), None), ((6,), None)],
                *[(6, None), ((4, -1), None), ((2, 3), (1, 0)), (-1, 1)],
                (np.array([3, 4]), np.array([0, 1])),
            )
        ],
    ],
}


@sweeps.pairs(name=ONE, dimensions=CALLS, norm=NORMS)
def test_lengths_axes_and_norms(name, dimensions, norm):
    name += {1: "", 2: "2", 3: "n"}[dimensions]
    names = ("n", "axis") if dimensions == 1 else ("s", "axes")
    for shape, call in CALLS[dimensions]:
        x = data(name, *shape)
        assert_as_scipy(name, x, *call, norm)
        assert_as_scipy(name, x, norm=norm, **dict(zip(names, call, strict=True)))


@pytest.mark.parametrize("name", ONE + TWO + MANY)
def test_dtypes(name):
    real = [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_, ">f8", ">f4"]
    for dtype in real + ([np.complex64, np.complex128, ">c8"] if takes_complex(name) else []):
        with np.errstate(all="ignore"):
            x = (4 * data(name, 3, 6)).real.astype(dtype)
        assert_as_scipy(name, x)
    assert_as_scipy(name, [[1, 2, 3], [4, 6, 5]])


@pytest.mark.parametrize("name", ONE + TWO + MANY)
def test_ignored_arguments(name):
    x = data(name, 4, 6)
    before = x.copy()
    assert_as_scipy(name, x, workers=2)
    with scipy.fft.set_backend(trnfft.scipy_backend, only=True):
        function = getattr(scipy.fft, name)
        expected = function(x)
        assert np.array_equal(function(x, overwrite_x=True, workers=-1), expected)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("name", ["fft", "irfftn", "rfft2"])
def test_arguments_that_scipy_refuses(name):
    x, function = data(name, 4, 6), getattr(scipy.fft, name)
    for options, error in (
        ({"plan": object()}, NotImplementedError),
        ({"workers": 0}, ValueError),
        ({"workers": -10000}, ValueError),
        ({"workers": "two"}, TypeError),
    ):
        with pytest.raises(error):
            function(x, **options)
        with (
            scipy.fft.set_backend(trnfft.scipy_backend, only=True),
            pytest.raises(error, match="plan|workers|integer"),
        ):
            function(x, **options)


def test_layouts_and_read_only_memory():
    x = data("fft", 4, 6, 5)
    x.flags.writeable = False
    packed = np.zeros(5, np.dtype([("pad", "i1"), ("x", "c16")]))
    packed["x"] = x[0, 0]
    for view in (x, x[::-1, ::2], x.T, x[:, 0], np.asfortranarray(x), packed["x"]):
        assert_as_scipy("fft", view)
        assert_as_scipy("fftn", view)
    assert_as_scipy("fftn", x, axes=())
    assert_as_scipy("fftn", x.real, axes=())
    assert_as_scipy("fft", x[:0])


@pytest.mark.parametrize("is_complex", [False, True])
def test_signal_processing_above_it(is_complex):
    a, b = data("fft" if is_complex else "rfft", 2, 20, 30), data("rfft", 2, 5, 7)
    expected = scipy.signal.convolve(a[0], b[0], method="direct")
    convolution = together(transforms((24, 36), 2, "float64"), sums(1, "float64"))
    with scipy.fft.set_backend(trnfft.scipy_backend, only=True):
        near(scipy.signal.fftconvolve(a[0], b[0]), expected, convolution)
        convolved = scipy.signal.fftconvolve(a, b, mode="same", axes=(1, 2))
    near(convolved, scipy.signal.fftconvolve(a, b, mode="same", axes=(1, 2)), convolution)


SINES = ["dct", "idct", "dst", "idst"]


@sweeps.pairs(name=SINES, type=[1, 2, 3, 4], norm=NORMS, orthogonalize=[None, False, True])
def test_options_of_cosine_and_sine_transforms(name, type, norm, orthogonalize):
    x = data("rfft", 3, 4, 5)
    options = dict(norm=norm, orthogonalize=orthogonalize)
    for n, axis in ((None, -1), (3, 1), (8, 0)):
        assert_as_scipy(name, x, type, n, axis, **options)
    for s, axes in ((None, None), ((4, -1), None), (6, 1), ((2, 3), [1, 0]), (None, ())):
        assert_as_scipy(f"{name}n", x, type, s, axes, **options)


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", SINES)
def test_cosine_and_sine_transforms(name, type):
    x = data("rfft", 3, 4, 5)
    for dtype in (np.float16, np.float32, np.int8, ">f8", np.complex64, np.complex128):
        assert_as_scipy(name, (4 * x).astype(dtype), type, workers=2)
    assert_as_scipy(name, [[1, 2, 3], [4, 6, 5]], type)
    before = x.copy()
    with scipy.fft.set_backend(trnfft.scipy_backend, only=True):
        getattr(scipy.fft, name)(x, type, overwrite_x=True)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("name", ["fht", "ifht"])
def test_hankel_transforms(name):
    x = data("rfft", 3, 16)
    for dtype in (np.float16, np.float32, np.float64, np.int8):
        assert_as_scipy(name, (4 * x).astype(dtype), 0.1, 0.5, phase=100)
    assert_as_scipy(name, x, 0.1, 0.5, offset=0.2, bias=-0.3, phase=100)
    assert_as_scipy(name, [1, 2, 3], dln=0.1, mu=1, phase=100)


def test_what_is_left_to_scipy():
    x = data("rfft", 8).astype("longdouble")
    for function in (scipy.fft.dct, scipy.fft.dst, scipy.fft.fft):
        expected = function(x)
        with scipy.fft.set_backend(trnfft.scipy_backend):
            actual = function(x)
        assert actual.dtype == expected.dtype
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize(
    "name, args",
    [
        ("rfft", (np.ones(4) * 1j,)),
        ("ihfftn", (np.ones(4) * 1j,)),
        ("fft", (np.ones(4), 0)),
        ("fft", (np.ones(4), None, 1)),
        ("fft", (np.ones(4), None, -1, "both")),
        ("fft", (np.ones((2, 0)),)),
        ("irfft", (np.ones(1),)),
        ("fft", (np.float64(1),)),
        ("fft2", (np.ones(4),)),
        ("fftn", (np.ones((2, 3)), None, (0, 0))),
        ("fftn", (np.ones((2, 3)), None, (0, 2))),
        ("irfftn", (np.ones((2, 3)), (-1,), (2,))),
        ("fftn", (np.ones((2, 3)), (1, 2, 3))),
        ("fftn", (np.ones((2, 3)), (1, 2), (0,))),
        ("rfftn", (np.ones((2, 3)), None, ())),
        ("fftn", (["a"],)),
        ("dct", (np.ones(4), 5)),
        ("dst", (np.ones(4), 2.0)),
        ("idct", (np.ones(4), 2, 0)),
        ("dct", (np.ones(4), 2, None, 1)),
        ("dct", (np.ones(4), 2, None, -1, "both")),
        ("dctn", (np.ones((2, 3)), 2, None, (0, 0))),
        ("idstn", (np.ones((2, 3)), 2, None, (0, 2))),
        ("dstn", (np.ones((2, 3)), 2, (1, 2, 3))),
        ("dctn", (np.ones((2, 3)), 2, "8", ())),
        ("fht", (np.ones(4) * 1j, 0.1, 0.5)),
        ("fht", (np.float64(1), 0.1, 0.5)),
    ],
)
def test_errors_as_scipy(name, args):
    function = getattr(scipy.fft, name)
    with pytest.raises(Exception) as expected:
        function(*args)
    backend = scipy.fft.set_backend(trnfft.scipy_backend, only=True)
    with backend, pytest.raises(Exception) as actual:
        function(*args)
    assert actual.type is expected.type


def test_errors_of_the_backend_are_passed_on():
    backend = scipy.fft.set_backend(trnfft.scipy_backend, only=True)
    with trnfft.backend("nki-sim"), backend, pytest.raises(TypeError, match="float64"):
        scipy.fft.fft(np.ones(4))


@pytest.mark.parametrize("name", ["fft", "fftn"])
def test_what_the_backend_cannot_do_is_no_mistake_of_the_caller(name):
    x = np.ones(61, np.complex64)
    with (
        trnfft.backend("nki-sim"),
        trnfft.precision("kahan"),
        scipy.fft.set_backend(trnfft.scipy_backend, only=True),
        pytest.raises(NotImplementedError, match="N = 61"),
    ):
        getattr(scipy.fft, name)(x)


@pytest.fixture
def globally():
    """trnfft is the backend of the whole process."""
    scipy.fft.set_global_backend(trnfft.scipy_backend)
    yield
    scipy.fft.set_global_backend("scipy")


def test_as_global_backend_what_trnfft_lacks_is_by_scipy(globally):
    x = np.random.default_rng(0).standard_normal((3, 8))
    long = scipy.fft.fft(x.astype(np.longdouble))
    cosines = scipy.fft.dct(x.astype(np.longdouble))
    with scipy.fft.set_backend("scipy"):
        assert long.dtype == scipy.fft.fft(x.astype(np.longdouble)).dtype == np.clongdouble
        assert np.array_equal(cosines, scipy.fft.dct(x.astype(np.longdouble)))
    near(scipy.fft.rfft(x), np.fft.rfft(x), transforms(8, dtype="float64"))


def test_what_trnfft_lacks_is_by_other_backends_first():
    class Other:
        __ua_domain__ = "numpy.scipy.fft"

        @staticmethod
        def __ua_function__(method, args, kwargs):
            return "other"

    with scipy.fft.set_backend(Other), scipy.fft.set_backend(trnfft.scipy_backend):
        assert scipy.fft.dct(np.ones(4, np.longdouble)) == "other"
        assert scipy.fft.fft(np.ones(4))[0] == 4


def test_errors_of_scipy_stay(globally):
    with pytest.raises(ValueError):
        scipy.fft.dct(np.ones(4), type=9)
    with pytest.raises(TypeError):
        scipy.fft.dct(np.ones(4), nonsense=1)
