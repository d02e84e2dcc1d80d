"""Planned order: the maps to and from natural order, and transforms to and from planned order."""

import numpy as np
import pytest
import torch

import trnfft
from nki_sim.hardware import LNC_VARIABLE, TARGET_VARIABLE
from tests import sweeps
from tests.tolerances import near, transforms
from tests.trnfft.samples import random_complex
from trnfft import ComplexTensor, order
from trnfft.backends import matmul
from trnfft.planner.accuracy import MAX_ERRORS

LENGTHS = [1, 2, 12, 97, 128, 131, 257, 256, 360, 384, 1000, 1024, 4096]
BACKENDS = ["torch", "matmul"]
THREE_STAGES = 2**15

every_length = pytest.mark.parametrize("n", [*LENGTHS, 10007, THREE_STAGES])
every_backend = pytest.mark.parametrize("backend", BACKENDS)
# Few rows and many are computed in different layouts.
few_and_many = pytest.mark.parametrize("rows", [1, 3, matmul.WIDE_BATCH])


def double(n, count=1):
    """Returns the tolerance of `count` transforms in float64, of which each may be Bluestein's."""
    return transforms(4 * n, 2 * count, "float64")


# Maps


@every_length
def test_maps_are_permutations_and_inverse_to_each_other(n):
    frequencies, positions = order.frequencies(n), order.positions(n)
    assert frequencies.shape == (n,) and frequencies.dtype == np.int64
    assert np.array_equal(np.sort(frequencies), np.arange(n))
    assert np.array_equal(frequencies[positions], np.arange(n))
    assert np.array_equal(positions[frequencies], np.arange(n))


def test_the_most_positions(monkeypatch):
    monkeypatch.setattr(order, "MOST_POSITIONS", 8)
    assert order.frequencies(8).shape == (8,)
    with pytest.raises(ValueError, match="argument 'n' is 9, allowed is 1 to 8; from 67108865 on"):
        order.frequencies(9)


@every_length
def test_mirrors(n):
    frequencies, mirrors = order.frequencies(n), order.mirrors(n)
    assert np.array_equal(frequencies[mirrors], (n - frequencies) % n)
    assert np.array_equal(mirrors[mirrors], np.arange(n))


