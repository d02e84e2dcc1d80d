"""Fused launches in graphs of torch.compile(backend="neuron"): one operator for all recipes.

The operator is `trnfft_neuron::fused`, made by TorchNeuron's `nki_op`. It computes a `Step`: the
launch of a recipe, or several launches with operations of torch between them. Its derivative is a
second step:

    y, *kept = forward(x, *rest)          dx, *d_rest = backward(dy, *kept, *rest)

Both are chosen while the graph is made. The tables of both are operands of the operator, because
nothing can be uploaded while a backward graph is traced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from trnfft.backends.backend import Backend
from trnfft.base import cache
from trnfft.base.autograd_types import Context
from trnfft.base.torch_private import FakeTensor, nonstrict_trace
from trnfft.ops import neuron_graph
from trnfft.ops.neuron_graph import Tensors
from trnfft.planner.plan import Recipe

Shapes = tuple[tuple[int, ...], ...]
# Steps of several launches by the names of their recipes' algorithms: functions of a backend with
# kernels, the tensors and the recipe. The operators that need such steps add them.
SEVERAL: dict[str, Callable[[Backend, Tensors, Recipe], Sequence[torch.Tensor]]] = {}


class Step(NamedTuple):
    """What an operator computes; as text it is an argument of the operator."""

    recipe: Recipe
    inverse: bool = False
    scale: float = 1.0

    def text(self) -> str:
        """Returns the step as JSON."""
        return json.dumps([self.recipe.to_dict(), self.inverse, self.scale])

    @classmethod
    def of(cls, text: str) -> Step:
        """Returns the step of which `text` is the text."""
        recipe, inverse, scale = json.loads(text)
        return cls(Recipe.from_dict(recipe), inverse, scale)

    def computed(self, backend: Backend, tensors: Tensors) -> Tensors:
        """Returns the results of a backend with kernels."""
        several = SEVERAL.get(self.recipe.algorithm)
        if several is not None:
            return list(several(backend, tensors, self.recipe))
        return list(backend.run(self.recipe, tuple(tensors), self.inverse, self.scale))


def launch(
    tensors: Sequence[torch.Tensor], shapes: Shapes, forward: str, backward: str = ""
) -> Sequence[torch.Tensor]:
    """Computes a step in a graph, after the checks of transforms. Differentiable once.

    `shapes` are those of the results. `backward` is "" where no tensor needs a gradient.
    """
    neuron_graph.check_shapes_are_static()
    neuron_graph.warn_of_the_last_graph()
    # Dynamo cannot guard constants of functions as arguments; the sums are constants of their own.
    return _launch(tuple(tensors), shapes, "" + forward, "" + backward)


@nonstrict_trace
def _launch(
    tensors: tuple[torch.Tensor, ...], shapes: Shapes, forward: str, backward: str
) -> tuple[torch.Tensor, ...]:
    neuron_graph.refuse_tangents(tensors)
    shapes = tuple(tuple(map(int, shape)) for shape in shapes)
    if isinstance(tensors[0], FakeTensor):  # Dynamo needs only shapes
        return neuron_graph.shapes_alone(tensors, shapes)
    given = [tuple(map(int, x.shape)) for x in tensors]
    device, back = tensors[0].device, Tensors()
    if backward:
        back = _tables(backward, [*shapes, *given[1:]], device)
    tables = _tables(forward, given, device)
    return tuple(_operator()(list(tensors), tables, back, forward, backward))


def _tables(text: str, shapes: Sequence[tuple[int, ...]], device: torch.device) -> Tensors:
    """Returns the tables of a step's launches, in the order of the launches, on the device."""
    from trnfft.ops.graph_nki import Rehearsal  # here: only its users load the kernels

    backend = Rehearsal(device)
    Step.of(text).computed(backend, [torch.empty(shape, device="meta") for shape in shapes])
    return neuron_graph.lifted(backend.tables)


@cache.cached(1)
def _operator() -> Any:
    made = neuron_graph.required_nki_op()("trnfft_neuron::fused", mutates_args={})(_fused)
    made.register_autograd(_backward, setup_context=_keep)
    return made


def _fused(
    tensors: list[torch.Tensor],
    tables: list[torch.Tensor],
    backward_tables: list[torch.Tensor],
    forward: str,
    backward: str,
) -> list[torch.Tensor]:
    from trnfft.ops.graph_nki import GraphNki  # here: only its users load the kernels

    return Step.of(forward).computed(GraphNki(tables), tensors)


def _keep(
    ctx: Context, inputs: tuple[Tensors, Tensors, Tensors, str, str], output: Tensors
) -> None:
    tensors, tables, ctx.tables, _, ctx.step = inputs
    ctx.counts = len(tensors), len(tables)
    ctx.save_for_backward(*output[1:], *tensors[1:])


def _backward(ctx: Context, grads: Tensors) -> tuple[list[torch.Tensor | None] | None, ...]:
    count, tables = ctx.counts
    tensors = [grads[0].contiguous(), *ctx.saved_tensors]
    gradients = list(_operator()(tensors, ctx.tables, [], ctx.step, ""))
    missing = [None] * (count - len(gradients))
    return [*gradients, *missing], [None] * tables, [None] * len(ctx.tables), None, None
