"""BlockCirculantLinear compared with dense layers, its computation, and the data that it keeps."""

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nki_sim
import trnfft
from tests import sweeps
from tests.operands import of_tensors
from tests.refusals import called, refused
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.nn.steps import exact_step, step, terms_of_step
from tests.trnfft.samples import random, single
from trnfft.nn import BlockCirculantLinear, convert_linear
from trnfft.ops import block_circulant
from trnfft.ops import block_circulant as ops_block_circulant
from trnfft.planner.kinds import BlockCirculant
from trnfft.planner.planner import plan_for

block_circulant_product = of_tensors(ops_block_circulant.block_circulant_product)

F64 = dict(dtype=torch.float64)


def product_tolerance(layer, dtype=torch.float32, count=3):
    """Returns the tolerance of transforms of both factors, of sums of blocks and of one back."""
    blocks = max(layer.weight.shape[:2])
    return together(transforms(layer.block_size, count, dtype), sums(2 * blocks, dtype))


def assert_as_dense(layer, x):
    """Fails unless results and gradients are those of the dense layer, computed in float64."""
    dtype, dense = x.dtype, layer.to_dense()
    cotangent = random(*x.shape[:-1], layer.out_features, dtype=dtype, seed=1)
    exact = exact_step(dense, x, cotangent)
    exact[2] = folded(layer, exact[2])
    terms = terms_of_whole_blocks(layer, x, cotangent)
    rows = sums(x.shape[:-1].numel(), dtype)
    tolerance = product_tolerance(layer, dtype)
    tolerances = tolerance, tolerance, together(tolerance, rows), rows
    found = step(layer, x, cotangent)
    for one, expected, allowed, scale in zip(found, exact, tolerances, terms, strict=False):
        assert one.dtype == dtype
        near(one, expected, allowed, scale=scale)


def terms_of_whole_blocks(layer, x, cotangent):
    """Returns `terms_of_step` of all numbers of blocks, also of those left out.

    A transform spreads the rounding of each number over its whole block.
    """
    to, of, size = layer.weight.shape
    whole = BlockCirculantLinear(of * size, to * size, size, layer.bias is not None)
    with torch.no_grad():
        whole.weight.copy_(layer.weight)
        if layer.bias is not None:
            whole.bias.zero_()[: layer.out_features].copy_(layer.bias)
    x = nn.functional.pad(x, (0, whole.in_features - x.shape[-1]))
    cotangent = nn.functional.pad(cotangent, (0, whole.out_features - cotangent.shape[-1]))
    y, of_x, of_weight, *of_bias = terms_of_step(whole.to_dense(), x, cotangent)
    of_weight = folded(whole, of_weight.square()).sqrt()
    return [y, of_x, of_weight, *(each[: layer.out_features] for each in of_bias)]


def folded(layer, dense):
    """Returns the sums of the numbers of a dense matrix that are one in the layer's weight."""
    total = torch.zeros(layer.weight.numel(), **F64)
    total.index_add_(0, layer._index(layer.weight).flatten(), dense.flatten())
    return total.view_as(layer.weight)


class Transforms(Counter):
    """Counts transforms, forward and inverse, by the rows that rfft and irfft are called with."""

    def __init__(self, monkeypatch, module=block_circulant):
        super().__init__()
        for name in ("rfft", "irfft"):
            monkeypatch.setattr(module, name, self._counting(name, getattr(module, name)))

    def _counting(self, name, function):
        def counted(x, *rest):
            self[name] += x.shape[:-1].numel()
            return function(x, *rest)

        return counted


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from([(), (1,), (5,), (2, 3), (0,)]),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from(["torch", "matmul"]),
)
@settings(deadline=None, max_examples=25)
def test_as_dense(features_in, features_out, block_size, bias, lead, dtype, backend):
    layer = BlockCirculantLinear(features_in, features_out, block_size, bias, dtype=dtype)
    with trnfft.backend(backend):
        assert_as_dense(layer, random(*lead, features_in, dtype=dtype))


@pytest.mark.weekly
@pytest.mark.parametrize("backend", ["torch", "matmul"])
@pytest.mark.parametrize(
    "block_size", [1, 2, 31, 128, 256, 1024, *map(sweeps.whole, (127, 255, 512, 2048, 4096))]
)
def test_block_sizes(block_size, backend):
    layer = BlockCirculantLinear(block_size + 5, 2 * block_size - 1, block_size)
    with trnfft.backend(backend):
        assert_as_dense(layer, single(3, block_size + 5))


@pytest.mark.parametrize("frozen", ["input", "weight", "bias"])
def test_frozen_tensors_get_no_gradient(frozen):
    layer = BlockCirculantLinear(6, 8, 4, **F64)
    x = random(3, 6).requires_grad_(frozen != "input")
    if frozen != "input":
        getattr(layer, frozen).requires_grad_(False)
    layer(x).sum().backward()
    assert (x.grad is None) == (frozen == "input")
    assert (layer.weight.grad is None) == (frozen == "weight")
    assert (layer.bias.grad is None) == (frozen == "bias")


