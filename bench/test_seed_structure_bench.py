"""The article's chain of launches, compared with one launch.

pytest bench/test_seed_structure_bench.py -s

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

import numpy as np
import pytest

import nki_sim
from bench.seed_article.structure import launches, timelines, transform
from nki_kernels.fft.dft_gemm import MAX_LENGTH, dft_gemm, dft_gemm_matrix
from nki_kernels.fft.four_step import four_step
from nki_kernels.fft.four_step_tables import four_step_tables
from nki_kernels.fft.stockham import stockham, stockham_tables
from nki_kernels.packing import pack
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


@pytest.fixture(autouse=True)
def on_trn1():
    with hardware.select(hardware.TRN1):
        yield


def chain_ns(n, radix):
    """Returns the nanoseconds of a chain by kind of launch."""
    by_kind: defaultdict[str, float] = defaultdict(float)
    for kind, timeline in timelines(n, radix, BATCH):
        by_kind[kind] += timeline.total_ns
    return dict(by_kind)


@functools.lru_cache
def one_launch_ns(n):
    """Returns (time, kernel and plan) of the fastest of this project's kernels."""
    spec = ((BATCH, n), "float32")
    found = []
    if n <= MAX_LENGTH:
        table = dft_gemm_matrix(n)
        found.append((nki_sim.dry_run(dft_gemm, spec, spec, table).total_ns, "dft_gemm"))
    for radices in PLANS[n]:
        if max(radices) <= 64:
            tables = stockham_tables(n, radices)
            timeline = nki_sim.dry_run(stockham, spec, spec, *pack(tables), radices)
            found.append((timeline.total_ns, f"stockham {radices}"))
        if len(radices) > 1:
            tables = four_step_tables(n, radices)
            timeline = nki_sim.dry_run(four_step, spec, spec, *pack(tables), radices)
            found.append((timeline.total_ns, f"four_step {radices}"))
    return min(found)


def is_power(n, radix):
    return any(radix**k == n for k in range(1, 13))


@pytest.mark.parametrize("n, radix", [(8, 8), (64, 8), (512, 8), (4, 4), (64, 4), (256, 4)])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_chain_is_a_fourier_transform(n, radix, batch):
    x = np.random.default_rng(n).standard_normal((2, batch, n)).astype(np.float32)
    x = x[0] + 1j * x[1]
    expected = np.fft.fft(x.astype(np.complex128))
    error = np.linalg.norm(transform(x, radix) - expected)
    assert error <= 2e-6 * np.linalg.norm(expected)


def test_the_chain_at_more_transforms_than_partitions():
    x = np.random.default_rng(0).standard_normal((2, 130, 64)).astype(np.float32)
    x = x[0] + 1j * x[1]
    expected = np.fft.fft(x.astype(np.complex128))
    for radix in (4, 8):
        error = np.linalg.norm(transform(x, radix) - expected)
        assert error <= 2e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("radix", [4, 8])
def test_the_modelled_time_is_that_of_a_real_run(radix):
    x = np.random.default_rng(0).standard_normal((5, 64)).astype(np.complex64)
    with nki_sim.record() as timeline:
        transform(x, radix)
    chain = timelines(64, radix, 5)
    assert timeline.launches == len(chain)
    assert sum(t.total_ns for _, t in chain) == pytest.approx(timeline.total_ns)


def test_launches_of_a_chain():
    """s stages have s - 1 twiddle products, and s + 1 (radix 8) or s - 1 (radix 4) permutes."""
    for radix, stages, permutes in ((8, 4, 5), (4, 6, 5)):
        kinds = [launch.kind for launch in launches(4096, radix, BATCH)]
        counts = [kinds.count(kind) for kind in (f"radix{radix}", "twiddle", "permute")]
        assert counts == [stages, stages - 1, permutes]


@pytest.mark.parametrize("n, radix", [(64, 2), (256, 8), (512, 4), (1, 4), (4**7, 4)])
def test_what_the_chain_refuses(n, radix):
    with pytest.raises(ValueError, match="must be|whole rows"):
        launches(n, radix, 1)


@pytest.mark.parametrize("radix", [4, 8])
def test_one_launch_is_ten_times_faster_than_the_chain(radix):
    assert sum(chain_ns(4096, radix).values()) >= 10 * one_launch_ns(4096)[0]


def test_table():
    """Prints the comparison, and the parts of the chain's time."""
    print(f"\nmodelled on-chip us, trn1, LNC=1, batch {BATCH}, launch overhead not counted")
    print(f"{'N':>5} {'radix-8':>10} {'radix-4':>10} {'ours':>8} {'ratio':>7}  kernel")
    for n in LENGTHS:
        chains = {r: sum(chain_ns(n, r).values()) for r in (8, 4) if is_power(n, r)}
        ours, name = one_launch_ns(n)
        cells = [f"{chains[r] / 1e3:10.1f}" if r in chains else f"{'-':>10}" for r in (8, 4)]
        ratio = min(chains.values()) / ours
        print(f"{n:>5} {' '.join(cells)} {ours / 1e3:8.1f} {ratio:7.1f}  {name}")
        assert ratio > 1
    ours = one_launch_ns(4096)[0]
    for radix in (8, 4):
        for kind, time in chain_ns(4096, radix).items():
            print(f"4096, radix {radix}: {kind:>8} {time / 1e3:10.1f} = {time / ours:6.1f} x ours")
