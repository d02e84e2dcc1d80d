"""Collective operators of torch.distributed on ComplexTensors: one exchange for each part."""

from typing import Any

import torch

from trnfft.base.torch_private import OpOverload, tree_any, tree_map, tree_map_only
from trnfft.complex.table import Arguments, NamedArguments


def on_each_part(
    overload: OpOverload,
    kind: type[torch.Tensor],
    args: Arguments,
    kwargs: NamedArguments,
) -> Any:
    """Calls an operator that writes into its tensors, which are of a class with two parts.

    Returns the results of the operator: its tensors, and the work of the second exchange. The first
    exchange has ended by then.
    """
    _, first = _called(overload, kind, "_real", args, kwargs)
    for work in first:
        work.wait()
    result, _ = _called(overload, kind, "_imag", args, kwargs)
    # The given tensors are returned in place of the written parts.
    written = [argument for argument in args if tree_any(lambda x: isinstance(x, kind), argument)]
    if isinstance(result, (tuple, list)) and isinstance(result[0], list):
        return (written[0], *result[1:])
    return result


def _called(
    overload: OpOverload,
    kind: type[torch.Tensor],
    part: str,
    args: Arguments,
    kwargs: NamedArguments,
) -> tuple[Any, list[Any]]:
    """Calls the operator on one part of each tensor; returns its result and the works in it."""
    own_args, own_kwargs = tree_map_only(kind, lambda z: getattr(z, part), (args, kwargs))
    result = overload(*own_args, **own_kwargs)
    works: list[Any] = []
    tree_map(lambda x: works.append(x) if isinstance(x, torch.ScriptObject) else None, result)
    return result, works
