"""Transforms in graphs of torch.compile(backend="neuron"), as launches that its compiler accepts.

This compiler accepts operators of ATen, and operators made by TorchNeuron's `nki_op`, whose bodies
it traces: launches by `wrap_nki`, and operations around them. The operators `trnfft_neuron::c2c`,
`r2c` and `c2r` are made in this way; they are the operators of trnfft/ops/transforms.py for one
chip. All that kernels need is determined while the graph is made: plan, precision and degree of LNC
are those of this moment, and tables are made and uploaded then and become operands. An operator
also takes the tables of its derivative, because nothing can be uploaded while a backward graph is
traced.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from nki_sim.base.neuron_packages import how_to_install
from trnfft.backends.backend import Call, Parts, scale_of
from trnfft.backends.half_spectrum import interior
from trnfft.base import cache, config, neuron_launchers
from trnfft.base import torch_private as private
from trnfft.base.autograd_types import Context
from trnfft.base.devices import backend_for

ADJOINT = {"c2c": "c2c", "r2c": "c2r", "c2r": "r2c"}
Tensors = list[torch.Tensor]


@torch.compiler.assume_constant_result
def check_shapes_are_static() -> None:
    """Checks, while Dynamo traces, that shapes are static, as TorchNeuron wants them."""
    advice = "each shape makes a graph of its own; pad inputs to few shapes where they vary"
    if not private.dynamo_config().assume_static_by_default:
        asked = "argument 'dynamic' of torch.compile is True (or torch._dynamo.config has "
        asked += "assume_static_by_default=False), allowed is False or None"
    elif _is_any_marked():
        asked = "an input is marked by torch._dynamo.mark_dynamic: remove the mark"
    else:
        return
    text = f"{asked}: TorchNeuron's backend accepts only graphs of static shapes; {advice}"
    raise NotImplementedError(text)


@torch.compiler.assume_constant_result
def warn_of_the_last_graph() -> None:
    """Warns once, while Dynamo traces, of the last graph that it makes of a function.

    Afterwards other shapes run in eager mode, which Dynamo mentions only in its log.
    """
    made, limit = (
        private.CompileContext.current_compile_id(),
        private.dynamo_config().recompile_limit,
    )
    if made is None or made.frame_compile_id is None or made.frame_compile_id + 1 != limit:
        return
    stack = private.TracingContext.extract_stack()
    _warn_of_the_last_graph(made.frame_id, limit, stack[0].name if stack else "a function")


# functions of which a warning was given; several transforms in one function ask again
@cache.cached(64)
def _warn_of_the_last_graph(frame: int, limit: int, name: str) -> None:
    warnings.warn(
        f"this is graph {limit} of {name}, as many as torch._dynamo.config.recompile_limit "
        f"allows: with other shapes it will run in eager mode, at a launch for each transform, or "
        f"raise with fullgraph=True. Pad inputs to few shapes, or set a higher limit",
        RuntimeWarning,
        stacklevel=2,
    )


def _is_any_marked() -> bool:
    """Returns whether a dimension of an input that was met so far has a strict dynamic mark."""
    context = private.TracingContext.try_get()
    inputs = context.tensor_to_context.values() if context else ()
    constraints = [c for each in inputs for c in getattr(each, "constraint_sizes", ())]
    return any(c is not None and not getattr(c, "warn_only", True) for c in constraints)


def transform(parts: Parts, call: Call) -> Parts:
    """Checks the shapes, then calls `_transform`, which Dynamo calls without tracing it."""
    check_shapes_are_static()
    warn_of_the_last_graph()
    scale = scale_of(call.norm, call.sizes, call.inverse)
    return _transform(call.kind, parts, call.sizes, call.inverse, scale, call.planned)


@private.nonstrict_trace
def _transform(
    kind: str,
    parts: Parts,
    sizes: tuple[int, ...],
    inverse: bool,
    scale: float,
    planned: bool,
) -> Parts:
    """Transforms split parts along their last dimensions. Differentiable.

    Args:
        parts: float32 tensors on the device, [..., *sizes]; half spectra have N // 2 + 1 numbers.
        kind, sizes, inverse, scale, planned: as for `trnfft.backends.backend.Call`.
    """
    refuse_tangents(parts)
    # Dynamo needs only shapes, and hides errors that are raised here.
    if isinstance(parts[0], private.FakeTensor):
        return shapes_alone(parts, _result_shapes(kind, [x.shape for x in parts], sizes))
    # Numbers that a graph of dynamic shapes keeps open are fixed, too, because a kernel has one
    # shape.
    sizes, scale = tuple(map(int, sizes)), float(scale)
    shapes = [tuple(map(int, part.shape)) for part in parts]
    if parts[0].numel() == 0:
        return shapes_alone(parts, _result_shapes(kind, shapes, sizes))
    precision = _precision(parts[0].device)
    call = _call(kind, sizes, inverse, scale, precision, planned)
    tables = _tables(shapes, call, parts[0].device)
    backward: Tensors = []
    if torch.is_grad_enabled() and any(part.requires_grad for part in parts):
        back = call._replace(kind=ADJOINT[kind], inverse=not inverse)
        results = _result_shapes(kind, shapes, call.sizes)
        backward = _tables(results, back, parts[0].device)
    settings = (list(call.sizes), inverse, scale, call.precision, planned)
    return tuple(operators()[kind](list(parts), tables, backward, *settings))


def refuse_tangents(tensors: Parts) -> None:
    """Raises NotImplementedError where a tensor has a tangent, which operators would drop.

    Dynamo then leaves the operation to eager mode, unless fullgraph=True.
    """
    if any(forward_ad.unpack_dual(x, level=0).tangent is not None for x in tensors):
        raise NotImplementedError(
            "graphs of torch.compile(backend='neuron') have no forward-mode derivatives of "
            "transforms, as their operators drop tangents"
        )


def _precision(device: torch.device) -> str:
    """Returns the precision of this context, if kernels have it."""
    chosen, precision = backend_for(device), config.get_precision()
    if chosen != "nki":
        raise RuntimeError(
            f'backend "{chosen}" has no kernels for the graphs of torch.compile(backend="neuron"): '
            f'trnfft.set_backend("nki"), or leave the transform out with torch.compiler.disable'
        )
    if precision == "double":
        raise NotImplementedError(
            'precision "double" is float64 on the host, which a graph of a NeuronCore cannot use: '
            "set another precision, or leave the transform out with torch.compiler.disable"
        )
    return precision


def _call(
    kind: str, sizes: Iterable[int], inverse: bool, scale: float, precision: str, planned: bool
) -> Call:
    return Call(kind, inverse, tuple(sizes), (), scale, precision, planned)


def _tables(shapes: Sequence[tuple[int, ...]], call: Call, device: torch.device) -> Tensors:
    from trnfft.ops.graph_nki import tables_of  # here, so that only its users load the kernels

    return lifted(tables_of(shapes, call, device))


def lifted(tables: Tensors) -> Tensors:
    """Returns tables as values of the graph.

    Only tensors that the graph computed can go from the forward to the backward graph, and
    PyTorch's decomposition of complex operations traces graphs with fake tensors.
    """
    lift = torch.ops.aten.lift_fresh_copy.default
    return [lift(table) for table in tables]


def _result_shapes(
    kind: str, shapes: Sequence[tuple[int, ...]], sizes: Sequence[int]
) -> list[tuple[int, ...]]:
    if kind == "c2c":
        return list(shapes)
    last = sizes[-1] // 2 + 1 if kind == "r2c" else sizes[-1]
    return [(*shapes[0][:-1], last)] * (2 if kind == "r2c" else 1)


def shapes_alone(parts: Parts, shapes: Sequence[tuple[int, ...]]) -> Parts:
    """Returns results of these shapes without useful values, which depend on all parts."""
    total = sum(part.sum() for part in parts)
    return tuple(parts[0].new_zeros(shape) + total for shape in shapes)


def required_nki_op() -> Any:
    """Returns TorchNeuron's `nki_op`."""
    nki_op = neuron_launchers.launcher("nki_op")
    if nki_op is None:
        raise ImportError(
            "no installed package has nki_op, which makes operators for "
            "torch.compile(backend='neuron'): call trnfft in eager mode, or install torch-neuronx "
            "2.13 or later (TorchNeuron): "
            f"{how_to_install('nrtpy', 'torch-neuronx')}"
        )
    return nki_op


