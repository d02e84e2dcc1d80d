"""The chain of launches of the article "FFT is a GEMM", beside one launch of our kernels.

Run: python -m bench.tables article

Times are modelled, not measured: on-chip time on trn1, summed over launches, without the overhead
of launches and without anything that happens between launches.

The comparison depends on the cost of strided DMA, which needs a descriptor for every contiguous
run. At 4096 points strided DMA is four fifths of the radix-4 chain, and transposing loads are nine
tenths of the radix-8 chain. If permutes ran at the full rate of DMA (34 us each), the radix-4 chain
would still be about 8 times as slow as this project's kernel.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator

import nki_sim
from bench.seed_article.structure import timelines
from bench.tables.planned import markdown
from nki_kernels.base.packing import pack
from nki_kernels.fft.dft_gemm import MAX_LENGTH, dft_gemm, dft_gemm_matrix
from nki_kernels.fft.four_step import four_step
from nki_kernels.fft.four_step_tables import four_step_tables
from nki_kernels.fft.stockham import stockham, stockham_tables
from nki_sim import hardware

BATCH = 128
LENGTHS = (64, 256, 512, 1024, 4096)
PLANS = {
    64: ((64,), (8, 8)),
    256: ((16, 16), (4, 64), (64, 4)),
    512: ((8, 64), (64, 8), (8, 8, 8)),
    1024: ((32, 32), (16, 64), (64, 16)),
    4096: ((64, 64), (16, 16, 16), (32, 128)),
}


@functools.cache
def chain_ns(n: int, radix: int) -> dict[str, float]:
    """Returns the nanoseconds of a chain on trn1 by kind of launch."""
    by_kind: defaultdict[str, float] = defaultdict(float)
    with hardware.select(hardware.TRN1):
        for kind, timeline in timelines(n, radix, BATCH):
            by_kind[kind] += timeline.total_ns
    return dict(by_kind)


@functools.cache
def one_launch_ns(n: int) -> tuple[float, str]:
    """Returns (time, kernel and plan) of the fastest of this project's kernels on trn1."""
    spec = ((BATCH, n), "float32")
    found = []
    with hardware.select(hardware.TRN1):
        if n <= MAX_LENGTH:
            table = dft_gemm_matrix(n)
            found.append((nki_sim.dry_run(dft_gemm, spec, spec, table).total_ns, "dft_gemm"))
        for radices in PLANS[n]:
            if max(radices) <= 64:
                packed = pack(stockham_tables(n, radices))
                timeline = nki_sim.dry_run(stockham, spec, spec, *packed, radices)
                found.append((timeline.total_ns, f"stockham {radices}"))
            if len(radices) > 1:
                packed = pack(four_step_tables(n, radices))
                timeline = nki_sim.dry_run(four_step, spec, spec, *packed, radices)
                found.append((timeline.total_ns, f"four_step {radices}"))
    return min(found)


def is_power(n: int, radix: int) -> bool:
    """Returns whether n is a power of the radix."""
    return any(radix**k == n for k in range(1, 13))


def tables() -> Iterator[str]:
    """Yields the comparison, and the parts of the longest chain's time."""
    rows = []
    for n in LENGTHS:
        chains = {r: sum(chain_ns(n, r).values()) for r in (8, 4) if is_power(n, r)}
        ours, name = one_launch_ns(n)
        cells = [f"{chains[r] / 1e3:.1f}" if r in chains else "-" for r in (8, 4)]
        ratio = f"{min(chains.values()) / ours:.1f}"
        rows.append([str(n), *cells, f"{ours / 1e3:.1f}", ratio, name])
    first = f"N, batch {BATCH}, us on trn1, LNC=1"
    yield markdown((first, "radix-8", "radix-4", "ours", "ratio", "kernel"), rows)
    ours, rows = one_launch_ns(LENGTHS[-1])[0], []
    for radix in (8, 4):
        for kind, time in chain_ns(LENGTHS[-1], radix).items():
            rows.append([f"radix {radix}: {kind}", f"{time / 1e3:.1f}", f"{time / ours:.1f}"])
    yield markdown((f"launches for N = {LENGTHS[-1]}", "us", "over ours"), rows)
