"""Instructions of nki.isa: functions that check the rules, whose issues are cached.

An instruction is a function that checks the rules and returns an Issue. The ``instruction``
decorator caches issues by the signature of the operands and the values of the other arguments, so
that a loop runs the checks once.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import numpy as np

from nki_sim.base.enums import reduce_cmd
from nki_sim.errors import NkiValidationError
from nki_sim.views.tensor import NkiTensor

from .issue import Issue
from .issue_cache import BOOLS, CONSTANT, NotByValue, frozen
from .launch_state import LaunchState, active, current


class NkiInstruction:
    """A handle of an issued instruction; ``depends_on`` adds scheduling edges."""

    __slots__ = ("number", "session", "loop")

    def __init__(self, number: int, session: LaunchState) -> None:
        self.number = number
        self.session = session
        self.loop = session.loop_scope

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Makes this instruction run after each of ``producers``, and returns itself."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                rule = "must be the value that an instruction of nki.isa returned"
                raise NkiValidationError("depends_on", "a producer", repr(producer), rule)
            around = self.loop
            while around is not None and around is not producer.loop:
                around = around.outer
            if around is not producer.loop:
                rule = (
                    "it is inside of a fori_loop or while_loop that has ended, and an edge cannot "
                    "leave a loop"
                )
                value = f"instruction {producer.number}"
                raise NkiValidationError("depends_on", "a producer", value, rule)
            self.session.extra_edges.append((self.number, producer.number))
        return self


def instruction(function: Callable[..., Issue]) -> Callable[..., NkiInstruction]:
    """Turns a function that plans an Issue into an instruction of nki.isa, with a ``name``."""
    parameters = inspect.signature(function)
    label = f"nisa.{function.__name__}"
    kinds = [one.kind for one in parameters.parameters.values()]
    is_open = inspect.Parameter.VAR_POSITIONAL in kinds
    most = sys.maxsize if is_open else len(kinds)
    kind = inspect.Parameter.KEYWORD_ONLY if is_open else inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = inspect.Parameter("name", kind, default=None, annotation="str | None")

    def plan(
        session: LaunchState,
        signature: tuple[object, ...],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Issue:
        warned = session.warned
        # The issue outlives the call, so it copies what the caller may change later.
        own = {keyword: _own(value) for keyword, value in kwargs.items()}
        issue = function(*[_own(value) for value in args], **own)
        _locate(issue, parameters, (*args, *kwargs.values()), len(args), kwargs)
        issue.signature = signature
        for kind in ("misaligned", "on_scalar"):
            other = getattr(issue, kind)
            if other is not None:
                other.signature = (*signature, kind)
        commands = [v for v in (*args, *own.values()) if type(v) is reduce_cmd]
        issue.uses_state = issue.uses_state or bool(commands)
        if session.warned == warned:  # else the next call must warn, too
            session.issues.put(signature, issue)
        return issue

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = current() or active()
        name = None
        if len(args) == most + 1:
            *args, name = args  # type: ignore[assignment]
            args = tuple(args)
        values = args
        if kwargs:
            name = kwargs.pop("name", None)
            values = (*args, *kwargs.values())
        # The number of arguments distinguishes a text given by position from a keyword.
        parts = [label, len(args), *kwargs]
        try:
            for value in values:
                kind = type(value)
                if kind is NkiTensor:
                    parts.append(value._layout)
                elif kind in CONSTANT:
                    parts.append(value)
                else:
                    parts.append(BOOLS[value] if kind is bool else frozen(value))
        except NotByValue:
            issue = function(*args, **kwargs)
            _locate(issue, parameters, values, len(args), kwargs)
        else:
            signature = tuple(parts)
            issue = session.issues.recent.get(signature) or session.issues.get(signature)
            if issue is None:
                issue = plan(session, signature, args, kwargs)
        writes, reads = issue.pick_writes(values), issue.pick_reads(values)
        return NkiInstruction(session.issue(issue, writes, reads, name), session)

    wrapper.__signature__ = parameters.replace(  # type: ignore[attr-defined]
        parameters=[*parameters.parameters.values(), named]
    )
    return wrapper


def _own(value: object) -> Any:
    return copy.deepcopy(value) if isinstance(value, (list, tuple, dict, np.ndarray)) else value


def _locate(
    issue: Issue,
    parameters: inspect.Signature,
    values: tuple[object, ...],
    positional: int,
    keywords: Iterable[str],
) -> None:
    """Notes the operands' places in the call, so that later calls need not bind arguments."""
    names = [*_names(parameters, positional), *keywords]
    issue.pick_writes = _picker(*[names.index(name) for name in issue.writes])
    issue.pick_reads = _picker(*[names.index(name) for name in issue.reads])
    operands = (*issue.pick_writes(values), *issue.pick_reads(values))
    if any(tensor._dynamic is not None for tensor in operands):
        issue.is_dynamic = True


def _names(parameters: inspect.Signature, positional: int) -> list[str]:
    """Returns the names of so many arguments by position. Those of ``*src`` are src0, src1, ..."""
    names: list[str] = []
    for one in parameters.parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            return names + [f"{one.name}{i}" for i in range(positional - len(names))]
        names.append(one.name)
    return names[:positional]


@functools.lru_cache
def _picker(*places: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a function that returns the items at these places as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))
