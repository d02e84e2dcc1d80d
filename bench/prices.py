"""The table of README.md and docs/planner.md: python -m bench.prices

About 2^20 points by `trnfft.plan`, in Markdown: what a kernel takes, modelled, over what DMA needs
to read and write every point once, and beside it about the time with a launch.
"""

from __future__ import annotations

import math

from nki_kernels.measured_times import about
from trnfft.planner.plan import Plan
from trnfft.planner.planner import plan

CHIPS = ("trn1", "trn2")  # at the degree of LNC that each has by default
SHAPES = (
    *((n,) for n in (128, 256, 1000, 997, 1024, 4096, 4099, 16384, 65536, 2**20)),
    (1024, 1024),
)
NAMES = {
    "dft_gemm": "DFT-GEMM",
    "stockham": "Stockham",
    "folded_dft": "folded DFT",
    "four_step": "four-step",
    "split_four_step": "split four-step",
    "bluestein": "Bluestein",
    "resident_planes": "plane in SBUF",
    "axes": "two axes",
}


def planned(shape: tuple[int, ...], target: str) -> Plan:
    """The plan of a case: a batch of about 2^20 points."""
    size = {"n": shape[0]} if len(shape) == 1 else {"shape": shape}
    batch = 1 << round(math.log2(2**20 / math.prod(shape)))
    return plan(**size, batch=batch, target=target, cores=None)


def row(plans: list[Plan]) -> str:
    """A line of the table: a case on each chip."""
    first = plans[0]
    size = " x ".join(map(str, first.shape or (first.n,)))
    kernels = " / ".join(dict.fromkeys(NAMES[one.algorithm] for one in plans))
    cells = [f"{size}, {first.batch}", kernels]
    for one in plans:
        ns, launched = one.predicted_ns or 0.0, one.with_launches_ns or 0.0
        cells += [f"{ns / 1e3:.0f} us", f"{ns / one.dma_floor_ns:.1f}", about(launched)]
    return f"| {' | '.join(cells)} |"


def table() -> str:
    """The table."""
    plans = [[planned(shape, chip) for chip in CHIPS] for shape in SHAPES]
    headings = ["N, batch", "algorithm"]
    for one in plans[0]:
        headings += [f"{one.where}: kernel, modelled", "ratio", "with a launch, about"]
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    return "\n".join([*lines, *map(row, plans)])


if __name__ == "__main__":
    print(table())
