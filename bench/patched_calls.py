"""Times of torch's functions under `trnfft.patch_torch`, on this CPU.

Run: OMP_NUM_THREADS=1 python -m bench.patched_calls

The tensors are small, so that the times are those of the calls. The program times the ways of
patching in alternating rounds, and reports the shortest round of each. In the second table the CPU
stands for a device without complex storage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from unittest import mock

import torch

import trnfft
from trnfft.backends import choice

ROUNDS = 100
CALLS = 50  # in each round

X = torch.ones(8)
REAL: dict[str, Callable[[], object]] = {
    "x * x": lambda: X * X,
    "2 * x": lambda: 2 * X,
    "torch.add(x, x)": lambda: torch.add(X, X),
    "torch.zeros(8)": lambda: torch.zeros(8),
    "x.to(torch.float64)": lambda: X.to(torch.float64),
    "torch.cat([x, x])": lambda: torch.cat([X, X]),
    "torch.fft.fft(x)": lambda: torch.fft.fft(X),
}
COMPLEX: dict[str, Callable[[], object]] = {
    "1j * x": lambda: 1j * X,
    "torch.exp(1j * x)": lambda: torch.exp(1j * X),
    "x.to(torch.cfloat)": lambda: X.to(torch.cfloat),
    "torch.zeros(8, dtype=torch.cfloat)": lambda: torch.zeros(8, dtype=torch.cfloat),
    "torch.zeros_like(x, dtype=torch.cfloat)": lambda: torch.zeros_like(X, dtype=torch.cfloat),
}


@contextmanager
def started() -> Iterator[None]:
    """Patches the whole program in a block."""
    patch = trnfft.patch_torch()
    patch.start()
    try:
        yield
    finally:
        patch.stop()


WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "torch": nullcontext,
    "in a block": trnfft.patch_torch,
    "after start": started,
}


def measured(call: Callable[[], object], rounds: int) -> dict[str, float]:
    """Returns the microseconds of a call, by the names of WAYS."""
    shortest = dict.fromkeys(WAYS, float("inf"))
    for _ in range(rounds):
        for name, way in WAYS.items():
            with way():
                start = time.perf_counter()
                for _ in range(CALLS):
                    call()
                seconds = time.perf_counter() - start
            shortest[name] = min(shortest[name], seconds / CALLS * 1e6)
    return shortest


def _print(title: str, calls: dict[str, Callable[[], object]]) -> None:
    print(f"{title:42}" + "".join(f"{name:>14}" for name in WAYS))
    for name, call in calls.items():
        times = measured(call, ROUNDS)
        print(f"{name:42}" + "".join(f"{times[way]:14.2f}" for way in WAYS))


def main() -> None:
    """Prints both tables."""
    print("microseconds of a call, measured on this CPU")
    _print("real and native results", REAL)
    print()
    with mock.patch.object(choice, "COMPLEX_DEVICES", ("meta",)):
        _print("results that are split, but for torch's", COMPLEX)


if __name__ == "__main__":
    main()
