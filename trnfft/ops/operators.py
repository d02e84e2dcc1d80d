"""What operators of kernels share: the recipe of a launch, and rules of vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from trnfft.base.autograd_types import BatchInfo, InDims

if TYPE_CHECKING:
    from trnfft.planner import kinds

Results = torch.Tensor | tuple[torch.Tensor, ...]
# The results of a vmap rule, and along which dimension of each the batch is.
BatchedResults = tuple[Results, int | tuple[int, ...]]


def recipe_for(
    kind: kinds.Kind, batch: int, precision: str = "fast", execution: str = "graph"
) -> Any:
    """Returns the recipe of a launch, or None where no kernel fits or transforms are cheaper."""
    from trnfft.planner.planner import plan_for  # here: only its users load the kernels
    from trnfft.planner.separate import SEPARATE

    try:
        plan = plan_for(kind, batch=batch, precision=precision, execution=execution)
    except NotImplementedError:
        return None
    return None if plan.algorithm == SEPARATE else plan.recipe


def batched(operator: Callable[..., Results]) -> Callable[..., BatchedResults]:
    """Returns the vmap rule of an operator that takes any leading dimensions: one more of them."""

    def rule(info: BatchInfo, in_dims: InDims, *arguments: object) -> BatchedResults:
        tensors = batch_first(info, in_dims, arguments)
        return _with_first_dims(operator(*tensors, *arguments[len(tensors) :]))

    return rule


def batch_first(
    info: BatchInfo, in_dims: InDims, arguments: tuple[object, ...]
) -> list[torch.Tensor]:
    """Returns the tensors among arguments, all with the batch as their first dimension."""
    return [
        x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(arguments, in_dims, strict=True)
        if isinstance(x, torch.Tensor)
    ]


def one_by_one(
    operator: Callable[..., Results], is_foldable: bool = False
) -> Callable[..., BatchedResults]:
    """Returns the vmap rule of an operator whose tensors have fixed dimensions: a call an index.

    Args:
        operator: the operator, whose first argument is a tensor.
        is_foldable: whether one call can do the work where only the first tensor is vectorized,
            along whose first dimension the results have as many rows.
    """

    def rule(info: BatchInfo, in_dims: InDims, x: torch.Tensor, *others: object) -> BatchedResults:
        if is_foldable and in_dims[0] is not None and not any(d is not None for d in in_dims[1:]):
            x = x.movedim(in_dims[0], 0)
            result = operator(x.flatten(0, 1), *others)
            if isinstance(result, torch.Tensor):
                return _with_first_dims(result.unflatten(0, x.shape[:2]))
            return _with_first_dims(tuple(part.unflatten(0, x.shape[:2]) for part in result))
        rows = [
            operator(*(_row(*pair, index) for pair in zip((x, *others), in_dims, strict=True)))
            for index in range(info.batch_size)
        ]
        alone = [row for row in rows if isinstance(row, torch.Tensor)]
        if alone:
            return _with_first_dims(torch.stack(alone))
        return _with_first_dims(tuple(torch.stack(part) for part in zip(*rows, strict=True)))

    return rule


def _row(x: object, dim: int | None, index: int) -> object:
    """Returns the argument of one call: a row of a tensor that has the batch, or the argument."""
    return x.select(dim, index) if isinstance(x, torch.Tensor) and dim is not None else x


def _with_first_dims(result: Results) -> BatchedResults:
    return result, 0 if isinstance(result, torch.Tensor) else (0,) * len(result)
