"""Prices of what each device computes by itself: kernels by the planner, and their launches."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nki_sim import hardware
from trnfft.planner import planner
from trnfft.planner.plan import Plan

PRICED_POINTS = 2**24  # from here on, time grows in proportion to the batch, within five percent


@dataclass(frozen=True)
class Kernel:
    """Transforms on one device, without communication: launches of kernels for `batch` rows.

    `ns` is the modelled time of the kernels, with what torch moves between them. Each of its
    `launches` takes a further `launch_ns`, which others measured; operators of torch count as
    launches. Where the work is done in chunks, each chunk is launched.
    """

    lengths: tuple[int, ...]
    batch: int
    recipe: str
    bound: str
    ns: float
    launch_ns: float
    launches: int = 1

    @property
    def launches_ns(self) -> float:
        """Returns the time of the launches."""
        return self.launches * self.launch_ns

    @property
    def total_ns(self) -> float:
        """Returns the time with the launches."""
        return self.ns + self.launches_ns


@dataclass(frozen=True)
class Launches:
    """Settings of launches: the arguments of `trnfft.plan` that all of them share."""

    target: str
    cores: int
    precision: str

    @property
    def launch_ns(self) -> float:
        """Returns the time of a launch on this chip, without the kernel."""
        return hardware.chip(self.target).launches.eager.about_ns

    def transforms(self, lengths: tuple[int, ...], points: int, real: bool) -> tuple[Kernel, ...]:
        """Returns what transforms the last dimensions of data: nothing, or one launch or several.

        `points` are those of the data before. Of real data, the last length gives half a spectrum.
        Arrays that are too large for one launch take one axis after the other.
        """
        longer = tuple(length for length in lengths if length > 1)
        if not longer or not points:
            return ()
        if len(longer) == 1 or math.prod(longer) <= planner.MOST_POINTS:
            batch = -(-points // math.prod(longer))
            return (self._kernel(longer, batch, real and lengths[-1] > 1),)
        last = self.transforms(lengths[-1:], points, real)
        half = lengths[-1] // 2 + 1 if real else lengths[-1]
        before = points // lengths[-1] * half
        others = [self.transforms((n,), before, False) for n in reversed(lengths[:-1])]
        return sum(others, last)

    def product(self, name: str, points: int, point_bytes: int) -> Kernel:
        """Returns an elementwise product that moves `point_bytes` a point, at the DMA floor.

        Factors that are computed where they are used cost nothing. It counts as one launch.
        """
        floor = hardware.chip(self.target).dma_floor_ns(points, point_bytes, self.cores)
        return Kernel((), points, name, "dma", floor, self.launch_ns)

    def _kernel(self, lengths: tuple[int, ...], batch: int, real: bool) -> Kernel:
        """Returns a launch; beyond the largest batch with a price, its price is in proportion."""
        most = 1 << max(0, (PRICED_POINTS // math.prod(lengths)).bit_length() - 1)
        plan = self._plan(lengths, min(most, batch), real)
        ns = (plan.predicted_ns or 0.0) * batch / plan.batch
        recipe, launches = str(plan.recipe), plan.launches + plan.operators
        return Kernel(lengths, batch, recipe, plan.bound, ns, self.launch_ns, launches)

    def _plan(self, lengths: tuple[int, ...], batch: int, real: bool) -> Plan:
        return planner.plan(
            n=lengths[0] if len(lengths) == 1 else None,
            shape=lengths if len(lengths) > 1 else None,
            real=real,
            batch=batch,
            precision=self.precision,
            target=self.target,
            cores=self.cores,
            execution="eager",  # as each launch counts here
        )


def checked_launches(target: str | None, cores: int | None, precision: str | None) -> Launches:
    """Returns the settings of launches, by the rules of `trnfft.plan`."""
    plan = planner.plan(2, target=target, cores=cores, precision=precision)
    if plan.predicted_ns is None:
        raise NotImplementedError(
            f"argument 'precision' is {plan.precision!r}, which is computed on the host and has "
            f'no modelled time: use "fast"'
        )
    return Launches(plan.target, plan.cores, plan.precision)
