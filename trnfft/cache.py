"""The one kind of cache: bounded, and computed once where several threads want the same."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import Any, TypeVar

import cachetools

Function = TypeVar("Function", bound=Callable[..., Any])


def cached(limit: float, size: Callable[[Any], float] | None = None) -> Any:
    """Decorator: a function's results by its arguments, which are hashable.

    A thread waits for a result that another one computes. `cache_clear()` of the function forgets
    all results, `cache_info()` counts hits and misses.

    Args:
        limit: of the sum of sizes. Beyond it results go that were not used for longest; a larger
            result is not kept.
        size: of a result. Default: 1 each.
    """
    kept: Any = cachetools.LRUCache(limit, getsizeof=size)
    return cachetools.cached(kept, condition=Condition(), info=True)


def constant_when_compiled(function: Function) -> Function:
    """As torch.compiler.assume_constant_result, which imports the compiler: that takes a second."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
