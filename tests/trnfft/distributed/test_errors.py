"""Processes that get different requests, or die, soon cause an error on all that says so."""

import itertools
import os
import time
from dataclasses import replace
from datetime import timedelta

import pytest
import torch

from tests import sweeps
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from tests.trnfft.distributed.processes import Processes

SHARDED = Case("fftn", (8, 6, 4), (4,), (0,))
ON_THREE = replace(SHARDED, mesh=(3,))


def differing(rank, what, mesh):
    """A transform for which the last process has another argument; the text of the error."""
    import trnfft
    from trnfft.distributed.run import agreement

    shape, placements = (8, 6, 4), (0,) if len(mesh) == 1 else (0, 1)
    case, version = Case("fftn", shape, mesh, placements), agreement.VERSION
    others = {
        "shape": {"shape": (8, 6, 5)},
        "dtype": {"dtype": torch.float32},
        "norm": {"arguments": {"norm": "ortho"}},
        "placements": {"placements": (1,) if len(mesh) == 1 else (1, 0)},
        "numbers": {"is_complex": False},
        "sums": {"placements": ("P", *placements[1:])},
        "version": {},
    }
    if rank == 3:
        case = replace(case, **others[what])
        agreement.VERSION = "0.0.0" if what == "version" else version
    start = time.monotonic()
    try:
        given = cases.spread(cases.sample(case), case)
        _, text = cases.text_of(lambda: trnfft.fftn(given, **case.arguments))
    finally:
        agreement.VERSION = version
    assert time.monotonic() - start < 60
    return text


NAMED = {
    "shape": ("shape of 'input'", "(8, 6, 4)", "(8, 6, 5)"),
    "dtype": ("dtype of the parts", "torch.float64", "torch.float32"),
    "norm": ("'norm'", "backward", "ortho"),
    "placements": ("placements of 'input'", "Shard(dim=1)"),
    "numbers": ("numbers of 'input'", "complex on rank", "real on rank 3"),
    "sums": ("placements of 'input'", "Partial"),
    "version": ("version of trnfft", "0.0.0"),
}


@sweeps.some(
    "what, mesh",
    itertools.product(NAMED, [(4,), (2, 2)]),
    [*((what, (4,)) for what in NAMED), ("placements", (2, 2)), ("sums", (2, 2))],
)
def test_differences_are_named_on_all(four, what, mesh):
    for text in four.run(differing, what, mesh):
        assert all(name in text for name in NAMED[what]), text
        assert "rank 3" in text
    # And the next transform is as if nothing had been.
    four.run(cases.check, [SHARDED])


def differing_at_the_end(rank):
    """The error for an argument with a long text, of which the last character differs."""
    import trnfft
    from trnfft.distributed.run import agreement

    x = cases.spread(cases.sample(SHARDED), SHARDED)
    like = x.real if isinstance(x, trnfft.ComplexTensor) else x
    agreement.check([like], {"filter": "1, " * 1000})
    with pytest.raises(RuntimeError) as raised:
        agreement.check([like], {"filter": '"é' * 1000 + str(rank)})
    return str(raised.value)


def test_long_arguments_are_compared_to_their_end(four):
    for text in four.run(differing_at_the_end):
        assert "filter: " in text and all(f"rank {rank}" in text for rank in range(4))


def differing_sums(rank):
    """Errors for pending sums of which the last process has others, or another filter or layer."""
    import trnfft

    def spread(placements, shape=(4, 6, 12), dtype=torch.float64):
        case = Case("", shape, (4,), placements, is_complex=False, dtype=dtype)
        return cases.spread(cases.sample(case), case)

    is_last = rank == 3
    filter = Case("", (3,), (4,), ("P",) if is_last else ("R",), is_complex=False)
    h = cases.spread(cases.sample(filter), filter)
    convolution = trnfft.nn.FFTConv1d(6, 3, 3, padding=0 if is_last else 1).double()
    spectral = trnfft.nn.SpectralConv1d(6, 3 if is_last else 4, 3).double()
    dtype = torch.float32 if is_last else torch.float64
    calls = [
        lambda: trnfft.fft(spread(("P",), (5 if is_last else 4, 6))),
        lambda: trnfft.dct(spread(("P",), (4, 6), dtype)),
        lambda: trnfft.oaconvolve(spread((2,)), h, dims=2),
        lambda: convolution(spread((2,))),
        lambda: spectral(spread((2,))),
    ]
    return [cases.text_of(call) for call in calls]


