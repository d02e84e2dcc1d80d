"""The training loop of docs/training.md gives the same result on the device and on the host."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

import trnfft
from tests.docs.pages import ROOT, blocks
from tests.tolerances import near, together

from .comparison import STEP

FILES = ("spectral_model.py", "train.py")
STEPS = 16  # two losses


@pytest.fixture
def train(tmp_path, monkeypatch):
    """The function of that name, from the files that the page has readers write."""
    found = dict(blocks(ROOT / "docs" / "training.md"))
    for name in FILES:
        (tmp_path / name).write_text(found[f'python title="{name}"'], "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    torch._dynamo.reset()
    yield importlib.import_module("train").train
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize("backend", [None, "neuron"])
def test_it_trains_on_the_device(train, backend, launches):
    model, optimizer, losses = train("neuron", STEPS, backend=backend)
    _, _, expected = train("cpu", STEPS)
    near(losses, expected, together(*[STEP] * STEPS))
    assert losses[-1] < losses[0]
    assert isinstance(model[1].weight, trnfft.ComplexTensor)
    assert {parameter.device.type for parameter in model.parameters()} == {"neuron"}
    assert len(launches) >= STEPS * 8, "two blocks of two transforms, forward and backward"


def test_its_checkpoints_load_on_the_host(train, tmp_path):
    model, optimizer, _ = train("neuron", 8)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, tmp_path / "checkpoint.pt")
    loaded = torch.load(tmp_path / "checkpoint.pt", map_location="cpu", weights_only=True)
    native = {name: trnfft.as_native(x.cpu()) for name, x in model.state_dict().items()}
    resumed = sys.modules["spectral_model"].network()
    for weights in (loaded["model"], native):
        resumed.load_state_dict(weights)
        assert resumed[1].weight.device.type == "cpu"
        assert torch.equal(resumed[1].weight.detach(), native["1.weight"].detach())
    moments = loaded["optimizer"]["state"][2]["exp_avg"]
    assert moments.device.type == "cpu" and moments.dtype == torch.complex64
