"""Writes into views and reads from them agree with torch's complex64, or are refused."""

import copy
import ctypes
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.checkpoint import checkpoint

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, transforms
from tests.trnfft.complex import operators_table
from trnfft import ComplexTensor
from trnfft.complex import dispatch, table

# What torch says where it cannot keep views of parts right.
REFUSED = "modified inplace|view is the output of a function that returns multiple views"


@pytest.fixture(autouse=True)
def as_on_a_device():
    torch._dynamo.reset()
    with trnfft.backend("matmul"):
        yield


def leaf():
    return torch.arange(1.0, 7).reshape(2, 3).requires_grad_()


def weighed(*results):
    """A number that depends on each element, and on real and imaginary parts, in another way."""
    total = 0
    for y in results:
        count = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
        total = (
            total + (y.real * count).sum() + ((y.imag * count**2).sum() if y.is_complex() else 0)
        )
    return total


def gradient(make, function, compiled):
    a = leaf()
    z = make(a * 1, a * 2)
    run = torch.compile(function, backend="aot_eager") if compiled else function
    results = run(z)
    weighed(*(results if isinstance(results, tuple) else (results,))).backward()
    return a.grad


def view_before_a_write(z):
    view = z.mT
    z[:, 1:].mul_(3j)
    return view, z * 2


def test_gradients_of_a_compiled_function_that_writes():
    expected = gradient(torch.complex, view_before_a_write, False)
    near(gradient(ComplexTensor, view_before_a_write, True), expected, sums(16))


def part_read_before_a_write(z):
    part = z.real
    z.mul_(2)
    return part * 1


def part_written(z):
    z.real.mul_(3)
    return z * z


def part_written_after_a_view(view):
    def function(z):
        kept = view(z)
        z.real.mul_(3)
        return kept * 1

    return function


