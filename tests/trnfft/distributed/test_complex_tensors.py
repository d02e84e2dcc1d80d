"""ComplexTensors over torch.distributed, by gloo: collectives and DTensor."""

import pytest
import torch
import torch.distributed as dist

from tests.tolerances import near, sums
from trnfft import ComplexTensor

RANKS = 2


def collectives(rank):
    ones = torch.ones(2)
    z = ComplexTensor(rank * ones, ones)
    total = z.clone()
    dist.all_reduce(total)
    assert total.tolist() == [complex(sum(range(RANKS)), RANKS)] * 2
    dist.broadcast(total, 0)
    gathered = [torch.zeros_like(z) for _ in range(RANKS)]
    dist.all_gather(gathered, z)
    assert [x.tolist() for x in gathered] == [[complex(i, 1)] * 2 for i in range(RANKS)]
    work = dist.all_reduce(z, async_op=True)
    work.wait()
    assert torch.equal(z, total)


def dtensors(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (RANKS,))
    z = ComplexTensor(torch.arange(8.0).reshape(4, 2), torch.ones(4, 2))
    local = distribute_tensor(z, mesh, [Shard(0)])
    assert isinstance(local.to_local(), ComplexTensor)
    square = (local * local).redistribute(mesh, [Replicate()]).to_local()
    near(square, z * z, sums(4))
    parts = (distribute_tensor(part, mesh, [Shard(0)]) for part in (z.real, z.imag))
    of_parts = ComplexTensor(*parts)
    product = of_parts * of_parts.conj()
    assert isinstance(product.real, DTensor) and product.real.placements == (Shard(0),)
    near(product.real.full_tensor(), z.abs() ** 2, sums(4))
    with pytest.raises(NotImplementedError, match=r"one host.*full_tensor\(\)"):
        torch.linalg.lstsq(of_parts, of_parts)


@pytest.mark.parametrize("check", [collectives, dtensors])
def test_two_processes(two, check):
    two.run(check)
