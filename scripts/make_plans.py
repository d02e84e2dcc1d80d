"""Regenerates plans/*.json, the remembered plans that trnfft ships: python scripts/make_plans.py

Run it when tests/planner/test_wisdom.py says that the plans are stale: after a change to a
kernel, to the simulator's model of time or to the planner.
"""

import time
from pathlib import Path

from nki_kernels import hardware
from nki_kernels.whole_file import write_whole
from trnfft.planner import accuracy, planner, wisdom
from trnfft.planner.problem import Problem

POWERS = tuple(2**k for k in range(1, 17))
OTHERS = (96, 100, 127, 257, 384, 480, 768, 1000, 1009, 1536, 10000)
BATCHES = (1, 128, 8192)
LARGEST = 4096 * 8192  # points of a batch
FOLDER = Path(__file__).parent.parent / "plans"


def requests(chip: str) -> list[Problem]:
    """The problems whose plans are remembered for a chip."""
    wanted = [
        (n, batch, "fast")
        for n in sorted(POWERS + OTHERS)
        for batch in BATCHES
        if n * batch <= LARGEST
    ]
    wanted += [(n, batch, "kahan") for n in POWERS[5:12] for batch in (1, 128)]
    chip = hardware.chip(chip).name
    return [
        Problem(n=n, batch=b, precision=p, target=chip, max_error=accuracy.MAX_ERRORS[p])
        for n, b, p in wanted
    ]


def main() -> None:
    """Searches every plan and writes one file a chip."""
    for chip in hardware.NAMES:
        start = time.perf_counter()
        plans = [planner.search(request).to_dict() for request in requests(chip)]
        write_whole(FOLDER / f"{chip}.json", wisdom.render(chip, plans))
        print(f"{chip}: {len(plans)} plans in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
