"""Timeline of a kernel: when each instruction runs on a model of one NeuronCore.

The model: the Tensor, Vector, Scalar and GpSimd engines each issue their instructions in program
order. An instruction starts when its engine is free and what it depends on is visible. Tiles get
memory in program order; a tile waits until the tiles whose memory it takes over are done, oldest
first, as a compiler that rotates buffers would arrange. Loads and stores are two in-order DMA
queues that share 16 DMA engines; a partition belongs to engine (partition / 8), and a transfer
costs its descriptors plus its bytes. NeuronCore-v2 lets VectorE and GpSimdE take turns on SBUF,
VectorE and ScalarE on PSUM. Costs come from ``nki_kernels.hardware``.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nki_kernels.hardware import NeuronCore
from nki_kernels.whole_file import write_whole

from .enums import MemoryRegion
from .errors import NkiValidationError
from .issue import Issue
from .tensor import Storage

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma")
_FULL_ARRAY = (0, 4)


@dataclass(frozen=True)
class Event:
    """One instruction on the timeline. Times in modelled nanoseconds from the launch."""

    number: int
    name: str
    engine: str
    start_ns: float
    end_ns: float


class Timeline:
    """What a recorded kernel cost, modelled. Filled when the recorded kernel returns.

    Attributes: ``total_ns``; ``engine_busy_ns`` (tensor, vector, scalar, gpsimd, dma; for dma the
    busiest of the 16 engines); ``dma_bytes`` moved, ``dma_descriptors``, ``hbm_bytes`` read and
    written; ``hbm_scratch_bytes`` that a launch allocated in HBM beside its outputs, the most of
    all launches; ``instructions``; ``sbuf_peak_bytes`` a partition; ``psum_peak_banks``;
    ``waived_rules``, the rules of ``device_rules`` that were broken and waived;
    ``critical_path`` (the events that bound ``total_ns``, first to last); ``events``; ``launches``.
    """

    def __init__(self) -> None:
        self.total_ns = 0.0
        self.engine_busy_ns = dict.fromkeys(ENGINES, 0.0)
        self.dma_bytes = 0
        self.dma_descriptors = 0
        self.hbm_bytes = 0
        self.hbm_scratch_bytes = 0
        self.instructions = 0
        self.sbuf_peak_bytes = 0
        self.psum_peak_banks = 0
        self.launches = 0
        self.waived_rules: set[str] = set()
        self._runs: list[tuple[float, list[tuple[Issue, list[int], str]], _Schedule]] = []

    def add(self, session: Any, peaks: dict[str, int]) -> None:
        """Append one launch; several launches follow each other."""
        schedule = _Schedule(session)
        trace = session.trace
        self._runs.append((self.total_ns, trace, schedule))
        self.launches += 1
        self.total_ns += schedule.total_ns
        for engine in ENGINES:
            self.engine_busy_ns[engine] += schedule.busy[engine]
        for issue, _, _ in trace:
            if issue.dma_bytes:
                self.dma_bytes += issue.dma_bytes
                self.dma_descriptors += issue.dma_descriptors
                self.hbm_bytes += issue.hbm_bytes
        self.instructions += len(trace)
        self.waived_rules |= session.waived
        self.hbm_scratch_bytes = max(self.hbm_scratch_bytes, peaks["hbm_scratch_bytes"])
        self.sbuf_peak_bytes = max(self.sbuf_peak_bytes, peaks["sbuf_peak_bytes"])
        self.psum_peak_banks = max(self.psum_peak_banks, peaks["psum_peak_banks"])

    @property
    def events(self) -> list[Event]:
        """Every instruction in program order."""
        found: list[Event] = []
        for base, trace, schedule in self._runs:
            for n in range(len(trace)):
                found.append(_event(base, trace, schedule, n))
        return found

    @property
    def critical_path(self) -> list[Event]:
        """Events that bound the total, each the one its successor waited for."""
        found: list[Event] = []
        for base, trace, schedule in self._runs:
            path: list[Event] = []
            n = schedule.last
            while n >= 0:
                path.append(_event(base, trace, schedule, n))
                n = schedule.blame[n]
            found.extend(reversed(path))
        return found

    def save_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for ui.perfetto.dev, one track an engine. Whole or not at all."""
        events: list[dict[str, Any]] = []
        for track, engine in enumerate(ENGINES):
            name = {"name": engine}
            events.append({"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": name})
            order = {"sort_index": track}
            events.append(
                {"ph": "M", "pid": 0, "tid": track, "name": "thread_sort_index", "args": order}
            )
        process = {"name": "NeuronCore (modelled)"}
        events.append({"ph": "M", "pid": 0, "name": "process_name", "args": process})
        for event in self.events:
            events.append(
                {
                    "ph": "X",
                    "pid": 0,
                    "tid": ENGINES.index(event.engine),
                    "name": event.name,
                    "ts": event.start_ns / 1000,
                    "dur": (event.end_ns - event.start_ns) / 1000,
                    "args": {"number": event.number},
                }
            )
        write_whole(Path(path), json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))

    def __repr__(self) -> str:
        waived = f", waived: {', '.join(sorted(self.waived_rules))}" if self.waived_rules else ""
        return (
            f"Timeline({self.instructions} instructions, {self.total_ns:.0f} ns modelled{waived})"
        )


