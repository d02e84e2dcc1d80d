"""When the engines and DMA queues of one NeuronCore are free.

The Tensor, Vector, Scalar and GpSimd engines each take one instruction at a time; the Tensor
engine loads the next stationary operand behind the running pass, and array tiles run side by side.
NeuronCore-v2 lets VectorE and GpSimdE take turns on SBUF, VectorE and ScalarE on PSUM. DMA
transfers share 16 engines: a partition belongs to engine (partition / 8), and a transfer costs its
descriptors plus its bytes.
"""

from __future__ import annotations

from nki_kernels.hardware import NeuronCore

from .issue import Issue

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma")
_FULL_ARRAY = (0, 4)

# Of one instruction: start, end, when others see the result, when its queue goes on, and the
# instruction that held it up (-1: none but its queue and operands).
Place = tuple[float, float, float, float, int]


class Engines:
    """The engines of one core. ``place`` runs an instruction as soon as they are free for it.

    Attributes: ``busy``, nanoseconds of each of ``ENGINES``; for dma the busiest of the engines.
    """

    def __init__(self, chip: NeuronCore) -> None:
        self.chip = chip
        self._busy = dict.fromkeys(ENGINES, 0.0)
        self._dma_free = [0.0] * chip.dma_engines
        self._dma_busy = [0.0] * chip.dma_engines
        self._dma_user = [-1] * chip.dma_engines
        self._array_free = [0.0] * 16  # 32x32 tiles of the systolic array, row-major
        self._stationary_free = 0.0
        self._ports: dict[str, tuple[float, int]] = {}

    @property
    def busy(self) -> dict[str, float]:
        return {**self._busy, "dma": max(self._dma_busy)}

    def place(self, n: int, issue: Issue, start: float) -> Place:
        """Run instruction ``n``, whose queue and operands are ready at ``start``."""
        if issue.engine == "dma":
            return self._transfer(n, issue, start)
        if issue.engine == "tensor":
            return self._multiply(issue, start)
        return self._stream(n, issue, start)

    def _stream(self, n: int, issue: Issue, start: float) -> Place:
        """VectorE, ScalarE, GpSimdE."""
        held_by = -1
        for port in issue.ports:
            free, user = self._ports.get(port, (0.0, -1))
            if free > start:
                start, held_by = free, user
        finish = start + issue.cost_ns
        for port in issue.ports:
            self._ports[port] = (finish, n)
        self._busy[issue.engine] += issue.cost_ns
        return start, finish, finish + issue.latency_ns, finish, held_by

    def _multiply(self, issue: Issue, start: float) -> Place:
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
        # The next LoadStationary may overwrite the shadow weights once this pass has begun.
        self._stationary_free = start
        self._busy["tensor"] += issue.cost_ns
        queue_free = start if issue.load_stationary_ns else finish
        return start, finish, finish + issue.latency_ns, queue_free, -1

    def _transfer(self, n: int, issue: Issue, start: float) -> Place:
        """One dma_copy on the engines that hold its partitions."""
        chip = self.chip
        first = start + chip.dma_start_ns
        finish = first
        free, busy = self._dma_free, self._dma_busy
        held_by = -1
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
                    finish, held_by = begin, waits
        return start, finish, finish + chip.dma_finish_ns, start, held_by
