"""Training on four processes by DDP and FSDP has the same losses and parameters as on one."""

import pytest
import torch
from torch import nn

import trnfft
from tests import sweeps
from tests.tolerances import sums, together, transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import mesh_of

STEPS = 5
BATCH = 8


class Gain(nn.Module):
    """A product with complex numbers, in a parameter of their own."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return x * (1 + self.weight)


class Model(nn.Module):
    """Layers with real parameters, with complex ones of two real parts, and of the kinds asked for.

    kinds: "native" for a complex parameter, "joined" for a ComplexTensor.
    """

    def __init__(self, kinds):
        super().__init__()
        self.convolution = trnfft.nn.FFTConv1d(2, 4, 9, padding=4)
        self.operator = trnfft.nn.SpectralConv(4, 4, (8,))
        self.mixer = trnfft.nn.FNetMixer()
        self.circulant = trnfft.nn.BlockCirculantLinear(32, 16, 4)
        self.linear = trnfft.nn.ComplexLinear(16, 8)
        self.activation = trnfft.nn.ModReLU(4)
        weight = torch.randn(4, 8, dtype=torch.complex128)
        parts = (weight.real.contiguous(), weight.imag.contiguous())
        made = {"native": weight, "joined": trnfft.ComplexTensor(*parts)}
        self.gains = nn.Sequential(*(Gain(made[kind]) for kind in kinds))

    def forward(self, x):
        x = torch.tanh(self.convolution(x))
        x = self.circulant(x + self.operator(x) + 0.01 * self.mixer(x))
        y = self.gains(self.activation(self.linear(trnfft.fft(x, norm="ortho"))))
        return trnfft.ifft(y, norm="ortho").abs().mean((1, 2))


def made(kinds):
    """The model, samples, and what they should become."""
    torch.manual_seed(0)
    model = Model(kinds).double()
    x = torch.randn(BATCH, 2, 32, dtype=torch.float64)
    return model, x, torch.rand(BATCH, dtype=torch.float64)


def trained(model, x, wanted):
    """The losses of all steps."""
    # Without eps, small gradients, and their errors, would be as good as large ones.
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def ddp(model):
    return nn.parallel.DistributedDataParallel(model)


def fsdp2(model):
    """Each layer, as all parameters of a group have to be of one dtype, and what is left."""
    from torch.distributed.fsdp import fully_shard

    for layer in (model.convolution, model.operator, model.linear, *model.gains):
        fully_shard(layer, mesh=mesh_of((4,)))
    return fully_shard(model, mesh=mesh_of((4,)))


def fsdp1(model):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)


def parameters_of(model):
    """All of them whole, by name; of FSDP on the first process only."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def check(rank, wrap, kinds):
    """Fails unless losses fall, and they and the parameters are as by one process."""
    import torch.distributed as dist

    alone, x, wanted = made(kinds)
    expected = trained(alone, x, wanted)
    assert expected[-1] < 0.5 * expected[0], expected
    model = wrap(made(kinds)[0])
    own = slice(rank * BATCH // 4, (rank + 1) * BATCH // 4)
    losses = trained(model, x[own], wanted[own])
    dist.all_reduce(losses)
    # Of eight transforms forward and as many backward in each step, here and there.
    tolerance = together(transforms(4 * 32, 32 * STEPS, "float64"), sums(4 * 32, "float64"))
    cases.near(losses / 4, expected, tolerance)
    found, parameters = parameters_of(model), dict(alone.named_parameters())
    if wrap is not ddp:
        held, elements = count(model), count(alone)
        assert held < 0.5 * elements, (held, elements)
    if rank == 0:
        assert found.keys() == parameters.keys()
    for name in found:
        cases.near(found[name], parameters[name], tolerance, message=name)


def count(model):
    """How many numbers this process has of all parameters."""
    from torch.distributed.tensor import DTensor

    parameters = (p.to_local() if isinstance(p, DTensor) else p for p in model.parameters())
    return sum(p.numel() for p in parameters)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("wrap", "kinds"),
    [
        (ddp, ("native", "joined")),
        sweeps.whole(fsdp2, ("native",)),
        sweeps.whole(fsdp1, ()),
    ],
)
def test_as_one_process(four, wrap, kinds):
    four.run(check, wrap, kinds)


def refusal(rank):
    """The text of the error for a parameter that FSDP cannot split."""
    model, x, wanted = made(("joined",))
    with pytest.raises(NotImplementedError) as error:
        trained(fsdp2(model), x, wanted)
    return str(error.value)


def test_complex_tensors_are_no_parameters_of_fsdp(four):
    for text in four.run(refusal):
        assert "has no implementation for ComplexTensor" in text
