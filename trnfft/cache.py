"""The library's cache: bounded, and computed once where several threads need the same."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import Any, TypeVar

import cachetools

Function = TypeVar("Function", bound=Callable[..., Any])


def cached(limit: float, size: Callable[[Any], float] | None = None) -> Any:
    """Returns a decorator that keeps a function's results by its arguments, which are hashable.

    A thread waits for a result that another thread computes. `cache_clear()` of the decorated
    function removes all results. `cache_info()` returns the numbers of hits and misses.

    Args:
        limit: the largest sum of sizes. Beyond it, the results that were not used for the longest
            time are removed. A single result larger than `limit` is not kept.
        size: returns the size of a result. Default: every result has size 1.
    """
    kept: Any = cachetools.LRUCache(limit, getsizeof=size)
    return cachetools.cached(kept, condition=Condition(), info=True)


def constant_when_compiled(function: Function) -> Function:
    """As torch.compiler.assume_constant_result, without the second that its imports take."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
