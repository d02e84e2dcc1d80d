"""Parametrization of sweeps: some cases run by default, all of them with --all.

A sweep varies several parameters. Most faults depend on the value of one parameter, or on the
values of two parameters. So the default cases form a pairwise covering array, in which any two
values of two parameters occur together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from allpairspy import AllPairs


def whole(*values: Any, id: str | None = None) -> Any:
    """Returns one case of a parametrization that runs only with --all."""
    return pytest.param(*values, marks=pytest.mark.sweep, id=id)


def some(names: str, cases: Iterable[Any], by_default: Iterable[Any]) -> Any:
    """Returns a parametrization over `cases`; the cases in `by_default` run by default.

    Raises:
        ValueError: `by_default` contains something that is not a case.
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
    """Returns a parametrization over the product of `axes`; a covering of pairs runs by default.

    Args:
        axes: the values of each argument of the test, for two or more arguments.
    """
    values = [list(axis) for axis in axes.values()]
    # Values may have neither an order nor a hash.
    numbered = [list(range(len(axis))) for axis in values]
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
