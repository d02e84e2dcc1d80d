"""The library's cache: bounded, and computed once where several threads need the same."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from threading import Condition
from typing import Any, TypeVar

import cachetools

Function = TypeVar("Function", bound=Callable[..., Any])


def after_fork(function: Callable[[], None]) -> None:
    """Lets every forked process call the function first."""
    if hasattr(os, "register_at_fork"):  # Windows has no forks
        os.register_at_fork(after_in_child=function)


def cached(limit: float, size: Callable[[Any], float] | None = None) -> Any:
    """Returns a decorator that keeps a function's results by its arguments, which are hashable.

    A thread waits for a result that another thread computes. `cache_clear()` of the decorated
    function removes all results, and those that are being computed are not kept either.
    `cache_info()` returns the numbers of hits and misses. A forked process begins without results.

    Args:
        limit: the largest sum of sizes. Beyond it, the results that were not used for the longest
            time are removed. A single result larger than `limit` is not kept.
        size: returns the size of a result. Default: every result has size 1.
    """

    def decorate(function: Callable[..., object]) -> Any:
        keeping: Any = None

        def clear() -> None:
            nonlocal keeping
            call.cache = cachetools.LRUCache(limit, getsizeof=size)
            keeping = cachetools.cached(call.cache, condition=Condition(), info=True)(function)

        def called(*args: object, **kwargs: object) -> Any:
            return keeping(*args, **kwargs)

        call: Any = functools.wraps(function)(called)
        call.cache_clear = clear
        call.cache_info = lambda: keeping.cache_info()
        clear()
        after_fork(clear)  # the threads for whose results it would wait do not exist there
        return call

    return decorate


def constant_when_compiled(function: Function) -> Function:
    """As torch.compiler.assume_constant_result, without the second that its imports take."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
