"""SpectralConv compared with its definition: a matrix for every frequency, and their sum."""

import math
import re

import pytest
import torch

import trnfft
from tests import sweeps
from tests.definitions import neural_operator
from tests.refusals import refused
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.samples import random, single
from trnfft.nn import SpectralConv


def tolerance(layer, sizes, dtype="float64", count=4):
    """Returns that of transforms there and back, by both, and of a matrix between.

    Each number of the matrix may be the sum of a product of factors.
    """
    terms = 2 * layer.in_channels * (8 if layer.weight_factors is not None else 1)
    return together(transforms(sizes, count, dtype), sums(2 * terms, dtype))


CASES = [
    ((6,), (12,), (12,)),
    ((7,), (9,), (9,)),
    ((20,), (8,), (8,)),
    ((6,), (12,), (20,)),
    ((4, 6), (8, 9), (8, 9)),
    ((5, 4), (7, 6), (7, 6)),
    ((8, 8), (5, 6), (5, 6)),
    ((4, 4), (6, 8), (11, 10)),
    ((6, 6), (9, 8), (4, 5)),
    ((2, 3, 4), (5, 4, 6), (5, 4, 6)),
]


@pytest.mark.parametrize("n_modes, sizes, output_shape", CASES)
def test_definition(n_modes, sizes, output_shape):
    torch.manual_seed(0)
    layer = SpectralConv(2, 3, n_modes).double()
    x = random(2, 2, *sizes)
    given = None if output_shape == sizes else output_shape
    near(layer(x, given), neural_operator(layer, x, output_shape), tolerance(layer, output_shape))


FACTORIZATIONS = [(None, 1.0), ("Tucker", 0.6), ("tucker", 2), ("CP", 0.4), ("cp", 3), ("TT", 0.5)]


@sweeps.pairs(
    points=[((6,), (12,)), ((5, 4), (7, 6)), ((2, 4, 4), (5, 4, 6))],
    factors=FACTORIZATIONS,
    separable=[False, True],
    backend=["torch", "matmul"],
)
def test_weights_in_factors_and_separable_ones(points, factors, separable, backend):
    (n_modes, sizes), (factorization, rank) = points, factors
    torch.manual_seed(0)
    given = {"factorization": factorization, "rank": rank, "separable": separable}
    layer = SpectralConv(3, 3, n_modes, **given).double()
    x = random(2, 3, *sizes).requires_grad_()
    with trnfft.backend(backend):
        y, again = layer(x), layer(x, tuple(size + 1 for size in sizes))
    near(y, neural_operator(layer, x, sizes), tolerance(layer, sizes))
    near(
        again, neural_operator(layer, x, tuple(size + 1 for size in sizes)), tolerance(layer, sizes)
    )
    wanted = {"x": x, **dict(layer.named_parameters())}
    actual = torch.autograd.grad(y.square().sum(), wanted.values())
    expected = torch.autograd.grad(neural_operator(layer, x, sizes).square().sum(), wanted.values())
    allowed = together(tolerance(layer, sizes, count=8), sums(y.numel(), y.dtype))
    wholes = [re.sub("_(real|imag)$", "", name) for name in wanted]
    for name, found, right in zip(wholes, actual, expected, strict=True):
        # One part of a complex gradient may cancel, and both of them round alike.
        both = [part for other, part in zip(wholes, expected, strict=True) if other == name]
        near(found, right, allowed, scale=torch.stack(both), message=name)


def whole(layer):
    """The weight by its definition, one sum over all ranks."""
    factors = layer.weight_factors
    first, *rest = (torch.complex(*factors.factor(name)) for name in factors.sizes)
    if factors.name == "tucker":
        return torch.einsum("abcd,ia,ob,jc,kd->iojk", first, *rest)
    if factors.name == "cp":
        return torch.einsum("r,ir,or,jr,kr->iojk", first, *rest)
    return torch.einsum("zia,aob,bjc,ckz->iojk", first, *rest)


