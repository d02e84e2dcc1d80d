"""The operators of transforms: precision of compiled code, tangents of one part."""

import pytest
import torch
from torch.autograd import forward_ad

import trnfft
from trnfft import ComplexTensor

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
        parts = (y.real, y.imag) if isinstance(y, ComplexTensor) else (y,)
        actual = [forward_ad.unpack_dual(part).tangent for part in parts]
    direction = tangent + 0j if part == "real" else 1j * tangent
    expected = getattr(torch.fft, name)(direction)
    expected = (expected.real, expected.imag) if expected.is_complex() else (expected,)
    for ours, theirs in zip(actual, expected, strict=True):
        assert relative(ours, theirs) < 1e-6
