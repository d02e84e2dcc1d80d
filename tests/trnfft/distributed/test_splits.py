"""Dimensions split by several mesh dimensions, dimensions by number, and impossible splits."""

from functools import partial

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import sums, together, transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from tests.trnfft.distributed.test_transforms import CUBE, exchanged
from trnfft import nn

CALLS = {
    "fft": lambda x: trnfft.fft(x, dim=0),
    "rfft": lambda x: trnfft.rfft(x, 10, 1),
    "fftn": lambda x: trnfft.fftn(x),
    "dct": lambda x: trnfft.dct(x, axis=0),
    "czt": lambda x: trnfft.czt(x, 6, axis=1),
    "fftshift": lambda x: trnfft.fftshift(x, 0),
    "convolve": lambda x: trnfft.convolve(x, torch.ones(3, 1, dtype=x.dtype), dims=0),
}


TOLERANCE = transforms(4 * 9 * 8, 4, "float64")  # of convolutions of rows, here and there


def splits(rank, placements):
    """Fails unless this process's part of each call is as by one process, without gathers."""
    case = Case("", (9, 8), (2, 2), placements, is_complex=False)
    x = cases.sample(case)
    given = cases.spread(x, case)
    for name, call in CALLS.items():
        y, counts = cases.counted(lambda: call(given))  # noqa: B023
        assert not cases.gathers(counts), name
        cases.compare(y, call(x), TOLERANCE, message=name)
        part = y.real if y.is_complex() else y
        assert part.placements == given.placements, name


@pytest.mark.parametrize("placements", [(0, 0), (1, 0), ("R", 0), sweeps.whole((1, 1))], ids=str)
def test_two_mesh_dimensions(four, placements):
    four.run(splits, placements)


def strided(rank, dim):
    """As `splits`, of shards as FSDP has them of what is split already: the later one is first."""
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    mesh = cases.mesh_of((2, 2))
    row, column = mesh.get_coordinate()

    def own_part(whole, part):
        return whole.chunk(2, dim)[column].chunk(2, dim)[row]

    x = cases.sample(Case("", (12, 8), (2, 2), ("R", "R"), is_complex=False))
    placements = (_StridedShard(dim, split_factor=2), Shard(dim))
    given = DTensor.from_local(
        own_part(x, None).contiguous(),
        *(mesh, placements),
        run_check=False,
        shape=x.shape,
        stride=x.stride(),
    )
    assert torch.equal(given.full_tensor(), x)
    for name, call in CALLS.items():
        if name in ("rfft", "convolve", "czt"):  # of uneven results
            continue
        y, counts = cases.counted(lambda: call(given))  # noqa: B023
        assert not cases.gathers(counts), name
        part = y.real if y.is_complex() else y
        assert part.placements == placements, name
        cases.compare(y, call(x), TOLERANCE, part_of=own_part, message=name)


@pytest.mark.parametrize("dim", [0, 1])
def test_strided_shards(four, dim):
    four.run(strided, dim)


def at_the_ends(rank):
    """The all-to-alls of oaconvolve along either end; fails unless it is right."""
    found = {}
    for split in (0, 2):
        case = Case("", (4, 5, 6), (2,), (split,), is_complex=False)
        x = cases.sample(case)
        for axis in (-3, -1, 0, 2):
            taps = torch.ones([3 if dim == axis % 3 else 1 for dim in range(3)])
            given = cases.spread(x, case)
            y, counts = cases.counted(lambda: trnfft.oaconvolve(given, taps, "same", axis))  # noqa: B023
            cases.compare(y, trnfft.oaconvolve(x, taps, "same", axis), transforms(16, 4, x.dtype))
            found[split, axis] = counts[cases.EXCHANGE]
    return found


def test_both_ends(two):
    for found in two.run(at_the_ends):
        for (split, axis), count in found.items():
            assert count == (2 if axis % 3 == split else 0), (split, axis)


def beyond(rank):
    """Errors, and collectives before them, for dimensions that a split tensor has not."""
    line = Case("", (8,), (2,), (0,), is_complex=False)
    rows = Case("", (4, 6), (2,), (0,), is_complex=False)
    found = []
    for case, axes in ((line, (1, -2, 7)), (rows, (2, -3, 4))):
        x = cases.spread(cases.sample(case), case)
        for axis in axes:
            one = torch.ones([1] * x.ndim)
            call = partial(trnfft.oaconvolve, x, one, dims=axis)
            (kind, text), counts = cases.counted(lambda: cases.text_of(call))  # noqa: B023
            found.append((axis, kind, text, counts.total()))
    return found


def test_dimensions_that_are_not_there(two):
    """They are refused by the function, and are not taken for others, along which it could not."""
    for found in two.run(beyond):
        for axis, kind, text, count in found:
            assert kind == "IndexError" and f"argument 'dims' is {axis}, " in text, (kind, text)
            assert count == 0