@cache.cached(1)
def operators() -> dict[str, Any]:
    """Returns operators by kind, made by TorchNeuron's `nki_op` when a graph is first traced."""
    nki_op, made = required_nki_op(), {}
    for kind in ADJOINT:
        made[kind] = nki_op(f"trnfft_neuron::{kind}", mutates_args={})(_body(kind))
        made[kind].register_autograd(_backward(kind), setup_context=_keep)
    return made


def _body(kind: str) -> Any:
    def operator(
        parts: list[torch.Tensor],
        tables: list[torch.Tensor],
        backward: list[torch.Tensor],
        sizes: list[int],
        inverse: bool,
        scale: float,
        precision: str,
        planned: bool,
    ) -> list[torch.Tensor]:
        from trnfft.ops.graph_nki import GraphNki  # only its users load the kernels

        call = _call(kind, sizes, inverse, scale, precision, planned)
        y = getattr(GraphNki(tables), kind)(tuple(parts), call)
        return [part.clone(memory_format=torch.contiguous_format) for part in y]

    return operator


def _keep(
    ctx: Context,
    inputs: tuple[Tensors, Tensors, Tensors, list[int], bool, float, str, bool],
    output: object,
) -> None:
    _, ctx.tables, ctx.backward, *ctx.settings = inputs


def _backward(kind: str) -> Any:
    def backward(ctx: Context, grads: Tensors) -> Any:
        sizes, inverse, *rest = ctx.settings
        n = sizes[-1]
        if kind == "r2c":
            grads = [grad * interior(grad, n, 0.5) for grad in grads]
        adjoint = operators()[ADJOINT[kind]]
        y = adjoint(list(grads), ctx.backward, ctx.tables, sizes, not inverse, *rest)
        if kind == "c2r":
            y = [part * interior(part, n, 2.0) for part in y]
        tables = [None] * len(ctx.tables), [None] * len(ctx.backward)
        return y, *tables, *[None] * len(ctx.settings)

    return backward
