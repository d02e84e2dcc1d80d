"""The modelled cost of keeping rows apart: kernels on trn1 (LNC=1), with and without their guard.

Run: python -m bench.tables row-guard

Without the guard a NaN in one row would reach other rows on trn1, whose transposes are products
with the identity matrix (nki_kernels/base/row_guard.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.tables.planned import markdown
from nki_sim import hardware
from trnfft.planner import cost
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe

CASES = (
    ("dft_gemm", 64, 16384),
    ("dft_gemm", 256, 4096),
    ("stockham", 1024, 16),
    ("stockham", 1024, 1024),
    ("stockham", 4096, 256),
    ("bluestein", 1009, 1024),
    ("real_dft_gemm", 64, 16384),
    ("real_stockham", 1024, 1024),
    ("inverse_real_stockham", 1024, 1024),
    ("convolve_rows", 1024, 1024),
    ("four_step", 65536, 16),
)


@contextmanager
def without_guard() -> Iterator[None]:
    """Makes kernels assume, inside the block, that transposes keep rows apart."""
    changed = []
    for name, module in list(sys.modules.items()):
        if name.startswith("nki_kernels.") and hasattr(module, "transposes_mix_rows"):
            changed.append((module, module.transposes_mix_rows))
            module.transposes_mix_rows = lambda: False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, function in changed:
            module.transposes_mix_rows = function  # type: ignore[attr-defined]


def recipe_of(name: str, n: int) -> Recipe:
    """Returns the most promising recipe of an algorithm for a length."""
    algorithm: Any = ALGORITHMS[name]
    found: Recipe = algorithm.recipes(n)[0]
    return found


def modelled_ns(name: str, n: int, batch: int) -> tuple[float, float]:
    """Returns the modelled nanoseconds without the guard and with it."""
    recipe = recipe_of(name, n)
    guarded = cost.timeline(recipe, batch, hardware.TRN1).total_ns
    with without_guard():
        return cost.timeline(recipe, batch, hardware.TRN1).total_ns, guarded


def tables() -> list[str]:
    """Returns the table, with a row for each case."""
    rows = []
    for name, n, batch in CASES:
        plain, guarded = modelled_ns(name, n, batch)
        times = f"{plain / 1e3:.1f} us", f"{guarded / 1e3:.1f} us", f"{guarded / plain:.2f}"
        rows.append([name, str(n), str(batch), *times])
    headings = "kernel on trn1, LNC=1", "N", "batch", "without, modelled", "with", "ratio"
    return [markdown(headings, rows)]
