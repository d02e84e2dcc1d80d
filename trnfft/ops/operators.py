"""What operators of kernels share: the recipe of a launch, and rules of vmap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from trnfft.planner import kinds


def recipe_for(kind: kinds.Kind, batch: int, precision: str = "fast") -> Any:
    """Returns the recipe of a launch, or None where no kernel fits or transforms are cheaper."""
    from trnfft.planner.planner import plan_for  # here: only its users load the kernels
    from trnfft.planner.separate import SEPARATE

    try:
        plan = plan_for(kind, batch=batch, precision=precision)
    except NotImplementedError:
        return None
    return None if plan.algorithm == SEPARATE else plan.recipe


def batched(operator: Any, tensors: int) -> Any:
    """Returns the vmap rule of an operator that takes any leading dimensions: one more of them."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        moved = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(arguments[:tensors], in_dims[:tensors], strict=True)
        ]
        return _with_first_dims(operator(*moved, *arguments[tensors:]))

    return rule


def one_by_one(operator: Any, tensors: int, is_foldable: bool = False) -> Any:
    """Returns the vmap rule of an operator whose tensors have fixed dimensions: a call an index.

    Args:
        operator: the operator.
        tensors: how many of its arguments are tensors, or None.
        is_foldable: whether one call can do the work where only the first tensor is vectorized,
            along whose first dimension the results have as many rows.
    """

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        given, dims, rest = arguments[:tensors], in_dims[:tensors], arguments[tensors:]
        if is_foldable and dims[0] is not None and not any(dim is not None for dim in dims[1:]):
            x = given[0].movedim(dims[0], 0)
            found = operator(x.flatten(0, 1), *given[1:], *rest)
            results = found if isinstance(found, tuple) else (found,)
            stacked = tuple(part.unflatten(0, x.shape[:2]) for part in results)
        else:
            found = None
            rows = []
            for index in range(info.batch_size):
                each = [
                    x if dim is None else x.select(dim, index)
                    for x, dim in zip(given, dims, strict=True)
                ]
                found = operator(*each, *rest)
                rows.append(found if isinstance(found, tuple) else (found,))
            stacked = tuple(torch.stack(part) for part in zip(*rows, strict=True))
        return _with_first_dims(stacked if isinstance(found, tuple) else stacked[0])

    return rule


def _with_first_dims(result: Any) -> tuple[Any, Any]:
    return result, 0 if isinstance(result, torch.Tensor) else (0,) * len(result)
