"""Exchanges in chunks: their number, their overlap with transforms, right numbers, few copies."""

from dataclasses import replace

import pytest
import torch

from tests import sweeps
from tests.trnfft.distributed import cases, chunked
from tests.trnfft.distributed.cases import Case
from tests.trnfft.distributed.test_transforms import ACROSS, PENCILS, PLACED, SLABS


def events(rank, name, shape, dim, arguments, chunks=None, backward=False):
    """What happens in one call, or in its backward, and how often shards of complex numbers are
    copied in it.
    """
    from torch.distributed.tensor import DTensor, Shard

    import trnfft

    local = list(shape)
    local[dim] //= 2
    parts = (torch.randn(local) for _ in range(2))
    mesh = cases.mesh_of((2,))
    x = trnfft.ComplexTensor(*(DTensor.from_local(part, mesh, [Shard(dim)]) for part in parts))
    x.requires_grad_(backward)
    with chunked.in_chunks(chunks), chunked.Events() as noted:
        y = getattr(trnfft, name)(x, **arguments)
        if backward:
            noted.order.clear()
            (y.real.to_local().sum() + y.imag.to_local().sum()).backward()
    return noted.order, noted.copied / (2 * x.real.to_local().nbytes)


AFTER = ["transform", "start", "transform", "wait", "start", "transform", "wait", "start", "wait"]
AROUND = [
    *("start", "wait", "start", "transform", "start"),  # chunk 0 goes on while 1 comes
    *("wait", "start", "transform", "wait", "start"),  # and so on
    *("wait", "transform", "wait", "start", "wait"),
]
BACK = ["start", "start", "start", "wait", "transform", "wait", "transform", "wait", "transform"]


@pytest.mark.parametrize(
    ("name", "shape", "dim", "backward", "wanted"),
    [
        ("fftn", (6, 6, 6), 0, False, AFTER * 2),
        ("fft", (6, 6), 1, False, AROUND),
        ("fft", (36,), 0, False, AROUND + AFTER),
        ("fftn", (6, 6, 6), 0, True, BACK * 2),
    ],
    ids=["after", "around", "across", "backward"],
)
def test_one_chunk_is_exchanged_while_the_next_is_transformed(
    two, name, shape, dim, backward, wanted
):
    for order, _ in two.run(events, name, shape, dim, {}, 3, backward):
        assert order == wanted


def test_large_shards_are_cut_by_price(two):
    small, _ = two.run(events, "fftn", (8, 8, 8), 0, {})[0]
    assert small == ["transform", "start", "wait"] * 2
    large, _ = two.run(events, "fftn", (128, 128, 64), 0, {})[0]
    assert large.count("start") == large.count("transform") > 2
    first = large.index("start")
    assert large[first + 1] == "transform"  # the second chunk, while the first is under way


@pytest.mark.parametrize("chunks", [None, 1, sweeps.whole(4)])
def test_copies(two, chunks):
    """One into the buffer of an exchange, one out of it, also of shards that are cut in blocks."""
    for order, copied in two.run(events, "fftn", (128, 128, 256), 0, {}, chunks):
        assert order.count("transform") > 2  # blocks, or chunks
        assert copied == 4
    for _, copied in two.run(events, "fft", (16, 256), 1, {}, chunks):
        assert copied == 4


IN_CHUNKS = [
    Case("fftn", (8, 12, 20), (4,), (0,)),
    Case("fftn", (9, 7, 5), (4,), (0,), form="parts"),
    Case("rfftn", (8, 6, 10), (2, 2), (0, 1), is_complex=False),
    Case("irfftn", (8, 6, 9), (4,), (0,)),
    Case("fft", (12, 20), (4,), (1,)),
    Case("ifftn", (8, 12, 20), (4,), (1,), out=(0,)),
    Case("fft", (1024,), (4,), (0,)),
    Case("fft", (960,), (4,), (0,), {"order": "planned"}),
    Case("fft", (61,), (4,), (0,), form="parts"),
    Case("irfft", (513,), (4,), (0,), form="parts"),
]


def check(rank, chosen, chunks):
    with chunked.in_chunks(chunks):
        cases.check(rank, chosen)


ALL = SLABS + PENCILS + PLACED + ACROSS


@pytest.mark.weekly
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("chosen", "counts", "backend", "dtype"),
    [
        (ALL[::2], [3], "torch", torch.float64),
        (ALL, [3], "torch", torch.float64),
        (IN_CHUNKS, [2, 64], "torch", torch.float64),
        ([*SLABS[1:14:4], PENCILS[4], *ACROSS[1:15:6]], [2], "matmul", torch.float32),
        (ALL, [2], "matmul", torch.float32),
        (IN_CHUNKS, [2, 3], "nki-sim", torch.float32),
    ],
    ids=["torch", "torch, all", "torch, larger", "matmul", "matmul, all", "nki-sim"],
)
def test_against_torch(four, chosen, counts, backend, dtype):
    """Uneven and empty chunks, and paddings, in more chunks than some devices have rows."""
    chosen = [replace(case, backend=backend, dtype=dtype) for case in chosen]
    for chunks in counts:
        four.run(check, chosen, chunks)


def disagreeing(rank):
    import trnfft

    case = Case("fftn", (8, 8, 8), (4,), (0,))
    try:
        with chunked.in_chunks(2 if rank == 3 else 1):
            trnfft.fftn(cases.spread(cases.sample(case), case))
    except RuntimeError as error:
        return str(error)
    return "no error"


def test_another_number_of_chunks_is_an_error_on_all(four):
    for text in four.run(disagreeing):
        assert "chunks of exchanges: [(1,), (1,)] on ranks 0, 1, 2; [(2,), (2,)] on rank 3" in text


def test_best_chunks():
    from trnfft.distributed.run.overlap import best_chunks

    assert best_chunks(10.0, 100.0, 1e6, 1) == (1, 0.0)  # nothing to cut
    assert best_chunks(10.0, 1.0, 5.0, 64) == (1, 0.0)  # a start takes longer
    assert best_chunks(0.0, 100.0, 100.0, 8) == (8, 7 * 100 / 8)  # all but one chunk is hidden
    chunks, hidden = best_chunks(0.0, 100.0, 1e6, 64, busy_ns=1.0)
    assert chunks == 8  # 100 / c + c is least at 10
    assert hidden == 7 * 100 / 8
    assert best_chunks(0.0, 100.0, 100.0, 8, launch_ns=1.0) == (8, 7 * 100 / 8)
    assert best_chunks(0.0, 100.0, 100.0, 8, launch_ns=60.0) == (1, 0.0)  # two save 50


def test_the_same_price_as_of_a_plan():
    from trnfft import distributed
    from trnfft.distributed.run import overlap

    modelled = distributed.plan((2048, 2048, 2048), (32,), target="trn1", cores=1, order="planned")
    (exchange,) = modelled.exchanges
    assert exchange.chunks > 1
    shard = (0, 8 * 2048**3 // 32)
    work = overlap.Work("neuron", (32,), (shard,), (2048, 2048), 64, False, 64)
    assert overlap.chunks_of(work) == exchange.chunks
    assert overlap.chunks_of(overlap.Work("meta", *list(vars(work).values())[1:])) == 1
