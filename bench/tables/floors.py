"""Modelled times on one core relative to the floor of their DMA traffic, with their components.

Run: python -m bench.tables floors [trn1 trn2 trn3] [--only "1024"]

A launch transforms about 2^20 points, or one transform if it is longer. The floor is the time to
read the input and to write the result once, at the chip's documented DMA rate
(`NeuronCore.dma_floor_ns`). Beside the ratio of the two times stand quantities that do not depend
on how the model overlaps the engines: bytes of HBM, time of the Tensor engine, and instructions.
Goals are the ratios that the project aims at; a star marks a ratio above its goal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bench.tables.planned import POINTS, markdown, size
from nki_sim import hardware
from nki_sim.measured_times import about
from nki_sim.report.timeline import Timeline
from trnfft.planner import cost
from trnfft.planner.plan import Plan
from trnfft.planner.planner import plan


@dataclass(frozen=True)
class Case:
    """A transform, or several transforms of one shape.

    Attributes:
        shape: lengths of the transform.
        goals: ratios on trn1, trn2 and trn3; empty where there is no goal.
        real: whether the input is real.
        batch: number of transforms; 0 for as many as have about 2^20 points.
    """

    shape: tuple[int, ...]
    goals: tuple[float, ...] = ()
    real: bool = False
    batch: int = 0

    @property
    def title(self) -> str:
        kind = "real " if self.real else ""
        return f"{kind}{size(self.shape, self.count)}"

    @property
    def points(self) -> int:
        return math.prod(self.shape)

    @property
    def count(self) -> int:
        return self.batch or max(1, round(POINTS / self.points))

    def asked(self) -> dict[str, Any]:
        """Returns the arguments of `trnfft.plan` for this case."""
        length = {"n": self.shape[0]} if len(self.shape) == 1 else {"shape": self.shape}
        return {**length, "real": self.real, "batch": self.count}


def _rows(goals: tuple[float, ...], *lengths: int) -> tuple[Case, ...]:
    return tuple(Case((n,), goals) for n in lengths)


CASES = (
    *_rows((1.2, 1.5, 2.1), 64, 128, 256, 512, 1024),
    *_rows((1.5, 2.0, 2.6), 2048, 4096),
    *_rows((1.7, 2.3, 3.3), 8192, 16384, 32768, 65536),
    *_rows((1.6, 2.2, 3.0), 1000, 1200, 1536, 1920, 2000, 5000, 7680, 10000),
    *_rows((3.5, 5.0, 7.0), 509, 761, 997, 1009),
    *_rows((5.5, 8.0, 11.0), 4099),
    *_rows((3.5, 3.5, 4.5), 2**20),
    *_rows((15.0, 20.0, 28.0), 2**20 - 1, 1048573),
    *_rows((), 2**22, 2**24, 2**26),
    Case((1024, 1024), (2.5, 3.2, 4.2)),
    Case((64, 64, 64), (3.0, 3.5, 4.5), real=True),
    Case((128, 128, 128), (3.0, 3.5, 4.5), real=True, batch=2),
    *(Case((n,), real=True) for n in (256, 1024, 4096, 16384, 65536)),
)


def priced(case: Case, target: str) -> tuple[Plan, Timeline]:
    """Returns the planner's choice for one core, and a dry run of it."""
    found = plan(**case.asked(), target=target, cores=1)
    return found, cost.timeline(found.recipe, case.count, hardware.chip(target))


def row(case: Case, target: str) -> list[str]:
    """Returns the row of a case on a chip, in the order of HEADINGS."""
    found, timeline = priced(case, target)
    busy = timeline.engine_busy_ns
    ratio = timeline.total_ns / found.dma_floor_ns
    goal = case.goals[hardware.NAMES.index(target)] if case.goals else None
    star = "*" if goal is not None and ratio > goal else ""
    return [
        case.title,
        " ".join([found.algorithm, *map(str, found.radices or ())]),
        f"{timeline.total_ns / 1e3:.1f}",
        about(timeline.with_launches_ns),
        f"{ratio:.2f}{star}",
        "" if goal is None else f"{goal:g}",
        f"{timeline.hbm_bytes / 1e6:.1f}",
        f"{busy['tensor'] / 1e3:.1f}",
        str(timeline.instructions),
        max(busy, key=lambda engine: busy[engine]),
    ]


HEADINGS = (
    "transforms, batch",
    "algorithm",
    "kernel us",
    "with a launch, about",
    "over floor",
    "goal",
    "HBM MB",
    "tensor us",
    "instructions",
    "bound",
)


def table(target: str, cases: tuple[Case, ...] = CASES) -> str:
    """Returns the table of a chip, on one core."""
    return markdown(HEADINGS, [row(case, target) for case in cases])