@pytest.mark.parametrize("of_x", [True, False])
def test_kernels_make_the_gradient_that_is_asked_for(of_x):
    x, weight = single(3, 6).requires_grad_(of_x), single(2, 2, 3, seed=1).requires_grad_(not of_x)
    leaf = x if of_x else weight
    gradients = []
    for backend in ("nki-sim", "torch"):
        with trnfft.backend(backend):
            (found,) = torch.autograd.grad(block_circulant_product(x, weight).square().sum(), leaf)
        gradients.append(found)
    # The gradient of a square is three products.
    near(*gradients, together(transforms(3, 6), sums(2 * 2 + 3)))


def test_a_step_takes_the_optimised_number_of_transforms(monkeypatch):
    rows, p, q, k = 5, 3, 4, 8
    layer, x = BlockCirculantLinear(q * k, p * k, k), single(rows, q * k)
    x.requires_grad_()
    counts = Transforms(monkeypatch)
    y = layer(x)
    assert counts == {"rfft": rows * q + p * q, "irfft": rows * p}  # no inverse for each pair
    counts.clear()
    y.sum().backward()
    assert counts == {"rfft": rows * p, "irfft": rows * q + p * q}  # nothing anew but dy


def test_a_first_layer_makes_no_gradient_of_its_input(monkeypatch):
    layer = BlockCirculantLinear(32, 24, 8)
    y = layer(single(5, 32))
    counts = Transforms(monkeypatch)
    y.sum().backward()
    assert counts == {"rfft": 5 * 3, "irfft": 3 * 4}


@pytest.mark.parametrize(
    "backend, dtype",
    [*itertools.product(["torch", "matmul"], [torch.float32, torch.float64]), ("nki-sim", None)],
)
@pytest.mark.parametrize("shape", [(5, 24, 16, 8), (7, 30, 33, 7), (1, 6, 4, 1), (1024, 4, 4, 4)])
def test_spectra_are_all_that_is_saved(shape, backend, dtype):
    rows, features_in, features_out, k = shape
    layer = BlockCirculantLinear(features_in, features_out, k, dtype=dtype)
    saved = []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor
    )
    with trnfft.backend(backend), hooks:
        x = random(rows, features_in, dtype=dtype or torch.float32)
        layer(x.requires_grad_(backend != "nki-sim"))
        expected = layer.saved_bytes(rows, dtype or torch.float32)
    assert sum(x.untyped_storage().nbytes() for x in saved) == expected
    of_transforms = layer.saved_bytes(rows, dtype or torch.float32)  # outside of the block
    assert expected <= (1.02 if backend == "nki-sim" else 1) * of_transforms


@pytest.mark.parametrize("of_x", [True, False])
def test_spectra_for_gradients_that_nobody_wants_are_not_saved(of_x):
    x, weight = random(3, 8).requires_grad_(of_x), random(5, 2, 4).requires_grad_(not of_x)
    shapes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: shapes.append(tuple(tensor.shape)) or tensor, lambda tensor: tensor
    ):
        block_circulant_product(x, weight)
    assert shapes == [(2, 2, 3, 5 if of_x else 3)]


@pytest.mark.parametrize("features", [(12, 8), (13, 9), (3, 5), (1, 7)])
def test_from_dense_is_the_best_approximation(features):
    linear = nn.Linear(*features, **F64)
    layer = BlockCirculantLinear.from_dense(linear, 4)
    # Least squares over all weights: the dense matrix is linear in them.
    basis = torch.eye(layer.weight.numel(), **F64)[:, layer._index(layer.weight).flatten()].T
    best = torch.linalg.lstsq(basis, linear.weight.flatten()[:, None], driver="gelsd").solution
    nearest = (basis @ best).view_as(linear.weight)
    near(layer.to_dense().weight, nearest, sums(basis.shape[1], nearest.dtype))
    assert torch.equal(layer.bias, linear.bias)


def test_numbers_of_the_weight_that_stand_for_none_of_the_dense_layer_are_zeros():
    layer = BlockCirculantLinear.from_dense(nn.Linear(1, 7), 4)
    # Of the second block's first column three numbers are in rows that the layer has.
    assert layer.weight[1, 0, 3] == 0 and torch.count_nonzero(layer.weight) == 7
    x = single(3, 1)
    near(layer(x), layer.to_dense()(x), product_tolerance(layer))


def test_from_dense_returns_what_to_dense_made():
    layer = BlockCirculantLinear(13, 22, 5, bias=False, dtype=torch.float64).eval()
    again = BlockCirculantLinear.from_dense(layer.to_dense(), 5)
    near(again.to_dense().weight, layer.to_dense().weight, sums(5, "float64"))
    assert again.bias is None and not again.training