VIEWS = [lambda z: z[0], lambda z: z.mT, lambda z: z.view(-1), lambda z: z.diagonal()]
WRITES_OF_PARTS = [part_read_before_a_write, part_written, *map(part_written_after_a_view, VIEWS)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("function", WRITES_OF_PARTS)
def test_views_of_parts_are_refused_where_a_derivative_would_be_wrong(function, compiled):
    with pytest.raises(RuntimeError, match=REFUSED):
        gradient(ComplexTensor, function, compiled)


def test_operators_called_by_their_overload_write_into_native_tensors():
    z = ComplexTensor(torch.ones(3), torch.ones(3)).requires_grad_()
    native = torch.ones(3, dtype=torch.complex64)
    native[:1] = z[:1]
    torch.ops.aten.add_.Tensor(native, z)
    assert native.tolist() == [2 + 2j, 2 + 1j, 2 + 1j]


VIEWS_TO_COMPILE = {
    "part": lambda z: z.real,
    "row": lambda z: z[0],
    "rest": lambda z: z[1:],
    "element of the rest": lambda z: z[1:][..., -1],
    "part of a transpose": lambda z: z.mT[0].imag,
    "conjugate": lambda z: z.conj(),
    "part of a conjugate": lambda z: z.conj().imag,
    "pairs": torch.view_as_real,
    "part of pairs": lambda z: torch.view_as_real(z)[..., 0],
    "expanded": lambda z: z[0].expand(3, 3),
}


@sweeps.some(
    "name, is_followed",
    [(name, is_followed) for name in VIEWS_TO_COMPILE for is_followed in (False, True)],
    [*((name, True) for name in VIEWS_TO_COMPILE), *((n, False) for n in ("row", "pairs"))],
)
def test_views_go_into_compiled_functions(name, is_followed):
    view = VIEWS_TO_COMPILE[name]
    a = leaf() if is_followed else leaf().detach()
    x, z = (view(make(a * 1, a * 2)) for make in (torch.complex, ComplexTensor))
    found = torch.compile(lambda v: v * v, backend="aot_eager", fullgraph=True)(z)
    near(found, x * x, sums(2))


RETURNED_VIEWS = {
    "pairs": lambda x: torch.view_as_real(trnfft.fft(x)),
    "slice of pairs": lambda x: torch.view_as_real(trnfft.fft(x))[:, 1:],
    "pairs in another order": lambda x: torch.view_as_real(trnfft.fft(x)).movedim(-1, 0),
    "each of the pairs": lambda x: torch.view_as_real(trnfft.fft(x)).unbind(-1),
    "parts": lambda x: (trnfft.fft(x).real, trnfft.fft(x).imag),
    "pairs and a spectrum": lambda x: (torch.view_as_real(trnfft.fft(x)), trnfft.fft(x * x)),
    "loss": lambda x: torch.view_as_real(trnfft.fft(x)).square().sum(),
}


@sweeps.some("name", RETURNED_VIEWS, ["pairs", "slice of pairs", "pairs and a spectrum"])
def test_gradients_of_views_that_a_compiled_function_returns(name):
    run, gradients = RETURNED_VIEWS[name], []
    for backend in ("torch", "matmul"):
        x = leaf()
        with trnfft.backend(backend):
            is_split = backend == "matmul"
            y = torch.compile(run, backend="aot_eager", fullgraph=True)(x) if is_split else run(x)
            weighed(*(y if isinstance(y, tuple) else (y,))).backward()
        gradients.append(x.grad)
    near(gradients[1], gradients[0], transforms(3, 24))


@sweeps.some("dynamic", [False, True], [True])
def test_gradients_of_returned_pairs_are_of_either_kind(dynamic):
    f = torch.compile(RETURNED_VIEWS["pairs"], backend="aot_eager", dynamic=dynamic)
    gradient = torch.complex(leaf().detach(), leaf().detach() / 2)
    for given in (gradient, ComplexTensor.from_complex(gradient)):
        x, native = leaf(), leaf()
        f(x).backward(torch.view_as_real(given))
        torch.fft.fft(native).backward(gradient)
        near(x.grad, native.grad, transforms(3))


def test_pairs_that_no_loss_depends_on_have_no_gradient():
    x = leaf()
    run = torch.compile(lambda x: (torch.view_as_real(trnfft.fft(x)), x * 2), backend="aot_eager")
    run(x)[1].sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_what_compiled_functions_do_not_use_has_no_gradient():
    a = leaf()
    z, w = ComplexTensor(a, a), ComplexTensor(leaf().detach(), leaf().detach()).requires_grad_()
    run = torch.compile(lambda z, w: (w.real * 2, z == w), backend="aot_eager")
    run(z, w)[0].sum().backward()
    assert a.grad is None and w.grad is not None


def set_real(z):
    z[:1].real = z[1:].imag
    return z * 2


def write_afterwards(view):
    def run(z):
        view(z).mul_(3)
        return z * z

    return run


VIEWS_OF_ARGUMENTS = {
    "one": lambda z: z[0],
    "columns": lambda z: z[:, 1:].t(),
    "one of several": lambda z: (z * 2, z.view(6))[1],
}


@pytest.mark.parametrize("name", VIEWS_OF_ARGUMENTS)
def test_views_that_a_compiled_function_returns_are_written(name):
    view = VIEWS_OF_ARGUMENTS[name]
    found = gradient(
        ComplexTensor, write_afterwards(torch.compile(view, backend="aot_eager")), False
    )
    near(found, gradient(torch.complex, write_afterwards(view), False), sums(16))


def test_parts_of_views_are_set_where_a_graph_breaks():
    expected = gradient(torch.complex, set_real, False)
    near(gradient(ComplexTensor, set_real, True), expected, sums(8))


def test_compiled_functions_do_not_write_into_conjugates():
    a = leaf()
    run = torch.compile(lambda z: z.mul_(2), backend="aot_eager")
    with pytest.raises(RuntimeError, match="conjugated lazily, allowed are"):
        run(ComplexTensor(a, a).conj())


@pytest.mark.parametrize("run", ["backward", "grad", "autograd.backward"])
def test_a_backward_pass_computes_checkpoints_again(run):
    def loss(z):
        return checkpoint(lambda v: (v.abs() + v.real.exp()).sum(), z, use_reentrant=False)

    gradients = []
    for make in (torch.complex, ComplexTensor):
        z = make(leaf().detach(), leaf().detach()).requires_grad_()
        gradient = torch.ones(2, 3, dtype=torch.complex64)
        w = z * loss(z)
        if run == "grad":
            gradients.append(torch.autograd.grad(w, z, gradient)[0])
        else:
            w.backward(gradient) if run == "backward" else torch.autograd.backward(w, gradient)
            gradients.append(z.grad)
    near(gradients[1], gradients[0], sums(8))


@pytest.mark.parametrize(
    "change",
    [lambda x: x.set_(x * 2), lambda x: x.squeeze_(), lambda x: x.t_(), lambda x: x.resize_(3)],
)
def test_pairs_of_parts_keep_their_shape_and_memory(change):
    z = ComplexTensor(torch.ones(1, 1), torch.ones(1, 1))
    with pytest.raises(RuntimeError, match="not allowed"):
        change(torch.view_as_real(z))
    assert trnfft.as_native(z) == 1 + 1j


def doors(x):
    """What leads to the memory of a tensor."""
    written = x.clone().apply_(lambda number: 2 * number)
    numbers = torch.tensor([x[0, 0, 0], x[0, 0, 1]])
    loaded = copy.deepcopy(x), pickle.loads(pickle.dumps(x)), torch.from_dlpack(x)
    arrays = x.numpy(), np.asarray(x), np.from_dlpack(x), np.abs(x), np.array(x.tolist())
    return [written, numbers, *loaded, *map(torch.as_tensor, arrays), x.untyped_storage().nbytes()]


def test_doors_to_the_memory_of_pairs():
    native = torch.polar(torch.ones(2, 3), torch.arange(6.0).reshape(2, 3))
    pairs = torch.view_as_real(ComplexTensor.from_complex(native))
    for found, expected in zip(doors(pairs), doors(torch.view_as_real(native)), strict=True):
        near(found, expected, sums(2))
    assert f"{pairs[0, 1, 0]:.3f}" == f"{native[0, 1].real:.3f}"
    with pytest.raises(RuntimeError, match="not allowed"):
        pairs.data_ptr()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.zeros(2, 3, 2).data = pairs


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_negated_part_keeps_its_sign_outside_of_torch(is_followed):
    z = ComplexTensor(leaf(), 2 * leaf()) if is_followed else ComplexTensor(*[leaf().detach()] * 2)
    part = z.conj().imag.detach()
    expected = -z.detach().numpy().imag
    assert np.array_equal(np.from_dlpack(part), expected)
    contiguous = part.contiguous()
    assert not contiguous.is_neg()
    memory = ctypes.string_at(contiguous.data_ptr(), expected.nbytes)  # which safetensors writes
    assert memory == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("compiled", [False, True])
def test_the_product_of_one_number_is_no_view(compiled):
    def product(z):
        number = z.prod()
        z.mul_(2)
        return number

    z = ComplexTensor(torch.ones(1), torch.ones(1))
    run = torch.compile(product, backend="aot_eager") if compiled else product
    assert run(z) == 1 + 1j


@pytest.mark.parametrize("index", [-3, 2, 5])
def test_a_pair_has_two_numbers(index):
    z = ComplexTensor(torch.ones(3), torch.ones(3))
    with pytest.raises(IndexError):
        torch.view_as_real(z).select(-1, index)


def test_shapes_that_change_in_place_leave_other_views_alone():
    z = ComplexTensor(torch.ones(2, 3), torch.ones(2, 3))
    pairs, conjugate = torch.view_as_real(z), z.conj()
    with torch._C.DisableTorchFunctionSubclass():  # as below transforms of torch.func
        z.t_()
    assert pairs.clone().shape == (2, 3, 2) and conjugate.real.shape == (2, 3)


def test_results_of_operators_share_memory_with_no_argument(monkeypatch):
    shared, calls = set(), 0

    def memory(values):
        parts = [(x._real, x._imag) if isinstance(x, ComplexTensor) else x for x in values]
        tensors = [x for x in tree_leaves(parts) if type(x) is torch.Tensor and x.numel()]
        return {x.untyped_storage().data_ptr() for x in tensors}

    def noted(overload, args, kwargs):
        nonlocal calls
        result = original(overload, args, kwargs)
        is_view = dispatch.is_view(overload) or dispatch.written_by(overload)
        if not is_view and str(overload) not in ("aten._unsafe_view.default",):
            calls += 1
            if memory(tree_leaves(result)) & memory(tree_leaves((args, kwargs))):
                shared.add(str(overload))
        return result

    original = dispatch.dispatch
    monkeypatch.setattr(table, "dispatch", noted)
    with operators_table.drawn_quickly():
        for entry in op_db:
            if torch.complex64 not in entry.dtypes or "unsafe" in entry.name:
                continue
            samples = entry.sample_inputs("cpu", torch.complex64, requires_grad=False)
            for sample, _ in zip(samples, range(2), strict=False):
                with warnings.catch_warnings(), torch._C.DisableTorchFunctionSubclass():
                    warnings.simplefilter("ignore")
                    values = sample.input, sample.args, sample.kwargs
                    try:
                        given = tree_map_only(torch.Tensor, _split, values)
                        entry.op(given[0], *given[1], **given[2])
                    except (
                        AssertionError,
                        NotImplementedError,
                        RuntimeError,
                        TypeError,
                        ValueError,
                    ):
                        continue  # what ComplexTensors do not have
    assert calls > 500
    assert shared == set()


def _split(x):
    return ComplexTensor.from_complex(x.detach()) if x.is_complex() else x.detach()


class WithPairs(torch.nn.Module):
    """As layers that keep a complex parameter as the real pairs that other devices store."""

    def __init__(self):
        super().__init__()
        z = ComplexTensor(torch.ones(3), torch.zeros(3))
        self.weight = torch.nn.Parameter(torch.view_as_real(z))


@pytest.mark.parametrize(
    "change",
    [
        copy.deepcopy,
        lambda layer: pickle.loads(pickle.dumps(layer)),
        lambda layer: layer.to("meta"),
        lambda layer: layer.double(),
        lambda layer: layer.share_memory(),
    ],
)
def test_parameters_of_pairs_are_moved_and_copied(change):
    layer = change(WithPairs())
    assert isinstance(layer.weight, torch.nn.Parameter) and layer.weight.requires_grad
    assert layer.weight.is_leaf and layer.weight.shape == (3, 2)
    if layer.weight.device.type == "cpu":
        assert layer.weight.sum() == 3
    assert list(dict(layer.named_parameters())) == ["weight"]


def test_splitting_copies_in_inference_mode():
    with torch.inference_mode():
        native = torch.ones(3, dtype=torch.complex64)
        array = native.clone().numpy()
        for z in (trnfft.as_complex_tensor(native), ComplexTensor.from_numpy(array)):
            z.mul_(2)
    later = trnfft.as_complex_tensor(native)  # of what was made in inference mode, after it
    with torch.no_grad():
        later.mul_(2)
    assert native.tolist() == array.tolist() == [1, 1, 1]


def test_splitting_copies_in_compiled_functions():
    native = torch.ones(3, dtype=torch.complex64)
    torch.compile(trnfft.as_complex_tensor, backend="aot_eager")(native).mul_(2)
    assert native.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "view",
    [
        lambda z: z.real,
        lambda z: z.imag,
        lambda z: z[1:],
        lambda z: z.conj(),
        lambda z: z.view(2, 2),
        torch.view_as_real,
        lambda z: torch.view_as_real(z)[..., 1],
    ],
)
@pytest.mark.parametrize("is_parameter", [False, True])
def test_views_in_inference_mode(view, is_parameter):
    native = torch.arange(4.0) + 1j
    z = ComplexTensor.from_complex(native)
    if is_parameter:
        native, z = torch.nn.Parameter(native), torch.nn.Parameter(z)
    with torch.inference_mode():
        for made, expected in ((view(z), view(native)), (view(z * 2), view(native * 2))):
            assert made.is_inference() == expected.is_inference()
            assert made.requires_grad == expected.requires_grad
            assert trnfft.as_native(made).tolist() == expected.tolist()
        view(z.detach()).mul_(3)
        view(native.detach()).mul_(3)
        assert trnfft.as_native(z).tolist() == native.tolist()
        assert (z * z).is_inference()
        kept, kept_native = z * 2, native * 2
    made, expected = view(kept), view(kept_native)  # of what was made in inference mode, after it
    assert made.is_inference() == expected.is_inference()
    assert trnfft.as_native(made).tolist() == expected.tolist()
    near(kept.abs(), kept_native.abs(), sums(4))
    assert trnfft.as_native(z).tolist() == native.tolist()


def test_a_resolved_negative_is_a_copy():
    z = ComplexTensor(torch.arange(1.0, 4), torch.arange(4.0, 7))
    before = z.imag.clone()
    negative = z.conj().imag.resolve_neg()
    assert torch.equal(negative, -before)
    negative.zero_()
    assert torch.equal(z.imag, before)
    part = z.imag
    part.resolve_neg().zero_()  # no copy of what has no sign to resolve, as in torch
    assert not part.any()
