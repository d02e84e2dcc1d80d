"""Calls that exchange over a process group exclude each other; a call in their way is an error.

All processes have to exchange in the same order. Two threads that exchange over one group at the
same time do not. A process that was interrupted, for example by Ctrl-C, has left out an exchange
for which the others wait: the next exchange would bring other numbers than expected or, with gloo,
end the process. So the first thread goes on and the second one gets an error, and a group of
which an exchange was interrupted is not used again.

Nothing is recorded in graphs of torch.compile, which exchange without this package.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from trnfft.base.torch_private import current_graph_task_id, queue_callback


class _Exchanging:
    """The state of a group.

    Attributes:
        thread: the thread that exchanges, or None.
        depth: the number of its calls that are nested.
        flights: exchanges that have started and not arrived.
        passes: backward passes with exchanges that have not ended, and their threads.
        calls: calls so far, including those that were refused.
        is_broken: whether a call was interrupted.
    """

    def __init__(self) -> None:
        self.thread: int | None = None
        self.depth = self.flights = self.calls = 0
        self.passes: dict[int, int] = {}
        self.is_broken = False

    def leave(self) -> None:
        """Gives the group back if nothing is left of the exchange."""
        if not self.depth and not self.flights:
            self.thread = None


_GROUPS: WeakKeyDictionary[ProcessGroup, _Exchanging] = WeakKeyDictionary()
_NONE = -1  # the number that stands for no backward pass
_LOCK = threading.Lock()  # guards all of the above, for a few instructions at a time


@contextmanager
def exclusive(mesh: DeviceMesh, exchanges: bool) -> Iterator[None]:
    """A context for a call that exchanges along the dimensions of a mesh, if `exchanges`."""
    if not exchanges or torch.compiler.is_compiling():
        yield
        return
    groups = [mesh.get_group(i) for i, size in enumerate(mesh.shape) if size > 1]
    entered = _entered(groups)
    try:
        yield
    except Exception:  # all processes have the same error, or find out by the next comparison
        for exchanging in entered:
            exchanging.flights = 0
        raise
    except BaseException:
        for exchanging in entered:
            exchanging.is_broken = True
        raise
    finally:
        with _LOCK:
            for exchanging in entered:
                exchanging.depth -= 1
                exchanging.leave()


@contextmanager
def interrupted(group: ProcessGroup) -> Iterator[None]:
    """A context that marks a group as broken where it is interrupted."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        if not torch.compiler.is_compiling():
            _of(group).is_broken = True
        raise


def start(group: ProcessGroup) -> None:
    """Records that an exchange starts; raises the errors of `exclusive`."""
    if torch.compiler.is_compiling():
        return
    with _LOCK:
        exchanging = _of(group)
        _check(exchanging)
        exchanging.thread = threading.get_ident()
        exchanging.flights += 1
        backward = current_graph_task_id()
        if backward != _NONE and backward not in exchanging.passes:
            exchanging.passes[backward] = threading.get_ident()
            # This is called when the whole pass has ended, except by an error.
            queue_callback(functools.partial(exchanging.passes.pop, backward, None))


def arrive(group: ProcessGroup) -> None:
    """Records that an exchange has arrived."""
    if torch.compiler.is_compiling():
        return
    with _LOCK:
        exchanging = _of(group)
        exchanging.flights = max(exchanging.flights - 1, 0)
        exchanging.leave()


def calls_over(group: ProcessGroup) -> int:
    """Returns how many calls have wanted to exchange over a group, equal on all its processes."""
    return _of(group).calls


def _entered(groups: list[ProcessGroup]) -> list[_Exchanging]:
    """Takes groups for this thread, and returns them."""
    own = threading.get_ident()
    with _LOCK:
        entered = [_of(group) for group in groups]
        for exchanging in entered:
            exchanging.calls += not exchanging.depth or exchanging.thread != own
        for exchanging in entered:
            _check_passes(exchanging)
            _check(exchanging)
        for exchanging in entered:
            exchanging.thread = own
            exchanging.depth += 1
    return entered


def _check_passes(exchanging: _Exchanging) -> None:
    """Checks that no backward pass is open, which would make exchanges between others.

    An open pass of this thread, or of a thread that has ended, has left out exchanges: by an error,
    or by an interrupt that no function of this package could record. This breaks the group.
    """
    if not exchanging.passes or current_graph_task_id() != _NONE:
        return  # a pass goes on where it computes again, as a checkpoint does
    others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    for thread in exchanging.passes.values():
        if thread in others:
            raise _busy(thread)
        exchanging.is_broken = True


def _of(group: ProcessGroup) -> _Exchanging:
    exchanging = _GROUPS.get(group)
    return _GROUPS.setdefault(group, _Exchanging()) if exchanging is None else exchanging


def _check(exchanging: _Exchanging) -> None:
    """Checks that this thread may exchange."""
    if exchanging.is_broken:
        raise RuntimeError(
            "argument 'input' is on a process group of which an exchange was interrupted or has "
            "failed, allowed are groups whose processes have all done the same; make a new one on "
            "all of them, with torch.distributed.destroy_process_group, init_process_group and "
            "init_device_mesh"
        )
    if exchanging.thread not in (None, threading.get_ident()):
        raise _busy(exchanging.thread)


def _busy(other: int | None) -> RuntimeError:
    names = [thread.name for thread in threading.enumerate() if thread.ident == other]
    return RuntimeError(
        f"argument 'input' is on a process group over which another thread of this process "
        f"exchanges, {names[0] if names else other}, allowed is one thread at a time; make calls "
        f"one after the other, on all processes in the same order, or give each thread a mesh of "
        f"its own, with DeviceMesh.from_group(torch.distributed.new_group(), 'cpu')"
    )
