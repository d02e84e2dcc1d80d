"""The operators of transforms: the precision of compiled code, and tangents of one part."""

import pytest
import torch
from torch.autograd import forward_ad

import nki_sim
import trnfft
from tests import tolerances
from tests.tolerances import near, relative_error
from trnfft import ComplexTensor
from trnfft.ops import transforms
from trnfft.planner.accuracy import MAX_ERRORS

from ..samples import Noted, single
from .derivatives import BACKENDS, all_near


def test_compiled_functions_have_the_precision_at_run_time():
    x = single(3, 512)
    compiled = torch.compile(lambda x: trnfft.rfft(x).real, fullgraph=True, backend="eager")
    expected = torch.fft.rfft(x.double()).real
    with trnfft.backend("nki-sim"):
        for precision in ("fast", "kahan", "fast"):
            with trnfft.precision(precision):
                y = compiled(x)
            near(y, expected, MAX_ERRORS[precision])
            assert precision == "kahan" or relative_error(y, expected) > 2 * MAX_ERRORS["kahan"]


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
    expected = torch.fft.fftn(torch.complex(real, imag).to(torch.complex128), dim=last)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        actual = transforms.c2c_of_parts(real, imag, dims)
    assert timeline.launches == 1
    near(torch.complex(*actual), expected, tolerances.transforms(24))
    gradients = [
        torch.autograd.grad(y.square().sum(), (real, imag))
        for y in (actual[0] - actual[1], expected.real - expected.imag)
    ]
    all_near(*gradients, tolerances.transforms(24, 2))


def test_planned_spectra_of_kernels_are_those_of_matrix_products():
    x = single(2, 1000)
    with trnfft.backend("matmul"):
        expected = trnfft.as_native(trnfft.fft(x.double(), order="planned"))
    with trnfft.backend("nki-sim"):
        planned = trnfft.fft(x, order="planned")
        back = trnfft.ifft(planned, order="planned")
    near(planned, expected, tolerances.transforms(1000))
    near(back, x + 0j, tolerances.transforms(1000, 2))


@pytest.mark.parametrize("precision", ["kahan", "double"])
def test_torch_computes_every_kind_in_the_precision(precision):
    x = single(3, 1000)
    x = x.double() if precision == "double" else x
    half = torch.fft.rfft(x)
    with trnfft.backend("torch"), trnfft.precision(precision):
        found = trnfft.fft(x), trnfft.rfft(x), trnfft.irfft(half, 1000)
    wide = x.double()
    back = torch.fft.irfft(half.to(torch.complex128), 1000)
    expected = torch.fft.fft(wide), torch.fft.rfft(wide), back
    all_near(found, expected, MAX_ERRORS[precision])


def test_torch_transforms_a_tensor_as_it_is():
    x = torch.complex(single(4, 8), single(4, 8, seed=1))
    for dims in ((0, 1), (1,)):
        with trnfft.backend("torch"), Noted() as noted:
            trnfft.fftn(x, dim=dims)
        seen = [operator.name() for operator, *_ in noted.calls]
        assert seen.count("aten::_fft_c2c") == 1 and "aten::permute" not in seen


@pytest.mark.parametrize("backend", BACKENDS)
def test_along_no_dimension_it_is_a_contiguous_copy(backend):
    x = ComplexTensor(single(3, 4).T, single(3, 4, seed=1).T)
    with trnfft.backend(backend):
        y = trnfft.fftn(x, dim=())
    for ours, theirs in ((y.real, x.real), (y.imag, x.imag)):
        assert torch.equal(ours, theirs) and ours.is_contiguous()
        assert ours.data_ptr() != theirs.data_ptr()


@pytest.mark.parametrize("backend", BACKENDS)
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
    direction = (1 if part == "real" else 1j) * tangent.to(torch.complex128)
    expected = getattr(torch.fft, name)(direction)
    expected = (expected.real, expected.imag) if expected.is_complex() else (expected,)
    all_near(actual, expected, tolerances.transforms(8))


@pytest.mark.parametrize("name", ["fft2", "hfft2", "rfft2", "irfft"])
def test_gradients_are_contiguous(name):
    """Programs call `view` on gradients. Those of torch.fft are not always contiguous."""
    x = torch.randn(6, 3, 5, requires_grad=True)
    with trnfft.backend("matmul"):
        y = getattr(trnfft, name)(x)
    (gradient,) = torch.autograd.grad((y * y.conj()).real.sum(), x)
    assert gradient.is_contiguous()
