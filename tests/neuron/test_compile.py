"""torch.compile(backend="neuron"): values, gradients, graphs, and transfers over the bus."""

import copy
import functools
import warnings

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near
from trnfft.planner.accuracy import MAX_ERRORS

from .comparison import Training, all_near
from .stand_in import compile_backend
from .subjects import MODULES, SUBJECTS

compiled = functools.partial(torch.compile, backend="neuron", fullgraph=True)
# Transforms of the same kind and the same dimensions have the same graphs but for a few products.
ALIKE = ["ifft", "ihfft", "hfft", "fft2", "rfft2", "hfft2", "ihfft2", "ifftn", "irfftn", "ihfftn"]
subjects = sweeps.some("name", SUBJECTS, [name for name in SUBJECTS if name not in ALIKE])


# Modules that are two launches, or one of a kernel for a whole layer.
LAUNCHES = {"transforms": 2, "one axis": 1, "two axes": 1, "powers": 1, "bands": 1}
modules = pytest.mark.parametrize("name", ["transforms", "one axis", "powers"])


def on_device(name):
    """A module without gradients of its parameters, and its input."""
    module, shape = MODULES[name]
    return copy.deepcopy(module).to("neuron").requires_grad_(False), torch.randn(shape).to("neuron")


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
    all_near(actual, Training(subject, "cpu").step())
    assert len(compile_backend.GRAPHS) == 2, "one graph forward, one backward"
    assert bool(launches) == bool(subject.kernels)
    with counted() as counts:
        training.step()
    assert (counts.to_host, counts.to_device) == (0, 0)


def test_precision_is_that_of_the_moment_of_compiling(launches):
    x = torch.randn(8, 256)
    with trnfft.precision("kahan"):
        run = compiled(lambda x: trnfft.fft(x).real)
        actual = run(x.to("neuron"))
    near(actual.cpu(), torch.fft.fft(x.double()).real, MAX_ERRORS["kahan"])
    assert launches == [("butterfly", 2)]
    run(x.to("neuron"))
    assert launches[1:] == [("butterfly", 2)]


SETTINGS = [
    (lambda: trnfft.backend("matmul"), 'backend "matmul" has no kernels for the graphs'),
    (lambda: trnfft.precision("double"), "leave the transform out with torch.compiler.disable"),
]


@modules
@pytest.mark.parametrize("setting, message", SETTINGS)
def test_settings_without_kernels_are_refused_with_advice(setting, message, name, launches):
    module, x = on_device(name)
    with setting(), pytest.raises(Exception, match=message):
        compiled(module)(x)
    assert launches == []


def test_a_graph_break_leaves_a_transform_to_eager_mode(launches):
    @torch.compiler.disable
    def transform(x):
        with trnfft.backend("matmul"):
            return trnfft.fft(x).real

    x = torch.randn(2, 8)
    run = torch.compile(lambda x: transform(x) + 1, backend="neuron")
    all_near([run(x.to("neuron"))], [torch.fft.fft(x).real + 1])
    assert launches == []


def test_no_rows(launches):
    run = compiled(lambda x: trnfft.rfft(x).real)
    y = run(torch.ones(0, 8, device="neuron"))
    assert (y.shape, y.device.type) == ((0, 5), "neuron")
    assert launches == []


@pytest.mark.parametrize(
    "name, fullgraph",
    [("transforms", True), ("transforms", False), ("one axis", True), ("powers", True)],
)
def test_dynamic_shapes_are_refused_before_the_backend_does(launches, name, fullgraph):
    module, x = on_device(name)
    run = torch.compile(module, backend="neuron", dynamic=True, fullgraph=fullgraph)
    with pytest.raises(RuntimeError, match="argument 'dynamic' of torch.compile is True"):
        run(x)
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0)
    run = torch.compile(module, backend="neuron", fullgraph=fullgraph)
    with pytest.raises(RuntimeError, match="marked by torch._dynamo.mark_dynamic: remove the mark"):
        run(x)
    assert launches == []
    torch._dynamo.reset()
    y = x.detach().clone()
    torch._dynamo.maybe_mark_dynamic(y, 0)
    all_near([run(y)], [MODULES[name][0](y.cpu())])
    assert len(launches) == LAUNCHES[name]


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


@pytest.mark.parametrize(
    "name, shapes",
    [
        ("transforms", ((3, 8), (3, 12), (5, 12))),
        ("one axis", ((5, 8, 64), (5, 8, 128), (7, 8, 128))),
    ],
)
def test_shapes_that_vary_are_settled(name, shapes, launches):
    """Dynamo keeps numbers open that differ between calls, unless it is told otherwise."""
    run = compiled(on_device(name)[0])
    for shape in shapes:
        x = torch.randn(shape)
        all_near([run(x.to("neuron"))], [MODULES[name][0](x)])
    assert len(launches) == len(shapes) * LAUNCHES[name]


@pytest.mark.parametrize(
    "name, strict",
    [("transforms", False), ("transforms", True), ("two axes", True), ("bands", True)],
)
def test_exported_programs_transform(name, strict, launches):
    """They hold trnfft's operators, which launch the kernels of the moment that they run."""
    module, x = on_device(name)
    program = torch.export.export(module, (torch.ones_like(x),), strict=strict)
    targets = [str(node.target) for node in program.graph.nodes]
    count = sum(target.startswith("trnfft.") for target in targets)
    assert count >= LAUNCHES[name] if name == "transforms" else count == 1
    launches.clear()
    all_near([program.module()(x)], [MODULES[name][0](x.cpu())])
    assert len(launches) == LAUNCHES[name]


def tangent(module, x):
    """nki_op's operators have no rule for it, so that a graph would lose it."""
    return torch.func.jvp(module, (x,), (x.flip(0) + 1,))[1]


def of_many(module, x):
    return torch.func.vmap(module)(torch.stack([x, 2 * x]))


def gradient(module, x):
    return torch.func.grad(lambda x: module(x).square().sum())(x)


def gradient_of_the_weight(module, x):
    def loss(weight):
        return torch.func.functional_call(module, {"weight_real": weight}, (x,)).square().sum()

    return torch.func.grad(loss)(module.weight_real.detach())


@pytest.mark.parametrize(
    "function, name",
    [
        *((tangent, name) for name in ("transforms", "one axis", "powers")),
        *((of_many, name) for name in ("one axis", "powers")),
        *((gradient, name) for name in ("one axis", "two axes", "powers")),
        (gradient_of_the_weight, "two axes"),
    ],
)
def test_what_is_left_to_eager_mode(function, name):
    module, x = on_device(name)
    run = functools.partial(function, module)
    all_near([torch.compile(run, backend="neuron")(x)], [function(MODULES[name][0], x.cpu())])
    if function is gradient:
        torch._dynamo.reset()
        with pytest.raises(Exception, match="torch.func"):
            compiled(run)(x)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["transforms", "one axis"])
def test_without_gradients(name, mode, launches):
    module, shape = MODULES[name]
    x = torch.randn(shape)
    given = x.to("neuron").requires_grad_()
    with mode():
        y = compiled(copy.deepcopy(module).to("neuron"))(given)
        all_near([y], [module(x)])
    assert len(launches) == LAUNCHES[name]


@pytest.mark.parametrize("name", ["rfft", "irfft2"])
def test_autocast_changes_nothing(name, launches):
    with torch.autocast("neuron", torch.bfloat16):
        actual = Training(SUBJECTS[name], "neuron", compiled).step()
    all_near(actual, Training(SUBJECTS[name], "cpu").step())
    assert len(launches) > 0