def _event(
    base: float, trace: list[tuple[Issue, list[int], str]], schedule: _Schedule, n: int
) -> Event:
    issue, _, name = trace[n]
    label = name or issue.instruction.removeprefix("nisa.")
    return Event(n, label, issue.engine, base + schedule.start[n], base + schedule.end[n])


class _Queue:
    """An in-order instruction stream."""

    __slots__ = ("engine", "items", "position", "ready", "waits_for", "free", "last")

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.items: list[int] = []
        self.position = 0
        self.ready = -1.0  # when the head's operands are there; -1: not known yet
        self.waits_for = -1
        self.free = 0.0
        self.last = -1


class _Schedule:
    """Start and end of every instruction of one launch."""

    def __init__(self, session: Any) -> None:
        trace = session.trace
        self.chip: NeuronCore = session.chip
        self.trace = trace
        count = len(trace)
        self.start = [0.0] * count
        self.end = [0.0] * count
        self.done: list[float] = [-1.0] * count  # visible to others; -1: not scheduled
        self.blame = [-1] * count
        self.busy = dict.fromkeys(ENGINES, 0.0)
        self._dma_free = [0.0] * self.chip.dma_engines
        self._dma_busy = [0.0] * self.chip.dma_engines
        self._dma_user = [-1] * self.chip.dma_engines
        self._array_free = [0.0] * 16  # 32x32 tiles of the systolic array, row-major
        self._stationary_free = 0.0
        self._ports: dict[str, tuple[float, int]] = {}
        for n, m in session.extra_edges:
            trace[n][1].append(m)
        _add_memory_waits(session)
        self._run(session.order or range(count))
        self.busy["dma"] = max(self._dma_busy)
        self.last = max(range(count), key=self.done.__getitem__) if count else -1
        self.total_ns = self.done[self.last] if count else 0.0

    def _run(self, order: Sequence[int]) -> None:
        trace, done, end = self.trace, self.done, self.end
        queues: dict[str, _Queue] = {}
        for n in order:
            issue = trace[n][0]
            queue = queues.get(issue.queue)
            if queue is None:
                queue = queues[issue.queue] = _Queue(issue.engine)
            queue.items.append(n)
        live = list(queues.values())
        while live:
            best: _Queue | None = None
            best_start = 0.0
            for queue in live:
                ready = queue.ready
                if ready < 0:
                    ready = 0.0
                    waits_for = -1
                    for m in trace[queue.items[queue.position]][1]:
                        time = done[m] if m >= 0 else (end[~m] if done[~m] >= 0 else -1.0)
                        if time < 0:
                            break
                        if time > ready:
                            ready, waits_for = time, (m if m >= 0 else ~m)
                    else:
                        queue.ready = ready
                        queue.waits_for = waits_for
                    if queue.ready < 0:
                        continue
                when = ready if ready > queue.free else queue.free
                if best is None or when < best_start:
                    best, best_start = queue, when
            if best is None:
                raise NkiValidationError(
                    "schedule", "edges", "circular", "depends_on/with_schedule edges form a cycle"
                )
            n = best.items[best.position]
            issue = trace[n][0]
            if best.waits_for >= 0 and best.ready >= best.free:
                self.blame[n] = best.waits_for
            else:
                self.blame[n] = best.last
            if issue.engine == "dma":
                self._transfer(n, issue, best, best_start)
            elif issue.engine == "tensor":
                self._multiply(n, issue, best, best_start)
            else:
                self._stream(n, issue, best, best_start)
            best.last = n
            best.position += 1
            best.ready = -1.0
            if best.position == len(best.items):
                live.remove(best)

    def _stream(self, n: int, issue: Issue, queue: _Queue, start: float) -> None:
        """VectorE, ScalarE, GpSimdE."""
        for port in issue.ports:
            free, user = self._ports.get(port, (0.0, -1))
            if free > start:
                start, self.blame[n] = free, user
        finish = start + issue.cost_ns
        for port in issue.ports:
            self._ports[port] = (finish, n)
        self.start[n], self.end[n] = start, finish
        self.done[n] = finish + issue.latency_ns
        queue.free = finish
        self.busy[issue.engine] += issue.cost_ns

    def _multiply(self, n: int, issue: Issue, queue: _Queue, start: float) -> None:
        """LoadStationary in the background, then MultiplyMoving on its part of the array."""
        loaded = max(start, self._stationary_free) + issue.load_stationary_ns
        free = self._array_free
        if issue.rows == _FULL_ARRAY and issue.columns == _FULL_ARRAY:
            start = max(loaded, max(free))
            finish = start + issue.cost_ns
            self._array_free = [finish] * 16
        else:
            cells = [4 * r + c for r in range(*issue.rows) for c in range(*issue.columns)]
            start = max(loaded, max(free[c] for c in cells))
            finish = start + issue.cost_ns
            for c in cells:
                free[c] = finish
        self.start[n], self.end[n] = start, finish
        self.done[n] = finish + issue.latency_ns
        # The next LoadStationary may overwrite the shadow weights once this pass has begun.
        self._stationary_free = start
        queue.free = start if issue.load_stationary_ns else finish
        self.busy["tensor"] += issue.cost_ns

    def _transfer(self, n: int, issue: Issue, queue: _Queue, start: float) -> None:
        """One dma_copy on the engines that hold its partitions."""
        chip = self.chip
        first = start + chip.dma_start_ns
        finish = first
        free, busy = self._dma_free, self._dma_busy
        latest = -1
        for engine, cost in enumerate(issue.dma_ns):
            if cost:
                begin = free[engine]
                if begin < first:
                    begin = first
                    waits = -1
                else:
                    waits = self._dma_user[engine]
                begin += cost
                free[engine] = begin
                self._dma_user[engine] = n
                busy[engine] += cost
                if begin > finish:
                    finish, latest = begin, waits
        if latest >= 0:
            self.blame[n] = latest
        self.start[n], self.end[n] = start, finish
        self.done[n] = finish + chip.dma_finish_ns
        queue.free = start