def test_counts():
    layer = BlockCirculantLinear(4096, 4096, 64, bias=False)
    assert (layer.parameter_count, layer.compression_ratio) == (64 * 64 * 64, 64.0)
    layer = BlockCirculantLinear(10, 5, 4)
    assert layer.parameter_count == 2 * 3 * 4 + 5
    assert layer.compression_ratio == 55 / 29
    assert repr(layer) == (
        "BlockCirculantLinear(in_features=10, out_features=5, block_size=4, bias=True)"
    )


@pytest.mark.parametrize("features", [(1000, 600), (1024, 600)])
def test_first_values_keep_the_variance_of_a_dense_layer(features):
    torch.manual_seed(0)
    x = single(500, features[0], seed=1)
    dense = nn.Linear(*features)(x).var()
    assert abs(BlockCirculantLinear(*features, 64)(x).var() / dense - 1) < 0.05


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
def test_forward_mode(backend):
    layer = BlockCirculantLinear(12, 8, 4)
    with torch.no_grad():
        layer.bias.uniform_()
    x, v = single(5, 12), single(5, 12, seed=1)
    weight, w = layer.weight.detach(), single(2, 3, 4, seed=2)
    linear = BlockCirculantLinear(12, 8, 4, bias=False)

    def product(weight, x):
        return torch.func.functional_call(linear, {"weight": weight}, (x,))

    tolerance = together(*2 * [product_tolerance(layer)])
    with trnfft.backend(backend):
        near(torch.func.jvp(layer, (x,), (v,))[1], product(weight, v), tolerance)
        both = torch.func.jvp(product, (weight, x), (w, v))[1]
        near(both, product(w, x) + product(weight, v), tolerance)
        # The derivative of a square, whose reverse mode is in forward mode.
        dense = layer.to_dense()
        found, expected = (
            torch.func.jvp(torch.func.grad(lambda x, f=f: f(x).square().sum()), (x,), (v,))[1]
            for f in (layer, dense)
        )
        near(found, expected, together(tolerance, tolerance))


def test_vectorized_jacobians_name_what_works():
    layer, x = BlockCirculantLinear(12, 8, 4), single(12)
    with pytest.raises(NotImplementedError, match=r"'vectorize'.*torch\.func\.jacrev"):
        torch.autograd.functional.jacobian(layer, x, vectorize=True)


def test_conversion_of_a_model():
    shared = nn.Linear(16, 16)
    model = nn.Sequential(
        shared, nn.ReLU(), nn.Sequential(shared, nn.Linear(16, 3)), nn.Linear(4, 4)
    )
    attention = nn.MultiheadAttention(16, 2)
    assert convert_linear(model, 4) is model
    assert isinstance(model[0], BlockCirculantLinear) and model[0] is model[2][0]
    assert type(model[2][1]) is nn.Linear  # fewer features than a block
    assert isinstance(model[3], BlockCirculantLinear)  # as many
    assert isinstance(convert_linear(attention, 4).out_proj, nn.Linear)
    assert isinstance(convert_linear(shared, 4), BlockCirculantLinear)


def test_conversion_of_a_transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = convert_linear(nn.TransformerEncoder(layer, 2), 4)
    assert isinstance(model.layers[1].linear2, BlockCirculantLinear)
    x = single(2, 5, 16)
    expected = model(x)
    with torch.no_grad():
        # Two layers of six products of 32 terms, each of blocks of 4.
        near(model.eval()(x), expected, together(transforms(4, 36), sums(12 * 32)))


def test_conversion_of_chosen_layers():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    convert_linear(model, 4, lambda name, linear: name == "1" and linear.bias is not None)
    assert type(model[0]) is nn.Linear and isinstance(model[1], BlockCirculantLinear)


@pytest.mark.weekly
@sweeps.some("block_size", [1, 3, 8, 16, 100, 256, 257, 512], [1, 3, 8, 257])
def test_kernels(block_size):
    layer = BlockCirculantLinear(2 * block_size + 1, 2 * block_size, block_size)
    with trnfft.backend("nki-sim"):
        assert_as_dense(layer, single(5, 2 * block_size + 1))


def test_a_launch_in_each_direction():
    layer, x = BlockCirculantLinear(30, 20, 8), single(2, 3, 30)
    x.requires_grad_()
    with trnfft.backend("nki-sim"):
        with nki_sim.record() as forward:
            y = layer(x)
        with nki_sim.record() as backward:
            y.sum().backward()
    assert (forward.launches, backward.launches) == (1, 1)


