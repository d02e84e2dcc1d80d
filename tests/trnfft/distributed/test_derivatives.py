"""First and second derivatives of transforms of DTensors, compared with those of torch.fft."""

import pytest
import torch

from tests import sweeps
from tests.tolerances import transforms
from tests.trnfft.distributed import cases, chunked
from tests.trnfft.distributed.cases import Case

PARTS = {"form": "parts"}  # torch 2.9 takes no parts of native shards that are uneven
CASES = [
    Case("fftn", (6, 5, 4), (4,), (0,), **PARTS),
    Case("fftn", (6, 5, 4), (4,), (0,), out=(1,), **PARTS),
    Case("rfftn", (6, 5, 7), (4,), (2,), is_complex=False),
    Case("irfftn", (6, 4, 4), (2, 2), (0, 1)),
    Case("fftn", (6, 5), (2, 2), (0, 1), {"s": (8, 3)}, **PARTS),
    Case("fft", (36,), (4,), (0,)),
    Case("fft", (13,), (4,), (0,), **PARTS),
    Case("rfft", (9,), (4,), (0,), is_complex=False),
    Case("irfft", (9,), (4,), (0,), **PARTS),
    Case("fft", (2, 3), (4,), (0,), **PARTS),
    Case("fft", (4, 6), (2, 2), ("R", 0), {"dim": 0}),
]


def loss_of(y, weights):
    """Of third order, so that its second derivatives depend on the input."""
    if isinstance(y, torch.Tensor) and not y.is_complex():
        return (y * y * y * weights).sum()
    size = y.real * y.real + y.imag * y.imag
    return (size * y.real * weights).sum()


def derivatives(x, y, weights):
    """That of the loss, and that of the size of the first."""
    (first,) = torch.autograd.grad(loss_of(y, weights), x, create_graph=True)
    size = first.real * first.real + first.imag * first.imag if x.is_complex() else first * first
    (second,) = torch.autograd.grad(size.sum(), x)
    return first, second


def check(rank, chosen, chunks=None):
    """Fails unless this process's parts of the derivatives of each case are those of torch.fft."""
    with chunked.in_chunks(chunks):
        for case in chosen:
            check_one(case)


def check_one(case):
    from torch.distributed.tensor import distribute_tensor

    import trnfft

    x = cases.sample(case)
    whole = x.clone().requires_grad_()
    wanted = cases.reference(whole, case)
    weights = torch.linspace(-1, 1, wanted.numel(), dtype=case.dtype).view(wanted.shape)
    expected = derivatives(whole, wanted, weights)
    given = cases.spread(x, case).requires_grad_()
    if case.out is None:
        y = getattr(trnfft, case.name)(given, **case.arguments)
    else:
        y = getattr(trnfft.distributed, case.name)(
            given, out_placements=cases.placements_of(case.out)
        )
    like = y.real if y.is_complex() else y
    spread = distribute_tensor(weights, like.device_mesh, like.placements)
    found = derivatives(given, y, spread)
    # Four transforms lead to the second derivative, and the reference has as many.
    tolerance = transforms(4 * max(x.numel(), wanted.numel()), 8, case.dtype)
    for mine, its in zip(found, expected, strict=True):
        like = mine.real if mine.is_complex() else mine
        assert like.placements == cases.placements_of(case.placements), (case, like.placements)
        cases.compare(mine, its, tolerance, message=str(case))


BY_DEFAULT = [CASES[index] for index in (1, 2, 3, 6, 8)]


@pytest.mark.weekly
@sweeps.some("case", CASES, BY_DEFAULT)
def test_first_and_second(four, case):
    four.run(check, [case])


@pytest.mark.weekly
@pytest.mark.parametrize("chosen", [CASES[::5], sweeps.whole(CASES)], ids=["some", "all"])
def test_in_chunks(four, chosen):
    """Of slabs, of one dimension, and of a copy along the other dimension of the mesh."""
    four.run(check, chosen, 3)
