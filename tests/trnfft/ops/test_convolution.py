"""Transforms of real data, of several axes, and convolutions are one launch on "nki-sim"."""

import numpy as np
import pytest
import torch

import nki_sim
import trnfft
from tests import sweeps
from trnfft.ops.convolution import (
    convolve_images,
    convolve_rows,
    has_kernels,
    spectrum_for_images,
)
from trnfft.planner.planner import plan_convolution

from ..samples import single


@pytest.fixture(autouse=True)
def simulated():
    with trnfft.backend("nki-sim"):
        yield


def relative(actual, expected):
    return ((actual.double() - expected).norm() / expected.norm()).item()


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
    expected = getattr(torch.fft, name)(x.double())
    y = trnfft.as_native(y).to(torch.complex128) if expected.is_complex() else y.double()
    assert ((y - expected).norm() / expected.norm()).item() < 1e-6


def test_dimensions_that_are_not_the_last_are_one_launch_too():
    x = single(6, 3, 10)
    with nki_sim.record() as timeline:
        y = trnfft.fftn(x, dim=(0, 2))
    assert timeline.launches == 1
    expected = torch.fft.fftn(x.double(), dim=(0, 2))
    assert (trnfft.as_native(y) - expected).abs().max() < 1e-5


def test_shapes_without_a_kernel_are_a_launch_for_each_axis():
    x = single(257, 6)  # 257 is a prime: columns have no kernel for it
    with nki_sim.record() as timeline:
        y = trnfft.rfft2(x)
    assert timeline.launches == 2
    assert (trnfft.as_native(y) - torch.fft.rfft2(x.double())).abs().max() < 1e-4


@sweeps.some(
    "n, m, mode",
    [
        (*sizes, mode)
        for sizes in [(1000, 25), (240, 13), (100, 100), (40, 3), (900, 200)]
        for mode in ["full", "same", "valid"]
    ],
    [(240, 13, "valid"), (100, 100, "full"), (40, 3, "same"), (40, 3, "valid")],
)
def test_convolutions_of_rows_are_one_launch_and_one_for_the_filter(n, m, mode):
    x, h = single(5, n).requires_grad_(), single(1, m, seed=1).requires_grad_()
    with nki_sim.record() as timeline:
        y = trnfft.convolve(x, h, mode, dims=-1)
    assert timeline.launches == 2
    with trnfft.backend("torch"):
        expected = trnfft.convolve(x.double(), h.double(), mode, dims=-1)
    assert relative(y, expected) < 1e-6
    gradients = torch.autograd.grad((y**2).sum(), (x, h))
    references = torch.autograd.grad((expected**2).sum(), (x, h))
    for actual, reference in zip(gradients, references, strict=True):
        assert relative(actual, reference) < 2e-6


def test_padding_and_cropping_of_rows_move_nothing():
    x, h = single(4, 1000), single(1, 25, seed=1)
    with nki_sim.record() as whole:
        convolve_rows(torch.nn.functional.pad(x, (0, 24)), trnfft.rfft(h, 1024))
    with nki_sim.record() as timeline:
        y = convolve_rows(x, trnfft.rfft(h, 1024), 1024, 990)
    with trnfft.backend("torch"):
        assert relative(y, trnfft.convolve(x.double(), h.double(), dims=-1)[:, :990]) < 1e-6
    assert whole.hbm_bytes - timeline.hbm_bytes == 4 * 4 * (24 + 34)


@pytest.mark.parametrize("filters", [2, 7])
def test_each_row_may_have_its_own_filter(filters):
    x, h = single(2, filters, 60), single(1, filters, 5, seed=1)
    with trnfft.backend("torch"):
        expected = trnfft.convolve(x.double(), h.double(), dims=-1)
    assert relative(trnfft.convolve(x, h, dims=-1), expected) < 1e-6


@pytest.mark.parametrize("n", [240, 512])  # planned otherwise for n rows, or for one
def test_rows_by_one_filter_take_the_time_that_is_planned(n):
    x, h = single(2, 2, n), trnfft.rfft(single(1, 1, n, seed=1))
    with nki_sim.record() as timeline:
        convolve_rows(x, h)
    plan = plan_convolution((n,), batch=4)
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
    parts = [spectrum.real.clone(), spectrum.imag.clone()]
    parts[part].requires_grad_()
    y = convolve_rows(x, trnfft.ComplexTensor(*parts))
    (actual,) = torch.autograd.grad(y.pow(2).sum(), parts[part])
    expected = torch.fft.irfft(torch.fft.rfft(x) * torch.complex(*parts), 12)
    (reference,) = torch.autograd.grad(expected.pow(2).sum(), parts[part])
    assert relative(actual, reference.double()) < 2e-6


