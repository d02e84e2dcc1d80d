"""torch.compile(backend="neuron") of the tests: it refuses what TorchNeuron's could not take.

A node is an operator of ATen, a launch by `wrap_nki`, or an operator that `nki_op` made; no value
has a dtype that a NeuronCore lacks. Where the device stores complex numbers, graphs take and give
complex64, and what is between is decomposed. What is accepted runs node by node on the device.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config

from . import device, nki_hop

# The ends of what is decomposed: complex numbers become pairs, and pairs become complex numbers.
MAKE_COMPLEX = (torch.ops.aten.complex.default, torch.ops.aten.view_as_complex.default)
TAKE_COMPLEX = ("output", torch.ops.aten.view_as_real.default)
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
    is_end = node.op == "placeholder" or node.target in MAKE_COMPLEX
    is_stored = value.dtype == torch.complex64 and device.stores_complex() and is_end
    if value.dtype == torch.float64 or (value.is_complex() and not is_stored):
        raise Refused(f"node {node.name} has {value.dtype}")
    if any(user.target not in TAKE_COMPLEX for user in node.users if value.is_complex()):
        raise Refused(f"node {node.name} is complex, and is given to {list(node.users)}")


def compiled(graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
    if not torch._dynamo.config.assume_static_by_default:
        raise Refused("torch.compile(dynamic=True) is rejected")
    run = aot_autograd(fw_compiler=check_and_run, bw_compiler=check_and_run_backward)
    with functorch_config.patch(enable_complex_wrapper=device.stores_complex()):
        return run(graph, example_inputs)


def check_and_run_backward(graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
    """PyTorch's flag is for forward graphs; that TorchNeuron decomposes others, too, is assumed."""
    if device.stores_complex():
        from torch._functorch._aot_autograd import complex_decomposition

        graph = complex_decomposition.decompose_complex_in_graph(graph, example_inputs)
    return check_and_run(graph, example_inputs)


def install() -> None:
    """Registers the backend in this process."""
    torch._dynamo.register_backend(compiled, name="neuron")