@pytest.mark.parametrize("factorization", ["tucker", "cp", "tt"])
def test_what_factors_mean(factorization):
    torch.manual_seed(0)
    layer = SpectralConv(12, 10, (14, 16), factorization=factorization, rank=0.5, init_std=0.3)
    ranks = sum(layer.weight_factors.sizes[name][-1] for name in layer.weight_factors.sizes)
    near(torch.complex(*layer.parts), whole(layer), sums(2 * ranks))
    assert torch.complex(*layer.parts).std().item() == pytest.approx(0.3, rel=0.15)
    assert layer.weight.shape == (12, 10, 14, 9)
    count = sum(p.numel() for p in layer.weight_factors.parameters()) / 2
    assert count == pytest.approx(0.5 * 12 * 10 * 14 * 9, rel=0.1)


def test_new_values():
    for given in ({}, {"factorization": "cp"}):
        layer = SpectralConv(3, 4, (4, 4), init_std=2.0, **given)
        before = layer.weight
        layer.reset_parameters()
        assert not torch.equal(layer.weight.real, before.real)


@pytest.mark.parametrize("factorization", ["tucker", "cp", "tt"])
def test_factors_of_neuraloperator_are_loaded(factorization):
    layer = SpectralConv(3, 4, (4, 6), factorization=factorization, rank=0.5, bias=False)
    state = {}
    for name, size in layer.weight_factors.sizes.items():
        place = "factors." if name.startswith("factor_") else ""
        state[f"weight.{place}{name}"] = random(*size, dtype=torch.complex64)
    layer.load_state_dict(state)
    loaded = [
        torch.complex(*layer.weight_factors.factor(name)) for name in layer.weight_factors.sizes
    ]
    assert all(map(torch.equal, loaded, state.values()))
    copied = SpectralConv(3, 4, (4, 6), factorization=factorization, rank=0.5, bias=False)
    copied.load_state_dict(layer.state_dict())
    assert torch.equal(copied.weight.real, layer.weight.real)


def test_factors_in_one_launch():
    """The whole weight is contracted beside it."""
    layer = SpectralConv(4, 4, (6, 6), factorization="tucker")
    assert trnfft.plan_layer(layer, (2, 4, 12, 12)).launch_count() == 1


@pytest.mark.parametrize("fft_norm", ["backward", "ortho", "forward"])
def test_norms_and_no_bias(fft_norm):
    layer = SpectralConv(2, 3, (4, 4), fft_norm=fft_norm, bias=False).double()
    x = random(2, 2, 6, 8)
    near(layer(x), neural_operator(layer, x, (6, 8)), tolerance(layer, (6, 8)))


def test_first_values():
    torch.manual_seed(0)
    layer = SpectralConv(30, 20, 80)
    for part in (layer.weight_real, layer.weight_imag):
        assert part.std().item() == pytest.approx(math.sqrt(1 / 50), rel=0.02)
    assert SpectralConv(3, 2, 80, init_std=0.0).weight_real.abs().max() == 0


@pytest.mark.parametrize("scale", [2, 1.5])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_skip_connections_get_the_sizes_of_the_output(order, scale):
    layer = SpectralConv(2, 2, (4,) * order, resolution_scaling_factor=scale)
    sizes = (4, 6, 8)[:order]
    x = torch.cos(2 * math.pi * torch.arange(sizes[-1]) / sizes[-1]).expand(1, 2, *sizes)
    skipped = layer.transform(x)
    assert skipped.shape == layer(x).shape == (1, 2, *(int(scale * size) for size in sizes))
    if order == 3:  # trigonometric
        fine = torch.cos(2 * math.pi * torch.arange(scale * 8) / (scale * 8))
        near(skipped, fine.expand_as(skipped), transforms(skipped.shape[2:], 2))
    assert layer.transform(x, sizes) is x
    assert layer.transform(x, (3,) * order).shape == (1, 2, *(3,) * order)


def test_dense_weights_of_neuraloperator_are_loaded():
    layer = SpectralConv(2, 3, (4, 4))
    dense = random(2, 3, 4, 3, dtype=torch.complex64)
    state = {"weight.tensor": dense, "bias": torch.ones(3, 1, 1)}
    layer.load_state_dict(state)
    assert torch.equal(layer.weight_real, dense.real)
    assert torch.equal(layer.weight_imag, dense.imag)
    copied = SpectralConv(2, 3, (4, 4))
    copied.load_state_dict(layer.state_dict())
    assert torch.equal(copied.weight_imag, dense.imag)
    assert list(state) == ["weight.tensor", "bias"]


