"""Plans of transforms, and how tables write their times."""

from __future__ import annotations

import math
from collections.abc import Iterable

from trnfft.planner.plan import Plan
from trnfft.planner.planner import plan

POINTS = 2**20  # of a batch, about


def planned(shape: tuple[int, ...], target: str, real: bool = False, inverse: bool = False) -> Plan:
    """Returns the plan of one case, whose batch holds about 2^20 points.

    Args:
        shape: lengths of the transform.
        target: the chip.
        real, inverse: as for `trnfft.plan`.
    """
    size = {"n": shape[0]} if len(shape) == 1 else {"shape": shape}
    batch = 1 << round(math.log2(POINTS / math.prod(shape)))
    return plan(**size, batch=batch, target=target, cores=None, real=real, inverse=inverse)


def planned_rows(n: int, batch: int, target: str) -> Plan:
    """Returns the plan of a batch of rows on a chip, at the chip's default degree of LNC."""
    return plan(n, batch=batch, target=target, cores=None)


def ns_of(one: Plan) -> float:
    """Returns the modelled time of a plan's kernel, in nanoseconds."""
    assert one.predicted_ns is not None  # as for plans on the host
    return one.predicted_ns


def size(shape: tuple[int, ...], batch: int) -> str:
    """Returns shape and batch as text: "64 x 64, 256"."""
    return f"{' x '.join(map(str, shape))}, {batch}"


def markdown(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a table of Markdown."""
    headings = list(headings)
    lines = [headings, *rows]
    first, *others = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([first, "|---" * len(headings) + "|", *others])
