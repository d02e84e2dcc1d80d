"""Native complex tensors that autograd follows, as operands of ComplexTensors."""

import copy
import itertools
import re

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, transforms
from tests.trnfft.samples import random_complex, single

FUNCTIONS = {
    "mul": torch.mul,
    "add": lambda a, b: torch.add(a, b, alpha=2),
    "dot": torch.dot,
    "matmul": torch.matmul,
    "kron": torch.kron,
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "an operator": lambda a, b: a - 2 * b,
}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_native_operands_are_native(name, is_first):
    """Also where a function gets them first, which is kept as it is by functions in place only."""
    a, b = random_complex(3), random_complex(3, seed=1)

    def energy(w, z):
        pair = (w, z) if is_first else (z, w)
        return FUNCTIONS[name](*pair).abs().square().sum()

    native, expected = a.clone().requires_grad_(), a.clone().requires_grad_()
    energy(native, trnfft.as_complex_tensor(b)).backward()
    energy(expected, b).backward()
    assert type(native.grad) is torch.Tensor
    near(native.grad, expected.grad, sums(48, native.dtype))  # sums of 3 products for kron


def test_functions_in_place_write_into_a_native_tensor():
    native = torch.zeros(3, dtype=torch.complex64, requires_grad=True)
    z = trnfft.as_complex_tensor(torch.tensor([1 + 2j, 3j, -1]))
    written = native * 1
    same = written.add_(z)
    assert same is written and type(same) is torch.Tensor
    assert torch.equal(written, trnfft.as_native(z))


@pytest.mark.parametrize("name", ["mul_", "div_", "__imul__", "addcmul_", "compiled"])
def test_gradients_of_native_tensors_that_are_written_are_native(name):
    a, b = random_complex(3), random_complex(3, seed=1)
    native, expected = a.clone().requires_grad_(), a.clone().requires_grad_()

    def energy(leaf, z):
        others = (z, leaf) if name == "addcmul_" else (z,)
        written = getattr(leaf * 1, "mul_" if name == "compiled" else name)(*others)
        return written.abs().square().sum()

    is_compiled = name == "compiled"
    of_split = torch.compile(energy, backend="aot_eager") if is_compiled else energy
    of_split(native, trnfft.as_complex_tensor(b)).backward()
    energy(expected, b).backward()
    assert type(native.grad) is torch.Tensor
    near(native.grad, expected.grad, sums(16, native.dtype))


# Derivatives of functions that mix native tensors and ComplexTensors


def _assigned(z, o):
    o[:5] = z[:5]
    return o


def _assigned_one(z, o):
    o[0] = z[0]
    return o


def _assigned_conjugate(z, o):
    o[:5] = z[:5].conj()
    return o.conj()


def _assigned_where(z, o):
    o[torch.arange(9) < 4] = z[:4]
    return o


def _added_to_view(z, o):
    o[1:] += z[1:]
    return o


def _diagonal(z, o):
    o.view(3, 3).diagonal().copy_(z[:3])
    return o


def _of_lists(z, o):
    torch._foreach_add_([o[1:]], [z[1:]])
    return o


def _parts(z, o):
    o.real[:5], o.imag[:5] = z[:5].real, z[:5].imag
    return o


def _pairs(z, o):
    torch.view_as_real(o)[:5] = torch.view_as_real(z)[:5]
    torch.view_as_real(o)[5:, 1] = z[5:].real
    return o


def _both_ways_and_again(z, o):
    o[:5] = z[:5]
    z[3:] = o[3:]
    o[1:3] = z[1:3] + o[4:6]
    z.add_(o)
    return z + o


def _both_ways(z, o):
    o[2:6] = z[2:6]
    z = z * 2
    z[:4] = o[:4] * torch.tensor(1j)
    return z + o


INDEX = torch.tensor([1, 3])
MIXES = {
    "assigned": _assigned,
    "assigned one": _assigned_one,
    "assigned conjugate": _assigned_conjugate,
    "assigned where": _assigned_where,
    "added to a view": _added_to_view,
    "diagonal": _diagonal,
    "lists": _of_lists,
    "parts": _parts,
    "pairs": _pairs,
    "both ways": _both_ways,
    "both ways and again": _both_ways_and_again,
    "copied": lambda z, o: o.copy_(z),
    "put": lambda z, o: o.index_put_((INDEX,), z[:2]),
    "indices": lambda z, o: o.index_add_(0, INDEX, z[:2]),
    "scattered": lambda z, o: o.scatter_(0, INDEX, z[:2]),
    "products": lambda z, o: o.addcmul_(z, torch.ones(9)),
    "between": lambda z, o: o.lerp_(z, 0.5),
    "joined": lambda z, o: torch.cat([o[:4], z[4:]]),
    "chosen": lambda z, o: torch.where(torch.arange(9) < 4, z, o),
    "part of a product": lambda z, o: (o + 1) * z,
}
X, V, WEIGHTS = single(16), single(16, seed=1), single(16, seed=2)
NATIVE = {
    "constant": lambda x: torch.zeros(9, dtype=torch.complex64),
    "followed": lambda x: x[:9] * torch.tensor(1j),  # natively, as a tensor makes no ComplexTensor
}


def cubed(function):
    return lambda x: (function(x) ** 3 * WEIGHTS).sum()


