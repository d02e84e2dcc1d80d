"""Launches of the kernels of real data, each together with its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nki_sim import Timeline

from .launched import Launched
from .samples import normal, real


@dataclass(frozen=True)
class BothWays:
    """A kernel of real rows and the kernel of its inverse, on a chip.

    A kernel without radices is given its length instead, (n,).
    """

    algorithm: str  # "real_dft_gemm" or another whose inverse has the same name after "inverse_"
    chip: str = "trn1"
    cores: int = 1

    @property
    def kernels(self) -> tuple[Launched, Launched]:
        there, back = self.algorithm, f"inverse_{self.algorithm}"
        return Launched(there, self.chip, self.cores), Launched(back, self.chip, self.cores)

    def check(self, batch: int, radices: Sequence[int], **options: Any) -> list[Timeline]:
        """Fails unless both are near the exact results of random rows and random half spectra."""
        there, back = self.kernels
        n = math.prod(radices)
        timeline = there.check(real(batch, n), radices, **options)
        return [timeline, back.check(normal(batch, n // 2 + 1), radices, **options)]

    def check_independent(self, batch: int, radices: Sequence[int]) -> None:
        there, back = self.kernels
        n = math.prod(radices)
        there.check_independent(real(batch, n), radices)
        # Without a factor, so that large numbers overflow.
        back.check_independent(normal(batch, n // 2 + 1), radices, scale=1.0)

    def check_ignores(self, radices: Sequence[int]) -> None:
        """Fails if imaginary parts that spectra of real data have not change a result."""
        n = math.prod(radices)
        spectra = normal(4, n // 2 + 1)
        own = [0, n // 2] if n % 2 == 0 else [0]
        spectra[:, own] = spectra[:, own].real + 1e6j
        self.kernels[1].check(spectra, radices)

    def dry_times(self, batch: int, radices: Sequence[int]) -> list[float]:
        """Returns the modelled nanoseconds of both, without data."""
        shape = batch, math.prod(radices)
        return [kernel.dry_run(shape, radices).total_ns for kernel in self.kernels]
