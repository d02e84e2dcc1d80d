"""Native complex tensors that autograd follows, as operands of ComplexTensors."""

import copy

import pytest
import torch

import trnfft
from tests.tolerances import near, sums, transforms
from tests.trnfft.samples import random_complex, single


def test_functions_in_place_write_into_a_native_tensor():
    native = torch.zeros(3, dtype=torch.complex64, requires_grad=True)
    z = trnfft.as_complex_tensor(torch.tensor([1 + 2j, 3j, -1]))
    written = native * 1
    same = written.add_(z)
    assert same is written and type(same) is torch.Tensor
    assert torch.equal(written, trnfft.as_native(z))


# Derivatives of functions that mix native tensors and ComplexTensors


def _assigned(z, o):
    o[:5] = z[:5]
    return o


MIXES = {
    "assigned": _assigned,
    "copied": lambda z, o: o.copy_(z),
    "joined": lambda z, o: torch.cat([o[:4], z[4:]]),
}
X, V = single(16), single(16, seed=1)


@pytest.mark.parametrize("mix", MIXES)
def test_the_tangent_of_a_native_tensor_is_native(mix):
    def f(x):
        return MIXES[mix](trnfft.rfft(x), torch.zeros(9, dtype=torch.complex64) * 1)

    with trnfft.backend("matmul"):
        y, tangent = torch.func.jvp(f, (X,), (V,))
        assert type(y) is type(tangent)
        pairs = torch.func.jvp(lambda x: torch.view_as_real(f(x).resolve_conj()), (X,), (V,))[1]
        assert torch.equal(pairs, torch.view_as_real(tangent.resolve_conj()))


VECTORIZED = {
    "magnitudes": lambda x: trnfft.rfft(x).abs(),
    "round trip": lambda x: trnfft.irfft(trnfft.rfft(x) * 2j, 16),
    "frames": lambda x: trnfft.stft(x, 4, window=torch.ones(4), return_complex=True).abs(),
    "views": lambda x: torch.view_as_real(trnfft.fft(x)),
}


@pytest.mark.parametrize("strategy", ["forward-mode", "reverse-mode"])
@pytest.mark.parametrize("name", VECTORIZED)
def test_vectorized_jacobians(name, strategy):
    function, jacobian = VECTORIZED[name], torch.autograd.functional.jacobian
    with trnfft.backend("torch"):
        expected = jacobian(function, X)
    with trnfft.backend("matmul"):
        found = jacobian(function, X, vectorize=True, strategy=strategy)
        near(found, expected, 8 * transforms(16))
        near(torch.func.jacfwd(function)(X), expected, 8 * transforms(16))


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_vectorized_jacobians_with_respect_to_complex_numbers(shape):
    def function(z):
        pairs = torch.view_as_complex(torch.view_as_real(z)).conj() * z
        return torch.stack([pairs.real, z.imag])

    z = trnfft.as_complex_tensor(random_complex(*shape))
    expected = torch.autograd.functional.jacobian(function, z)
    found = torch.autograd.functional.jacobian(function, z, vectorize=True)
    near(trnfft.as_native(found), trnfft.as_native(expected), sums(4))


def test_gradients_of_native_results_are_native():
    native = random_complex(3).requires_grad_()
    z = trnfft.as_complex_tensor(random_complex(3)).requires_grad_()
    for function in (
        lambda n, z: n * z.abs(),
        torch.compile(lambda n, z: n * z.abs(), backend="aot_eager"),
    ):
        y = function(native, z)
        found = torch.autograd.grad(y, [native, z], torch.ones_like(y))
        assert [type(gradient) for gradient in found] == [torch.Tensor, trnfft.ComplexTensor]


def test_a_vectorized_jacobian_of_complex_numbers():
    def found():
        options = {"vectorize": True, "strategy": "forward-mode"}
        return torch.autograd.functional.jacobian(trnfft.rfft, X, **options)

    with trnfft.backend("torch"):
        expected = found()
    with trnfft.backend("matmul"):
        near(found(), expected, transforms(16))