def test_sums_filters_and_layers_are_compared(four):
    wanted = [
        ("shape of 'input'", "(5, 6) on rank 3"),
        ("dtype of the parts", "torch.float32 on rank 3"),
        ("function: oaconvolve", "Partial"),
        ("settings of the layer", "'padding': (1,)"),
        ("parameters", "torch.float64(6, 3, 3)"),
    ]
    for found in four.run(differing_sums):
        for (kind, text), (name, value) in zip(found, wanted, strict=True):
            assert kind == "RuntimeError"
            assert name in text and value in text and "rank 3" in text, text


def differing_parts(rank):
    """Errors for parts that are split unlike each other, on the last process and on all."""
    import trnfft

    def spread(dim):
        case = Case("", (8, 6), (4,), (dim,), is_complex=False)
        return cases.spread(cases.sample(case), case)

    on_last = trnfft.ComplexTensor(spread(0), spread(1 if rank == 3 else 0))
    on_all = trnfft.ComplexTensor(spread(0), spread(1))
    calls = [lambda: trnfft.fftn(on_last), lambda: trnfft.fft(on_all), lambda: trnfft.ifft(on_all)]
    return [cases.text_of(call) for call in calls]


def test_parts_that_are_split_unlike_each_other(four):
    for on_last, *on_all in four.run(differing_parts):
        assert on_last[0] == "RuntimeError" and "and (Shard(dim=1),) on rank 3" in on_last[1]
        for kind, text in on_all:
            assert kind == "RuntimeError" and "has parts with the placements" in text, text


def dying(rank):
    import trnfft

    x = cases.spread(cases.sample(ON_THREE), ON_THREE)
    trnfft.fftn(x)
    if rank == 2:
        os._exit(1)
    trnfft.fftn(x)


def test_a_process_that_dies(tmp_path):
    processes = Processes(3, tmp_path, seconds=20)
    try:
        *others, dead = processes.outcomes(dying, within=60)
        assert dead is None
        for outcome in others:
            assert "with all of ranks 0, 1, 2 has failed after" in outcome.error
            assert "20 s" not in outcome.error
    finally:
        processes.close()


def missing(rank):
    import trnfft

    if rank != 1:
        trnfft.fftn(cases.spread(cases.sample(ON_THREE), ON_THREE))


def test_a_process_that_does_not_come(tmp_path):
    processes = Processes(3, tmp_path, seconds=1)
    try:
        outcomes = processes.outcomes(missing, within=60)
        assert not outcomes.pop(1).error
        for outcome in outcomes:
            assert "a process has died, or was asked for something else than this" in outcome.error
            assert "has waited 1 s for" in outcome.error
            assert "shape of 'input': (8, 6, 4)" in outcome.error
    finally:
        processes.close()


def patience(rank, seconds):
    """How long a process waits for others, in a group with such a timeout."""
    from torch.distributed.distributed_c10d import _get_default_group, _set_pg_timeout

    from trnfft.distributed.run import agreement

    try:
        _set_pg_timeout(timedelta(seconds=seconds), _get_default_group())
        return agreement.patience("cpu").total_seconds()
    finally:
        _set_pg_timeout(timedelta(seconds=60), _get_default_group())


@pytest.mark.parametrize(("seconds", "wanted"), [(1800, 60), (90, 90)])
def test_patience(two, seconds, wanted):
    assert two.run(patience, seconds) == [wanted] * 2


