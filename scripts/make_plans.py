"""Regenerates plans/*.json, the remembered plans that trnfft ships: python scripts/make_plans.py

Run the script when tests/planner/test_wisdom.py says that the plans are stale: after a change to a
kernel, to the simulator's model of time or to the planner.

The script also guards the prices of the plans. Where the price of a plan rises by more than 2%, or
a case has no kernel any more, the script lists these cases, writes nothing and exits with 1. With
--check it makes the same comparison and never writes.

An intended rise needs a reason. A refused run prints an entry for plans/reasons.json: add the entry
to the list there, write one sentence as its "reason", and run again. The entry excuses the listed
cases only, each from exactly its old price up to its new price, and so excuses no later rise.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nki_sim import hardware
from nki_sim.base.whole_file import write_whole
from trnfft.planner import accuracy, planner, wisdom
from trnfft.planner.kinds import (
    C2C,
    C2R,
    R2C,
    BlockCirculant,
    Convolution,
    Frames,
    Kind,
    Part,
    RealPlanes,
    SpectralGradients,
    SpectralLayer,
    Transform,
)
from trnfft.planner.plan import Plan
from trnfft.planner.problem import Problem

FOLDER = Path(__file__).parent.parent / "plans"
REASONS = "reasons.json"
TOLERANCE = 1.02  # ratio to which a price may rise without a reason

POWERS = tuple(2**k for k in range(1, 17))
OTHERS = (96, 100, 127, 257, 384, 480, 768, 1000, 1009, 1536, 10000)
LONG = (10007, 300007, 2**20)  # planned as single transforms only
BATCHES = (1, 128, 8192)
LARGEST = 4096 * 8192  # points of a batch
REAL_LENGTHS = (64, 128, 256, 512, 1000, 1024, 4096)
SHAPES = ((64, 64), (256, 256), (1024, 1024), (1080, 1920), (32, 32, 32), (64, 64, 64))
SMALL = ((8, 8), (14, 14), (16, 16), (4, 4, 4), (6, 6, 6))  # of which there are many
ROWS = (256, 1000, 1024, 4096)
# The shapes of transforms, and of the images in them.
IMAGES = (
    ((512, 512), (480, 480)),
    ((800, 1280), (720, 1280)),
    ((1152, 2048), (1080, 1920)),
)
WEIGHTS = ((2, 2, 64), (4, 4, 128), (8, 8, 128))  # [p, q, k]
# Fourier layers: channels, points, kept frequencies, batch.
LAYERS = (
    (32, (256,), (16,), 32),
    (64, (1024,), (16,), 32),
    (64, (1024,), (64,), 32),
    (32, (64, 64), (24, 12), 16),
    (32, (64, 64), (32, 16), 16),
    (64, (128, 128), (32, 17), 8),
    (4, (32, 32, 32), (16, 16, 8), 2),
    (16, (32, 32, 32), (16, 16, 8), 4),
    (32, (64, 64, 64), (24, 24, 12), 2),
)
# Planes of which only the real part is kept, as in FNet: sequences, hidden sizes, batch.
PLANES = ((256, 256, 4), (128, 768, 32), (512, 768, 1), (512, 768, 8), (512, 1024, 8))
# Spectrograms: points of a frame, hop, bands, frames.
FRAMES = ((400, 160, 80, 3000), (512, 128, 80, 6000), (1024, 256, 128, 3000))


@dataclass(frozen=True)
class Size:
    """A case without its chip: the fields of a `Problem` that say what is computed."""

    kind: Kind
    batch: int
    precision: str = "fast"

    def on(self, chip: str, cores: int) -> Problem:
        """Returns the problem on a chip with a number of cores."""
        budget = accuracy.MAX_ERRORS[self.precision]
        return Problem(**vars(self), target=chip, cores=cores, max_error=budget)


def sizes() -> dict[str, list[Size]]:
    """Returns the cases that are remembered for every chip and degree of LNC, by kind."""
    complex_rows = [Size(Transform((n,)), batch) for n, batch in _lengths(sorted(POWERS + OTHERS))]
    complex_rows += [Size(Transform((n,)), 1) for n in LONG]
    complex_rows += [
        Size(Transform((n,)), batch, "kahan") for n in POWERS[5:12] for batch in (1, 128)
    ]
    real = [
        Size(Transform((n,), part=part), batch)
        for n, batch in _lengths(REAL_LENGTHS)
        for part in (R2C, C2R)
    ]
    weights = [
        Size(BlockCirculant(*weight, gradients), batch)
        for weight in WEIGHTS
        for batch in (32, 1024)
        for gradients in (False, True)
    ]
    return {
        "complex": complex_rows,
        "real": real,
        "axes": list(_arrays((C2C,))),
        "real axes": list(_arrays((R2C, C2R))),
        "convolution of rows": [Size(Convolution((n,)), batch) for n, batch in _lengths(ROWS)],
        "convolution of images": [
            Size(Convolution(shape, image), batch) for shape, image in IMAGES for batch in (1, 4)
        ],
        "block circulant": weights,
        "spectral convolution": [
            Size(kind, batch)
            for n, points, kept, batch in LAYERS
            for kind in (
                SpectralLayer(n, n, points, kept),
                SpectralLayer(n, n, points, kept, keeps_spectra=True),
                SpectralGradients(n, n, points, kept),
            )
        ],
        "frames": [
            Size(kind, batch)
            for n, hop, bands, batch in FRAMES
            for kind in (Frames(n, hop, None), Frames(n, hop), Frames(n, hop, bands=bands))
        ],
        "real planes": [Size(RealPlanes(rows, columns), batch) for rows, columns, batch in PLANES],
    }


def _lengths(lengths: Iterable[int]) -> Iterator[tuple[int, int]]:
    for n in lengths:
        for batch in BATCHES:
            if n * batch <= LARGEST:
                yield n, batch


def _arrays(parts: tuple[Part, ...]) -> Iterator[Size]:
    for shape in SHAPES:
        for part in parts:
            for batch in (1, 8):
                yield Size(Transform(shape, part=part), batch)
    for shape in SMALL:
        for part in parts:
            for batch in BATCHES:
                yield Size(Transform(shape, part=part), batch)
    for part in parts:
        yield Size(Transform((1024, 1024), (512, 1024), part), 1)


def requests(chip: str) -> list[Problem]:
    """Returns the problems whose plans are remembered for a chip."""
    core = hardware.chip(chip)
    return [
        size.on(core.name, cores)
        for all_sizes in sizes().values()
        for cores in range(1, 1 + core.programs_per_launch)
        for size in all_sizes
    ]


# The guard


@dataclass(frozen=True)
class Rise:
    """A case whose price rose: its title, its old and new price, and a reason.

    The new price is None where no kernel computes the case any more.
    """

    case: str
    old_ns: float | None
    new_ns: float | None
    reason: str = ""

    def __str__(self) -> str:
        old, new = ("-" if ns is None else f"{ns:.1f}" for ns in (self.old_ns, self.new_ns))
        ratio = "" if self.new_ns is None else f"{self.new_ns / (self.old_ns or math.inf):.3f}"
        return f"{old:>14} {new:>14} {ratio:>7}  {self.case}"


def shipped_prices(folder: Path) -> dict[str, float]:
    """Returns the modelled nanoseconds of the plans in a folder, by their titles."""
    found = {}
    for chip in hardware.NAMES:
        path = folder / f"{chip}.json"
        for entry in json.loads(path.read_text("utf-8"))["plans"] if path.exists() else ():
            plan = Plan.from_dict(entry)
            found[plan.title] = plan.predicted_ns or 0.0
    return found


def rises(old: dict[str, float], new: dict[str, float | None]) -> list[Rise]:
    """Returns the cases whose price rose by more than TOLERANCE, or that no kernel computes."""
    found = [Rise(case, old.get(case), ns) for case, ns in new.items()]
    return [
        rise
        for rise in found
        if rise.new_ns is None
        or (rise.old_ns is not None and rise.new_ns > TOLERANCE * rise.old_ns)
    ]


def excused(rise: Rise, reasons: list[dict[str, Any]]) -> Rise:
    """Returns the rise with its reason, where a reason covers this rise from this price."""
    for entry in reasons:
        if rise.new_ns is not None and rise.case in entry["rises"]:
            old_ns, new_ns = entry["rises"][rise.case]
            if rise.old_ns == old_ns and rise.new_ns <= new_ns:
                return replace(rise, reason=entry["reason"])
    return rise


def read_reasons(path: Path) -> list[dict[str, Any]]:
    """Returns the list in reasons.json.

    Raises:
        ValueError: an entry has no reason or no rises.
    """
    entries = json.loads(path.read_text("utf-8")) if path.exists() else []
    for entry in entries:
        if not entry.get("reason", "").strip() or not entry.get("rises"):
            raise ValueError(f"{path.name}: {entry} needs a 'reason', one sentence, and 'rises'")
    return entries


def is_allowed(found: list[Rise]) -> bool:
    """Prints rises, with the reasons of excused ones; returns whether all of them are excused."""
    if found:
        print(f"{'old ns':>14} {'new ns':>14} {'ratio':>7}  case")
    for reason in sorted({rise.reason for rise in found}, reverse=True):
        print("\n".join(str(rise) for rise in found if rise.reason == reason))
        print(f"  allowed: {reason}" if reason else "  refused; nothing is written")
    refused = [rise for rise in found if not rise.reason]
    dearer = {rise.case: [rise.old_ns, rise.new_ns] for rise in refused if rise.new_ns is not None}
    if dearer:
        rows = ",\n".join(f"    {json.dumps(case)}: {ns}" for case, ns in dearer.items())
        print(f"To allow the higher prices, add this entry with a reason to the list in {REASONS}:")
        print(f'{{\n  "reason": "",\n  "rises": {{\n{rows}\n  }}\n}}')
    return not refused


# The plans


def searched(problems: list[Problem]) -> list[Plan | None]:
    """Returns a plan for each problem, or None where no kernel solves it, by all processors."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(plan_or_none, problems))