def refusals(rank):
    """The types and texts of errors where there is nothing else to split."""
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor
    from torch.distributed.tensor.placement_types import _StridedShard

    line = Case("", (24,), (4,), (0,), is_complex=False)
    x = cases.spread(cases.sample(line), line)
    short = Case("", (6,), (4,), (0,), is_complex=False)
    spectrum = Case("", (5, 9), (4,), (1,), form="parts")
    z = cases.spread(cases.sample(spectrum), spectrum)
    rows = Case("", (8, 6), (4,), (0,), is_complex=False)
    y = cases.spread(cases.sample(rows), rows)
    both = Case("", (24,), (2, 2), (0, 0), is_complex=False)
    mesh = cases.mesh_of((2, 2))
    uneven = DTensor.from_local(
        torch.ones(2, 3), mesh, [_StridedShard(0, split_factor=2), Shard(0)], run_check=False,
        shape=torch.Size((7, 3)), stride=(3, 1),
    )  # fmt: skip
    layer = nn.BlockCirculantLinear(6, 4, 2).double()
    split = distribute_tensor(torch.ones(1, 4, dtype=torch.float64), y.device_mesh, [Shard(1)])
    calls = [
        lambda: trnfft.dct(x),
        lambda: trnfft.idstn(y),
        lambda: trnfft.czt(x),
        lambda: trnfft.fht(x, 0.1, 0.5),
        lambda: trnfft.stft(x, 8),
        lambda: trnfft.istft(z, 8),
        lambda: trnfft.fftshift(x),
        lambda: trnfft.bloom(y, torch.ones(3, 3, dtype=torch.float64)),
        lambda: layer(cases.spread(cases.sample(short), short)),
        lambda: trnfft.fft(cases.spread(cases.sample(both), both)),
        lambda: trnfft.fft(uneven, dim=0),
        lambda: trnfft.oaconvolve(y, split, dims=-1),
        lambda: trnfft.oaconvolve(x, torch.ones(2, 3, dtype=torch.float64), dims=-1),
        lambda: trnfft.convolve(torch.ones(8, 6), y),
        lambda: trnfft.BloomFilter(y, (8, 8)),
        lambda: trnfft.plan_fft(y, device="cpu"),
        lambda: trnfft.plan_fft(y)(y.to_local()),
        lambda: trnfft.plan_fft(y)(y.redistribute(placements=[Shard(1)])),
    ]
    return [cases.text_of(call) for call in calls]


NO_OTHER = ("NotImplementedError", "there is no dimension to split instead of")


def test_refusals(four):
    wanted = [
        *[NO_OTHER] * 10,
        ("NotImplementedError", "allowed is a _StridedShard of 7 numbers only where"),
        ("NotImplementedError", "an argument or parameter of shape (1, 4) has the placements"),
        ("NotImplementedError", "argument 'filter' has 2 dimensions"),
        ("NotImplementedError", "argument 'filter' is a DTensor and argument 'input' is not"),
        ("NotImplementedError", "argument 'psf' is a DTensor"),
        ("ValueError", "argument 'device' is 'cpu'"),
        ("RuntimeError", "this plan allows shape (8, 6)"),
        ("RuntimeError", "placements (Shard(dim=1),)"),
    ]
    for found in four.run(refusals):
        cases.assert_refused(found, wanted)
        for _, text in found:
            assert any(advice in text for advice in ("use ", "distribute", "give ", "allowed")), (
                text
            )


def trained(rank, dim, form):
    """Fails unless the result and the running averages of a batch are as by one process."""
    from torch.distributed.tensor import distribute_module

    case = Case("", (7, 5, 6), (4,), (dim,), form="parts")
    x = cases.sample(case)
    one, own = nn.ComplexBatchNorm(5).double(), nn.ComplexBatchNorm(5).double()
    if form == "copies":
        own = distribute_module(own, cases.mesh_of((4,)))
    wanted = one(trnfft.ComplexTensor.from_complex(x))
    y, counts = cases.counted(lambda: own(cases.spread(x, case)))
    if dim != 1:  # the averages of channels have to come to all
        assert not cases.gathers(counts)
    tolerance = together(sums(7 * 6, "float64"), sums(7 * 6, "float64"), sums(8, "float64"))
    cases.compare(y.detach(), wanted.detach(), tolerance)
    for a, b in zip(one.buffers(), own.buffers(), strict=True):
        cases.near(b, a, tolerance, scale=a + 1)  # a mean near zero


@pytest.mark.parametrize(("dim", "form"), [(0, "layer"), (1, "layer"), (2, "copies")])
def test_batch_norm_in_training(four, dim, form):
    four.run(trained, dim, form)


@pytest.mark.parametrize(
    ("mesh", "placements", "exchanges"), [((4,), (0,), 2), ((2, 2), (0, 1), 2), ((2, 2), (0, 0), 4)]
)
def test_bytes_exchanged(four, mesh, placements, exchanges):
    """Twice for each dimension of the mesh along which the rows are split, of each shard once."""
    arguments = ("dct", (8, 8, 8), mesh, placements, {"axis": 0})
    for sent, counts in four.run(exchanged, *arguments):
        assert sent == [CUBE] * exchanges
        compared = counts.pop("c10d.alltoall_base_")
        assert compared == len(mesh) and sum(counts.values()) == exchanges
