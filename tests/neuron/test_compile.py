"""torch.compile(backend="neuron"): values and gradients, the graphs, what crosses the bus."""

import functools

import pytest
import torch

from .comparison import Training, assert_close
from .stand_in import compile_backend
from .subjects import SUBJECTS

compiled = functools.partial(torch.compile, backend="neuron", fullgraph=True)
subjects = pytest.mark.parametrize("name", SUBJECTS)


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is compiled yet."""
    torch._dynamo.reset()
    compile_backend.GRAPHS.clear()


@subjects
def test_values_and_gradients(name, launches, counted):
    subject = SUBJECTS[name]
    training = Training(subject, "neuron", compiled)
    actual = training.step()
    assert_close(actual, Training(subject, "cpu").step())
    assert len(compile_backend.GRAPHS) == 2, "one graph forward, one backward"
    assert bool(launches) == bool(subject.kernels)
    with counted() as counts:
        training.step()
    assert (counts.to_host, counts.to_device) == (0, 0)
