"""Plans for graphs and for eager mode, and how many operators of torch stand beside launches.

The operators of a plan are compared with those that a run of the layer shows.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import trnfft
from nki_sim import hardware
from trnfft.backends import nki
from trnfft.base.devices import execution_on
from trnfft.ops import operand, operators
from trnfft.planner import planner, wisdom
from trnfft.planner.kinds import (
    C2C,
    C2R,
    R2C,
    Frames,
    RealPlanes,
    SpectralGradients,
    SpectralLayer,
    Transform,
)
from trnfft.planner.plan import Plan, cost_ns, eager_ns
from trnfft.planner.separate import SEPARATE

# By two transforms it takes less time in a graph, by one kernel in eager mode.
LAYER = SpectralLayer(1, 4, (1024,), (512,))


def both(kind, **arguments):
    """The plans for a graph and for eager mode."""
    return [
        planner.plan_for(kind, **arguments, execution=execution) for execution in ("graph", "eager")
    ]


def separate(plan):
    """The candidate of separate launches."""
    return next(each for each in plan.candidates if each.recipe.algorithm == SEPARATE)


def test_eager_mode_counts_launches_and_operators():
    graph, eager = both(LAYER, batch=8, target="trn3")
    # Of these, the layer needs 8, and its real transform, as one of complex data, 2.
    assert graph.algorithm == SEPARATE and (graph.launches, graph.operators) == (2, 10)
    assert eager.algorithm == "spectral_convolution" and (eager.launches, eager.operators) == (1, 0)
    assert graph.predicted_ns < eager.predicted_ns
    launch = hardware.TRN3.launches.eager.about_ns
    assert graph.with_launches_ns == graph.predicted_ns + 12 * launch
    assert eager.with_launches_ns == eager.predicted_ns + launch < graph.with_launches_ns
    assert {each.recipe for each in graph.candidates} == {each.recipe for each in eager.candidates}
    for plan in (graph, eager):
        costs = [cost_ns(each, plan) for each in plan.candidates]
        assert costs[0] <= 1.03 * min(costs)


def test_a_graph_of_pytorch_xla_is_one_launch():
    """So that eager mode changes no choice on the chip whose launches are those of PyTorch/XLA."""
    graph, eager = both(LAYER, batch=8, target="trn1")
    assert graph.candidates == eager.candidates
    added = graph.with_launches_ns - graph.predicted_ns
    assert graph.launches == 2 and added == hardware.TRN1.launches.eager.about_ns
    assert "with a launch of their graph, about" in graph.tree()


def test_the_tree_shows_kernels_launches_and_operators():
    graph, eager = both(LAYER, batch=8, target="trn3")
    assert "\n2 kernels and 10 operators of torch " in graph.tree()
    assert "modelled;\nwith a launch of each, about" in graph.tree()
    assert "\nkernel " in eager.tree() and "modelled; with a launch, about" in eager.tree()
    assert eager.title == f"{graph.title}, eager"


def test_what_one_launch_alone_computes_has_one_plan(monkeypatch):
    searched = []
    monkeypatch.setattr(planner, "search", lambda *a: searched.append(a))
    graph, eager = (trnfft.plan(1024, target="trn2", execution=each) for each in ("graph", "eager"))
    assert eager == replace(graph, execution="eager") and searched == []


def test_an_eager_plan_needs_no_dry_runs_beside_those_of_the_graph(monkeypatch):
    graph = planner.plan_for(LAYER, batch=8, target="trn3")
    wisdom.own("trn3")
    planner.solved.cache_clear()
    monkeypatch.setattr(planner, "DryRuns", None)
    eager = planner.plan_for(LAYER, batch=8, target="trn3", execution="eager")
    assert eager.problem == replace(graph.problem, execution="eager")


def test_files_tell_graphs_from_eager_mode():
    graph, eager = both(LAYER, batch=8, target="trn3")
    for plan in (graph, eager):
        assert Plan.from_json(plan.to_json()) == plan
        assert wisdom.recall(plan.problem) == plan
    assert wisdom.key_of(graph) != wisdom.key_of(eager)
    assert '"execution"' not in graph.to_json() and '"execution":"eager"' in eager.to_json()
    with pytest.raises(ValueError, match="graph.*eager|execution"):
        Plan.from_json(eager.to_json().replace('"eager"', '"lazy"'))


@pytest.mark.parametrize("execution", ["lazy", "", None, 1, ["eager"]])
def test_other_executions_are_refused(execution):
    for call in (
        lambda: trnfft.plan(8, execution=execution),
        lambda: planner.plan_for(LAYER, execution=execution),
    ):
        with pytest.raises(ValueError, match="'execution' is .*allowed are 'graph' and 'eager'"):
            call()


@pytest.mark.parametrize(
    "device, in_graph, expected",
    [
        ("neuron", False, "eager"),
        ("neuron", True, "graph"),
        ("privateuseone", False, "eager"),
        ("xla", False, "graph"),
        ("cpu", False, "graph"),
    ],
)
def test_the_device_says_how_launches_run(device, in_graph, expected):
    class Device:
        type = device

    assert execution_on(Device(), in_graph) == expected


def test_rows_as_complex_data_pay_for_what_torch_moves():
    """The planner makes complex data of real data only where the price with that is lower."""
    for part, count in ((R2C, 2), (C2R, 6)):
        kind = Transform((1018,), part=part)  # twice a prime, for which no real kernel exists
        rows = planner.plan_for(Transform((1018,)), batch=64, target="trn2")
        plan = planner.plan_for(kind, batch=64, target="trn2")
        assert plan.recipe.kind.part == "c2c" and (plan.launches, plan.operators) == (1, count)
        moved = hardware.TRN2.dma_floor_ns(64 * 1018, 4, plan.cores)
        assert plan.predicted_ns > rows.predicted_ns + moved
        assert plan.with_launches_ns == eager_ns(plan.choice, "trn2")


# What a run shows


class Layer(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.fixture
def by_transforms(monkeypatch):
    """No kernel computes a whole layer."""
    from trnfft.ops import real_fft2, spectral_convolution

    def none(*arguments, **named):
        return None

    for module in (operators, spectral_convolution, real_fft2):
        monkeypatch.setattr(module, "recipe_for", none)


def counted(layer, shape):
    """The number of launches and of operators in a forward pass."""
    report = trnfft.plan_layer(layer, shape, target="trn2")
    return report.launch_count(), report.operators["forward"]


LAYERS = [
    (trnfft.nn.SpectralConv1d(4, 2, 8), (2, 4, 64), SpectralLayer(4, 2, (64,), (8,))),
    (
        trnfft.nn.SpectralConv2d(4, 2, 6, 6),
        (2, 4, 32, 48),
        SpectralLayer(4, 2, (32, 48), (12, 6)),
    ),
    (
        trnfft.nn.SpectralConv3d(4, 2, 4, 4, 3),
        (2, 4, 16, 16, 16),
        SpectralLayer(4, 2, (16, 16, 16), (8, 8, 3)),
    ),
    (trnfft.nn.FNetMixer(), (3, 64, 96), RealPlanes(64, 96)),
    # The planes, too, take a launch an axis, because no kernel has columns of 131 points.
    (
        trnfft.nn.SpectralConv2d(4, 2, 6, 6),
        (2, 4, 131, 48),
        SpectralLayer(4, 2, (131, 48), (12, 6)),
    ),
    (trnfft.nn.FNetMixer(), (3, 131, 64), RealPlanes(131, 64)),
]


@pytest.mark.parametrize("layer, shape, kind", LAYERS)
def test_the_operators_of_separate_launches_are_those_of_a_run(layer, shape, kind, by_transforms):
    plan = planner.plan_for(kind, batch=shape[0], target="trn2")
    way = separate(plan)
    assert counted(layer, shape) == (way.launches, way.operators)


@pytest.mark.parametrize(
    "power, bands, around", [(None, None, 0), (2, None, 0), (2, 40, 0)], ids=str
)
def test_the_operators_around_frames_are_those_of_a_run(power, bands, around, by_transforms):
    window = torch.hann_window(256, device="meta")
    bank = None if bands is None else torch.empty(129, bands, device="meta")
    from trnfft.ops import frames
    from trnfft.ops.operand import operand_of

    def spectra(x):
        if power is None:
            return frames.frame_spectra(operand_of(x), window, 64).real
        return frames.frame_bands(operand_of(x), window, bank, 64, power)

    frames_in = (4096 - 256) // 64 + 1
    kind = Frames(256, 64, power=power, bands=bands)
    way = separate(planner.plan_for(kind, batch=frames_in, target="trn2"))
    assert counted(Layer(spectra), (1, 4096)) == (way.launches, way.operators + around)


@pytest.mark.parametrize("points", [1, 2, 3])
def test_the_operators_of_gradients_are_those_of_a_run(points, by_transforms):
    from trnfft.complex.dispatch import Parts
    from trnfft.ops.spectral_convolution import gradients_by_transforms

    lengths, kept = (16,) * points, (*(8,) * (points - 1), 5)
    frequencies = 8 ** (points - 1) * 5
    spectra = torch.empty(2, frequencies, 2, 4, device="meta")
    weight = Parts(*torch.empty(2, 4, 3, *kept, device="meta"))

    def gradients(grad):
        return gradients_by_transforms(grad, spectra, weight, False)

    kind = SpectralGradients(4, 3, lengths, kept)
    way = separate(planner.plan_for(kind, batch=2, target="trn2"))
    assert counted(Layer(gradients), (2, 3, *lengths)) == (way.launches, way.operators)


# The shape in a run, and the length, the batch and the data of the plan.
SHAPES = [
    ((131, 10), (131, 10), 1, ()),
    ((3, 421, 421), (421, 421), 3, ()),  # whose real rows are complex ones
    ((2, 5, 131, 6), (5, 131, 6), 2, ()),
    ((2, 131, 1, 6), (131, 1, 6), 2, ()),
    ((5, 1, 257), (1, 257), 5, ()),
    ((5, 257, 1), (257, 1), 5, ()),
    ((4, 131, 3, 1), (131, 3, 1), 4, ()),
    ((3, 120, 7), (131, 10), 3, (120, 7)),
]


@pytest.mark.parametrize("part", [C2C, R2C, C2R])
@pytest.mark.parametrize("shape, lengths, batch, data", SHAPES, ids=str)
def test_the_operators_of_a_launch_an_axis_are_those_of_a_run(shape, lengths, batch, data, part):
    kind = Transform(lengths, data, part)
    way = separate(planner.plan_for(kind, batch=batch, target="trn2"))
    dims = tuple(range(-len(lengths), 0))

    def transform(x):
        if part == C2R:
            y = trnfft.irfftn(x, lengths, dim=dims)
            return y[tuple([..., *map(slice, data)])].contiguous() if data else y
        return (trnfft.rfftn if part == R2C else trnfft.fftn)(x, lengths, dim=dims)

    if part == C2R:
        shape = (*shape[: len(shape) - len(lengths)], *lengths[:-1], lengths[-1] // 2 + 1)
    zeros = part != R2C  # of the imaginary part of real data
    report = trnfft.plan_layer(Layer(transform), shape, target="trn2")
    assert report.launch_count() == way.launches
    assert report.operators["forward"] == way.operators + zeros
    axes = sum(n > 1 for n in lengths)
    copies = 2 * axes if axes > 1 else 0
    half = lengths[-1] if part == C2C else lengths[-1] // 2 + 1
    moved = 8 * copies * batch * half * math.prod(lengths[:-1])
    assert report.copied_bytes["forward"] == moved
    if not data and lengths[-1] > 1:  # zeros are written, and not copied
        mirrors = math.prod(min(n, 2 - n % 2) for n in lengths) if part == R2C else 0
        assert 4 * kind.separate(batch).numbers == moved + 4 * batch * mirrors


@pytest.mark.parametrize("part, shape", [(R2C, (64, 1018)), (C2R, (64, 510))])
def test_the_operators_of_complex_rows_are_those_of_a_run(part, shape):
    plan = planner.plan_for(Transform((1018,), part=part), batch=64, target="trn2")

    def transform(x):
        return trnfft.rfft(x) if part == R2C else trnfft.hfft(x, 1018)

    zeros = 1 if part == C2R else 0  # of the imaginary part of a real argument of hfft
    assert counted(Layer(transform), shape) == (1, plan.operators + zeros)


def test_layers_ask_for_the_plan_that_fits_their_device(monkeypatch):
    """On a device of TorchNeuron, without a graph, a layer runs by the plan for eager mode."""
    layer, shape = trnfft.nn.SpectralConv1d(1, 4, 512), (8, 1, 1024)

    def launches():
        report = trnfft.plan_layer(layer, shape, target="trn3", backward=True)
        return [(one.phase, one.algorithm) for one in report.launches]

    assert len(launches()) > 2
    asked = []
    monkeypatch.setattr(operand, "execution_on", lambda *a: asked.append(a) or "eager")
    monkeypatch.setattr(nki, "execution_on", lambda *a: "eager")
    assert launches() == [
        ("forward", "spectral_convolution_kept"),
        ("backward", "spectral_gradients"),
    ]
    assert asked


def test_copies_into_another_layout_count():
    """Both parts of a plane are turned after each of two launches."""
    report = trnfft.plan_layer(Layer(trnfft.fft2), (257, 64), target="trn2")
    assert report.launch_count() == 2
    assert report.operators == {"forward": 5, "backward": 0}  # zeros, and four copies
    assert report.copied_bytes == {"forward": 4 * 2 * 4 * 257 * 64, "backward": 0}
    assert "5 other operators of torch, which copy 0.53 MB" in str(report)
    total = report.to_dict()["totals"]["forward"]
    assert (total["other_operators"], total["copied_bytes"]) == (5, 4 * 2 * 4 * 257 * 64)
    launch = hardware.TRN2.launches.eager.about_ns
    assert report.with_launches_ns() == report.predicted_ns() + 7 * launch


def test_views_are_no_copies():
    report = trnfft.plan_layer(Layer(lambda x: trnfft.rfft(x.reshape(8, 64)[:, :32])), (512,))
    assert report.operators["forward"] <= 2 and report.copied_bytes["forward"] in (0, 2 * 4 * 256)
