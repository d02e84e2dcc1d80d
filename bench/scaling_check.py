"""Compares the model of exchanges with times that others published.

Run: python -m bench.scaling_check

Each modelled time comes from the formula of `trnfft.distributed.model.network` with constants that
were published for the machine; no constant is fitted. A constant that nobody published is left out
and costs nothing; `left_out` names it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nki_sim import hardware
from trnfft.distributed.model.network import Link, Machine, all_to_all, machine_of

DNS = (
    "aws-samples/sample-spectral-dns-on-aws-neuron, docs/results.md, sections 1 and 4, and "
    "docs/neuron-rules.md, rules 4 and 5 (github.com, commit 5a408ab)"
)
CUFFTMP = (
    "Multinode Multi-GPU: Using NVIDIA cuFFTMp FFTs at Scale, 2022 "
    "(databloom.com/2022/01/27/multinode-multi-gpu-using-nvidia-cufftmp-ffts-at-scale/); memory of "
    "an A100 with 80 GB (glennklockwood.com/garden/processors/A100); latency of ConnectX-6, 600 ns "
    "(docs.nvidia.com/networking/display/ConnectX6EN/Introduction)"
)
HEFFTE = "heFFTe 2.4.1 in the benchmarks of dtFFT (github.com/ShatrovOA/dtFFT, docs/benchmarks.rst)"

SELENE = Machine(
    # A GPU has 300 GB/s of NVLink, and the 8 GPUs of a node share 200 GB/s of InfiniBand, in each
    # direction.
    links=(Link("NVLink", 8, 300.0), Link("InfiniBand", math.inf, 25.0, latency_ns=600.0)),
    start_ns=0.0,
    message_ns=600.0,
)
SELENE_MEMORY = 2039.0  # bytes per nanosecond of a GPU
SELENE_PFLOPS = 1.8  # of a transform of 16384^3 points on 4096 GPUs
# The 4 GPUs of a node share 56 Gbit/s of InfiniBand.
DTFFT = Machine(
    links=(Link("node", 4, math.inf), Link("InfiniBand", math.inf, 7.0 / 4)),
    start_ns=0.0,
    message_ns=0.0,
)
INF2 = Machine(links=(Link("NeuronLink", math.inf, 6.5),), start_ns=0.0, message_ns=0.0)
DNS_STAGES = 3  # stages of a Runge-Kutta step; each has the two exchanges below
DNS_COMPONENTS = (12, 6)  # float32 numbers for each point: six complex fields one way, three back
DNS_ONE_CORE_MS, DNS_ONE_CORE_GRID = 21.43, 128  # time and grid of a whole step on one core


@dataclass(frozen=True)
class Point:
    """A published time, and the time by the formula."""

    name: str
    measured_ms: float
    kernels_ms: float
    exchanges_ms: float
    left_out: str  # parts that nobody published, counted as nothing
    source: str

    @property
    def modelled_ms(self) -> float:
        return self.kernels_ms + self.exchanges_ms

    @property
    def difference(self) -> float:
        """The difference of the model from the measurement, as a part of the latter."""
        return self.modelled_ms / self.measured_ms - 1


def points() -> list[Point]:
    """Returns all points of the comparison."""
    trn1 = machine_of(hardware.TRN1, 1)
    return [
        dns(trn1, "trn1", 128, 32, 26.8, "nothing"),
        dns(trn1, "trn1", 256, 32, 30.0, "nothing"),
        dns(trn1, "trn1", 512, 32, 182.0, "nothing"),
        dns(INF2, "inf2", 256, 8, 73.98, "start"),
        dns(INF2, "inf2", 512, 8, 749.0, "start"),
        cufftmp(2048, 8, 78.0),
        cufftmp(2048, 2048, 4.0),
        cufftmp(16384, 4096, 5 * 16384**3 * 42 / SELENE_PFLOPS / 1e12),
        heffte(8, 203894.516),
        heffte(16, 138234.469),
        heffte(36, 73583.375),
    ]


def dns(
    machine: Machine, name: str, grid: int, cores: int, measured_ms: float, left_out: str
) -> Point:
    """Returns a step of a spectral simulation whose transforms multiply by N x N matrices."""
    share = grid**3 / cores
    work = share * grid / DNS_ONE_CORE_GRID**4
    exchanges = sum(
        all_to_all(machine, (cores,), 0, 4 * components * share).ns for components in DNS_COMPONENTS
    )
    title = f"spectral DNS, {grid}^3 on {cores} cores of {name}, a step"
    kernels_ms, exchanges_ms = DNS_ONE_CORE_MS * work, DNS_STAGES * exchanges / 1e6
    return Point(title, measured_ms, kernels_ms, exchanges_ms, left_out, DNS)


def cufftmp(grid: int, gpus: int, measured_ms: float) -> Point:
    """Returns a transform in complex float32 whose slabs stay transposed.

    The model has one exchange, and for each axis one pass over the memory.
    """
    shard = 8 * grid**3 / gpus
    exchange = all_to_all(SELENE, (gpus,), 0, shard)
    kernels_ms = 3 * 2 * shard / SELENE_MEMORY / 1e6
    title = f"cuFFTMp, {grid}^3 on {gpus} A100"
    return Point(title, measured_ms, kernels_ms, exchange.ns / 1e6, "start", CUFFTMP)


def heffte(gpus: int, hundred_transforms_ms: float) -> Point:
    """Returns a transform of 1024^3 points in complex float64, from slabs to slabs.

    The published time is that of 50 transforms forward and 50 back, each with one exchange.
    """
    exchange = all_to_all(DTFFT, (gpus,), 0, 16 * 1024**3 / gpus)
    left_out = "kernels, link inside a node, start, messages"
    title = f"heFFTe, 1024^3 on {gpus} V100"
    return Point(title, hundred_transforms_ms / 100, 0.0, exchange.ns / 1e6, left_out, HEFFTE)


def table(found: list[Point]) -> str:
    """Returns the points as a Markdown table, as in docs/scaling_model.md."""
    lines = [
        "| | measured, ms | modelled, ms | of these kernels | difference | counted as nothing |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for point in found:
        times = (point.measured_ms, point.modelled_ms, point.kernels_ms)
        values = " | ".join(f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in times)
        lines.append(f"| {point.name} | {values} | {point.difference:+.0%} | {point.left_out} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(points()))
