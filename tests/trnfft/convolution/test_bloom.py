"""Bloom compared with direct convolution, and what it preserves: pictures, energy, derivatives."""

import numpy as np
import pytest
import torch
from scipy.signal import convolve2d
from torch._subclasses.fake_tensor import FakeTensorMode

import trnfft
from tests import sweeps
from tests.definitions import bloomed
from tests.refusals import called, refused
from tests.tolerances import elementary, near, sums, transforms
from trnfft.functions import point_spread_functions
from trnfft.functions.bloom import PADDINGS, axis_order

SIZES = [(7, 10), (12, 5), (1, 1), (3, 20)]  # some rows first, some columns first
PSF_SIZES = [(1, 1), (3, 5), (4, 6), (5, 2), (9, 13)]  # some larger than the picture


def uniform(*shape, dtype=torch.float64, seed=0):
    """Numbers of a picture, from 0 to 1."""
    return torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def delta(*size, dtype=torch.float64):
    psf = torch.zeros(size, dtype=dtype)
    psf[size[0] // 2, size[1] // 2] = 1
    return psf


def check(actual, expected):
    """Fails unless a picture is near the expected one, both of which may be by two transforms."""
    assert actual.dtype == expected.dtype
    near(actual, expected, transforms(4096, 4, actual.dtype))


def assert_as_directly(actual, image, psf, padding):
    """Fails unless a picture is right, relative to the whole convolution, also if it is a pixel."""
    assert actual.dtype == image.dtype
    whole = convolve2d(image.numpy(), psf.numpy()) if padding == "zero" else None
    near(
        actual, bloomed(image, psf, padding=padding), transforms(4096, 4, image.dtype), scale=whole
    )


@sweeps.pairs(size=SIZES, psf_size=PSF_SIZES, padding=PADDINGS, backend=["torch", "matmul"])
def test_as_direct_convolution(size, psf_size, padding, backend):
    image, psf = uniform(*size), uniform(*psf_size, seed=1)
    with trnfft.backend(backend):
        actual = trnfft.bloom(image, psf, padding=padding)
    assert_as_directly(actual, image, psf, padding)


@pytest.mark.parametrize("padding", PADDINGS)
def test_on_the_simulator(padding):
    image, psf = uniform(2, 5, 6), uniform(3, 5, seed=1)
    with trnfft.backend("nki-sim"):
        actual = trnfft.bloom(image.float(), psf.float(), padding=padding)
    expected = torch.stack([bloomed(channel, psf, padding=padding) for channel in image])
    near(actual, expected, transforms(4096, 2))


def test_strength_interpolates_from_the_picture():
    image, psf = uniform(8, 9), uniform(5, 5, seed=1)
    full = bloomed(image, psf, padding="zero")
    for strength in (0, 0.25, 1):
        expected = (1 - strength) * image + strength * full
        check(trnfft.bloom(image, psf, strength=strength), expected)


def test_channels_and_batches():
    image, psf = uniform(2, 3, 6, 7), uniform(3, 5, 4, seed=1)
    found = trnfft.bloom(image, psf)
    for batch in range(2):
        for channel in range(3):
            expected = bloomed(image[batch, channel], psf[channel], padding="zero")
            check(found[batch, channel], expected)
    check(trnfft.bloom(image, psf[0])[1, 2], bloomed(image[1, 2], psf[0], padding="zero"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtype_of_the_picture_stays(dtype):
    image = uniform(6, 7).to(dtype)
    check(trnfft.bloom(image, delta(3, 3)), image)


def test_compiled():
    bloom_filter = trnfft.BloomFilter(uniform(5, 5, seed=1), (8, 9))
    compiled = torch.compile(bloom_filter, fullgraph=True, backend="eager")
    check(compiled(uniform(3, 8, 9)), bloom_filter(uniform(3, 8, 9)))


@pytest.mark.parametrize("name", ["inference", "vmap", "jvp", "fake"])
def test_what_a_filter_keeps_serves_every_mode(name):
    x = torch.rand(1, 8, 8)
    first = {
        "inference": torch.inference_mode()(lambda f: f(x)),
        "vmap": lambda f: torch.func.vmap(f)(x[None]),
        "jvp": lambda f: torch.func.jvp(f, (x,), (x,)),
        "fake": lambda f: of_fake_tensors(f),
    }
    with trnfft.backend("nki-sim"):
        used, fresh = (trnfft.BloomFilter(torch.ones(3, 3) / 9, (8, 8)) for _ in range(2))
        first[name](used)
        gradients = []
        for bloom_filter in (used, fresh):
            y = x.clone().requires_grad_()
            bloom_filter(y).square().sum().backward()
            gradients.append(y.grad)
    assert type(gradients[0]) is torch.Tensor and torch.equal(*gradients)


def of_fake_tensors(bloom_filter):
    with FakeTensorMode(allow_non_fake_inputs=True):
        bloom_filter(torch.rand(1, 8, 8))


def test_filter_keeps_its_spectrum(monkeypatch):
    psf = uniform(5, 5, seed=1)
    bloom_filter = trnfft.BloomFilter(psf, (8, 9), padding="mirror")
    monkeypatch.delattr("trnfft.functions.bloom._centred_spectrum")
    for seed in range(2):
        image = uniform(8, 9, seed=seed)
        check(bloom_filter(image), bloomed(image, psf, padding="mirror"))
    assert all(size % 2 == 0 for size in bloom_filter.padded_size)


@pytest.mark.parametrize("backend", ["torch", "matmul"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_both_orders_agree(monkeypatch, backend, padding):
    image, psf = uniform(2, 11, 6), uniform(4, 5, seed=1)
    results = []
    for order in ("rows", "columns"):
        monkeypatch.setattr("trnfft.functions.bloom.axis_order", lambda *sizes, order=order: order)
        with trnfft.backend(backend):
            bloom_filter = trnfft.BloomFilter(psf, (11, 6), padding=padding)
            assert bloom_filter.order == order
            results.append(bloom_filter(image))
    check(*results)


def test_axis_order_is_that_of_the_article():
    # 1280 x 720 pixels: measured there, columns first is faster with a PSF of 256 pixels, rows
    # first with one of 512.
    assert axis_order((720, 1280), (1024, 2048)) == "columns"
    assert axis_order((720, 1280), (2048, 2048)) == "rows"
    # Only the upper half holds lines to transform: rows first.
    assert axis_order((32, 64), (64, 64)) == "rows"
    assert axis_order((64, 32), (64, 64)) == "columns"


def resampled_and_exact(source, psf, size=(60, 84)):
    """Returns a picture by a filter resampled from one for `source`, and by the exact filter."""
    image = uniform(*size) ** 8
    image[20, 30] = 100
    exact = trnfft.BloomFilter(psf, size)(image)
    return trnfft.BloomFilter(psf, source).resampled(size)(image), exact


def resampling_error(source, psf):
    """Returns the error of a resampled filter, which is much larger than that of rounding."""
    resampled, exact = resampled_and_exact(source, psf)
    return ((resampled - exact).norm() / exact.norm()).item()


def test_resampling_is_measured_against_the_exact_filter():
    star = point_spread_functions.star(65).double()
    gaussian = point_spread_functions.gaussian(65, 8).double()
    heart = point_spread_functions.heart(65).double()
    # From the spectrum of the PSF alone, as in the article: the wider the PSF, the worse.
    errors = [resampling_error((1, 1), psf) for psf in (star, gaussian, heart)]
    assert errors == sorted(errors)
    assert errors[0] < 4e-3 and errors[1] < 5e-2 and 5e-2 < errors[2] < 0.2
    # From one for larger pictures: four times the padded size, a sixteenth of the error.
    for psf, error in zip((star, gaussian, heart), errors, strict=True):
        assert resampling_error((260, 260), psf) < error / 10
        check(*resampled_and_exact((60, 84), psf))


def test_resampling_leaves_ghosts_one_period_away():
    psf = point_spread_functions.gaussian(33, 4).double()
    small = trnfft.BloomFilter(psf, (1, 1))
    period = small.padded_size[0]
    line = torch.zeros(1, 120, dtype=torch.float64)
    line[0, 20] = 1
    exact = trnfft.BloomFilter(psf, (1, 120))(line)[0]
    resampled = small.resampled((1, 120))(line)[0]
    around = slice(20 + period - 6, 20 + period + 7)
    near(exact[around], torch.zeros(13), transforms(4096, 2, exact.dtype), scale=exact)
    ghost = resampled[around].abs().max() / exact[20]
    assert 1e-4 < ghost < 3e-2


@pytest.mark.parametrize("size", [(5, 31), (31, 5), (50, 50)])
def test_resampling_keeps_energy_and_the_first_filter(size):
    psf = uniform(3, 7, 5, seed=1)
    first = trnfft.BloomFilter(psf, (12, 12))
    resampled = first.resampled(size)
    assert (resampled.size, first.size) == (size, (12, 12))
    # The number for frequency 0 is the sum of the PSF.
    check(resampled._spectrum.real[:, 0, 0], psf.sum((-2, -1)))
    assert resampled(uniform(3, *size)).shape == (3, *size)
    check(first(uniform(3, 12, 12))[0], bloomed(uniform(3, 12, 12)[0], psf[0], padding="zero"))


@pytest.mark.parametrize(
    "psf",
    [
        point_spread_functions.gaussian(21, 3),
        point_spread_functions.star(32),
        point_spread_functions.star(33, blades=5),
        point_spread_functions.heart(32),
        point_spread_functions.heart(1),
    ],
)
def test_point_spread_functions(psf):
    assert psf.dtype == torch.float32
    assert psf.shape[0] == psf.shape[1]
    assert psf.min() >= 0
    near(psf.double().sum(), 1, sums(psf.numel()))


def test_shapes_of_the_point_spread_functions():
    gaussian = point_spread_functions.gaussian(41, 3)
    near(gaussian[20, 23] / gaussian[20, 20], np.exp(-0.5), elementary())
    star = point_spread_functions.star(65)
    assert star.argmax() == 32 * 65 + 32
    # A spike to the right, where blades are vertical, and none upwards.
    assert star[32, 60] > 20 * star[4, 32]
    heart = point_spread_functions.heart(33)
    near(heart, heart.flip(-1), sums(heart.numel()))
    assert heart[0:3, 16].sum() == 0 and heart[30, 16] > 0  # the cleft above, the tip below
    assert heart[30, 4] == 0 and heart[8, 4] > 0


def test_a_point_spread_function_wider_than_any_picture_is_even():
    flat = point_spread_functions.gaussian(8, 1e300)
    near(flat, torch.full((8, 8), 1 / 64), sums(64))


NESTED = torch.nested.nested_tensor([torch.ones(3)], layout=torch.jagged)


test_wrong_arguments_of_bloom = refused(
    lambda arguments: trnfft.bloom(**{"image": torch.ones(3, 3), "psf": delta(1, 1), **arguments}),
    [
        (dict(image=np.ones((3, 3))), TypeError, "'image' is of type nd"),
        (dict(image=torch.ones(3, 3).int()), TypeError, "int32, allowed"),
        (dict(image=torch.ones(3)), ValueError, r"'image' has shape \(3,\)"),
        (dict(image=torch.ones(0, 3)), ValueError, r"shape \(0, 3\)"),
        (dict(image=NESTED), TypeError, "'image' is a nested tensor"),
        (dict(psf=1.0), TypeError, "'psf' is of type float"),
        (dict(psf=torch.ones(3)), ValueError, "'psf' has shape"),
        (dict(psf=torch.ones(2, 3, 3)), ValueError, "'psf' has 2 channels"),
        (
            dict(image=torch.ones(4, 3, 3), psf=torch.ones(2, 3, 3)),
            ValueError,
            r"allowed is \[..., 2, H, W\]",
        ),
        (dict(strength=1.5), ValueError, "'strength' is 1.5, allowed is 0 to 1"),
        (dict(strength=float("nan")), ValueError, "'strength' is nan"),
        (dict(strength=10**5000), ValueError, "'strength' is an int of 16610 bits"),
        *[
            (dict(strength=strength), TypeError, "argument 'strength'")
            for strength in ("x", torch.ones(2), np.ones(2), torch.empty((), device="meta"))
        ],
        (dict(padding="repeat"), ValueError, "'padding' is 'repeat', allowed are 'zero', 'mirror'"),
        (dict(padding=np.array(["zero", "mirror"])), ValueError, "argument 'padding' is"),
    ],
)


test_wrong_sizes_and_shapes_of_filters = refused(
    called,
    [
        (lambda: trnfft.BloomFilter(delta(1, 1), (3, 0)), ValueError, r"'size' is \(3, 0\)"),
        (lambda: trnfft.BloomFilter(delta(1, 1), (3,)), ValueError, r"'size' is \(3,\)"),
        (lambda: trnfft.BloomFilter(delta(1, 1), (3, 4.5)), TypeError, "'size' must be an int"),
        (
            lambda: trnfft.BloomFilter(delta(1, 1), (3, 4))(torch.ones(4, 3)),
            ValueError,
            r"allowed is \[..., 3, 4\]",
        ),
        (lambda: point_spread_functions.heart(0), ValueError, "'size' is 0"),
        (lambda: point_spread_functions.heart(10**30), ValueError, "allowed is 1 to 16384"),
        (lambda: point_spread_functions.star(2.5), TypeError, "'size' must be an int"),
        (lambda: point_spread_functions.star(3, 2), ValueError, "'blades' is 2"),
        (
            lambda: point_spread_functions.star(8, 2**40),
            ValueError,
            "'blades' is 1099511627776, allowed is 3 to 360",
        ),
        (lambda: point_spread_functions.gaussian(3, 0), ValueError, "'sigma' is 0"),
        (lambda: point_spread_functions.gaussian(8, "x"), TypeError, "'sigma' must be a number"),
        (
            lambda: point_spread_functions.gaussian(8, 10**5000),
            ValueError,
            "'sigma' is an int of 16610 bits",
        ),
    ],
)
