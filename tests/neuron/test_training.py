"""The training of a small Fourier neural operator gives the same result on device and host."""

import functools

import pytest
import torch
from torch import nn

import trnfft
from tests.tolerances import near, together

from .comparison import STEP, near_host
from .stand_in import compile_backend

STEPS = 4
WIDTH, MODES = 4, 5


class Operator(nn.Module):
    """From waves [B, N] to waves, by convolutions over the whole circle."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(1, WIDTH)
        self.wide = nn.ModuleList(trnfft.nn.SpectralConv1d(WIDTH, WIDTH, MODES) for _ in range(2))
        self.last = nn.Linear(WIDTH, 1)

    def forward(self, waves):
        x = self.first(waves[..., None]).mT
        for wide in self.wide:
            x = x + torch.tanh(wide(x))
        return self.last(x.mT)[..., 0]


def train(device, how, counted=None):
    """Losses of a few steps of Adam, the weights at the end, and what crossed the bus meanwhile."""
    torch.manual_seed(0)
    model = Operator()
    waves = torch.randn(6, 16)
    wanted = torch.roll(waves, 3, -1).cumsum(-1) / 4
    model, waves, wanted = model.to(device), waves.to(device), wanted.to(device)
    run = how(model)
    # Without eps, small gradients, and their errors, would be as good as large ones.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-2, foreach=False)
    losses, crossed = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        if counted is None:
            loss = ((run(waves) - wanted) ** 2).mean()
        else:
            with counted() as counts:
                loss = ((run(waves) - wanted) ** 2).mean()
                loss.backward()
            crossed.append((counts.to_host, counts.to_device))
        if counted is None:
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, list(model.parameters()), crossed


@pytest.mark.parametrize(
    "how",
    [lambda model: model, functools.partial(torch.compile, backend="neuron", fullgraph=True)],
    ids=["eager", "compiled"],
)
def test_training(how, counted, launches):
    torch._dynamo.reset()
    compile_backend.GRAPHS.clear()
    losses, weights, crossed = train("neuron", how, counted)
    expected, expected_weights, _ = train("cpu", lambda model: model)
    tolerance = together(*[STEP] * STEPS)
    near(losses, expected, tolerance)
    assert losses[-1] < losses[0]
    for actual, weight in zip(weights, expected_weights, strict=True):
        near_host(actual, weight, tolerance)
    assert [to_host for to_host, _ in crossed] == [0] * STEPS
    assert [to_device for _, to_device in crossed[1:]] == [0] * (STEPS - 1), "but for the tables"
    assert len(launches) >= STEPS * 4, "two layers, and their gradients"
    if len(compile_backend.GRAPHS):
        assert len(compile_backend.GRAPHS) == 2
