"""Gives code in a backward pass the same functions of torch as the caller of the pass.

Hooks, checkpoints and custom autograd functions run in a backward pass. torch runs them in the
state in which its engine is called. Two things would be missing there: a mode that torch has set
aside in order to call torch.autograd.grad, and the `__torch_function__` of a tensor subclass that
has disabled it for the same reason.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from trnfft.base.torch_private import wrap_engine

Result = TypeVar("Result")
Context = Callable[[], contextlib.AbstractContextManager[Any]]

_contexts: ContextVar[tuple[Context, ...]] = ContextVar("contexts", default=())


@contextlib.contextmanager
def under(context: Context) -> Iterator[None]:
    """Calls torch's engine inside one more context, which `context` makes, in the `with` block."""
    _install()
    token = _contexts.set((*_contexts.get(), context))
    try:
        yield
    finally:
        _contexts.reset(token)


@functools.cache
def _install() -> None:
    wrap_engine(_in_contexts)


def _in_contexts(run_engine: Callable[..., Result]) -> Callable[..., Result]:
    @functools.wraps(run_engine)
    def run_in_contexts(*args: object, **kwargs: object) -> Result:
        contexts = _contexts.get()
        if not contexts:
            return run_engine(*args, **kwargs)
        token = _contexts.set(())  # the contexts do not hold for passes inside this one
        try:
            with contextlib.ExitStack() as entered:
                for context in contexts:
                    entered.enter_context(context())
                return run_engine(*args, **kwargs)
        finally:
            _contexts.reset(token)

    return run_in_contexts