def refusals(rank):
    """The types and texts of errors for arguments that cannot be."""
    from torch.distributed.tensor import Replicate, Shard

    import trnfft

    x = cases.spread(cases.sample(SHARDED), SHARDED)
    line = Case("", (64,), (2, 2), (0, 0))
    calls = [
        lambda: trnfft.distributed.fftn(torch.ones(4)),
        lambda: trnfft.distributed.fftn(x, out_placements=[Replicate()]),
        lambda: trnfft.distributed.fftn(x, out_placements=[Shard(3)]),
        lambda: trnfft.distributed.fftn(x, out_placements=[Shard(0), Shard(1)]),
        lambda: trnfft.distributed.fftn(x, out_placements=["rows"]),
        lambda: trnfft.fft(cases.spread(cases.sample(line), line)),
        lambda: trnfft.fft(x, dim=3),
        lambda: trnfft.convolve(x, torch.ones(1, 2, 2), padding="circular"),
        lambda: trnfft.distributed.convolve(torch.ones(4), torch.ones(2)),
        lambda: trnfft.dctn(x),
    ]
    return [cases.text_of(call) for call in calls]


def test_refusals(four):
    wanted = [
        ("TypeError", "argument 'input' is of type Tensor"),
        ("RuntimeError", "argument 'out_placements' has Replicate()"),
        ("IndexError", "argument 'out_placements' has Shard(dim=3)"),
        ("RuntimeError", "argument 'out_placements' has 2 placements, allowed are 1"),
        ("TypeError", "argument 'out_placements' has 'rows'"),
        ("NotImplementedError", "argument 'input' has the placements"),
        ("IndexError", "argument 'dim' is 3"),
        ("NotImplementedError", "no dimension to split instead of (0, 1, 2)"),
        ("TypeError", "argument 'input' is of type Tensor"),
        ("NotImplementedError", "no dimension to split instead of (0, 1, 2)"),
    ]
    for found in four.run(refusals):
        cases.assert_refused(found, wanted)


def unlike_placements(rank, rows):
    """Texts of errors for shards with other rows than their placement says."""
    from torch.distributed.tensor import DTensor, Shard

    import trnfft

    x = DTensor.from_local(
        torch.ones(rows[rank], 6, 5), cases.mesh_of((4,)), [Shard(0)], run_check=False,
        shape=torch.Size((8, 6, 5)), stride=(30, 5, 1),
    )  # fmt: skip
    calls = [lambda: trnfft.fftn(x), lambda: trnfft.dct(x, axis=0), lambda: trnfft.fftshift(x)]
    if rank == 0:  # without an exchange each process finds its own
        calls += [lambda: trnfft.fft(x), lambda: trnfft.dct(x)]
    return [cases.text_of(call) for call in calls]


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ((1, 3, 2, 2), ("(1, 6, 5) in place of (2, 6, 5)", "on rank 0", "as placed on ranks 2, 3")),
        ((3, 3, 3, 3), ("(3, 6, 5) in place of (2, 6, 5)", "DTensor.from_local")),
    ],
)
def test_shards_that_are_not_as_placed(four, rows, named):
    for texts in four.run(unlike_placements, rows):
        for kind, text in texts[:3]:
            assert kind == "RuntimeError"
            assert all(name in text for name in named), text
        for kind, text in texts[3:]:
            assert kind == "RuntimeError" and f"({rows[0]}, 6, 5) in place of (2, 6, 5)" in text


def of_meshes(rank):
    """Errors for DTensors on a mesh in another order, on one of two processes, and on two."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard

    import trnfft

    def spread(mesh):
        whole = torch.Size((2 * mesh.size(), 6))
        return DTensor.from_local(
            torch.ones(2, 6), mesh, [Shard(0)], run_check=False, shape=whole, stride=(6, 1)
        )

    swapped, half = DeviceMesh("cpu", [0, 2, 1, 3]), DeviceMesh("cpu", [0, 1])
    x, other = spread(cases.mesh_of((4,))), spread(half)
    calls = [
        lambda: trnfft.fftn(spread(swapped)),
        lambda: trnfft.convolve(x, spread(swapped)),
        lambda: trnfft.fftn(other),
        lambda: trnfft.dct(other, axis=0),
    ]
    found = [cases.text_of(call) for call in calls]
    dist.barrier()
    return found


def test_meshes(four):
    for rank, (order, of_filter, *outside) in enumerate(four.run(of_meshes)):
        assert order[0] == "RuntimeError" and "ranks ascend" in order[1]
        assert of_filter[0] == "ValueError" and "argument 'filter' is on" in of_filter[1]
        for kind, text in outside:
            assert kind == ("none" if rank < 2 else "RuntimeError"), text
            assert rank < 2 or "does not include this process" in text
