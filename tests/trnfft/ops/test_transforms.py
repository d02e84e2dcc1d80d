"""The operators of transforms: the precision of compiled code, and tangents of one part."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import nki_sim
import trnfft
from trnfft import ComplexTensor
from trnfft.ops import transforms

from ..samples import single


def relative(actual, expected):
    return (torch.linalg.norm(actual - expected) / torch.linalg.norm(expected)).item()


def test_compiled_functions_have_the_precision_at_run_time():
    x = single(3, 512)
    compiled = torch.compile(lambda x: trnfft.rfft(x).real, fullgraph=True, backend="eager")
    expected = torch.fft.rfft(x.double()).real
    errors = {}
    with trnfft.backend("nki-sim"):
        for precision in ("fast", "kahan", "fast"):
            with trnfft.precision(precision):
                errors[precision] = relative(compiled(x), expected)
    assert errors["kahan"] < 6e-8 < 1.2e-7 < errors["fast"] < 1e-6


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_the_backward_pass_is_on_the_backend_of_the_forward_pass(name):
    x = single(2, 8).requires_grad_()
    with trnfft.backend("nki-sim"):
        y = getattr(trnfft, name)(x)
    with nki_sim.record() as timeline:
        (y.real.sum() if y.is_complex() else y.sum()).backward()
    assert timeline.launches == 1


@pytest.mark.parametrize("dims", [1, 2])
def test_parts_are_transformed_without_complex_tensors(dims):
    real, imag = (single(2, 3, 8).requires_grad_() for _ in range(2))
    last = tuple(range(-dims, 0))
    expected = torch.fft.fftn(torch.complex(real, imag), dim=last)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        actual = transforms.c2c_of_parts(real, imag, dims)
    assert timeline.launches == 1
    assert relative(torch.complex(*actual), expected) < 1e-6
    gradients = [
        torch.autograd.grad(y.square().sum(), (real, imag))
        for y in (actual[0] - actual[1], expected.real - expected.imag)
    ]
    assert all(relative(*pair) < 1e-6 for pair in zip(*gradients, strict=True))


def test_planned_spectra_of_kernels_are_those_of_matrix_products():
    x = single(2, 1000)
    with trnfft.backend("matmul"):
        expected = trnfft.as_native(trnfft.fft(x.double(), order="planned"))
    with trnfft.backend("nki-sim"):
        planned = trnfft.fft(x, order="planned")
        back = trnfft.ifft(planned, order="planned")
    assert relative(trnfft.as_native(planned), expected) < 1e-6
    assert relative(trnfft.as_native(back), x.double() + 0j) < 1e-6


@pytest.mark.parametrize("precision, most", [("kahan", 3e-8), ("double", 1e-14)])
def test_torch_computes_every_kind_in_the_precision(precision, most):
    x = single(3, 1000)
    x = x.double() if precision == "double" else x
    half = torch.fft.rfft(x)
    with trnfft.backend("torch"), trnfft.precision(precision):
        found = trnfft.fft(x), trnfft.rfft(x), trnfft.irfft(half, 1000)
    for actual, name in zip(found[:2], ("fft", "rfft"), strict=True):
        assert relative(trnfft.as_native(actual), getattr(torch.fft, name)(x.double())) < most
    assert relative(found[2], torch.fft.irfft(half.to(torch.complex128), 1000)) < most


def test_torch_transforms_a_tensor_as_it_is():
    class Shapes(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            seen.append(operation.name())
            return operation(*args, **(kwargs or {}))

    x = torch.complex(single(4, 8), single(4, 8, seed=1))
    for dims in ((0, 1), (1,)):
        seen = []
        with trnfft.backend("torch"), Shapes():
            trnfft.fftn(x, dim=dims)
        assert seen.count("aten::_fft_c2c") == 1 and "aten::permute" not in seen


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
def test_nothing_to_transform_and_nothing_in_the_batch(backend):
    with trnfft.backend(backend):
        assert trnfft.fft(single(0, 8)).shape == (0, 8)
        assert trnfft.rfft(single(8, 0, 3), dim=0).shape == (5, 0, 3)
        # Padding makes numbers of none.
        assert not trnfft.as_native(trnfft.fft(single(3, 0), 4)).any()


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
def test_along_no_dimension_it_is_a_contiguous_copy(backend):
    x = ComplexTensor(single(3, 4).T, single(3, 4, seed=1).T)
    with trnfft.backend(backend):
        y = trnfft.fftn(x, dim=())
    for ours, theirs in ((y.real, x.real), (y.imag, x.imag)):
        assert torch.equal(ours, theirs) and ours.is_contiguous()
        assert ours.data_ptr() != theirs.data_ptr()


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("name", ["fft", "ifft", "irfft"])
def test_tangents_of_one_part(name, part, backend):
    real, imag, tangent = single(2, 8), single(2, 8, seed=1), single(2, 8, seed=2)
    function = getattr(trnfft, name)
    with trnfft.backend(backend), forward_ad.dual_level():
        moving = forward_ad.make_dual(real if part == "real" else imag, tangent)
        z = ComplexTensor(moving, imag) if part == "real" else ComplexTensor(real, moving)
        y = function(z)
        parts = (y.real, y.imag) if y.is_complex() else (y,)
        actual = [forward_ad.unpack_dual(part).tangent for part in parts]
    direction = tangent + 0j if part == "real" else 1j * tangent
    expected = getattr(torch.fft, name)(direction)
    expected = (expected.real, expected.imag) if expected.is_complex() else (expected,)
    for ours, theirs in zip(actual, expected, strict=True):
        assert relative(ours, theirs) < 1e-6


@pytest.mark.parametrize("name", ["fft2", "hfft2", "rfft2", "irfft"])
def test_gradients_are_contiguous(name):
    """Programs call `view` on gradients. Those of torch.fft are not always contiguous."""
    x = torch.randn(6, 3, 5, requires_grad=True)
    with trnfft.backend("matmul"):
        y = getattr(trnfft, name)(x)
    (gradient,) = torch.autograd.grad((y * y.conj()).real.sum(), x)
    assert gradient.is_contiguous()
