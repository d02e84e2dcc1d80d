"""Values that a row may hold without an effect on other rows."""

from __future__ import annotations

import numpy as np

from tests.tolerances import near

BAD = {"nan": np.nan, "infinity": np.inf, "minus infinity": -np.inf, "overflow": 3e38}
EVERY = False  # whether each row is spoiled in every way; set by a fixture, for cases of sweeps


def ways(place, count):
    """Ways to spoil the row at this place of so many: by turns half of them, or all of one row's.

    What a row holds and where it lies are looked at by different instructions.
    """
    return list(BAD.items()) if EVERY or count == 1 else list(BAD.items())[place % 2 :: 2]


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

    By default each row in two ways and, if there is another, that one in the others.

    Args:
        run: transforms an array like x, complex or real, into one like ``exact``.
        x: ordinary rows, [B, ...].
        exact: their results in double precision, [B, ...].
        tolerance: of the relative L2 error of the other rows, from tests/tolerances.py.
        rows: which to spoil; by default the first, one in the middle, the last.
    """
    batch = len(x)
    rows = rows or sorted({0, batch // 2, batch - 1})
    for place, row in enumerate(rows):
        for name, value in ways(place, len(rows)):
            result = run(spoiled(x, row, value))
            assert not np.isfinite(result[row]).all(), f"row {row} with {name} came out finite"
            others = np.arange(batch) != row
            near(result[others], exact[others], tolerance, message=f"{name} in row {row}")
