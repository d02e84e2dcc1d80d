"""Eager mode on the device: values, gradients, launched kernels, and transfers over the bus."""

import pytest
import torch

import trnfft
from trnfft import ComplexTensor
from trnfft.planner.accuracy import MAX_ERRORS

from .comparison import Training, all_near, near_host, trained
from .subjects import SUBJECTS

subjects = pytest.mark.parametrize("name", SUBJECTS)

# Of ATen, beside views and copies, which this stand-in has.
OPERATORS = {
    *("add", "addcmul", "arange", "bitwise_and", "bitwise_xor", "bmm", "cat", "clamp", "cos"),
    *("div", "eq", "fill_", "flip", "ge", "gt", "hypot", "lerp", "masked_fill_", "mean", "mm"),
    *("mul", "neg", "pow", "reciprocal", "reflection_pad1d", "reflection_pad1d_backward", "relu"),
    *("remainder", "sqrt", "sub", "sum", "threshold_backward", "where", "zero_"),
}


@subjects
def test_values_and_gradients(name, launches, counted):
    """A second step moves nothing over the bus, and needs of ATen only plain arithmetic."""
    subject = SUBJECTS[name]
    training = trained(subject)  # which uploads the tables
    assert bool(launches) == bool(subject.kernels)
    if subject.kernels:
        assert {kernel for kernel, _ in launches} & set(subject.kernels)
        assert {degree for _, degree in launches} == {2}
    with counted() as counts:
        training.step()
    assert (counts.to_host, counts.to_device) == (0, 0)
    assert {name.removeprefix("aten::") for name in counts.fallbacks} <= OPERATORS


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 16, 64, 97, 100, 128, 243, 256, 257, 512, 1000])
def test_lengths(n):
    z = random_parts(3, n)
    y = trnfft.ifft(trnfft.fft(z.to("neuron")))
    near_host(trnfft.fft(z.to("neuron")), torch.fft.fft(z.to_complex()))
    near_host(y, z.to_complex())
    x = z.real
    near_host(trnfft.rfft(x.to("neuron")), torch.fft.rfft(x))
    half = z[:, : n // 2 + 1]
    expected = torch.fft.irfft(half.to_complex(), n)
    near_host(trnfft.irfft(half.to("neuron"), n), expected)


@pytest.mark.parametrize("precision", ["fast", "kahan", "bf16", "bf16_refined"])
def test_precisions(precision):
    z = random_parts(4, 64)
    with trnfft.precision(precision):
        y = trnfft.fft(z.to("neuron"))
    near_host(y, torch.fft.fft(z.to_complex().to(torch.complex128)), MAX_ERRORS[precision])


def test_filters_of_images_are_one_launch(launches):
    image, psf = torch.rand(3, 30, 40), trnfft.point_spread_functions.gaussian(9, 2.0)
    bloom = trnfft.BloomFilter(psf.to("neuron"), image.shape[-2:])
    launches.clear()
    actual = bloom(image.to("neuron"), 0.6)
    assert [kernel for kernel, _ in launches] == ["convolve_images"]
    near_host(actual, trnfft.bloom(image, psf, strength=0.6))


def test_tables_are_uploaded_once(counted):
    z = random_parts(2, 11).to("neuron")
    with counted() as counts:
        for _ in range(3):
            trnfft.fft(z)
    assert counts.to_device == 1
    with counted() as counts:
        trnfft.fft(random_parts(2, 11).to("neuron"))
    assert counts.to_device == 2, "the parts alone"


def test_float64_is_refused_with_advice():
    with pytest.raises(TypeError, match="no storage for Double"):
        torch.ones(4, dtype=torch.float64, device="neuron")


def test_no_rows(launches):
    y = trnfft.rfft(torch.ones(0, 8, device="neuron"))
    assert (y.shape, y.device.type) == ((0, 5), "neuron")
    assert launches == []


def random_parts(*shape):
    generator = torch.Generator().manual_seed(sum(shape))
    return ComplexTensor(*torch.randn(2, *shape, generator=generator))


@subjects
def test_results_are_fresh_and_can_be_edited(name):
    training = Training(SUBJECTS[name], "neuron")
    y = training.run(*training.tensors)
    memory = [x.untyped_storage().data_ptr() for x in (*y, *training.leaves)]
    assert len(set(memory)) == len(memory)
    if name != "stft":  # transposed, as torch's is
        assert all(part.is_contiguous() for part in y)
    parts = list(y)
    if len(y) == 1:  # those of a ComplexTensor that autograd follows are set, not edited
        parts[0][0] = 0
        parts[0] *= 2
    sum((part**2).sum() for part in parts).backward()
    assert all(leaf.grad is not None for leaf in training.leaves)


@pytest.mark.parametrize("name", ["fft", "rfft2", "irfft", "convolve", "BlockCirculantLinear"])
def test_autocast_changes_nothing(name):
    plain = Training(SUBJECTS[name], "neuron").step()
    with torch.autocast("neuron", torch.bfloat16):
        square = torch.ones(2, 2, device="neuron")
        assert (square @ square).dtype == torch.bfloat16
        inside = Training(SUBJECTS[name], "neuron").step()
    all_near(inside, plain)


def test_as_the_default_device():
    """Nothing is made there that a NeuronCore has no storage for."""
    with torch.device("neuron"):
        x = torch.arange(48.0).reshape(3, 16)
        y = trnfft.rfft(x)
        layer = trnfft.nn.SpectralConv1d(3, 2, 4)
        z = layer(x[None])
        shapes = [
            trnfft.point_spread_functions.gaussian(5, 1.0),
            trnfft.point_spread_functions.star(5),
            trnfft.point_spread_functions.heart(5),
        ]
    near_host(y, torch.fft.rfft(x.cpu()))
    assert {part.device.type for part in (y, z, *shapes)} == {"neuron"}
    near_host(z, layer.cpu()(x[None].cpu()))
    assert torch.equal(shapes[1].cpu(), trnfft.point_spread_functions.star(5))


@pytest.mark.parametrize(
    "call",
    [
        lambda here, there: trnfft.bloom(there, torch.ones(3, 3)),
        lambda here, there: trnfft.BloomFilter(torch.ones(3, 3, device="neuron"), (2, 16))(here),
        lambda here, there: trnfft.convolve(there[0, 0], here[0, 0]),
        lambda here, there: trnfft.nn.FFTConv1d(2, 2, 3)(there),
        lambda here, there: trnfft.nn.SpectralConv1d(2, 2, 3)(there),
        lambda here, there: trnfft.nn.SpectralConv2d(1, 1, 1, 3)(there[:, None]),
        lambda here, there: trnfft.nn.BlockCirculantLinear(16, 16, 16)(there),
    ],
)
def test_two_devices_are_an_error_in_words(call):
    here = torch.ones(1, 2, 16)
    with pytest.raises(ValueError, match=r"is on (device )?'(cpu|neuron:0)'.* move one with"):
        call(here, here.to("neuron"))


def test_results_go_to_no_other_device(counted):
    there = torch.ones(1, 2, 16, device="neuron")
    with counted() as counts, pytest.raises(RuntimeError, match="'out' has .* cpu; the result has"):
        trnfft.irfft(there, out=torch.empty(1, 2, 30))
    assert counts.to_host == 0
    y = torch.empty(1, 2, 30, device="neuron")
    assert trnfft.irfft(there, out=y) is y


def test_a_length_that_no_kernel_takes_is_refused_with_advice_that_helps(launches):
    """The smallest such length, 4194305 = 5 * 397 * 2113, is above 2^22 and has a large factor."""
    x = torch.zeros(4_194_305)
    x[1] = 1
    for backend in ("nki", "matmul"):
        with trnfft.backend(backend), pytest.raises(NotImplementedError, match=ADVICE):
            trnfft.fft(x.to("neuron"))
    with trnfft.precision("double"):
        spectrum = trnfft.fft(x.to("neuron"))
    assert spectrum.device.type == "neuron" and not launches
    near_host(spectrum.real, torch.fft.fft(x.double()).real.float())


ADVICE = r'set_precision\("double"\)'