def _constant():
    return trnfft.as_complex_tensor(torch.zeros(9, dtype=torch.complex64))


def _with_part(z):
    w = _constant()
    w.real = z.real
    return w


def _with_pairs(z):
    w = _constant()
    torch.view_as_real(w)[:5] = torch.view_as_real(z)[:5]
    return w


def _with_part_of_a_view(z):
    z[1:].real = z[1:].imag
    return z


NOT_VECTORIZED = {
    "determinant": lambda z: torch.linalg.det(z.view(3, 3)),
    "part of a constant": _with_part,
    "pairs of a constant": _with_pairs,
    "part of a view": _with_part_of_a_view,
    "pairs of a slice": lambda z: torch.view_as_real(z[1:]),
}


@pytest.mark.parametrize("name", NOT_VECTORIZED)
def test_what_cannot_be_vectorized_is_named(name):
    def f(x):
        return NOT_VECTORIZED[name](trnfft.rfft(x)).abs()

    with trnfft.backend("matmul"):
        with pytest.raises(NotImplementedError, match=r"torch\.func\.jacrev"):
            torch.autograd.functional.jacobian(f, X, vectorize=True, strategy="forward-mode")
        # The first one is computed on the host, and the other has a graph that is written.
        if name not in ("determinant", "part of a view"):
            near(torch.func.jacfwd(f)(X), torch.func.jacrev(f)(X), 8 * transforms(16))


def test_vectorized_jacobians_are_right_or_refused_where_they_are_differentiated():
    def sum_of_squares(x, function, vectorize):
        jacobian = torch.autograd.functional.jacobian
        found = jacobian(function, x, create_graph=True, vectorize=vectorize)
        return torch.autograd.grad(found.square().sum(), x)[0]

    x = X.clone().requires_grad_()
    with trnfft.backend("matmul"):
        for function in (lambda v: trnfft.rfft(v.sin()).abs(), lambda v: trnfft.fft(v.sin()).imag):
            expected = sum_of_squares(x, function, False)
            near(sum_of_squares(x, function, True), expected, 8 * transforms(16))
        with pytest.raises(NotImplementedError, match=r"'create_graph'.*torch\.func\.jacrev"):
            sum_of_squares(x, lambda v: trnfft.irfft(trnfft.rfft(v) ** 2), True)


def test_a_copied_parameter_has_no_gradient():
    parameter = torch.nn.Parameter(trnfft.as_complex_tensor(random_complex(3)))
    parameter.abs().sum().backward()
    assert copy.deepcopy(parameter).grad is None  # as of torch's own
    leaf = parameter.detach().requires_grad_()
    leaf.abs().sum().backward()
    assert copy.deepcopy(leaf).grad is not None


def test_tangents_without_memory():
    """A process ended where a product read such a tangent of a native tensor."""

    def function(z):
        z.zero_()
        x = z[torch.tensor([0, 0])]
        return torch.nn.functional.linear(x, x)

    z, v = (trnfft.as_complex_tensor(random_complex(1, seed=seed)) for seed in (0, 1))

    def tangent(z):
        return torch.func.jvp(function, (z,), (v * 2,))[1]  # which is written, too

    found = torch.func.jvp(tangent, (z,), (v * 3,))
    assert [trnfft.as_native(x) for x in found] == [0, 0]


def test_second_tangents_of_a_transform_of_one_number():
    """The tangent of the tangent has no memory, and a transform of one number multiplies by 1."""

    def tangent(v):
        return torch.func.jvp(lambda v: trnfft.fft(v) * v, (v,), (2 * z,))[1]

    z = trnfft.ComplexTensor(torch.ones(1), torch.ones(1))
    with trnfft.backend("matmul"):
        assert torch.func.jvp(tangent, (z,), (3 * z,))[1].tolist() == [24j]
