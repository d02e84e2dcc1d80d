"""The tables of modelled prices in README.md and docs/planner.md: python -m bench.tables prices

There are three tables, all by `trnfft.plan`. The first has about 2^20 points a case: the modelled
time of the kernel, that time over the DMA floor, which is what DMA needs to read and write every
point once, and about the time with a launch. The second compares real data with complex data, the
third one core with two.
"""

from __future__ import annotations

from bench.tables.planned import markdown, ns_of, planned, size
from nki_sim.measured_times import about
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Plan
from trnfft.planner.planner import plan

CHIPS = ("trn1", "trn2")  # at the degree of LNC that each has by default
SHAPES = (
    *((n,) for n in (128, 256, 1000, 997, 1024, 4096, 4099, 16384, 65536, 2**20)),
    (1024, 1024),
)
REAL_LENGTHS = (256, 1024, 4096)
LONG = (20, 21)  # exponents of two
CHIPS_OF_TWO_CORES = ("trn2", "trn3")


def title(name: str) -> str:
    """Returns what people call an algorithm."""
    return ALGORITHMS[name].title or name


def row(plans: list[Plan]) -> list[str]:
    """Returns a row of the first table: one case on each chip."""
    first = plans[0]
    kernels = " / ".join(dict.fromkeys(title(one.algorithm) for one in plans))
    cells = [size(first.kind.sizes, first.batch), kernels]
    for one in plans:
        launched = about(one.with_launches_ns or 0.0)
        cells += [us(one), f"{ns_of(one) / one.dma_floor_ns:.1f}", launched]
    return cells


def table() -> str:
    """Returns the first table."""
    plans = [[planned(shape, chip) for chip in CHIPS] for shape in SHAPES]
    headings = ["N, batch", "algorithm"]
    for one in plans[0]:
        headings += [f"{one.where}: kernel, modelled", "ratio", "with a launch, about"]
    return markdown(headings, map(row, plans))


def real_table() -> str:
    """Returns the second table: real data, with the ratio to the time of complex data."""
    headings, rows = ["N, batch"], []
    for n in REAL_LENGTHS:
        cells = []
        for chip in CHIPS:
            whole = planned((n,), chip)
            kinds = (False, True)  # from real data, and to real data
            halves = [planned((n,), chip, real=True, inverse=inverse) for inverse in kinds]
            if n == REAL_LENGTHS[0]:
                headings += [f"{whole.where}: complex", "from real", "to real"]
            cells.append(us(whole))
            cells += [f"{us(half)} ({ns_of(half) / ns_of(whole):.2f})" for half in halves]
        rows.append([f"{n}, {whole.batch}", *cells])
    return markdown(headings, rows)


def cores_table() -> str:
    """Returns the third table: one long transform on one core and on two."""
    headings, rows = ["N"], []
    for exponent in LONG:
        cells = []
        for chip in CHIPS_OF_TWO_CORES:
            one, two = (plan(2**exponent, target=chip, cores=cores) for cores in (1, 2))
            if exponent == LONG[0]:
                headings += [one.where, two.where, "ratio"]
            cells += [us(one), us(two), f"{ns_of(two) / ns_of(one):.2f}"]
        rows.append([f"2^{exponent}", *cells])
    return markdown(headings, rows)


def us(one: Plan) -> str:
    """Returns the modelled time of a plan's kernel as text: "81 us"."""
    return f"{ns_of(one) / 1e3:.0f} us"


def tables() -> list[str]:
    """Returns all three tables."""
    return [table(), real_table(), cores_table()]
