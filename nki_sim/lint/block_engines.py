"""The engines on which the instructions of a block of source run."""

from __future__ import annotations

import ast

from nki_sim.base.enums import ENGINE_NAMES

from .names import Names

_OF_NAMES = (
    (("nc_matmul", "nc_transpose"), "TensorE"),
    (("activation", "activate2"), "ScalarE"),
    (("dma_",), "DMA"),
    (("iota", "core_barrier", "register_", "sendrecv"), ""),  # GpSimdE, SyncE, or both programs
)


def engines_of(body: list[ast.stmt], names: Names) -> set[str]:
    """Returns the engines of the calls of nki.isa in a block, as far as the source shows them."""
    calls: list[ast.Call] = []
    nodes: list[ast.AST] = [*body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Call):
            calls.append(node)
        if not isinstance(node, ast.FunctionDef | ast.Lambda):  # which may run elsewhere
            nodes += ast.iter_child_nodes(node)
    return {engine for call in calls if (engine := _engine(call, names))}


def _engine(call: ast.Call, names: Names) -> str:
    module, _, function = names.path(call.func).rpartition(".")
    if module != "nki.isa":
        return ""
    named = [word.value for word in call.keywords if word.arg == "engine"]
    if named and not function.startswith("dma_"):
        return ENGINE_NAMES.get(ast.unparse(named[0]).rpartition(".")[2], "")
    for prefixes, engine in _OF_NAMES:
        if function.startswith(prefixes):
            return engine
    return "VectorE"
