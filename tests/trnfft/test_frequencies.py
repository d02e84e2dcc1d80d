"""Sample frequencies and their order, of real and complex data, for even and odd sizes."""

import pytest
import torch

import trnfft
from trnfft import ComplexTensor

Z = torch.complex(*torch.randn(2, 4, 5, 7, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("dim", [None, 0, 1, -1, (1, 2), (0, -1)])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts_are_those_of_torch(name, dim):
    ours, expected = getattr(trnfft, name), getattr(torch.fft, name)(Z, dim)
    assert torch.equal(trnfft.as_native(ours(ComplexTensor.from_complex(Z), dim)), expected)
    assert torch.equal(ours(Z.real, dim), expected.real)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize(
    "input, dim, error, sentence",
    [
        (Z, 3, IndexError, "argument 'dim' is 3, allowed is -3 to 2"),
        (Z, "0", TypeError, "argument 'dim' must be an int, not str"),
        (Z, 10**30, ValueError, "argument 'dim' is an int of 100 bits"),
        (Z, (), RuntimeError, r"argument 'dim' is \(\)"),
        (Z[0, 0, 0], None, RuntimeError, "argument 'dim' is None .* of 0 dimensions"),
        (
            Z[:1, :1, :1].expand(2**20, 2**20, 1),
            0,
            RuntimeError,
            "argument 'input' has shape .*GiB",
        ),
        (Z.tolist(), None, TypeError, "argument 'input' is of type list"),
        (Z.to_sparse(), None, NotImplementedError, "argument 'input' has the layout"),
    ],
)
def test_wrong_arguments(name, input, dim, error, sentence):
    with pytest.raises(error, match=sentence):
        getattr(trnfft, name)(input, dim)
    if isinstance(input, torch.Tensor) and input.layout == torch.strided and input.is_complex():
        z = ComplexTensor.from_complex(Z).as_strided(input.shape, input.stride())
        with pytest.raises(error, match=sentence):
            getattr(trnfft, name)(z, dim)
