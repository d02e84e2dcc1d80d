"""torch.compile(backend="neuron") of the tests: it refuses what TorchNeuron's could not take.

A node is an operator of ATen, a launch by `wrap_nki`, or an operator that `nki_op` made; no value
has a dtype that a NeuronCore lacks. What is accepted runs node by node on the device.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from . import nki_hop

GRAPHS: list[torch.fx.GraphModule] = []  # accepted ones, forward and backward


class Refused(RuntimeError):
    """The graph holds what the device's compiler does not take."""


def check_and_run(graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            check_value(node)
            continue
        if node.op != "call_function":
            raise Refused(f"node {node.name} is a {node.op}")
        if node.target in (operator.getitem, nki_hop.nki_kernel_wrapper):
            continue
        target = node.target
        name = target.name() if isinstance(target, torch._ops.OpOverload) else str(target)
        name = name.partition(".")[0]
        if not name.startswith("aten::") and name not in nki_hop.OPERATORS:
            raise Refused(f"operator {name} is neither of ATen nor made by nki_op")
        check_value(node)
    GRAPHS.append(graph)
    return make_boxed_func(graph.forward)


def check_value(node: torch.fx.Node) -> None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return
    if value.is_complex() or value.dtype == torch.float64:
        raise Refused(f"node {node.name} has {value.dtype}")


def install() -> None:
    """Registers the backend in this process."""
    torch._dynamo.register_backend(aot_autograd(fw_compiler=check_and_run), name="neuron")
