"""Transforms of real data, of several axes, and convolutions are one launch on "nki-sim"."""

import numpy as np
import pytest
import torch

import nki_sim
import trnfft
from tests import sweeps
from tests.operands import of_tensors
from tests.tolerances import near, sums, together, transforms
from trnfft.ops import convolution as ops_convolution
from trnfft.ops.convolution import convolve_images, convolve_rows, spectrum_for_images
from trnfft.planner.accuracy import MAX_ERRORS
from trnfft.planner.kinds import Convolution
from trnfft.planner.planner import plan_for

from ..samples import single
from .derivatives import all_near, gradients, in_double, second_derivatives

has_kernels = of_tensors(ops_convolution.has_kernels)


@pytest.fixture(autouse=True)
def simulated():
    with trnfft.backend("nki-sim"):
        yield


def assert_gradients(function, *leaves, n, sizes=(1, 1)):
    """Fails unless a function's result and gradients are as by torch.fft in float64.

    Args:
        n: length of the transforms: forward and inverse; two more for gradients of squares.
        sizes: how many products each gradient sums up behind its transforms.
    """
    tolerances = [transforms(n, 2), *(together(transforms(n, 4), sums(size)) for size in sizes)]
    found = gradients(function, *leaves, power=2)
    all_near(found, in_double(gradients, function, *leaves, power=2), tolerances)


def convolved(x, h, mode="full"):
    return trnfft.convolve(x, h, mode, dims=-1)


def in_float64(function, *arguments):
    """Returns the result of a function in float64, by torch.fft."""
    with trnfft.backend("torch"):
        return function(*(x.double() for x in arguments))


@pytest.mark.parametrize(
    "name, shape",
    [
        ("rfft", (3, 100)),
        ("rfft", (3, 1001)),
        ("irfft", (3, 51)),
        ("hfft", (3, 501)),
        ("ihfft", (3, 640)),
        ("fft2", (2, 12, 20)),
        ("ifftn", (4, 6, 10)),
        sweeps.whole("rfft2", (2, 15, 300)),
        ("irfft2", (2, 12, 151)),
        ("hfftn", (6, 5, 9)),
        ("ihfft2", (2, 9, 16)),
    ],
)
def test_one_launch(name, shape):
    x = single(*shape)
    with nki_sim.record() as timeline:
        y = getattr(trnfft, name)(x)
    assert timeline.launches == 1
    near(y, getattr(torch.fft, name)(x.double()), transforms(2 * x[0].numel()))


def test_dimensions_that_are_not_the_last_are_one_launch_too():
    x = single(6, 3, 10)
    with nki_sim.record() as timeline:
        y = trnfft.fftn(x, dim=(0, 2))
    assert timeline.launches == 1
    near(y, torch.fft.fftn(x.double(), dim=(0, 2)), transforms(60))


def test_shapes_without_a_kernel_are_a_launch_for_each_axis():
    x = single(257, 6)  # 257 is a prime: columns have no kernel for it
    with nki_sim.record() as timeline:
        y = trnfft.rfft2(x)
    assert timeline.launches == 2
    near(y, torch.fft.rfft2(x.double()), together(transforms(4 * 257, 2), transforms(6)))


@pytest.mark.weekly
@sweeps.some(
    "n, m, mode",
    [
        (*sizes, mode)
        for sizes in [(1000, 25), (240, 13), (100, 100), (40, 3)]
        for mode in ["full", "same", "valid"]
    ],
    [(100, 100, "full"), (40, 3, "same"), (40, 3, "valid")],
)
def test_convolutions_of_rows_are_one_launch_and_one_for_the_filter(n, m, mode):
    x, h = single(5, n), single(1, m, seed=1)
    with nki_sim.record() as timeline:
        convolved(x, h, mode)
    assert timeline.launches == 2
    assert_gradients(lambda x, h: convolved(x, h, mode), x, h, n=2 * n, sizes=(1, 5))


def test_padding_and_cropping_of_rows_move_nothing():
    x, h = single(4, 1000), single(1, 25, seed=1)
    with nki_sim.record() as whole:
        convolve_rows(torch.nn.functional.pad(x, (0, 24)), trnfft.rfft(h, 1024))
    with nki_sim.record() as timeline:
        y = convolve_rows(x, trnfft.rfft(h, 1024), 1024, 990)
    near(y, in_float64(convolved, x, h)[:, :990], transforms(1024, 2))
    assert whole.hbm_bytes - timeline.hbm_bytes == 4 * 4 * (24 + 34)


