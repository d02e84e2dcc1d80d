"""A cache of issues of instructions, by the values of their arguments."""

from __future__ import annotations

import struct
import types
from collections.abc import Hashable
from enum import Enum
from threading import Lock
from typing import Any

import numpy as np

from nki_sim.base import enums
from nki_sim.base.operators import Operator

CAPACITY = 2048  # issues; a launch of the longest kernels here needs a few hundred
CAPACITY_BYTES = 64 << 20  # of arrays that issues hold, such as the values of nisa.iota
_CHIPS = 8  # pairs of a chip and a precision whose issues are kept

# Types whose instances never change, and whose equal instances are interchangeable. An instance is
# its own key.
CONSTANT = frozenset(
    {str, bytes, range, type(None), type, Operator, np.ufunc}
    | {types.FunctionType, types.BuiltinFunctionType}
    | {enums.engine, enums.reduce_cmd, enums.dge_mode, enums.oob_mode, enums.dma_engine}
    | {enums.matmul_perf_mode, enums.nc_version, enums.MemoryRegion}
)
_INTEGERS = frozenset({int, bool})
BOOLS = {True: (bool, True), False: (bool, False)}
_float_bits = struct.Struct("<d").pack


class NotByValue(Exception):
    """Raised for an argument that has no key, because it may change or its type is unknown."""


def frozen(value: Any) -> Any:
    """Returns a key of an argument, which is equal for equal types and values.

    The keys of 0.0 and -0.0 differ. Raises NotByValue if there is no such key.
    """
    kind = type(value)
    if kind is bool:
        return BOOLS[value]
    if kind is int:
        return (int, value)
    if kind in CONSTANT:
        return value
    if kind is float:
        is_plain = value != 0 and value == value  # 0.0 equals -0.0, and NaN does not equal NaN
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


def held_bytes(issue: object) -> int:
    """Returns the bytes of the arrays that the arithmetic of an issue holds."""
    cells = getattr(getattr(issue, "run", None), "__closure__", None) or ()
    return sum([c.cell_contents.nbytes for c in cells if isinstance(c.cell_contents, np.ndarray)])


class IssueCache:
    """A mapping that forgets entries that were not used for long. Threads may share it.

    It consists of two halves. Entries that are used move to the recent half. When this half is
    full, it becomes the older half, and the entries of the former older half are forgotten.
    """

    def __init__(self, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._half = max(capacity // 2, 1)
        self._half_bytes = capacity_bytes // 2
        self.recent: dict[Any, Any] = {}
        self._recent_bytes = 0
        self._older: dict[Any, Any] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self.recent.keys() | self._older.keys())

    def get(self, key: Hashable) -> Any:
        """Returns the issue under ``key``, or None."""
        found = self.recent.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Hashable, issue: object) -> None:
        """Remembers ``issue``, unless it is too large."""
        size = held_bytes(issue)
        if size > self._half_bytes:
            return
        with self._lock:
            full = self._recent_bytes + size > self._half_bytes
            if full or len(self.recent) >= self._half:
                self._older, self.recent, self._recent_bytes = self.recent, {}, 0
            self.recent[key] = issue
            self._recent_bytes += size


_caches: dict[Any, IssueCache] = {}
_caches_lock = Lock()


def shared_cache(*owner: Hashable) -> IssueCache:
    """Returns the cache of ``owner``, a chip and a precision. A process keeps a few caches."""
    with _caches_lock:
        cache = _caches.pop(owner, None)
        if cache is None:
            cache = IssueCache()
        _caches[owner] = cache  # at the end, so that the first cache is the least recently used
        while len(_caches) > _CHIPS:
            del _caches[next(iter(_caches))]
        return cache
