"""Calls per second of `trnfft.fft` and of a plan for it, `trnfft.plan_fft`, on this CPU.

Run: OMP_NUM_THREADS=1 python -m bench.calls

The sizes are small, so that most of a call's time passes before the transform begins. The program
times both functions in alternating rounds, so that other work of the computer slows both down; it
reports the shortest round of each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

import trnfft

BACKENDS = ("torch", "matmul")
LENGTHS = (16, 64, 256, 1000)
BATCH = 8
ROUNDS = 200
CALLS = 20  # in each round


@dataclass(frozen=True)
class Speed:
    """Calls per second for one length on one backend, by `trnfft.fft` and by a plan."""

    backend: str
    n: int
    function: float
    plan: float

    @property
    def ratio(self) -> float:
        return self.plan / self.function


def measured(backend: str, n: int, rounds: int) -> Speed:
    """Measures `trnfft.fft` of [BATCH, n] real numbers in float32, and a plan for the same call."""
    x = torch.randn(BATCH, n)
    with trnfft.backend(backend), torch.no_grad():
        plan = trnfft.plan_fft(x)
        of_function, of_plan = _shortest([lambda: trnfft.fft(x), lambda: plan(x)], rounds)
    return Speed(backend, n, CALLS / of_function, CALLS / of_plan)


def _shortest(functions: list[Callable[[], object]], rounds: int) -> list[float]:
    """Returns the seconds of the shortest round of each function; the functions alternate."""
    seconds = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            start = time.perf_counter()
            for _ in range(CALLS):
                function()
            seconds[index] = min(seconds[index], time.perf_counter() - start)
    return seconds


def main() -> None:
    """Prints one line for each backend and length."""
    print(f"calls per second, measured on this CPU: {BATCH} rows of N real numbers, float32")
    print(f"{'backend':10}{'N':>6}{'trnfft.fft':>12}{'plan':>12}{'ratio':>8}")
    for backend in BACKENDS:
        for n in LENGTHS:
            speed = measured(backend, n, ROUNDS)
            rates = f"{speed.function:12,.0f}{speed.plan:12,.0f}{speed.ratio:8.2f}"
            print(f"{backend:10}{n:6}{rates}")


if __name__ == "__main__":
    main()