def plan_or_none(problem: Problem) -> Plan | None:
    """Returns the plan for a problem; prints a reason and returns None if no kernel solves it."""
    try:
        return planner.search(problem)
    except NotImplementedError as reason:
        print(reason)
        return None


def main(arguments: list[str] | None = None) -> int:
    """Searches all plans, writes a file for each chip, and returns 1 where a rise has no reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare prices")
    options = parser.parse_args(arguments)
    reasons = read_reasons(FOLDER / REASONS)
    start = time.perf_counter()
    problems = [problem for chip in hardware.NAMES for problem in requests(chip)]
    plans = searched(problems)
    print(f"{len(plans)} plans in {time.perf_counter() - start:.0f} s")
    new = {
        problem.title: None if plan is None else plan.predicted_ns
        for problem, plan in zip(problems, plans, strict=True)
    }
    old = shipped_prices(FOLDER)
    for case in old.keys() - new.keys():
        print(f"no longer among the cases: {case}")
    found = rises(old, new)
    if not is_allowed([excused(rise, reasons) for rise in found]):
        return 1
    if not options.check:
        for chip in hardware.NAMES:
            entries = [plan.to_dict() for plan in plans if plan is not None and plan.target == chip]
            write_whole(FOLDER / f"{chip}.json", wisdom.render(chip, entries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