def _add_memory_waits(session: Any) -> None:
    """Make a tile's first writer wait for the tiles whose memory it takes over."""
    chip: NeuronCore = session.chip
    sbuf = _Memory(chip.sbuf_partition_bytes)
    psum = _Memory(chip.psum_partition_bytes)
    born: dict[int, list[tuple[Storage, _Memory, int]]] = {}
    died: dict[int, list[tuple[Storage, _Memory, int]]] = {}
    for storage in session.storages:
        if storage.first_use < 0:
            continue
        if storage.buffer is MemoryRegion.sbuf:
            entry = (storage, sbuf, storage.free_bytes)
        elif storage.buffer is MemoryRegion.psum:
            entry = (storage, psum, session.psum_bytes(storage))
        else:
            continue
        born.setdefault(storage.first_use, []).append(entry)
        died.setdefault(storage.last_use, []).append(entry)
    trace = session.trace
    for n in sorted(born.keys() | died.keys()):
        for _, memory, size in born.get(n, ()):
            trace[n][1].extend(memory.take(size, n))
        for storage, memory, size in died.get(n, ()):
            memory.release(size, list(storage.last_by_queue.values()))


class _Memory:
    """Free memory of one partition, oldest first: (bytes, instructions that used it last)."""

    def __init__(self, size: int) -> None:
        self.free: deque[tuple[int, list[int]]] = deque([(size, [])])

    def take(self, size: int, n: int) -> list[int]:
        waits: list[int] = []
        while size > 0 and self.free:
            available, users = self.free.popleft()
            waits.extend([~m for m in users if m != n])
            if available > size:
                self.free.appendleft((available - size, users))
            size -= available
        return waits

    def release(self, size: int, users: list[int]) -> None:
        self.free.append((size, users))
