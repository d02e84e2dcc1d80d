"""torch.compile(backend="neuron"): values, gradients, graphs, and transfers over the bus."""

import functools
import warnings

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near
from trnfft.planner.accuracy import MAX_ERRORS

from .comparison import Training, all_near, trained
from .stand_in import compile_backend, nki_hop
from .subjects import SUBJECTS

compiled = functools.partial(torch.compile, backend="neuron", fullgraph=True)
# Transforms of the same kind and the same dimensions have the same graphs but for a few products.
ALIKE = ["ifft", "ihfft", "hfft", "fft2", "rfft2", "hfft2", "ihfft2", "ifftn", "irfftn", "ihfftn"]
subjects = sweeps.some("name", SUBJECTS, [name for name in SUBJECTS if name not in ALIKE])


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is compiled yet."""
    torch._dynamo.reset()
    compile_backend.GRAPHS.clear()


@subjects
def test_values_and_gradients(name, launches, counted):
    subject = SUBJECTS[name]
    training = trained(subject, compiled)
    assert len(compile_backend.GRAPHS) == 2, "one graph forward, one backward"
    assert bool(launches) == bool(subject.kernels)
    with counted() as counts:
        training.step()
    assert (counts.to_host, counts.to_device) == (0, 0)


def test_graphs_hold_launches_and_no_operator_of_trnfft():
    step = Training(SUBJECTS["rfft"], "neuron", compiled).step
    step()
    for graph in compile_backend.GRAPHS:
        targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
        assert targets.count(nki_hop.nki_kernel_wrapper) == 1
        assert not [target for target in targets if "trnfft" in str(target)]


def test_another_batch_is_planned_anew(launches):
    run = compiled(lambda x: trnfft.rfft(x).real)
    for rows in (3, 5, 200):
        x = torch.randn(rows, 64)
        actual = run(x.to("neuron"))
        all_near([actual], [torch.fft.rfft(x).real])
    assert len(launches) == 3


def test_precision_is_that_of_the_moment_of_compiling(launches):
    x = torch.randn(8, 256)
    with trnfft.precision("kahan"):
        run = compiled(lambda x: trnfft.fft(x).real)
        actual = run(x.to("neuron"))
    near(actual.cpu(), torch.fft.fft(x.double()).real, MAX_ERRORS["kahan"])
    assert launches == [("butterfly", 2)]
    run(x.to("neuron"))
    assert launches[1:] == [("butterfly", 2)]


def test_a_graph_break_leaves_a_transform_to_eager_mode(launches):
    @torch.compiler.disable
    def transform(x):
        with trnfft.backend("matmul"):
            return trnfft.fft(x).real

    x = torch.randn(2, 8)
    run = torch.compile(lambda x: transform(x) + 1, backend="neuron")
    all_near([run(x.to("neuron"))], [torch.fft.fft(x).real + 1])
    assert launches == []


def test_the_last_graph_of_a_function_is_told_once(launches):
    def twice(x):
        return trnfft.irfft(trnfft.rfft(x)) * 2

    run = torch.compile(twice, backend="neuron")
    limit, told = 3, []
    for rows in range(1, limit + 3):
        with (
            torch._dynamo.config.patch(recompile_limit=limit),
            warnings.catch_warnings(record=True) as found,
        ):
            warnings.simplefilter("always")
            x = torch.randn(rows, 8)
            all_near([run(x.to("neuron"))], [2 * x])
        told += [(rows, str(w.message)) for w in found if "recompile_limit" in str(w.message)]
    ((rows, text),) = told
    assert rows == limit and text.startswith(f"this is graph {limit} of twice, as many as")
    assert len(launches) == 2 * (limit + 2)


@pytest.mark.parametrize("name", ["rfft", "irfft2"])
def test_autocast_changes_nothing(name, launches):
    with torch.autocast("neuron", torch.bfloat16):
        trained(SUBJECTS[name], compiled)
    assert len(launches) > 0