def test_one_filter_of_many_planes_has_the_gradient_of_all():
    x, h = single(2, 3, 20).requires_grad_(), single(1, 1, 5, seed=1).requires_grad_()
    y = trnfft.convolve(x, h, dims=-1)
    with trnfft.backend("torch"):
        expected = trnfft.convolve(x.double(), h.double(), dims=-1)
    gradients = torch.autograd.grad((y**2).sum(), (x, h))
    references = torch.autograd.grad((expected**2).sum(), (x, h))
    for actual, reference in zip(gradients, references, strict=True):
        assert relative(actual, reference) < 2e-6


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
    x, h = single(3, 40).requires_grad_(), single(1, 7, seed=1)
    y = trnfft.convolve(x, h, dims=-1)
    (first,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    with trnfft.backend("torch"):
        z = trnfft.convolve(x.double(), h.double(), dims=-1)
        (first,) = torch.autograd.grad((z**3).sum(), x, create_graph=True)
        (expected,) = torch.autograd.grad(first.square().sum(), x)
    assert relative(second, expected) < 1e-5
    batched = torch.func.vmap(lambda row: trnfft.convolve(row, h[0]))(x.detach())
    assert relative(batched, z.detach()) < 1e-6


def test_vmap_of_several_rows_by_one_filter():
    x, spectrum = single(3, 2, 12), torch.fft.rfft(single(12, seed=1))
    h = trnfft.ComplexTensor(spectrum.real, spectrum.imag)
    operator = torch.ops.trnfft.convolve_rows
    y = torch.func.vmap(lambda x: operator(x, h.real, h.imag, 12, 12, "nki-sim"))(x)
    assert relative(y, torch.fft.irfft(torch.fft.rfft(x) * spectrum, 12).double()) < 1e-6


@pytest.mark.parametrize("padding", ["zero", "mirror"])
@pytest.mark.parametrize("channels", [1, 3])
def test_bloom_is_one_launch(padding, channels):
    image = single(3, 40, 50).requires_grad_()
    psf = single(channels, 9, 8, seed=1).abs()
    psf = psf[0] if channels == 1 else psf
    bloom = trnfft.BloomFilter(psf, (40, 50), padding=padding)
    bloom(image)  # puts the filter's spectrum in the order of the stages
    with nki_sim.record() as timeline:
        y = bloom(image, 0.7)
    assert timeline.launches == 1
    with trnfft.backend("torch"):
        expected = trnfft.bloom(image.double(), psf.double(), strength=0.7, padding=padding)
    assert relative(y, expected) < 1e-6
    (gradient,) = torch.autograd.grad((y**3).sum(), image)
    (reference,) = torch.autograd.grad((expected**3).sum(), image)
    assert relative(gradient, reference) < 3e-6


def test_gradients_of_the_psf_take_the_way_of_several_launches():
    image, psf = single(10, 12), single(3, 3, seed=1).requires_grad_()
    trnfft.bloom(image, psf).square().sum().backward()
    reference = psf.detach().double().requires_grad_()
    with trnfft.backend("torch"):
        trnfft.bloom(image.double(), reference).square().sum().backward()
    assert relative(psf.grad, reference.grad) < 1e-5


def test_spectra_without_a_kernel_for_their_columns_say_so():
    with pytest.raises(NotImplementedError, match="columns of 257 points"):
        spectrum_for_images(trnfft.rfft(single(257, 8)))


def test_results_may_be_larger_than_images():
    image, psf = single(1, 10, 12), single(16, 20, seed=1)
    spectrum = trnfft.ComplexTensor.from_complex(torch.fft.rfft2(psf))
    y = convolve_images(image, spectrum_for_images(spectrum), (16, 20), (16, 20))
    whole = np.fft.rfft2(image.double().numpy(), (16, 20)) * np.fft.rfft2(psf.double().numpy())
    expected = torch.from_numpy(np.fft.irfft2(whole, (16, 20)))
    assert relative(y, expected) < 1e-6


@pytest.mark.parametrize("n", [9, 10, 45])
def test_gradients_of_a_spectrum_of_rows(n):
    x, h = single(3, n), single(1, n, seed=1)
    spectrum = torch.fft.rfft(h)
    parts = [part.clone().requires_grad_() for part in (spectrum.real, spectrum.imag)]
    y = convolve_rows(x, trnfft.ComplexTensor(*parts))
    wide = [part.detach().double().requires_grad_() for part in parts]
    expected = torch.fft.irfft(torch.fft.rfft(x.double()) * torch.complex(*wide), n)
    assert relative(y, expected) < 1e-6
    gradients = torch.autograd.grad(y.pow(3).sum(), parts)
    references = torch.autograd.grad(expected.pow(3).sum(), wide)
    for actual, reference in zip(gradients, references, strict=True):
        assert relative(actual, reference) < 2e-6


@pytest.mark.parametrize(
    "precision, launches, most",
    [("fast", 2, 5e-7), ("kahan", 3, 8e-8), ("bf16_refined", 3, 2e-5), ("bf16", 3, 1e-2)],
)
def test_only_fast_rows_are_convolved_by_the_kernel(precision, launches, most):
    x, h = single(2, 100), single(1, 29, seed=1)
    with trnfft.precision(precision), nki_sim.record() as timeline:
        y = trnfft.convolve(x, h, dims=-1)
    assert timeline.launches == launches
    with trnfft.backend("torch"):
        assert relative(y, trnfft.convolve(x.double(), h.double(), dims=-1)) < most
