"""What runs in a backward pass sees torch's functions as the caller of the pass does.

Hooks, checkpoints and functions of one's own run in it. torch keeps for them what is so when it
calls its engine: a mode that torch has set aside to call torch.autograd.grad, and the functions of
a class of tensors that this class has switched off for the same reason, would be missing there.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch

Context = Callable[[], contextlib.AbstractContextManager[Any]]

_contexts: ContextVar[tuple[Context, ...]] = ContextVar("contexts", default=())


@contextlib.contextmanager
def under(context: Context) -> Iterator[None]:
    """Inside of the block, torch's engine is called in one more context, which this makes."""
    _install()
    token = _contexts.set((*_contexts.get(), context))
    try:
        yield
    finally:
        _contexts.reset(token)


@functools.cache
def _install() -> None:
    run_engine = torch.autograd.graph._engine_run_backward

    @functools.wraps(run_engine)
    def run_in_contexts(*args: Any, **kwargs: Any) -> Any:
        contexts = _contexts.get()
        if not contexts:
            return run_engine(*args, **kwargs)
        token = _contexts.set(())  # not for passes that this one calls
        try:
            with contextlib.ExitStack() as entered:
                for context in contexts:
                    entered.enter_context(context())
                return run_engine(*args, **kwargs)
        finally:
            _contexts.reset(token)

    for place in (torch.autograd.graph, torch.autograd):  # both, as torch.compiler replaces both
        place._engine_run_backward = run_in_contexts  # type: ignore[attr-defined]
