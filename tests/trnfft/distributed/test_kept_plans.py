"""Plans that are kept fit the next call: its mesh, its arguments, its settings."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist

from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from tests.trnfft.distributed.processes import Processes


def placed(x, mesh, *names):
    """The whole tensor as a DTensor, by no communication."""
    from torch.distributed.tensor import DTensor

    placements = cases.placements_of(names)
    mine = cases.own_of(x, mesh, placements)
    return DTensor.from_local(
        mine, mesh, placements, run_check=False, shape=x.shape, stride=x.stride()
    )


def error_of(result, wanted):
    """The largest error of this process's part."""
    like = result.real if result.is_complex() else result
    return (cases.local(result) - cases.own_part(wanted, like)).abs().max().item()


def over_both_dimensions(rank):
    """Errors of the same call over meshes of one shape, in which the process is at other places."""
    from torch.distributed.device_mesh import init_device_mesh

    import trnfft

    named = init_device_mesh("cpu", (2, 2), mesh_dim_names=("first", "second"))
    x = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted = torch.fft.fft2(x)
    found = []
    for name in ("first", "second") * 2:
        for dim in (0, 1):
            found.append(error_of(trnfft.fft2(placed(x, named[name], dim)), wanted))
    return found


def test_meshes_of_one_shape(four):
    for errors in four.run(over_both_dimensions):
        assert max(errors) < 1e-13


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
    """For each call its error, relative to that of its dtype; every call comes twice."""
    import trnfft

    mesh, found = cases.mesh_of((2,)), []
    for _ in range(2):
        for dtype in (torch.float64, torch.float32):
            x = torch.randn(6, 8, dtype=dtype, generator=torch.Generator().manual_seed(2))
            given = placed(x, mesh, dim)
            for name in ("fft", "ifft", "rfft", "irfft"):
                for arguments in ARGUMENTS:
                    y = getattr(trnfft, name)(given, **arguments)
                    wanted = getattr(torch.fft, name)(x, **arguments)
                    assert cases.local(y).dtype == wanted.dtype
                    found.append(error_of(y, wanted) / torch.finfo(dtype).eps)
    return found


@pytest.mark.parametrize("dim", [0, 1])
def test_other_arguments(two, dim):
    for errors in two.run(with_other_arguments, dim):
        assert max(errors) < 50


def with_other_settings(rank):
    """Errors in float32 for each backend and precision, which change from call to call."""
    import trnfft

    mesh, found = cases.mesh_of((2,)), []
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
    given, wanted = placed(x, mesh, 1), torch.fft.fft(x)
    for backend, precision in [("torch", "fast"), ("matmul", "fast"), ("nki-sim", "bf16")] * 2:
        with trnfft.backend(backend), trnfft.precision(precision):
            found.append(error_of(trnfft.fft(given), wanted))
    return found


def test_other_settings(two):
    for errors in two.run(with_other_settings):
        assert errors[:3] == errors[3:]  # the same bits
        assert max(errors[:2]) < 1e-5 < 1e-4 < errors[2] < 1e-1


def with_other_results(rank):
    """Placements and errors of results whose placements are asked for."""
    from torch.distributed.tensor import Shard

    from trnfft import distributed

    mesh, found = cases.mesh_of((2,)), []
    x = torch.randn(4, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    given, wanted = placed(x, mesh, 0), torch.fft.fftn(x)
    for name in (0, 1, -1, 2, None) * 2:
        out = None if name is None else [Shard(name)]
        y = distributed.fftn(given, out_placements=out)
        found.append((str(y.real.placements), error_of(y, wanted)))
    return found


def test_other_placements_of_results(two):
    for found in two.run(with_other_results):
        assert found[:5] == found[5:]
        assert [text for text, _ in found[:5]] == [
            f"(Shard(dim={dim}),)" for dim in (0, 1, 2, 2, 0)
        ]
        assert max(error for _, error in found) < 1e-12


def wrong_after_right(rank):
    """Texts of errors of calls that differ from a right one, and the errors of right ones."""
    from torch.distributed.tensor import DTensor, Partial, Shard

    import trnfft

    mesh = cases.mesh_of((2,))
    x = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    given, wanted = placed(x, mesh, 1), torch.fft.fft(x)
    summed = DTensor.from_local(x / 2, mesh, [Partial()], run_check=False)
    short = DTensor.from_local(
        x[:, : 4 - rank], mesh, [Shard(1)], run_check=False, shape=x.shape, stride=x.stride()
    )
    errors = [error_of(trnfft.fft(given), wanted)]
    texts = [
        cases.text_of(lambda: trnfft.fft(given, norm="ortho" if rank else None)),
        cases.text_of(lambda: trnfft.fft(short)),
        cases.text_of(lambda: trnfft.distributed.fftn(given, out_placements=[Shard(5)])),
    ]
    for _ in range(2):
        errors.append(error_of(trnfft.fft(given), wanted))
        errors.append(error_of(trnfft.fft(summed), wanted))
    return texts, errors


def test_calls_are_checked_although_their_plan_is_kept(two):
    for texts, errors in two.run(wrong_after_right):
        (differ, of_norm), (misfit, of_shard), (index, _) = texts
        assert differ == "RuntimeError" and "'norm': backward on rank 0; ortho on rank 1" in of_norm
        assert misfit == "RuntimeError" and "a shard of shape (6, 3)" in of_shard
        assert index == "IndexError"
        assert max(errors) < 1e-13


def with_other_gradients(rank):
    """Errors of gradients, in calls with and without them."""
    import trnfft

    mesh, found = cases.mesh_of((2,)), []
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
            own = cases.own_part(whole.grad, given)
            found.append((given.grad.to_local() - own).abs().max().item())
    return found


def test_gradients(two):
    for errors in two.run(with_other_gradients):
        assert max(errors) < 1e-12


def over_groups_one_after_the_other(rank, folder):
    """Errors over groups that take each other's places, and whether their meshes are gone."""
    import trnfft

    x = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    wanted, found, meshes = torch.fft.irfft2(x), [], []
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
            found.append(error_of(trnfft.irfft2(cases.spread(x, case)), wanted))
        del mesh
    gc.collect()
    return found, [mesh() is None for mesh in meshes]


def test_a_group_that_takes_the_place_of_another(tmp_path):
    processes = Processes(2, tmp_path)
    try:
        for errors, are_gone in processes.run(over_groups_one_after_the_other, str(tmp_path)):
            assert max(errors) < 1e-13
            assert are_gone == [True, True, False]  # no plan keeps a mesh
    finally:
        processes.close()
