"""A summary of the reports of all processes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from trnfft.distributed.check.stopwatch import COPIES, EXCHANGE, TRANSFORMS
from trnfft.planner.accuracy import MAX_ERRORS

OK, WRONG, REFUSED = "ok", "wrong", "refused"
OTHER = "other"
KINDS = (TRANSFORMS, EXCHANGE, COPIES, OTHER)
_ROUNDING = 1e-7  # relative rounding error of float32


@dataclass(frozen=True)
class Result:
    """A transform by all processes.

    Attributes:
        function, shape, mesh, split, out: as in `self_test.Case`.
        status: "ok", "wrong", or "refused" where the backend cannot do it.
        error: relative L2 error, or None where nothing could be compared.
        problem: what else is wrong, or why it is refused.
        seconds: time of the process that took the longest, in the fastest round.
        shares: shares of the time by kind, the mean of all processes.
        sent: bytes that a process sends over each link, the most of all processes.
    """

    function: str
    shape: tuple[int, ...]
    mesh: tuple[int, ...]
    split: tuple[int, ...]
    out: tuple[int, ...]
    status: str
    error: float | None = None
    problem: str = ""
    seconds: float | None = None
    shares: dict[str, float] | None = None
    sent: dict[str, int] | None = None

    @property
    def compute_to_exchange(self) -> float | None:
        """Returns the time of everything but exchanges, divided by the time of exchanges."""
        if not self.shares or not self.shares[EXCHANGE]:
            return None
        return (1 - self.shares[EXCHANGE]) / self.shares[EXCHANGE]

    @property
    def bytes_per_second(self) -> float | None:
        """Returns the rate at which a process sends while it exchanges."""
        if not self.sent or not self.shares or not self.seconds:
            return None
        return sum(self.sent.values()) / (self.shares[EXCHANGE] * self.seconds)


@dataclass(frozen=True)
class Link:
    """A link: bytes that each process sends to all that it reaches by the link, and seconds."""

    name: str
    bytes: int
    seconds: float


def results_of(reports: list[dict[str, Any]]) -> list[Result]:
    """Returns the result of each transform, from what every process found."""
    allowed = 4 * max(MAX_ERRORS[reports[0]["precision"]], _ROUNDING)
    each = zip(*(report["cases"] for report in reports), strict=True)
    return [_result(list(found), allowed) for found in each]


def links_of(reports: list[dict[str, Any]]) -> list[Link]:
    """Returns each link, as the slowest process found it."""
    found = []
    for name in reports[0]["links"]:
        each = [report["links"][name] for report in reports]
        most, slowest = (max(link[key] for link in each) for key in ("bytes", "seconds"))
        found.append(Link(name, most, slowest))
    return found


def _result(found: list[dict[str, Any]], allowed: float) -> Result:
    names = ("function", "shape", "mesh", "split", "out")
    case = {name: found[0][name] for name in names}
    for one in found:
        if "refused" in one:
            return Result(**case, status=REFUSED, problem=one["refused"])
    problem = next((one["problem"] for one in found if one["problem"]), "")
    norm = sum(one["norm"] for one in found)
    error = None if problem else math.sqrt(sum(one["difference"] for one in found) / norm)
    is_right = error is not None and error <= allowed  # False for NaN
    if error is not None and not is_right:
        problem = f"error {error:.1e}, allowed {allowed:.0e}"
    rounds = list(zip(*(one["rounds"] for one in found), strict=True))
    fastest = min(rounds, key=lambda each: max(one["seconds"] for one in each))
    total = sum(one["seconds"] for one in fastest)
    shares = {kind: sum(one[kind] for one in fastest) / total for kind in KINDS[:-1]}
    links = {link for one in found for link in one["sent"]}
    return Result(
        **case,
        status=OK if is_right else WRONG,
        error=error,
        problem=problem,
        seconds=max(one["seconds"] for one in fastest),
        shares=shares | {OTHER: 1 - sum(shares.values())},
        sent={link: max(one["sent"].get(link, 0) for one in found) for link in links},
    )


def shares_of(results: list[Result]) -> dict[str, float]:
    """Returns the shares of the time of all transforms together by kind; {} if none was done."""
    timed = [one for one in results if one.seconds and one.shares]
    total = sum(one.seconds or 0.0 for one in timed)
    return {
        kind: sum((one.seconds or 0.0) * (one.shares or {})[kind] for one in timed) / total
        for kind in (KINDS if timed else ())
    }
