"""ComplexTensor compared with native complex tensors, which give every right result."""

import copy
import io
import operator
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from tests.refusals import called, refused
from tests.tolerances import near, sums
from tests.trnfft.complex.comparison import assert_same, split
from tests.trnfft.samples import native, random_complex
from trnfft import ComplexTensor

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]


# Construction


def test_from_complex_and_back():
    z = random_complex(2, 3)
    for value in (z, z.conj(), z.real):
        x = ComplexTensor.from_complex(value)
        assert x.dtype == z.dtype and torch.equal(x.to_complex(), value + 0j)


# Description


@pytest.mark.parametrize(
    "part, whole",
    [
        (torch.float16, torch.complex32),
        (torch.bfloat16, torch.complex64),
        (torch.float32, torch.complex64),
        (torch.float64, torch.complex128),
    ],
)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_dtype_is_that_of_to_complex(part, whole):
    x = ComplexTensor(torch.ones(2, dtype=part), torch.zeros(2, dtype=part))
    assert x.dtype == whole
    assert x.to_complex().dtype == whole
    assert x.real.dtype == part


def test_description():
    x = split(random_complex(2, 3, 4))
    assert x.shape == x.size() == (2, 3, 4)
    assert x.size(1) == x.size(-2) == 3
    assert (x.ndim, x.numel(), len(x), x.device) == (3, 24, 2, torch.device("cpu"))
    assert not x.requires_grad
    assert ComplexTensor(torch.ones(2), torch.ones(2, requires_grad=True)).requires_grad
    with pytest.raises(TypeError):
        len(x[0, 0, 0])


def test_repr_shows_values_dtype_and_layout_as_torch_does():
    z = random_complex(2, 2, 3)
    expected = repr(z).replace("tensor(", "ComplexTensor(").replace("\n  ", "\n" + " " * 9)
    assert repr(split(z)) == expected
    assert repr(split(torch.tensor([1 + 2j]))) == "ComplexTensor([1.+2.j])"


def test_repr_works_for_every_kind():
    x = ComplexTensor(torch.ones(1), torch.zeros(1))
    assert "real.dtype=torch.bfloat16" in repr(x.to(torch.bfloat16))
    assert "real.dtype=torch.float16" in repr(x.to(torch.float16))
    assert "device='meta'" in repr(x.to("meta"))
    assert "requires_grad=True" in repr(
        ComplexTensor.from_complex(torch.ones(1, requires_grad=True))
    )


