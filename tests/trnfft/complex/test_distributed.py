"""ComplexTensors over torch.distributed, by gloo: collectives, DistributedDataParallel, DTensor."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trnfft
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.distributed.processes import Processes
from trnfft import ComplexTensor

RANKS = 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(2, 5, generator=generator)
        self.weight = nn.Parameter(ComplexTensor(weight[0], weight[1]))
        self.unused = nn.Parameter(ComplexTensor(torch.ones(3), torch.ones(3)))

    def forward(self, x):
        return (trnfft.rfft(x) * self.weight).abs().sum()


class MeanOverRanks(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, xs):
        return sum(self.model(x) for x in xs) / RANKS


def trained(model, batches):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for x in batches:
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()


def batch(step, rank):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + rank))


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


def data_parallel(rank):
    """As one process with the mean of both losses."""
    model = Model()
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    trained(parallel, [batch(step, rank) for step in range(3)])
    alone = Model()
    batches = [torch.stack([batch(step, i) for i in range(RANKS)]) for step in range(3)]
    trained(MeanOverRanks(alone), batches)
    # Each of 3 steps sums over 4 rows and both ranks.
    near(model.weight, alone.weight, together(transforms(8, 3), sums(3 * 8 * 4 * RANKS)))
    assert model.unused.grad is None


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


def run(rank):
    collectives(rank)
    data_parallel(rank)
    dtensors(rank)


def test_two_processes(tmp_path):
    processes = Processes(RANKS, tmp_path)
    try:
        processes.run(run)
    finally:
        processes.close()
