"""The tables of docs/how_fast.md: kernels on the chip, calls with a launch, the CPU and a GPU.

Run: OMP_NUM_THREADS=1 python -m bench.tables how-fast. There are six tables:

kernels   modelled times of kernels on each chip for about 2^20 points, and their ratio to the DMA
          floor, which is the time that DMA needs to read and write every point once
calls     modelled kernel plus launch (measured by others) on trn2, from one row to many
rows      how many rows have a modelled kernel that lasts as long as one launch
floors    bytes over memory bandwidth for 2^20 points: computed, not measured
gpu       cuFFT on a GPU, measured by others, beside modelled kernels and calls on trn2
host      torch.fft.fft on this CPU, measured now, beside the same kernels and calls

Only the last table depends on the computer it runs on.

Sources, as cited below:
  [v2] [v3] [v4]  AWS Neuron SDK, architecture guides for NKI of trn1, trn2 and trn3: memory
  [nvidia]        NVIDIA, data sheets of the A100 80 GB, the H100 and the GeForce RTX 3080
  [cufft]         github.com/mm-nikhil/xeon-fft-bench, src/gpu/fft_logs, reports 20260220_195151
                  (calls one after another, between CUDA events) and 20260219_163106 (each call
                  with copies from pinned memory of the host and back): complex64, one dimension
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from bench.calls import Way, shortest_us
from bench.environment import cpu_name
from bench.tables.planned import POINTS, markdown, ns_of, planned, planned_rows, size
from nki_sim import hardware
from nki_sim.measured_times import about

SHAPES = ((256,), (1024,), (4096,), (65536,), (2**20,), (1024, 1024))
CALLS = ((1024, 1), (1024, 128), (1024, 1024), (65536, 1), (65536, 16), (2**20, 1))  # N, rows
LENGTHS = (1024, 4096, 65536)  # of the table `rows`
MOST_ROWS = 15  # as a power of two
BYTES_OF_A_POINT = 16  # a complex64 is read, and one is written
CALLS_ON = "trn2"


@dataclass(frozen=True)
class Memory:
    """A memory, and the bandwidth that its maker's documents state for it."""

    name: str
    bytes_per_ns: float


MEMORIES = (
    Memory("a Trainium chip of trn1, 2 NeuronCores", 820.0),  # [v2]
    Memory("a Trainium2 chip, 8 NeuronCores", 2900.0),  # [v3]
    Memory("a Trainium3 chip, 8 NeuronCores", 4700.0),  # [v4]
    Memory("NVIDIA A100 80 GB SXM", 2039.0),  # [nvidia], as those below
    Memory("NVIDIA H100 SXM", 3350.0),
    Memory("NVIDIA GeForce RTX 3080 10 GB", 760.0),
)
CUFFT_US = {  # by N and rows: the call itself, and with both copies [cufft]
    (1024, 1): (3.38, 13.9),
    (4096, 16): (5.02, 60.1),
    (16384, 64): (36.0, 686.0),
    (65536, 1): (7.58, 61.7),
    (65536, 16): (53.9, 720.0),
    (2**20, 1): (61.7, 711.0),
}


def kernels() -> str:
    """Returns the table of kernels on three chips."""
    rows = []
    for shape in SHAPES:
        plans = [planned(shape, chip) for chip in hardware.NAMES]
        cells = [size(shape, plans[0].batch)]
        for one in plans:
            cells += [_us(ns_of(one)), f"{ns_of(one) / one.dma_floor_ns:.1f}"]
        rows.append(cells)
    headings = ["N, rows"]
    for one in plans:
        headings += [f"{one.where}: kernel, modelled", "ratio to the DMA floor"]
    return markdown(headings, rows)


def calls() -> str:
    """Returns the table of calls on trn2."""
    rows = []
    for n, batch in CALLS:
        kernel, (eager, compiled) = ns_of(planned_rows(n, batch, CALLS_ON)), _launches(CALLS_ON)
        share = f"{kernel / (kernel + eager):.0%}"
        rows.append([*_of_call(n, batch), about(kernel + compiled), share])
    more = "in a compiled graph of its own, about", "share of the kernel, eager"
    return markdown([*_headings(), *more], rows)


def _of_call(n: int, batch: int, *between: str) -> list[str]:
    """Returns size, kernel and eager call on trn2, with other cells behind the size."""
    kernel = ns_of(planned_rows(n, batch, CALLS_ON))
    call = about(kernel + _launches(CALLS_ON)[0])
    return [size((n,), batch), *between, _us(kernel), call]