def saved(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("kept_by", [saved, copy.deepcopy])
def test_tensors_share_memory_in_a_file_and_in_a_copy_as_in_torch(kept_by):
    native = random_complex(3)
    found = []
    for z in (native, split(native)):
        views = {
            "whole": z,
            "row": z[0],
            "rest": z[1:],
            "column": z[None].mT,
            "conjugate": z.conj(),
        }
        again = kept_by(views | {"parameter": torch.nn.Parameter(z)})
        again["whole"].mul_(2j)
        found.append(again)
    for name, expected in found[0].items():
        assert_same(found[1][name], expected)


def test_a_file_with_one_part_for_both_gives_two():
    part = torch.ones(3)
    build, arguments = ComplexTensor(part, part).__reduce_ex__(2)
    z = build(part, part, *arguments[2:])
    z.real.zero_()
    assert z.tolist() == [1j] * 3


# Arithmetic

OPERANDS = {
    "ComplexTensor": split(random_complex(3, 4, seed=1)),
    "broadcasting ComplexTensor": split(random_complex(2, 1, 4, seed=2)),
    "other precision": split(random_complex(4, dtype=torch.complex64, seed=3)),
    "real tensor": torch.linspace(1, 2, 4, dtype=torch.float64),
    "larger real tensor": torch.linspace(1, 2, 24, dtype=torch.float64).reshape(2, 3, 4),
    "integer tensor": torch.arange(1, 5),
    "zero-dimensional tensor": torch.tensor(2.5, dtype=torch.float64),
    "native complex tensor": random_complex(3, 1, seed=4),
    "conjugate view": random_complex(3, 1, seed=4).conj(),
    "int": 3,
    "float": 0.1,
    "complex": 2 - 0.3j,
    "NumPy float": np.float32(0.5),
    "NumPy complex": np.complex64(0.5 + 1j),
}


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("apply", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_arithmetic_in_both_orders(apply, name, dtype):
    z = random_complex(3, 4, dtype=dtype)
    other = OPERANDS[name]
    number = other.item() if isinstance(other, np.generic) else native(other)
    for mine, theirs in (((split(z), other), (z, number)), ((other, split(z)), (number, z))):
        result, expected = apply(*mine), apply(*theirs)
        assert isinstance(result, ComplexTensor) and result.dtype == expected.dtype
        near(result, expected, sums(8, expected.dtype))


@pytest.mark.parametrize("apply", [*OPERATORS, torch.add, torch.pow, torch.matmul, torch.eq])
def test_arithmetic_rejects_foreign_operands(apply):
    x = split(random_complex(2))
    for other in ("a", None, [1.0, 2.0]):
        with pytest.raises(TypeError):
            apply(x, other)
        with pytest.raises(TypeError):
            apply(other, x)


@pytest.mark.parametrize("apply", [*OPERATORS, operator.eq, operator.ne])
def test_shapes_that_do_not_broadcast_are_both_named(apply):
    x = split(random_complex(2, 3))
    for other in (split(random_complex(4)), torch.ones(4)):
        with pytest.raises(RuntimeError, match=r"\(2, 3\).*\(4,\)"):
            apply(x, other)


@pytest.mark.parametrize("apply", OPERATORS)
def test_operators_are_seen_by_modes_of_functions(apply):
    class Recorded(TorchFunctionMode):
        names: list[str] = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    z = ComplexTensor(torch.ones(3), torch.ones(3))
    with Recorded() as mode:
        apply(z, z)
        apply(2.0, z)
    assert len(mode.names) >= 2


def test_numbers_beyond_the_dtype_are_infinite_as_in_torch():
    z = random_complex(2, dtype=torch.complex64)
    assert not (split(z) == 1e300).any()
    assert_same(split(z) / 1e300, z / 1e300)
    assert (split(z) * 1e300).real.isinf().all()


def test_abs_neither_overflows_nor_underflows():
    z = torch.tensor([3e300 + 4e300j, 3e-300 + 4e-300j, 0j], dtype=torch.complex128)
    expected = torch.tensor([5e300, 5e-300, 0], dtype=torch.float64)
    near(abs(split(z)), expected, sums(4, z.dtype), each=True)


@given(
    exponents=st.tuples(*[st.integers(-307, 307)] * 4),
    signs=st.tuples(*[st.sampled_from([-1.5, 1.0, 2.5])] * 4),
)
@settings(deadline=None, max_examples=100)
def test_division_of_any_magnitudes(exponents, signs):
    """Normwise accurate wherever the quotient is a normal number, by exact rational arithmetic."""
    a, b, c, d = (sign * 10.0**exponent for sign, exponent in zip(signs, exponents, strict=True))
    quotient = split(torch.tensor([complex(a, b)], dtype=torch.complex128)) / complex(c, d)
    a, b, c, d = map(Fraction, (a, b, c, d))
    square = c * c + d * d
    real, imag = (a * c + b * d) / square, (b * c - a * d) / square
    size = max(abs(real), abs(imag))
    assume(Fraction(10) ** -290 < size < Fraction(10) ** 307)
    found = [Fraction(part.item()) / size for part in (quotient.real, quotient.imag)]
    differences = [
        float(part - exact / size) for part, exact in zip(found, (real, imag), strict=True)
    ]
    near(np.array(differences), np.zeros(2), sums(8, "float64"), scale=1)


def test_division_by_zero_is_not_finite():
    quotient = 1 / split(torch.zeros(2, dtype=torch.complex64))
    assert not quotient.real.isfinite().any()


def test_equality_is_elementwise():
    z = torch.tensor([1 + 2j, 1 + 0j, 3 + 2j])
    x = split(z)
    for other in (1 + 2j, 1, torch.tensor([1.0, 1.0, 3.0]), z[:1], split(z.flip(0))):
        assert torch.equal(x == other, z == native(other))
        assert torch.equal(x != other, z != native(other))
        assert torch.equal(other == x, z == native(other))
    assert (x == "a") is False
    assert (x != None) is True  # noqa: E711
    assert len({x, x, x.clone()}) == 2


test_what_it_is_not_made_of = refused(
    called,
    [
        *[
            (lambda parts=parts: ComplexTensor(*parts), TypeError, f"'{name}'.*{kind}")
            for part, kind in (
                *[(one, type(one).__name__) for one in (1.0, [1.0], np.ones(2), None)],
                *[
                    (torch.ones(2).to(dtype), rf"{dtype}.*torch\.float32")
                    for dtype in (torch.int32, torch.bool, torch.complex64, torch.float8_e4m3fn)
                ],
            )
            for name, parts in (("real", (part, torch.ones(2))), ("imag", (torch.ones(2), part)))
        ],
        (
            lambda: ComplexTensor(torch.ones(2, 3), torch.ones(3)),
            ValueError,
            r"\(2, 3\).*\(3,\)",
        ),
        (
            lambda: ComplexTensor(torch.ones(2), torch.ones(2, dtype=torch.float64)),
            TypeError,
            r"torch\.float32.*torch\.float64",
        ),
        (
            lambda: ComplexTensor(torch.ones(2), torch.ones(2, device="meta")),
            ValueError,
            "'cpu'.*'meta'",
        ),
        *[
            (lambda z=z: ComplexTensor.from_complex(z), TypeError, "'z'")
            for z in (torch.arange(3), torch.ones(2, dtype=torch.bool), [1j], 1j)
        ],
        (lambda: ComplexTensor.from_polar("a", torch.ones(2)), TypeError, "'abs'"),
        (
            lambda: ComplexTensor.from_polar(torch.ones(2), torch.ones(2).int()),
            TypeError,
            "'angle'",
        ),
        (
            lambda: ComplexTensor.from_polar(torch.ones(2), torch.ones(2).double()),
            TypeError,
            "'abs' has dtype torch.float32 .* 'angle' has torch.float64",
        ),
        (
            lambda: ComplexTensor.from_polar(torch.ones(2), torch.ones(2, device="meta")),
            ValueError,
            "on 'cpu' .* on 'meta'",
        ),
        (
            lambda: ComplexTensor.from_polar(torch.ones(2), torch.ones(3)),
            ValueError,
            r"'abs' has shape \(2,\) .* must broadcast",
        ),
        (
            lambda: ComplexTensor.from_polar(torch.ones(1).expand(2**45), torch.ones(1)),
            RuntimeError,
            "'abs' has shape .* needs 131072 GiB",
        ),
        (
            lambda: ComplexTensor(torch.ones(1).expand(2**45), torch.ones(1).expand(2**45)),
            RuntimeError,
            "'real' has shape .* needs 131072 GiB",
        ),
        (
            lambda: ComplexTensor.from_complex(torch.ones(1).expand(2**45)),
            RuntimeError,
            "'z' has shape .* needs 131072 GiB",
        ),
        (
            lambda: ComplexTensor.from_complex(torch.ones(2).to(torch.complex64).to_sparse()),
            TypeError,
            "'z' is torch.sparse_coo",
        ),
        (lambda: ComplexTensor.from_numpy(np.ones(3)[::-1]), ValueError, "'array'.*negative"),
        (lambda: ComplexTensor.from_numpy(np.ones(3, ">f8")), ValueError, "'array'.*byte order"),
        (lambda: ComplexTensor.from_numpy(np.ones(3, np.longdouble)), TypeError, "'array'"),
    ],
)


def test_truth_value_as_torch():
    assert split(torch.tensor([1j]))
    assert not split(torch.tensor(0j))
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(split(random_complex(2)))


# Shape, place and history


def test_contiguous_makes_both_parts_contiguous():
    x = split(random_complex(3, 2)).mT
    assert not x.real.is_contiguous()
    x = x.contiguous()
    assert x.real.is_contiguous() and x.imag.is_contiguous()


def test_indices_out_of_range():
    x = split(random_complex(2))
    assert [y.item() for y in x] == x.tolist()
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(TypeError):
        iter(x[0])


def test_to():
    x = split(random_complex(2))
    for dtype in (torch.complex64, torch.float32):
        for y in (x.to(dtype), x.to("cpu", dtype), x.to(dtype=dtype)):
            assert y.real.dtype == y.imag.dtype == torch.float32
    assert x.to("meta").device.type == "meta"
    with pytest.raises(TypeError, match="int32"):
        x.to(torch.int32)


# Derivatives


def test_attributes_are_copied_as_of_any_tensor():
    x = split(random_complex(2))
    x.note = ["a"]
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.note == ["a"] and y.note is not x.note


def test_format_of_a_number():
    z = torch.tensor(1.25 + 2j)
    assert f"{split(z):.2f}" == f"{z:.2f}" and f"{split(z)}" == f"{z}"
    with pytest.raises(TypeError):
        format(split(z[None]), ".2f")


NUMPY = {
    "abs": lambda z: np.abs(z),
    "angle": lambda z: np.angle(z),
    "sum": lambda z: np.sum(np.asarray(z), axis=0),
    "exp": lambda z: np.exp(z),
    "real": lambda z: np.real(z),
    "with an array": lambda z: z + np.ones(3),
    "joined": lambda z: np.concatenate([z, z]),
    "of several": lambda z: np.array([z, z]),
    "norm": lambda z: np.linalg.norm(z),
}


@pytest.mark.parametrize("name", NUMPY)
def test_functions_of_numpy(name):
    z = random_complex(3)
    result, expected = (NUMPY[name](x) for x in (split(z), z))
    if not isinstance(expected, torch.Tensor) or not expected.is_complex():
        assert type(result) is type(expected)
    near(result, expected, sums(8, "float64"))
    with pytest.raises(RuntimeError, match="detach"):
        np.abs(split(z).requires_grad_())


def test_functions_far_from_the_range_of_numbers():
    z = torch.tensor([100, -100, 100j, -100j, complex("-inf+infj")])
    for name in ("sin", "cos", "sinh", "cosh", "tanh", "exp"):
        result, expected = (getattr(torch, name)(x) for x in (split(z[:4]), z[:4]))
        assert_same(result, expected)
    assert_same(split(z[4:]).exp(), z[4:].exp())


test_what_is_refused = refused(
    lambda call: call(split(random_complex(1, 2))),
    [
        (lambda x: x.sum(dtype=torch.float32), TypeError, "'dtype' is torch.float32"),
        (lambda x: x.prod(dtype=torch.float32), TypeError, "'dtype' is torch.float32"),
        (lambda x: torch.nn.functional.mse_loss(x, x), NotImplementedError, "square"),
        (lambda x: x.squeeze_(), NotImplementedError, "z = z.squeeze"),
        (lambda x: x.data_ptr(), RuntimeError, "z.real.data_ptr"),
        (lambda x: x.storage(), RuntimeError, "z.real.storage"),
        (lambda x: setattr(x.to_complex(), "data", x), RuntimeError, "as_native"),
        (lambda x: torch.utils.dlpack.to_dlpack(x), RuntimeError, "data pointer"),
        (
            lambda x: torch.func.functionalize(lambda y: ComplexTensor(y, y))(x.real),
            NotImplementedError,
            r"functionalize.*make_fx",
        ),
    ],
)


def test_copies_that_leave_through_doors_to_memory():
    z = random_complex(3)
    assert torch.equal(torch.from_dlpack(split(z)), z)
    assert np.array_equal(np.from_dlpack(split(z)), z.numpy())
    assert split(z).untyped_storage().tolist() == z.untyped_storage().tolist()
    assert_same(split(z).apply_(lambda number: 2 * number), 2 * z)


def test_double_backward_with_native_gradients():
    x = split(random_complex(3)).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: x * x.conj() * x, x)


def test_traced_functions_take_other_numbers():
    traced = make_fx(lambda a: a * 2)(split(random_complex(2)))
    assert_same(traced(split(random_complex(2, seed=1))), random_complex(2, seed=1) * 2)


# Functions of a ComplexTensor and of another one, or of its parts, that the function does not take.
WITH_CONSTANTS = {
    "product": lambda a, z: a * z,
    "of another operator": lambda a, z: (z * 2 + a).abs(),
    "in a list": lambda a, z: torch.stack([z, a]),
    "write": lambda a, z: z.clone().mul_(a),
    "part": lambda a, z: a.real * z.imag,
    "pairs": lambda a, z: torch.view_as_real(z) * torch.view_as_real(a),
    "transform": lambda a, z: torch.fft.ifft(torch.fft.fft(z) * a),
}


@pytest.mark.parametrize("name", WITH_CONSTANTS)
def test_traced_functions_have_constants(name):
    function, z = WITH_CONSTANTS[name], random_complex(3, seed=1)
    constant = split(z)
    traced = make_fx(lambda a: function(a, constant))(split(random_complex(3, seed=2)))
    for seed in (3, 4):  # a trace that writes into its constants gives other numbers the next time
        x = random_complex(3, seed=seed)
        assert_same(traced(split(x)), function(x, z))


@pytest.mark.parametrize("name", ["square", "exp", "abs", "angle", "fft.ifft"])
def test_linearized_functions_have_the_tangents_of_jvp(name):
    function, z, v = operator.attrgetter(name)(torch), random_complex(4), random_complex(4, seed=1)
    result, tangent = torch.func.linearize(function, split(z))
    expected, of_v = torch.func.jvp(function, (z,), (v,))
    assert_same(result, expected)
    assert_same(tangent(split(v)), of_v)


def test_functionalized_writes_into_a_part_of_a_conjugate():
    def write(z):
        z.imag[...] = 1
        return z.abs()

    z = ComplexTensor(torch.tensor([2.0]), torch.tensor([3.0])).conj()
    torch.func.functionalize(write)(z)
    assert z.resolve_conj().to_complex().tolist() == [2 + 1j]
