"""Plans that are kept fit the next call: its mesh, its arguments, its settings."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist

from tests import sweeps
from tests.tolerances import transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from tests.trnfft.distributed.processes import Processes
from trnfft.planner.accuracy import MAX_ERRORS


def placed(x, mesh, *names):
    """The whole tensor as a DTensor, by no communication."""
    from torch.distributed.tensor import DTensor

    placements = cases.placements_of(names)
    mine = cases.own_of(x, mesh, placements)
    return DTensor.from_local(
        mine, mesh, placements, run_check=False, shape=x.shape, stride=x.stride()
    )


def tolerance(x):
    """Of a transform of at most four times the numbers, and of its reference."""
    return transforms(4 * x.numel(), 2, x.dtype)


def over_both_dimensions(rank):
    """Checks the same call over meshes of one shape, in which the process is at other places."""
    from torch.distributed.device_mesh import init_device_mesh

    import trnfft

    named = init_device_mesh("cpu", (2, 2), mesh_dim_names=("first", "second"))
    x = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for name in ("first", "second") * 2:
        for dim in (0, 1):
            y = trnfft.fft2(placed(x, named[name], dim))
            cases.compare(y, torch.fft.fft2(x), tolerance(x))


def test_meshes_of_one_shape(four):
    four.run(over_both_dimensions)


ARGUMENTS = [
    {},
    {"norm": "ortho"},
    {"norm": "forward"},
    {"n": 5},
    {"n": 11},
    {"dim": 0},
    {"dim": -2, "n": 7},
]


def with_other_arguments(rank, dim):
    """Fails unless each call is right; every call comes twice."""
    import trnfft

    mesh = cases.mesh_of((2,))
    for _ in range(2):
        for dtype in (torch.float64, torch.float32):
            x = torch.randn(6, 8, dtype=dtype, generator=torch.Generator().manual_seed(2))
            given = placed(x, mesh, dim)
            for name in ("fft", "ifft", "rfft", "irfft"):
                for arguments in ARGUMENTS:
                    y = getattr(trnfft, name)(given, **arguments)
                    wanted = getattr(torch.fft, name)(x, **arguments)
                    assert cases.local(y).dtype == wanted.dtype
                    cases.compare(y, wanted, tolerance(x), message=f"{name}, {arguments}")


@pytest.mark.parametrize("dim", [0, sweeps.whole(1)])
def test_other_arguments(two, dim):
    two.run(with_other_arguments, dim)


def with_other_settings(rank):
    """Checks results for each backend and precision, which change from call to call."""
    import trnfft

    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(3))
    given, wanted = placed(x, cases.mesh_of((2,)), 1), torch.fft.fft(x)
    for backend, precision in [("torch", "fast"), ("matmul", "fast"), ("nki-sim", "bf16")] * 2:
        with trnfft.backend(backend), trnfft.precision(precision):
            y = trnfft.fft(given)
        cases.compare(y, wanted, MAX_ERRORS[precision], message=f"{backend}, {precision}")
        distance = (cases.local(y) - cases.own_part(wanted, y.real)).abs().max()
        assert (distance > 1e-4) == (precision == "bf16")  # whose operands have eight bits


def test_other_settings(two):
    two.run(with_other_settings)


def with_other_results(rank):
    """Placements of results whose placements are asked for; fails unless they are right."""
    from torch.distributed.tensor import Shard

    from trnfft import distributed

    mesh, found = cases.mesh_of((2,)), []
    x = torch.randn(4, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    given, wanted = placed(x, mesh, 0), torch.fft.fftn(x)
    for name in (0, 1, -1, 2, None) * 2:
        out = None if name is None else [Shard(name)]
        y = distributed.fftn(given, out_placements=out)
        cases.compare(y, wanted, tolerance(x))
        found.append(str(y.real.placements))
    return found


def test_other_placements_of_results(two):
    for found in two.run(with_other_results):
        assert found == [f"(Shard(dim={dim}),)" for dim in (0, 1, 2, 2, 0)] * 2


def wrong_after_right(rank):
    """Texts of errors of calls that differ from a right one; fails unless right ones are right."""
    from torch.distributed.tensor import DTensor, Partial, Shard

    import trnfft

    mesh = cases.mesh_of((2,))
    x = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    given, wanted = placed(x, mesh, 1), torch.fft.fft(x)
    summed = DTensor.from_local(x / 2, mesh, [Partial()], run_check=False)
    short = DTensor.from_local(
        x[:, : 4 - rank], mesh, [Shard(1)], run_check=False, shape=x.shape, stride=x.stride()
    )
    cases.compare(trnfft.fft(given), wanted, tolerance(x))
    texts = [
        cases.text_of(lambda: trnfft.fft(given, norm="ortho" if rank else None)),
        cases.text_of(lambda: trnfft.fft(short)),
        cases.text_of(lambda: trnfft.distributed.fftn(given, out_placements=[Shard(5)])),
    ]
    for _ in range(2):
        cases.compare(trnfft.fft(given), wanted, tolerance(x))
        cases.compare(trnfft.fft(summed), wanted, tolerance(x))
    return texts


def test_calls_are_checked_although_their_plan_is_kept(two):
    for texts in two.run(wrong_after_right):
        (differ, of_norm), (misfit, of_shard), (index, _) = texts
        assert differ == "RuntimeError" and "'norm': backward on rank 0; ortho on rank 1" in of_norm
        assert misfit == "RuntimeError" and "a shard of shape (6, 3)" in of_shard
        assert index == "IndexError"


def with_other_gradients(rank):
    """Fails unless gradients are right, in calls with and without them."""
    import trnfft

    mesh = cases.mesh_of((2,))
    x = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    for dim in (0, 1):
        for _ in range(2):
            given = placed(x, mesh, dim).requires_grad_()
            with torch.no_grad():
                assert not trnfft.rfft(given).requires_grad
            y = trnfft.rfft(given)
            (y.real.to_local().square().sum() + y.imag.to_local().square().sum()).backward()
            whole = x.clone().requires_grad_()
            torch.view_as_real(torch.fft.rfft(whole)).square().sum().backward()
            cases.near(given.grad, whole.grad, transforms(x.numel(), 4, x.dtype))


def test_gradients(two):
    two.run(with_other_gradients)


def over_groups_one_after_the_other(rank, folder):
    """Whether meshes of groups that take each other's places are gone; checks their results."""
    import trnfft

    x = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    meshes = []
    for again, shape in enumerate([(2,), (2,), (2, 1)]):
        if again:
            dist.destroy_process_group()
            dist.init_process_group(
                "gloo", init_method=f"file://{folder}/again{again}", rank=rank, world_size=2
            )
        cases._MESHES.clear()
        mesh = cases.mesh_of(shape)
        meshes.append(weakref.ref(mesh))
        case = Case("irfft2", (4, 6), shape, (0, 1)[: len(shape)], is_complex=False)
        for _ in range(2):
            y = trnfft.irfft2(cases.spread(x, case))
            cases.compare(y, torch.fft.irfft2(x), tolerance(x))
        del mesh
    gc.collect()
    return [mesh() is None for mesh in meshes]


def test_a_group_that_takes_the_place_of_another(tmp_path):
    processes = Processes(2, tmp_path)
    try:
        for are_gone in processes.run(over_groups_one_after_the_other, str(tmp_path)):
            assert are_gone == [True, True, False]  # no plan keeps a mesh
    finally:
        processes.close()