@pytest.mark.weekly
@sweeps.some("factorization", [None, "tucker", "cp", "tt"], [None, "cp"])
def test_compiled_to_one_graph(factorization):
    layer = SpectralConv(2, 2, (4, 4), factorization=factorization)
    x = single(1, 2, 6, 8)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    near(compiled(x), layer(x), tolerance(layer, (6, 8), x.dtype))


test_arguments_that_are_not_allowed = refused(
    lambda arguments: SpectralConv(
        **{"in_channels": 1, "out_channels": 1, "n_modes": (4, 4), **arguments}
    ),
    [
        (dict(in_channels=0), ValueError, "argument 'in_channels'"),
        (dict(n_modes=(4, 0)), ValueError, "argument 'n_modes'"),
        (dict(n_modes=(4, 2.5)), TypeError, "argument 'n_modes'"),
        (dict(complex_data=True), NotImplementedError, "argument 'complex_data'"),
        (dict(separable=1), TypeError, "argument 'separable'"),
        (dict(separable=True, out_channels=2), ValueError, "argument 'out_channels'"),
        (dict(factorization="svd"), NotImplementedError, "argument 'factorization'"),
        (dict(factorization=3), NotImplementedError, "argument 'factorization'"),
        (dict(implementation="fast"), ValueError, "argument 'implementation'"),
        (
            dict(factorization="tucker", fixed_rank_modes=[4]),
            ValueError,
            "argument 'fixed_rank_modes'",
        ),
        (dict(factorization="tucker", rank=0), ValueError, "argument 'rank'"),
        (dict(factorization="tucker", rank=-0.5), ValueError, "argument 'rank'"),
        (dict(factorization="tucker", rank=(2, 2)), ValueError, "argument 'rank'"),
        (dict(factorization="tucker", rank="x"), ValueError, "argument 'rank'"),
        (dict(factorization="tucker", rank=None), ValueError, "argument 'rank'"),
        (dict(factorization="tucker", rank=1e12), RuntimeError, "argument 'rank'"),
        (dict(factorization="cp", rank=(3,)), ValueError, "argument 'rank'"),
        (dict(factorization="cp", rank=math.nan), ValueError, "argument 'rank'"),
        (dict(factorization="cp", rank=True), TypeError, "argument 'rank'"),
        (dict(factorization="tt", rank=(2, 2, 2, 2, 1)), ValueError, "argument 'rank'"),
        (dict(fno_block_precision="half"), NotImplementedError, "argument 'fno_block_precision'"),
        (dict(max_n_modes=(4, 4)), NotImplementedError, "argument 'max_n_modes'"),
        (dict(max_n_modes=torch.ones(2)), NotImplementedError, "argument 'max_n_modes'"),
        (dict(n_modes=()), ValueError, "argument 'n_modes'"),
        (dict(bias=torch.ones(2)), TypeError, "argument 'bias'"),
        (dict(fft_norm="none"), RuntimeError, "argument 'fft_norm'"),
        (dict(init_std=math.nan), ValueError, "argument 'init_std'"),
        (dict(init_std=-1), ValueError, "argument 'init_std'"),
        (dict(init_std="x"), TypeError, "argument 'init_std'"),
        (
            dict(resolution_scaling_factor=(1, 2, 3)),
            ValueError,
            "argument 'resolution_scaling_factor'",
        ),
        (dict(resolution_scaling_factor="ab"), TypeError, "argument 'resolution_scaling_factor'"),
        (dict(resolution_scaling_factor=0), ValueError, "argument 'resolution_scaling_factor'"),
    ],
)

test_inputs_that_are_not_allowed = refused(
    lambda *given: SpectralConv(2, 1, (2, 2))(*given),
    [
        (torch.ones(1, 3, 4, 4), ValueError, r"allowed is \[B, 2, H, W\]"),
        (
            torch.ones(1, 2, 4, 4) + 0j,
            RuntimeError,
            "argument 'input' has dtype torch.complex64",
        ),
        (torch.ones(1, 2, 4, 4), (4,), ValueError, r"argument 'output_shape' is \(4,"),
        (torch.ones(1, 2, 4, 4), (4, 0), ValueError, r"argument 'output_shape' is \(4, 0"),
    ],
)


@pytest.mark.parametrize("output_shape", [None, (4, 4)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_results_have_the_dtype_of_the_input(dtype, output_shape):
    x = torch.randn(2, 2, 8, 8).to(dtype)
    assert SpectralConv(2, 3, (4, 4))(x, output_shape).dtype == dtype