@pytest.mark.parametrize("filters", [2, 7])
def test_each_row_may_have_its_own_filter(filters):
    x, h = single(2, filters, 60), single(1, filters, 5, seed=1)
    near(convolved(x, h), in_float64(convolved, x, h), transforms(64, 2))


@pytest.mark.parametrize("n", [240, 512])  # planned otherwise for n rows, or for one
def test_rows_by_one_filter_take_the_time_that_is_planned(n):
    x, h = single(2, 2, n), trnfft.rfft(single(1, 1, n, seed=1))
    with nki_sim.record() as timeline:
        convolve_rows(x, h)
    plan = plan_for(Convolution((n,)), batch=4)
    assert plan.predicted_ns == pytest.approx(timeline.total_ns, abs=0.1)


def test_results_have_the_shapes_that_graphs_are_told():
    half = torch.fft.rfft(single(1, 3, 60, seed=1))
    rows = (single(2, 1, 50), half.real, half.imag, 60, 40, "nki-sim")
    h = spectrum_for_images(trnfft.rfft2(single(16, 20)))
    images = (single(3, 10, 12), h.real, h.imag, [16, 20], [13, 17], "nki-sim")
    for name, arguments in (("convolve_rows", rows), ("convolve_images", images)):
        operator = getattr(torch.ops.trnfft, name).default
        torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("part", [0, 1])
def test_one_part_of_a_spectrum_may_have_a_gradient(part):
    x, spectrum = single(3, 12), torch.fft.rfft(single(1, 12, seed=1))
    other = [spectrum.imag, spectrum.real][part]

    def filtered(one):
        pair = [one, other.to(one.dtype)] if part == 0 else [other.to(one.dtype), one]
        if one.dtype == torch.float32:
            return convolve_rows(x, trnfft.ComplexTensor(*pair))
        return torch.fft.irfft(torch.fft.rfft(x.double()) * torch.complex(*pair), 12)

    assert_gradients(filtered, [spectrum.real, spectrum.imag][part], n=12, sizes=(3,))


def test_one_filter_of_many_planes_has_the_gradient_of_all():
    x, h = single(2, 3, 20), single(1, 1, 5, seed=1)
    assert_gradients(convolved, x, h, n=32, sizes=(1, 6))


def test_kernels_take_float32_under_fast_where_there_is_something_to_compute():
    for x in (single(2, 8), single(1)):
        assert has_kernels(x) and has_kernels(x, x)
    for x in (single(0, 8), single(2, 8).double()):
        assert not has_kernels(x) and not has_kernels(single(2, 8), x)
    for mode in ("kahan", "bf16"):
        with trnfft.precision(mode):
            assert not has_kernels(single(2, 8))
    for name in ("torch", "matmul"):
        with trnfft.backend(name):
            assert not has_kernels(single(2, 8))


def test_second_derivatives_and_vmap():
    x, h = single(3, 40), single(1, 7, seed=1)

    def cubes(x):
        return convolved(x, h.to(x.dtype)) ** 3

    found = second_derivatives(cubes, x)
    expected = in_double(second_derivatives, cubes, x)
    all_near(found, expected, [transforms(64, 6), transforms(64, 12)])
    batched = torch.func.vmap(lambda row: trnfft.convolve(row, h[0]))(x)
    near(batched, in_float64(convolved, x, h), transforms(64, 2))


