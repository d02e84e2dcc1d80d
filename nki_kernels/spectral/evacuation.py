"""Results on their way out of PSUM, for which ScalarE and VectorE take turns by their columns."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import chip
from ..base.engines import element_count, evacuate
from ..base.isa import nisa, nl
from ..base.tensor import Tensor

_START = 64  # columns that take as long as an instruction takes to start


class Balance:
    """Gives each result to the engine that has moved fewer columns.

    VectorE moves none where the two engines exclude each other, because ScalarE is faster.
    """

    def __init__(self) -> None:
        self._is_shared = chip.psum_port_is_shared()
        self._clocks = chip.core().scalar_ghz, chip.core().vector_ghz
        self._busy = [0.0, 0.0]  # of ScalarE and VectorE

    def restart(self) -> None:
        """Forget what was moved, as every iteration of a loop has to."""
        self._busy = [0.0, 0.0]

    def take(self, columns: int) -> bool:
        """Return whether ScalarE moves so many columns."""
        times = [(columns + _START) / clock for clock in self._clocks]
        is_scalar = self._is_shared or self._busy[0] + times[0] <= self._busy[1] + times[1]
        self._busy[0 if is_scalar else 1] += times[0 if is_scalar else 1]
        return is_scalar

    def move(
        self, dst: Tensor, bank: Tensor, marks: Tensor | None = None, factor: float = 1.0
    ) -> None:
        """Move a bank to SBUF; marks [P, 1] are added, and a factor multiplied, by ScalarE."""
        must = marks is not None or factor != 1.0
        columns = element_count(bank.shape[1:])
        if must:
            self._busy[0] += (columns + _START) / self._clocks[0]
        is_scalar = must or self.take(columns)
        evacuate(bank, dst, is_scalar=is_scalar, marks=marks, factor=factor)

    def add(self, dst: Tensor, bank: Tensor) -> None:
        """Add a bank to numbers in SBUF, on VectorE."""
        self._busy[1] += (element_count(bank.shape[1:]) + _START) / self._clocks[1]
        nisa.tensor_tensor(dst=dst, data1=bank, data2=dst, op=nl.add)

    def move_sum(self, dst: Tensor, bank: Tensor, others: Sequence[Tensor]) -> None:
        """Move the sum of banks to SBUF."""
        self.move(dst, bank)
        for other in others:
            self.add(dst, other)
