"""What graphs of torch.compile, torch.export and make_fx need of tensors that consist of two parts.

`in_graph.py` has the operators of these graphs, and is loaded only where code is compiled. This
file tells where a graph is made, and which views are views in it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from trnfft.base import torch_private as private
from trnfft.complex import table
from trnfft.complex.table import Arguments, Function, NamedArguments


def is_in_graph(part: torch.Tensor) -> bool:
    """Whether a part stands for a tensor in a graph of torch.compile or torch.export."""
    return isinstance(part, (private.FakeTensor, private.FunctionalTensor))


def recorded_whole(operator: object, args: Arguments, kwargs: NamedArguments) -> Any:
    """Returns the result of an operator that make_fx records, or NotImplemented elsewhere.

    torch.compile and torch.export record the parts of complex tensors.
    """
    if private.proxy_mode() is None or private.functional_mode() is not None:
        return NotImplemented
    if torch.compiler.is_compiling():
        return NotImplemented
    return table.in_graph().recorded_whole(operator, args, kwargs)


def is_asked_by_converter() -> bool:
    """Whether torch asks where it makes a twin of a tensor for a graph."""
    frame = inspect.currentframe()
    for _ in range(8):  # through __torch_function__
        frame = frame.f_back if frame is not None else None
        if frame is not None and frame.f_code.co_filename == private.CONVERTER:
            return True
    return False


def is_seen_by_compiler(part: torch.Tensor) -> bool:
    """Whether torch looks at a tensor with this part to distinguish views in a graph."""
    has_memory = type(part) in (torch.Tensor, torch.nn.Parameter)
    return not has_memory or private.len_torch_dispatch_stack() > 0 or is_asked_by_converter()


def recorded_as(name: str) -> Function:
    """Returns a decorator: make_fx records the function as the operator `name` of `in_graph`."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*inputs: torch.Tensor) -> Any:
            if not private.len_torch_dispatch_stack() or torch.compiler.is_compiling():
                return function(*inputs)
            if private.proxy_mode() is None:
                return function(*inputs)
            return table.in_graph().recorded(name, function, *inputs)

        private.keep_from_compiler(function)
        private.keep_from_compiler(call)
        return call

    return decorate


@functools.cache
def sources() -> str:
    """Returns a hash of the code that computes operators of ComplexTensors."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def with_storage(overload: private.OpOverload, args: Arguments, results: object) -> Any:
    """Returns the results of an operator in a graph, where views have the storage of an argument.

    From the storage torch.compile knows what it has to make again as a view of the argument. Only
    strides are known then, so that a conjugate of the argument has a storage of its own.
    """
    if not args or not getattr(args[0], "_is_argument", False) or not is_view(overload):
        return results
    argument: Any = args[0]
    is_lazy = argument.is_conj()
    for made in results if isinstance(results, (list, tuple)) else (results,):
        if hasattr(type(made), "_is_argument") and made.is_conj() == is_lazy:
            private.functionalize_unsafe_set(made, argument)
            made._is_argument = True
    return results


def is_view(overload: private.OpOverload) -> bool:
    """Returns whether the results of an operator share memory with an argument."""
    return any(r.alias_info and not r.alias_info.is_write for r in overload._schema.returns)


def differ_in_name(part: torch.Tensor, stride: Sequence[int]) -> bool:
    """Whether strides differ only where no step is taken along them, which graphs do not keep."""
    of_part = part.stride()
    if of_part == tuple(stride):
        return False
    steps = zip(part.shape, of_part, stride, strict=True)
    return 0 in part.shape or all(size == 1 or a == b for size, a, b in steps)


private.keep_from_compiler(recorded_whole)