def _by_dual_numbers(f):
    with torch.autograd.forward_ad.dual_level():
        dual = f(torch.autograd.forward_ad.make_dual(X, V))
        return torch.autograd.forward_ad.unpack_dual(dual).tangent


DERIVATIVES = {
    "jvp": lambda f: torch.func.jvp(f, (X,), (V,))[1],
    "dual numbers": _by_dual_numbers,
    "jacfwd": lambda f: torch.func.jacfwd(f)(X),
    "jacrev": lambda f: torch.func.jacrev(f)(X),
    "hessian": lambda f: torch.func.hessian(cubed(f))(X),
    "reverse over reverse": lambda f: torch.func.jacrev(torch.func.grad(cubed(f)))(X),
    "forward over forward": lambda f: torch.func.jacfwd(torch.func.jacfwd(cubed(f)))(X),
    "vmap": lambda f: torch.func.vmap(f)(torch.stack([X, V])),
    "gradient of vmap": lambda f: torch.func.grad(lambda x: cubed(torch.func.vmap(f))(x))(X[None]),
    "hvp": lambda f: torch.autograd.functional.hvp(cubed(f), X, V)[1],
    "vectorized": lambda f: torch.autograd.functional.jacobian(f, X, vectorize=True),
    "vectorized forward": lambda f: torch.autograd.functional.jacobian(
        f, X, vectorize=True, strategy="forward-mode"
    ),
}


def is_refused(native, mix, derivative):
    """Whether torch refuses such a derivative of native tensors alone."""
    if "vmap" in derivative:
        return native == "constant" or mix == "lists"
    if derivative == "forward over forward":
        is_written = mix not in ("joined", "chosen", "part of a product")
        return mix == "both ways" or native == "followed" and is_written
    return derivative == "vectorized forward" and mix == "assigned conjugate"


@sweeps.some(
    "native, mix, derivative",
    itertools.product(NATIVE, MIXES, DERIVATIVES),
    [
        *itertools.product(["constant"], MIXES, ["jvp", "hessian"]),
        *(("constant", mix, "vectorized") for mix in ("both ways", "both ways and again")),
        *(("constant", mix, "vectorized forward") for mix in MIXES if "conjugate" not in mix),
        *zip(itertools.cycle(NATIVE), MIXES, itertools.cycle(DERIVATIVES), strict=False),
    ],
)
def test_derivatives_through_mixes(native, mix, derivative):
    def f(x):
        return trnfft.irfft(MIXES[mix](trnfft.rfft(x), NATIVE[native](x)), n=16)

    if is_refused(native, mix, derivative):
        pytest.skip("torch refuses it")

    with trnfft.backend("torch"):
        expected = DERIVATIVES[derivative](f)
    with trnfft.backend("matmul"):
        near(DERIVATIVES[derivative](f), expected, 8 * transforms(16))  # of four transforms at most


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


def _written(write, use):
    def f(x):
        o = torch.zeros(9, dtype=torch.complex64)
        write(o, trnfft.rfft(x))
        return use(o, trnfft.rfft(x))

    return f


WRITES = {
    "part": lambda o, z: o.real[:5].copy_(z[:5].real),
    "pairs": lambda o, z: torch.view_as_real(o)[:5].copy_(torch.view_as_real(z)[:5]),
    "an operator": lambda o, z: torch.ops.aten.copy_.default(o, z),
}
USES = {
    "native": lambda o, z: (o * o).abs(),
    "split": lambda o, z: trnfft.as_complex_tensor(o).abs(),
    "product": lambda o, z: (z * o).abs(),
    "transform": lambda o, z: trnfft.irfft(o, n=16),
}


VECTORIZED |= {
    f"{write} written, {use} used": _written(WRITES[write], USES[use])
    for write in WRITES
    for use in USES
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


def _set(name, value):
    return lambda z: setattr(z, name, value(z))


# Writes into the parts of a tensor that depends on the input, or into all of it.
OF_PARTS = {
    "imag from real": _set("imag", lambda z: z.real.clone() * 2),
    "real by a constant": _set("real", lambda z: torch.ones(4)),
    "imag of a slice": lambda z: setattr(z[:2], "imag", z[2:].real.clone()),
    "pairs": lambda z: torch.view_as_real(z).mul_(2),
    "real parts of pairs": lambda z: torch.view_as_real(z)[..., 0].copy_(z.imag.clone()),
    "a slice of pairs": lambda z: torch.view_as_real(z)[:2].zero_(),
    "a slice": lambda z: z.__setitem__(slice(2), z[2:] * 2),
    "the whole": lambda z: z.copy_(z.flip(0)),
}


@sweeps.pairs(name=OF_PARTS, strategy=["forward-mode", "reverse-mode"])
def test_vectorized_jacobians_of_writes_are_right_or_refused(name, strategy):
    def function(make, x):
        z = make(x, 2 * x) * (2 + 1j)
        OF_PARTS[name](z)
        return torch.cat([z.real, z.imag])

    x = single(4)
    expected = torch.func.jacrev(lambda x: function(torch.complex, x))(x)
    try:
        found = torch.autograd.functional.jacobian(
            lambda x: function(trnfft.ComplexTensor, x), x, vectorize=True, strategy=strategy
        )
    except (NotImplementedError, RuntimeError) as error:
        assert re.search(r"torch\.func\.jacfwd|is a view and is being modified inplace", str(error))
        assert name not in ("a slice", "the whole")
    else:
        near(found, expected, sums(8))


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