ROWS, IMAGES = single(2, 12), single(2, 8, 9)
FILTER, IMAGE_FILTER = single(5, seed=1), single(3, 3, seed=1)
CONVOLUTIONS = {
    "rows": (lambda x, h: trnfft.convolve(x, h, dims=-1), ROWS, FILTER),
    "images": (trnfft.bloom, IMAGES, IMAGE_FILTER),
}
TRANSFORMS = {
    "jvp of the data": lambda f, x, h: torch.func.jvp(lambda x: f(x, h), (x,), (x + 1,))[1],
    "jvp of the filter": lambda f, x, h: torch.func.jvp(lambda h: f(x, h), (h,), (h + 1,))[1],
    "jvp of both": lambda f, x, h: torch.func.jvp(f, (x, h), (x + 1, h + 1))[1],
    "jacfwd": lambda f, x, h: torch.func.jacfwd(f, 1)(x, h),
    "jacrev": lambda f, x, h: torch.func.jacrev(lambda x: f(x, h).sum(0))(x),
    "hessian": lambda f, x, h: torch.func.hessian(lambda h: f(x, h).pow(3).sum())(h),
    "vmap of the data": lambda f, x, h: torch.func.vmap(lambda x: f(x, h))(torch.stack([x, x + 1])),
    "vmap of the filter": lambda f, x, h: torch.func.vmap(lambda h: f(x, h))(
        torch.stack([h, h + 1])
    ),
    "vmap of both": lambda f, x, h: torch.func.vmap(f)(
        torch.stack([x, x + 1]), torch.stack([h, h + 1])
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_functional_transforms_of_the_kernels(kind, transform):
    run = TRANSFORMS[transform]
    with trnfft.backend("torch"):
        expected = run(*CONVOLUTIONS[kind])
    with trnfft.backend("nki-sim"):
        near(run(*CONVOLUTIONS[kind]), expected, 16 * transforms(144))


@sweeps.some(
    "channels, padding",
    [(channels, padding) for channels in (1, 3) for padding in ("zero", "mirror")],
    [(1, "mirror"), (3, "zero")],
)
def test_bloom_is_one_launch(channels, padding):
    image = single(3, 20, 25)
    psf = single(channels, 9, 8, seed=1).abs()
    psf = psf[0] if channels == 1 else psf
    bloom = trnfft.BloomFilter(psf, (20, 25), padding=padding)
    bloom(image)  # puts the filter's spectrum in the order of the stages
    with nki_sim.record() as timeline:
        bloom(image, 0.7)
    assert timeline.launches == 1

    def bloomed(x):
        if x.dtype == torch.float32:
            return bloom(x, 0.7)
        return trnfft.bloom(x, psf.double(), strength=0.7, padding=padding)

    assert_gradients(bloomed, image, n=4096, sizes=(1,))


def test_gradients_of_the_psf_take_the_way_of_several_launches():
    image, psf = single(10, 12), single(3, 3, seed=1)
    assert_gradients(lambda psf: trnfft.bloom(image.to(psf.dtype), psf), psf, n=256, sizes=(120,))


def test_spectra_without_a_kernel_for_their_columns_say_so():
    with pytest.raises(NotImplementedError, match="columns of 257 points"):
        spectrum_for_images(trnfft.rfft(single(257, 8)))


def test_results_may_be_larger_than_images():
    image, psf = single(1, 10, 12), single(16, 20, seed=1)
    spectrum = trnfft.ComplexTensor.from_complex(torch.fft.rfft2(psf))
    y = convolve_images(image, spectrum_for_images(spectrum), (16, 20), (16, 20))
    whole = np.fft.rfft2(image.double().numpy(), (16, 20)) * np.fft.rfft2(psf.double().numpy())
    near(y, np.fft.irfft2(whole, (16, 20)), transforms(320, 2))


@pytest.mark.parametrize("n", [9, 10, 45])
def test_gradients_of_a_spectrum_of_rows(n):
    x, spectrum = single(3, n), torch.fft.rfft(single(1, n, seed=1))

    def filtered(real, imag):
        if real.dtype == torch.float32:
            return convolve_rows(x, trnfft.ComplexTensor(real, imag))
        return torch.fft.irfft(torch.fft.rfft(x.double()) * torch.complex(real, imag), n)

    assert_gradients(filtered, spectrum.real, spectrum.imag, n=n, sizes=(3, 3))


@pytest.mark.parametrize(
    "precision, launches", [("fast", 2), ("kahan", 3), ("bf16_refined", 3), ("bf16", 3)]
)
def test_only_fast_rows_are_convolved_by_the_kernel(precision, launches):
    """A convolution is two transforms, each of which keeps what the precision promises."""
    x, h = single(2, 100), single(1, 29, seed=1)
    with trnfft.precision(precision), nki_sim.record() as timeline:
        y = convolved(x, h)
    assert timeline.launches == launches
    near(y, in_float64(convolved, x, h), together(*[MAX_ERRORS[precision]] * 3))
