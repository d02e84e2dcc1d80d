"""Results on an XLA device, compared with torch.fft in float64 on the CPU."""

import pytest
import torch

import trnfft
from tests.tolerances import near, transforms
from trnfft import ComplexTensor
from trnfft.backends import matmul
from trnfft.base.devices import backend_for
from trnfft.planner.accuracy import MAX_ERRORS

torch_xla = pytest.importorskip("torch_xla", reason="needs torch_xla: ./scripts/test.sh --xla")

LENGTHS = [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 64, 97, 100, 128, 131, 243, 256, 1000, 1024, 4096]
PRIMES = [257, 1009]  # too long for one DFT matrix, so that Bluestein's algorithm computes them
ONE_DIMENSION = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TWO_DIMENSIONS = ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"]
MANY_DIMENSIONS = ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"]
REAL_INPUT = ["rfft", "ihfft", "rfft2", "ihfft2", "rfftn", "ihfftn"]
REAL_RESULT = ["irfft", "hfft"]
NORMS = ["backward", "ortho", "forward"]

one_dimension = pytest.mark.parametrize("name", ONE_DIMENSION)


def random_input(name, *shape, dtype=torch.float32):
    """Returns a real tensor, or a ComplexTensor for transforms of complex data."""
    generator = torch.Generator().manual_seed(sum(shape))
    real, imag = torch.randn(2, *shape, dtype=dtype, generator=generator)
    return real if name in REAL_INPUT else ComplexTensor(real, imag)


def host(x):
    """Returns a tensor in float64 or complex128 on the CPU."""
    x = x.detach().to("cpu", torch.float64)
    return x.to_complex() if isinstance(x, ComplexTensor) else x


def check(name, x, device, *args, **kwargs):
    """Fails unless a transform of `x` on the device is that of torch.fft."""
    actual = getattr(trnfft, name)(x.to(device), *args, **kwargs)
    assert actual.device.type == "xla"
    torch_xla.sync()
    expected = getattr(torch.fft, name)(host(x), *args, **kwargs)
    assert actual.is_complex() == expected.is_complex()
    dtype = torch.promote_types(x.real.dtype, torch.float32)  # others are computed in float32
    near(actual.cpu(), expected, tolerance_of(max(x.numel(), expected.numel()), dtype=dtype))


def tolerance_of(points, count=1, dtype="float32"):
    """Of so many transforms, of one dimension or of several, also by Bluestein's algorithm."""
    return transforms(4 * points, 2 * count, dtype)


def test_auto_takes_matmul(device):
    assert trnfft.get_backend() == "auto"
    assert backend_for(device) == "matmul"


@pytest.mark.parametrize("n", PRIMES)
def test_these_primes_are_convolutions(n):
    assert matmul._radices(n)[1] > n


@pytest.mark.parametrize("n", LENGTHS + PRIMES)
@one_dimension
def test_lengths(name, n, device):
    size = n // 2 + 1 if name in REAL_RESULT else n
    check(name, random_input(name, 3, size), device, n)


# A function, the shape of its input and its other arguments.
CALLS = [
    *((name, (3, 12), {"norm": norm}) for name in ONE_DIMENSION for norm in NORMS),
    *(
        (name, (8, 4, 12), {"n": n, "dim": dim})
        for name in ONE_DIMENSION
        for n, dim in ((5, -1), (20, -1), (6, 0), (9, 0), (17, 1), (2, 1))
    ),
    *((name, (3, 10, 12), {}) for name in TWO_DIMENSIONS),
    *(
        (name, (4, 6, 10), {"s": s, "dim": dim, "norm": "ortho"})
        for name in MANY_DIMENSIONS
        for s, dim in ((None, None), ((7, 16), (0, 2)), ((5,), None))
    ),
]


@pytest.mark.parametrize("name, shape, options", CALLS)
def test_norms_lengths_and_dimensions(name, shape, options, device):
    check(name, random_input(name, *shape), device, **options)


@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft"])
def test_real_tensor_where_complex_is_allowed(name, device):
    check(name, random_input("rfft", 3, 24), device)


@one_dimension
def test_float64(name, device):
    x = random_input(name, 3, 100, dtype=torch.float64)
    check(name, x, device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_other_dtypes_are_computed_in_float32(dtype, device):
    x = random_input("rfft", 3, 48).mul(10).to(dtype)
    assert trnfft.rfft(x.to(device)).real.dtype == torch.float32
    check("rfft", x, device)


@one_dimension
def test_no_rows(name, device):
    y = getattr(trnfft, name)(random_input(name, 0, 8).to(device))
    assert y.shape == getattr(torch.fft, name)(torch.zeros(0, 8, device="meta")).shape


@one_dimension
def test_double_is_computed_on_the_host_without_complex_dtypes_on_the_device(name, device, counted):
    x = random_input(name, 3, 1000).to(device)
    with counted() as counts, trnfft.precision("double"):
        y = getattr(trnfft, name)(x)
    near(y.cpu(), getattr(torch.fft, name)(host(x)), MAX_ERRORS["kahan"])  # float32 at the end
    assert y.device.type == "xla"
    assert counts.from_device > 0
    assert not {op for op in counts.lowered if "complex" in op or "view_as_real" in op}


def test_tables_of_inference_mode_serve_training(device):
    with torch.inference_mode():
        trnfft.fft(torch.ones(2, 11, device=device))
    x = torch.ones(2, 11, device=device, requires_grad=True)
    trnfft.fft(x).real.sum().backward()  # = 11 sum_b x[b, 0]
    near(x.grad.cpu(), 11 * torch.eye(11)[:1].expand(2, 11), transforms(11, 2))


@pytest.mark.parametrize("order", ["natural", "planned"])
def test_inference_mode(order, device):
    with torch.inference_mode():  # torch_xla has no views of outside tensors in inference mode
        x = random_input("fft", 2, 1000).to(device)
        y = trnfft.ifft(trnfft.fft(x, order=order), order=order)
        torch_xla.sync()
    near(y.cpu(), x.cpu(), transforms(1000, 2))


@pytest.mark.parametrize("precision", ["fast", "double"])
@pytest.mark.parametrize("n", [100, 1000, *PRIMES])
def test_operators(n, precision, device):
    z = random_input("fft", 3, n + 2).to(device)[:, 1:-1]  # views
    settings = "matmul", precision
    full = ComplexTensor(*torch.ops.trnfft.c2c(z.real, z.imag, False, 1.0, *settings))
    half = ComplexTensor(*torch.ops.trnfft.r2c(z.real, False, 1.0, *settings))
    real = torch.ops.trnfft.c2r(
        *(part[:, : n // 2 + 1] for part in (z.real, z.imag)), n, True, 1.0, *settings
    )
    tolerance = tolerance_of(n) if precision == "fast" else MAX_ERRORS["kahan"]
    near(full.cpu(), torch.fft.fft(host(z)), tolerance)
    near(half.cpu(), torch.fft.rfft(host(z.real)), tolerance)
    near(real.cpu(), torch.fft.irfft(host(z), n, norm="forward"), tolerance)