def _headings(*between: str) -> list[str]:
    """Returns the headings of `_of_call`."""
    where = planned_rows(*CALLS[0], CALLS_ON).where
    kernel = f"{where}: kernel, modelled"
    return ["N, rows", *between, kernel, "with a launch in eager mode, about"]


def rows_of_a_launch() -> str:
    """Returns the table of rows whose kernel lasts as long as a launch."""
    rows = [[str(n), *(str(least_rows(n, chip)) for chip in hardware.NAMES)] for n in LENGTHS]
    headings = ["N"]
    for chip in hardware.NAMES:
        launch = about(hardware.chip(chip).launches.eager.about_ns)
        headings.append(f"{planned_rows(LENGTHS[0], 1, chip).where}: launch {launch}")
    return markdown(headings, rows)


def least_rows(n: int, chip: str) -> int:
    """Returns the least power of two of rows of n points whose kernel lasts as long as a launch."""
    launch = hardware.chip(chip).launches.eager.about_ns
    low, high = 0, MOST_ROWS
    while low < high:
        middle = (low + high) // 2
        if ns_of(planned_rows(n, 1 << middle, chip)) >= launch:
            high = middle
        else:
            low = middle + 1
    return 1 << low


def floors() -> str:
    """Returns the table of the least times that memory allows for 2^20 points."""
    rows = []
    for name in hardware.NAMES:
        chip = hardware.chip(name)
        cores = hardware.degree(chip)
        floor = chip.dma_floor_ns(POINTS, BYTES_OF_A_POINT, cores)
        rate = POINTS * BYTES_OF_A_POINT / floor
        where = f"{name}, LNC={cores}: one logical NeuronCore"
        rows.append([where, _rate(rate), "what DMA reaches, by the timing model", _us(floor)])
    for memory in MEMORIES:
        floor = POINTS * BYTES_OF_A_POINT / memory.bytes_per_ns
        rows.append([memory.name, _rate(memory.bytes_per_ns), "the maker's documents", _us(floor)])
    return markdown(["memory of", "bandwidth", "by", "floor of 2^20 points, computed"], rows)


def gpu() -> str:
    """Returns the table of cuFFT on a GPU, which others measured, beside calls on trn2."""
    rows = [
        _of_call(n, batch, *(_us(1e3 * us) for us in times))
        for (n, batch), times in CUFFT_US.items()
    ]
    headings = _headings(
        "cuFFT on a GeForce RTX 3080, measured by others",
        "with copies from the host and back, measured by others",
    )
    return markdown(headings, rows)


def host() -> str:
    """Returns the table of torch.fft.fft on this CPU, with a heading that names the CPU."""
    rows = [_of_call(n, batch, about(measured_ns(n, batch))) for n, batch in CALLS]
    where = f"{cpu_name()}, {_threads()}, torch {torch.__version__}"
    return markdown(_headings(f"torch.fft.fft on {where}, measured"), rows)


def measured_ns(n: int, batch: int) -> float:
    """Returns the nanoseconds of a call of torch.fft.fft of complex64 [batch, n]."""
    x = torch.randn(batch, n, dtype=torch.complex64)
    (us,) = shortest_us((Way("torch", partial(torch.fft.fft, x)),))
    return 1e3 * us


def _launches(chip: str) -> tuple[float, float]:
    # In eager mode, and of a compiled graph.
    launches = hardware.chip(chip).launches
    assert launches.compiled is not None
    return launches.eager.about_ns, launches.compiled.about_ns


def _us(ns: float) -> str:
    return f"{ns / 1e3:.1f} us" if ns < 1e4 else f"{ns / 1e3:.0f} us"


def _rate(bytes_per_ns: float) -> str:
    return f"{bytes_per_ns:.0f} GB/s"


def _threads() -> str:
    count = torch.get_num_threads()
    return "1 thread" if count == 1 else f"{count} threads"


TABLES = {
    "kernels": kernels,
    "calls": calls,
    "rows": rows_of_a_launch,
    "floors": floors,
    "gpu": gpu,
    "host": host,
}


def tables() -> Iterator[str]:
    """Yields all tables, with their names."""
    for name, table in TABLES.items():
        yield f"{name}\n\n{table()}"
