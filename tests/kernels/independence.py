"""What rows may hold, and what their neighbours must not notice."""

from __future__ import annotations

import numpy as np

BAD = {"nan": np.nan, "infinity": np.inf, "minus infinity": -np.inf, "overflow": 3e38}


def spoiled(x, row, value):
    """A copy of x [B, ...] with one number of a row replaced, or all of them where it overflows."""
    changed = x.copy()
    if np.isfinite(value):
        changed[row] = value
    else:
        changed[row].reshape(-1)[x[row].size // 3] = value
    return changed


def check_rows_are_independent(run, x, exact, tolerance, rows=None):
    """Spoil rows of x one way after the other; the others must be as accurate as ever.

    Args:
        run: transforms an array like x, complex or real, into one like ``exact``.
        x: ordinary rows, [B, ...].
        exact: their results in double precision, [B, ...].
        tolerance: relative L2 error of a row.
        rows: which to spoil; by default the first, one in the middle, the last.
    """
    batch = len(x)
    for row in rows or sorted({0, batch // 2, batch - 1}):
        for name, value in BAD.items():
            result = run(spoiled(x, row, value))
            assert not np.isfinite(result[row]).all(), f"row {row} with {name} came out finite"
            others = np.arange(batch) != row
            if others.any():
                size = tuple(range(1, exact.ndim))
                difference = np.sqrt(np.sum(np.abs(result - exact)[others] ** 2, axis=size))
                norms = np.sqrt(np.sum(np.abs(exact)[others] ** 2, axis=size))
                worst = np.max(difference / norms)
                assert worst <= tolerance, f"{name} in row {row}: error {worst} in another"
