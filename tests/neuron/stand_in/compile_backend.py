"""torch.compile(backend="neuron") of the tests: refuses graphs that TorchNeuron could not compile.

A node must be an operator of ATen, a launch by `wrap_nki`, or an operator that `nki_op` made. No
value may have a dtype that a NeuronCore lacks. Where the device stores complex numbers, inputs and
outputs of graphs may be complex64; the operations between them are decomposed. An accepted graph
runs node by node on the device.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config

from . import device, nki_hop

# The ends of the decomposed part: complex numbers become pairs, and pairs become complex numbers.
MAKE_COMPLEX = (torch.ops.aten.complex.default, torch.ops.aten.view_as_complex.default)
TAKE_COMPLEX = ("output", torch.ops.aten.view_as_real.default)
GRAPHS: list[torch.fx.GraphModule] = []  # accepted graphs, forward and backward


class Refused(RuntimeError):
    """The graph contains something that the device's compiler does not accept."""


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
    """Decomposes complex operations of a backward graph, then checks and runs it.

    PyTorch's flag concerns forward graphs only. The stand-in assumes that TorchNeuron decomposes
    backward graphs, too.
    """
    if device.stores_complex():
        from torch._functorch._aot_autograd import complex_decomposition

        graph = complex_decomposition.decompose_complex_in_graph(graph, example_inputs)
    return check_and_run(graph, example_inputs)


def install() -> None:
    """Registers the backend in this process."""
    torch._dynamo.register_backend(compiled, name="neuron")