@pytest.mark.parametrize("n, stages", [(256, 2), (1000, 2), (4096, 2), (THREE_STAGES, 3)])
def test_the_order_is_that_of_reversed_digits(n, stages):
    radices = order.radices(n)
    assert len(radices) == stages
    frequencies = order.frequencies(n)
    for position in (1, n // 3, n - 2):
        left, digits = position, []
        for radix in reversed(radices):
            left, digit = divmod(left, radix)
            digits.append(digit)  # the last digit first
        frequency = 0
        for radix, digit in zip(reversed(radices), digits, strict=True):
            frequency = frequency * radix + digit
        assert frequencies[position] == frequency
    if stages == 2:
        first, second = radices
        assert frequencies[1 * second + 3] == 1 + first * 3


@pytest.mark.parametrize("n", [1, 7, 64, 257, 10007, 5000011])
def test_natural_where_one_stage_a_convolution_or_no_kernel_transforms(n):
    assert order.radices(n) == (n,)
    if n < 5000011:
        assert np.array_equal(order.frequencies(n), np.arange(n))


def test_the_order_depends_on_the_length_alone(monkeypatch):
    lengths = 900, 1000  # trn2 has other stages for one, "kahan" no kernel for the other
    before = [order.radices(n) for n in lengths]
    order._stages.cache_clear()
    monkeypatch.setenv(TARGET_VARIABLE, "trn2")
    monkeypatch.setenv(LNC_VARIABLE, "2")
    with trnfft.precision("kahan"):
        assert [order.radices(n) for n in lengths] == before
    assert trnfft.plan(lengths[0]).radices != before[0]
    order._stages.cache_clear()
    monkeypatch.setenv(TARGET_VARIABLE, "trn1")  # which has no degree 2
    assert order.radices(lengths[0]) == before[0]


@pytest.mark.parametrize("function", [order.frequencies, order.positions, order.mirrors])
def test_lengths_are_checked(function):
    with pytest.raises(ValueError, match="'n' is 0"):
        function(0)
    with pytest.raises(TypeError, match="'n' must be an int"):
        function("8")
    message = f"'n' is {2**40}, allowed is 1 to {order.MOST_POSITIONS}; from 67108865 on there is"
    with pytest.raises(ValueError, match=message):
        function(2**40)


# Transforms


@sweeps.pairs(rows=[1, 3, matmul.WIDE_BATCH], backend=BACKENDS, n=LENGTHS)
def test_planned_is_natural_permuted(n, backend, rows):
    x = random_complex(rows, n, seed=n)
    spectrum = torch.fft.fft(x, norm="ortho")[:, order.frequencies(n)]
    with trnfft.backend(backend):
        near(trnfft.fft(x, norm="ortho", order="planned"), spectrum, double(n))
        near(trnfft.ifft(spectrum, norm="ortho", order="planned"), x, double(n, 2))


@pytest.mark.weekly
@every_backend
@pytest.mark.parametrize("rows", [1, sweeps.whole(3), sweeps.whole(matmul.WIDE_BATCH)])
def test_planned_is_natural_permuted_of_three_stages(rows, backend):
    test_planned_is_natural_permuted(THREE_STAGES, backend, rows)


@pytest.mark.parametrize("n", [64, 128, 257, 1000])
def test_on_the_simulator(n):
    x = random_complex(2, n, dtype=torch.complex64)
    spectrum = torch.fft.fft(x)[:, order.frequencies(n)]
    with trnfft.backend("nki-sim"):
        near(trnfft.fft(x, order="planned"), spectrum, transforms(n, 2))
        near(trnfft.ifft(spectrum, order="planned"), x, transforms(n, 2))


@every_backend
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_dimensions_lengths_and_out(dim, backend):
    n, x = 128, random_complex(100, 130)
    expected = torch.fft.fft(x, n, dim).index_select(dim, torch.tensor(order.frequencies(n)))
    with trnfft.backend(backend):
        y = trnfft.fft(x, n, dim, order="planned")
        near(y, expected, transforms(n, 2, "float64"))
        out = y * 0
        assert trnfft.fft(x, n, dim, out=out, order="planned") is out
        near(out, expected, transforms(n, 2, "float64"))
        back = trnfft.ifft(y, n, dim, order="planned")
        near(back, torch.fft.ifft(torch.fft.fft(x, n, dim), n, dim), transforms(n, 4, "float64"))


@every_backend
@pytest.mark.parametrize("precision", ["double", "kahan"])
def test_precisions(precision, backend):
    x = random_complex(3, 1024, dtype=torch.complex64)
    expected = torch.fft.fft(x.to(torch.complex128))[:, order.frequencies(1024)]
    with trnfft.backend(backend), trnfft.precision(precision):
        near(trnfft.fft(x, order="planned"), expected, MAX_ERRORS["kahan"])


@every_backend
def test_real_and_empty_input(backend):
    x = torch.randn(2, 128)
    with trnfft.backend(backend):
        y = trnfft.fft(x, order="planned")
        near(y, torch.fft.fft(x.double())[:, order.frequencies(128)], transforms(128))
        assert trnfft.fft(torch.ones(0, 128), order="planned").shape == (0, 128)
        assert trnfft.ifft(torch.ones(0, 128), order="planned").shape == (0, 128)


def test_no_complex_dtype(no_complex_dtype):
    x = ComplexTensor(torch.randn(3, 128), torch.randn(3, 128))
    with trnfft.backend("matmul"), no_complex_dtype:
        y = trnfft.ifft(trnfft.fft(x, order="planned"), order="planned")
    near(y, x, transforms(128, 2))


class Copies(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the operations that only move numbers, or look them up."""

    MOVES = ("clone", "copy_", "contiguous", "index", "gather", "flip", "index_select")

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += operation.overloadpacket.__name__ in self.MOVES
        return operation(*args, **(kwargs or {}))


@few_and_many
@pytest.mark.parametrize("n", [1000, THREE_STAGES])
def test_nothing_is_reordered_by_matrix_products(n, rows):
    x, h = (ComplexTensor(torch.randn(rows, n), torch.randn(rows, n)) for _ in range(2))

    def convolved(order):
        return trnfft.ifft(trnfft.fft(x, order=order) * h, order=order)

    with trnfft.backend("matmul"):
        convolved("planned"), convolved("natural")  # makes the tables
        with Copies() as planned:
            convolved("planned")
        with Copies() as natural:
            convolved("natural")
    assert planned.count <= 4, "both parts of both results, into memory of their own"
    assert n == 1000 or natural.count > 0  # of two stages, the twiddles read what is not copied


# Derivatives and compilers


@every_backend
@pytest.mark.parametrize("n, rows", [(12, 2), (128, 1), (128, matmul.WIDE_BATCH)])
def test_gradients(n, rows, backend):
    x = random_complex(rows, n).requires_grad_()
    weights, index = random_complex(rows, n, seed=1), torch.tensor(order.frequencies(n))

    def loss(y):
        return ((y.real**3 + y.imag**2) * weights.real + y.imag * weights.imag).sum()

    with trnfft.backend(backend):
        y = trnfft.fft(x, order="planned")
        mine = torch.autograd.grad(loss(y), x, create_graph=True)[0]
        back = torch.autograd.grad(loss(trnfft.ifft(x, order="planned")), x)[0]
    reference = torch.autograd.grad(loss(torch.fft.fft(x)[:, index]), x, create_graph=True)[0]
    natural = torch.fft.ifft(x[:, torch.tensor(order.positions(n))])
    near(back, torch.autograd.grad(loss(natural), x)[0], double(n, 4))
    near(mine, reference, double(n, 4))
    second, expected = (torch.autograd.grad(g.abs().pow(2).sum(), x)[0] for g in (mine, reference))
    near(second, expected, double(n, 8))


@every_backend
def test_gradcheck(backend, monkeypatch):
    monkeypatch.setattr(order, "stages", lambda n: ((2, 3, 2), 12))  # short, and three stages
    parts = [torch.randn(2, 12, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    for transform in (trnfft.fft, trnfft.ifft):

        def split(real, imag, transform=transform):
            y = transform(ComplexTensor(real, imag), order="planned")
            return y.real, y.imag

        with trnfft.backend(backend):
            assert torch.autograd.gradcheck(split, parts, fast_mode=True)
            assert torch.autograd.gradgradcheck(split, parts, fast_mode=True)


def convolved(real, imag):
    """[..., 128] with itself: a function of parts alone, for compilers."""
    y = trnfft.fft(ComplexTensor(real, imag), order="planned")
    z = trnfft.ifft(y * y, order="planned")
    return z.real, z.imag


@pytest.mark.parametrize("backend", [sweeps.whole("torch"), "matmul"])
def test_compiled_and_mapped(backend):
    x = random_complex(3, 128)
    expected = torch.fft.ifft(torch.fft.fft(x) ** 2)
    leaves = [part.clone().requires_grad_() for part in (x.real, x.imag)]
    compiled = torch.compile(convolved, fullgraph=True, backend="aot_eager")
    with trnfft.backend(backend):
        eager, found = convolved(*leaves), compiled(*leaves)
        near(torch.complex(*found), expected, double(128, 2))
        grads = [torch.autograd.grad(sum(y).square().sum(), leaves) for y in (eager, found)]
        near(torch.complex(*grads[1]), torch.complex(*grads[0]), double(128, 4))
        near(torch.complex(*torch.func.vmap(convolved)(x.real, x.imag)), expected, double(128, 2))


# Errors


@pytest.mark.parametrize("transform", [trnfft.fft, trnfft.ifft])
def test_unknown_orders(transform):
    with pytest.raises(RuntimeError, match="'order' is 'digits', allowed are 'natural', 'planned'"):
        transform(torch.ones(4), order="digits")
    with pytest.raises(TypeError, match="'order' must be a str, not NoneType"):
        transform(torch.ones(4), order=None)


def test_a_planned_spectrum_is_neither_trimmed_nor_padded():
    for n in (4, 16):
        with pytest.raises(RuntimeError, match=f"'n' is {n}, allowed.*'planned'.* 8"):
            trnfft.ifft(torch.ones(8), n, order="planned")
    assert trnfft.ifft(torch.ones(8), 8, order="planned").shape == (8,)
