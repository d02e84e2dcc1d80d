"""Parametrization of sweeps: a few cases run by default, all of them with --all.

A sweep varies several things. Most faults show wherever one thing has a certain value, or two
things have: so the cases of the default are those of a pairwise covering array, in which any two
values of two things meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from allpairspy import AllPairs


def whole(*values: Any, id: str | None = None) -> Any:
    """One case of a parametrization that runs with --all only."""
    return pytest.param(*values, marks=pytest.mark.sweep, id=id)


def some(names: str, cases: Iterable[Any], by_default: Iterable[Any]) -> Any:
    """Parametrization over `cases`, of which those that `by_default` has run by default.

    Raises:
        ValueError: `by_default` has something that is no case.
    """
    cases, chosen = list(cases), list(by_default)
    if unknown := [case for case in chosen if case not in cases]:
        raise ValueError(f"argument 'by_default' has {unknown}, which are no cases of {names!r}")
    is_one = "," not in names
    return pytest.mark.parametrize(
        names,
        [case if case in chosen else whole(*([case] if is_one else case)) for case in cases],
    )


def pairs(**axes: Iterable[Any]) -> Any:
    """Parametrization over the product of `axes`, by default over a covering of all pairs.

    Args:
        axes: for each argument of the test its values, two axes or more.
    """
    values = [list(axis) for axis in axes.values()]
    numbered = [list(range(len(axis))) for axis in values]  # values may have no order or hash
    chosen = {tuple(row) for row in AllPairs(numbered)}
    return pytest.mark.parametrize(
        tuple(axes),
        [
            pytest.param(
                *[axis[place] for axis, place in zip(values, row, strict=True)],
                marks=[] if row in chosen else [pytest.mark.sweep],
            )
            for row in itertools.product(*numbered)
        ],
    )
