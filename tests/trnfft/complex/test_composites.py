"""Derivatives where torch's own formula would make native complex tensors, or write into parts."""

import pytest
import torch

from tests.tolerances import near, sums
from tests.trnfft.complex.comparison import assert_same, split
from tests.trnfft.complex.strict import NoComplexDtypes
from tests.trnfft.samples import random_complex
from trnfft import ComplexTensor

MASK = torch.tensor([True, False, True])
INDEX = torch.tensor([0, 2])

WRITTEN = {
    "by a mask": lambda x, v: x.__setitem__(MASK, v[:2]),
    "by an index": lambda x, v: x.__setitem__(INDEX, v[:2]),
    "by two indices": lambda x, v: x.__setitem__((INDEX, INDEX), v[0, :2]),
    "by a slice": lambda x, v: x.__setitem__(slice(1), v[:1]),
    "a number": lambda x, v: x.__setitem__(MASK, 2),
    "a complex number": lambda x, v: x.__setitem__((0, 1), 2j),
    "masked_fill_": lambda x, v: x.masked_fill_(MASK, v[0, 0]),
    "pow_": lambda x, v: x.pow_(v),
    "pow_ of a number": lambda x, v: x.pow_(2.5),
    "put_": lambda x, v: x.put_(INDEX, v[0, :2]),
    "index_put_": lambda x, v: x.index_put_((INDEX,), v[:2]),
    "cumprod_": lambda x, v: x.cumprod_(0),
}


def two_of(seed):
    """Returns a native complex leaf, and the ComplexTensor of the same numbers."""
    z = random_complex(3, 3, seed=seed)
    return z.requires_grad_(), split(z.detach()).requires_grad_()


@pytest.mark.parametrize("name", WRITTEN)
def test_derivatives_of_writing(name):
    (z, x), (v, w) = two_of(0), two_of(1)
    written = z.clone()
    WRITTEN[name](written, v)
    (written * torch.arange(9).reshape(3, 3)).abs().sum().backward()
    with NoComplexDtypes():
        changed = x.clone()
        WRITTEN[name](changed, w)
        (changed * torch.arange(9).reshape(3, 3)).abs().sum().backward()
    assert_same(changed, written)
    for native, ours in ((z, x), (v, w)):
        assert (native.grad is None) == (ours.grad is None)
        if native.grad is not None:
            assert_same(ours.grad, native.grad, 32)


def test_what_a_derivative_keeps_of_a_part_must_not_change():
    _, leaf = two_of(0)
    x = leaf * 1
    squares = (x.real * x.real).sum()
    x.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        squares.backward()


def test_a_conjugate_is_a_view_as_in_torch():
    native, x = (z.detach().clone() for z in two_of(0))
    for z in (native, x):
        z.conj()[0].mul_(2j)
        z.mH.imag.add_(1)
    assert_same(x, native)
    assert x.conj().is_conj() and not x.conj().resolve_conj().is_conj()
    with pytest.raises(RuntimeError, match="resolve_conj"):
        torch.view_as_real(x.conj())


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0])
def test_derivative_of_a_power_at_zero(exponent):
    x = ComplexTensor(torch.zeros(2), torch.zeros(2)).requires_grad_()
    (x ** torch.tensor(exponent)).real.sum().backward()
    expected = torch.full((2,), float(exponent == 1), dtype=torch.complex64)
    assert torch.equal(x.grad.to_complex(), expected)


def test_decompositions_of_larger_matrices():
    """Products of the factors."""
    z = random_complex(2, 40, 25)
    a = split(z)
    square = a.mH @ a
    identity = torch.eye(25, dtype=torch.complex128).expand(2, 25, 25)
    with NoComplexDtypes():
        p, lower, upper = torch.linalg.lu(a)
        q, r = torch.linalg.qr(a)
        u, s, vh = torch.linalg.svd(a, full_matrices=False)
        values, vectors = torch.linalg.eigh(square)
        factor = torch.linalg.cholesky(square)
        products = [p @ lower @ upper, q @ r, (u * s[:, None, :]) @ vh]
        squares = [(vectors * values[:, None, :]) @ vectors.mH, factor @ factor.mH]
        units = [q.mH @ q, u.mH @ u, vh @ vh.mH, vectors.mH @ vectors]
        units.append(torch.linalg.inv(square) @ square)
    # Each of 25 steps rounds sums of up to 40 terms.
    for product in products:
        assert_same(product, z, 25 * 40)
    for product in squares:
        assert_same(product, square.to_complex(), 25 * 40)
    for product in units:
        assert_same(product, identity, 25 * 40)
    near(s, torch.linalg.svdvals(z), sums(25 * 40, s.dtype))


def test_singular_and_indefinite_matrices_are_refused():
    singular = ComplexTensor(torch.ones(2, 2), torch.ones(2, 2))
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(singular)
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        torch.linalg.cholesky(ComplexTensor(-torch.eye(2), torch.zeros(2, 2)))
    assert torch.linalg.det(singular) == 0


def test_what_has_no_derivative_is_refused():
    x = ComplexTensor(torch.ones(3, 2), torch.zeros(3, 2)).requires_grad_()
    q, r = torch.linalg.qr(x, mode="complete")
    with pytest.raises(RuntimeError, match="mode='complete' and nrows > ncols"):
        (q @ r).abs().sum().backward()
