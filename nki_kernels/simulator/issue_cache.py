"""What is known of instructions that were issued before, by the values of their arguments."""

from __future__ import annotations

import struct
import types
from enum import Enum
from threading import Lock
from typing import Any

import numpy as np

from . import enums
from .operators import Operator

CAPACITY = 4096  # issues; a launch of the longest kernels here needs a few hundred
CAPACITY_BYTES = 64 << 20  # of arrays that issues hold, as the values of nisa.iota
_CHIPS = 8  # chips (and precisions) whose issues are kept

# Their instances never change, and equal ones are interchangeable.
_CONSTANT = frozenset(
    {str, bytes, range, type(None), type, Operator, np.ufunc}
    | {types.FunctionType, types.BuiltinFunctionType}
    | {enums.engine, enums.reduce_cmd, enums.dge_mode, enums.oob_mode, enums.dma_engine}
    | {enums.matmul_perf_mode, enums.nc_version, enums.MemoryRegion}
)
_INTEGERS = frozenset({int, bool})
_BOOLS = {True: (bool, True), False: (bool, False)}
_float_bits = struct.Struct("<d").pack


class NotByValue(Exception):
    """An argument that has no key: it may change, or what it is cannot be told."""


def frozen(value: Any) -> Any:
    """Key of an argument: equal where type and value are, to the sign of zero.

    Raises NotByValue for what has no such key.
    """
    kind = type(value)
    if kind is bool:
        return _BOOLS[value]
    if kind is int:
        return (int, value)
    if kind in _CONSTANT:
        return value
    if kind is float:
        is_plain = value != 0 and value == value  # 0.0 equals -0.0, and NaN not even itself
        return (kind, value if is_plain else _float_bits(value))
    if kind is list or kind is tuple:
        kinds = tuple(map(type, value))
        if _INTEGERS.issuperset(kinds):
            return (kind, kinds, tuple(value))
        return (kind, tuple([frozen(v) for v in value]))
    if isinstance(value, Enum):
        return (kind, value._name_)
    if isinstance(value, (np.generic, np.ndarray)) and not value.dtype.hasobject:
        return (kind, value.dtype, value.shape, value.tobytes())
    if kind is dict:
        return (kind, tuple([(frozen(k), frozen(v)) for k, v in value.items()]))
    raise NotByValue


def held_bytes(issue: Any) -> int:
    """Bytes of the arrays that the arithmetic of an issue keeps."""
    cells = getattr(getattr(issue, "run", None), "__closure__", None) or ()
    return sum([c.cell_contents.nbytes for c in cells if isinstance(c.cell_contents, np.ndarray)])


class IssueCache:
    """A mapping that forgets what was not used for long; safe to share among threads.

    It has two halves: what was used since they last changed places, and the rest.
    """

    def __init__(self, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._half = max(capacity // 2, 1)
        self._half_bytes = capacity_bytes // 2
        self._recent: dict[Any, Any] = {}
        self._recent_bytes = 0
        self._older: dict[Any, Any] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._recent.keys() | self._older.keys())

    def get(self, key: Any) -> Any:
        """What was put under ``key``, else None."""
        found = self._recent.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Any, issue: Any) -> None:
        """Remember ``issue``, unless it is too large."""
        size = held_bytes(issue)
        if size > self._half_bytes:
            return
        with self._lock:
            full = self._recent_bytes + size > self._half_bytes
            if full or len(self._recent) >= self._half:
                self._older, self._recent, self._recent_bytes = self._recent, {}, 0
            self._recent[key] = issue
            self._recent_bytes += size


_caches: dict[Any, IssueCache] = {}
_caches_lock = Lock()


def shared_cache(*owner: Any) -> IssueCache:
    """The cache of ``owner``, a chip and a precision: one process keeps a few of them."""
    with _caches_lock:
        cache = _caches.pop(owner, None)
        if cache is None:
            cache = IssueCache()
        _caches[owner] = cache  # last: the first one is the one not used for longest
        while len(_caches) > _CHIPS:
            del _caches[next(iter(_caches))]
        return cache
