"""Models of other packages, unchanged, on a device without complex dtypes."""

import copy

import pytest
import torch

import trnfft

from . import fnet
from .comparison import all_near


def step(model, x):
    """The output, and the parameters after a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    y = model(x)
    y = getattr(y, "last_hidden_state", y)
    (y * torch.linspace(-1, 1, y.shape[-1]).roll(3).to(y.device)).sum().backward()
    optimizer.step()
    return [torch.view_as_real(t) if t.is_complex() else t for t in (y, *model.parameters())]


def assert_runs(model, x, launches):
    expected = step(copy.deepcopy(model), x)
    with trnfft.patch_torch():
        actual = step(model.to("neuron"), x.to("neuron"))
    assert launches
    all_near(actual, expected)


@pytest.mark.filterwarnings("ignore")  # those of the package
@pytest.mark.parametrize("modes, sizes", [((6,), (12,)), ((4, 6), (8, 10))])
def test_neuraloperator(modes, sizes, launches):
    models = pytest.importorskip("neuralop.models", reason="neuraloperator is not installed")
    torch.manual_seed(0)
    operator = models.FNO(modes, 2, 1, hidden_channels=4, n_layers=2)
    assert_runs(operator, torch.randn(2, 2, *sizes), launches)


def test_transformers(launches):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = fnet.configuration()
    model = transformers.FNetModel(config, add_pooling_layer=False)
    assert_runs(model, torch.randint(50, (2, 16)), launches)
