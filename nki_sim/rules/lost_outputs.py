"""Tensors in nl.shared_hbm that a kernel computes and does not return, so that they are lost.

A kernel hands its results over in tensors that it returns, or in arguments that it changes. A
tensor in nl.shared_hbm may also be scratch memory, which some instruction reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import NkiValidationError, brief
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.instructions.origins import name_and_text
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

RULE = "lost-output"
_MOST = 4
_DEPTH = 8  # of records in records


def are_suspected(
    session: LaunchState, result: object, twins: Sequence[list[Storage | None]] = ()
) -> bool:
    """Returns whether a launch may have lost an output, which `check` decides by its log.

    A recorded launch knows the reads of a tensor up to the next write only. The arguments are
    those of `check`.
    """
    kept = _kept(session, result)
    read = {first for first, second in twins if second is not None and second.reads}
    is_unread = any(not s.reads and s not in read for s in kept)
    return bool(kept) and (not returned_by(result) or is_unread)


def check(
    sessions: Sequence[LaunchState], result: object, twins: Sequence[list[Storage | None]] = ()
) -> None:
    """Raises NkiValidationError, or warns, for a launch that has lost an output.

    It is an error if the launch has no effect at all: it returns no tensor and changes no argument.
    Otherwise its effect is legal, and a tensor that no instruction reads is worth a warning.

    Args:
        sessions: the sessions of the launch's programs, with their logs.
        result: what the first program returns.
        twins: the storages of each shared tensor in both programs.
    """
    session = sessions[0]
    kept = _kept(session, result)
    if not kept:
        return
    first = {second: first for first, second in twins}
    written: set[Any] = set()
    read: set[Any] = set()
    for one in sessions:
        assert one.log is not None
        for issue, writes, reads, _ in one.log:
            if issue.meets is None:  # a core_barrier names its tensor as if it wrote it
                written.update([first.get(t.storage, t.storage) for t in writes])
            read.update([first.get(t.storage, t.storage) for t in reads])
    arguments = [s for s in session.storages if s.is_argument]
    if not returned_by(result) and written.isdisjoint(arguments):
        raise _useless(session, kept, result)
    for storage in kept:
        if storage in written and storage not in read:
            session.warn_of(_unread(session, storage))


def _kept(session: LaunchState, result: object) -> list[Storage]:
    """Returns the shared tensors that a kernel creates and does not return, except constants."""
    own = [s for s in session.storages if s.buffer is MemoryRegion.shared_hbm and not s.is_argument]
    if not own:
        return []
    returned = returned_by(result)
    return [s for s in own if s not in returned and s not in session.constants]


def returned_by(value: object, depth: int = 0) -> set[Storage]:
    """Returns the storages of the tensors in a result, also in tuples, dicts and records."""
    if isinstance(value, NkiTensor):
        return {value.storage}
    items: Iterable[Any] = ()
    if isinstance(value, (tuple, list)):
        items = value
    elif isinstance(value, dict):
        items = value.values()
    elif not isinstance(value, type):
        items = getattr(value, "__dict__", {}).values()
    if depth == _DEPTH:
        return set()
    return {storage for item in items for storage in returned_by(item, depth + 1)}


def _useless(session: LaunchState, lost: list[Storage], result: object) -> NkiValidationError:
    """Returns the error about a launch without any effect."""
    found = [name_and_text(s, session.created.get(s)) for s in lost]
    names = [name for name, _ in found]
    texts = [text for _, text in found[:_MOST]]
    texts += [f"{len(found) - _MOST} others"] if len(found) > _MOST else []
    instead = "end it with `return` and this tensor"
    if all(names) and len(names) <= _MOST:
        instead = f"end it with `return {', '.join(names)}`"
    rule = (
        f"the kernel changes no argument, so that all it computes is lost. It creates "
        f"{' and '.join(texts)}: {instead}"
    )
    error = NkiValidationError("return", "the result", brief(result), rule)
    error.name, error.source = RULE, session.created.get(lost[0])
    return error


def _unread(session: LaunchState, storage: Storage) -> NkiValidationError:
    """Returns the error about a tensor whose values go nowhere."""
    _, text = name_and_text(storage, session.created.get(storage))
    rule = (
        "no instruction reads it, so that the values that the kernel writes to it are lost: return "
        "it, or leave it out"
    )
    error = NkiValidationError("return", text, "not returned", rule)
    error.name, error.source = RULE, session.created.get(storage)
    return error