@pytest.mark.parametrize("rows", [2, sweeps.whole(128), 512])
def test_launches_take_the_time_that_is_planned_for_the_rows(rows):
    x, weight = single(rows, 4 * 64).requires_grad_(), single(4, 4, 64, seed=1).requires_grad_()
    with trnfft.backend("nki-sim"):
        with nki_sim.record() as forward:
            y = block_circulant_product(x, weight)
        with nki_sim.record() as backward:
            y.sum().backward()
    for gradients, timeline in ((False, forward), (True, backward)):
        plan = plan_for(BlockCirculant(4, 4, 64, gradients=gradients), batch=rows)
        assert plan.predicted_ns == pytest.approx(timeline.total_ns, abs=0.1)


def test_nothing_in_the_batch():
    layer = BlockCirculantLinear(12, 8, 4)
    with trnfft.backend("nki-sim"):
        assert layer(torch.zeros(0, 12)).shape == (0, 8)


def test_results_of_kernels_have_the_shapes_that_graphs_are_told():
    x, weight, bias = single(5, 12), single(2, 3, 4, seed=1), single(8, seed=2)
    operators = torch.ops.trnfft.block_circulant, torch.ops.trnfft.block_circulant_gradients
    checks = ("test_schema", "test_faketensor")
    with trnfft.backend("nki-sim"):
        y, *spectra = operators[0](x, weight, bias, "nki-sim")
        torch.library.opcheck(operators[0], (x, weight, bias, "nki-sim"), test_utils=checks)
        torch.library.opcheck(operators[1], (y, *spectra, 4, "nki-sim"), test_utils=checks)


@pytest.mark.parametrize("in_dims", [(1, None), (None, 2), (2, 3), (-1, 0)])
def test_kernels_under_vmap_over_any_dimension(in_dims):
    x, weight = single(3, 8), single(2, 2, 4)
    if in_dims[0] is not None:
        x = torch.stack([x, x + 1, -x], in_dims[0])
    if in_dims[1] is not None:
        weight = torch.stack([weight, weight + 1, -weight], in_dims[1])
    expected = torch.func.vmap(block_circulant_product, in_dims)(x.double(), weight.double())
    with trnfft.backend("nki-sim"):
        actual = torch.func.vmap(block_circulant_product, in_dims)(x, weight)
    near(actual, expected, together(transforms(4, 3), sums(4)))


# Spectra of 1024 rows, of x or of the weight, have gaps.
@pytest.mark.parametrize("rows, k, p", [(3, 4, 2), (3, 5, 2), (1024, 4, 2), (3, 2, 1024)])
def test_second_derivatives_of_kernels(rows, k, p):
    given = [single(*size).requires_grad_() for size in [(rows, 2 * k), (p, 2, k)]]

    def second():
        y = block_circulant_product(*given)
        by_x, by_w = torch.autograd.grad(y.square().sum(), given, create_graph=True)
        return torch.autograd.grad(by_x.square().sum() + by_w.square().sum(), given)

    with trnfft.backend("nki-sim"):
        actual = second()
    for result, expected in zip(actual, second(), strict=True):
        # Five products lie on the way, of which two sum over the rows.
        near(result, expected, together(transforms(k, 15), sums(2 * rows + 6 * p)))


LAYER = BlockCirculantLinear(8, 8, 4)

test_what_is_refused = refused(
    called,
    [
        *[
            (
                lambda sizes=sizes: BlockCirculantLinear(*sizes),
                ValueError,
                f"argument '{name}' is 0, allowed is 1 or more",
            )
            for name, sizes in (
                ("in_features", (0, 8, 4)),
                ("out_features", (8, 0, 4)),
                ("block_size", (8, 8, 0)),
            )
        ],
        (
            lambda: BlockCirculantLinear(8, 8, 4, dtype=torch.complex64),
            TypeError,
            "argument 'dtype' is torch.complex64",
        ),
        (lambda: LAYER(torch.zeros(2, 7)), ValueError, r"shape \(2, 7\), allowed is \[..., 8\]"),
        (lambda: LAYER(torch.zeros(2, 8).long()), TypeError, "dtype torch.int64"),
        (lambda: LAYER([0.0] * 8), TypeError, "type list"),
    ],
)

test_what_cannot_be_converted = refused(
    convert_linear,
    [
        (None, 4, TypeError, "'model' is of type NoneType, allowed is torch.nn.Module"),
        (nn.Linear(8, 8), 0, ValueError, "'block_size' is 0"),
        (nn.Linear(8, 8), 2.0, TypeError, "'block_size' must be an int, not float"),
        *[
            (nn.Linear(8, 4), 2, predicate, TypeError, "argument 'predicate' is")
            for predicate in (3, "x", torch.tensor(1))
        ],
        (
            nn.Sequential(nn.Linear(4, 4, dtype=torch.complex64)),
            2,
            TypeError,
            "argument 'model' has the layer '0', for which",
        ),
    ],
)
