"""Cases of tests of kernels, on one chip each by default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nki_sim import hardware
from tests import sweeps


def on_chips(
    names: str,
    cases: Iterable[Any],
    chips: Sequence[str] = hardware.NAMES,
    also: Iterable[tuple[Any, ...]] = (),
    whole: Iterable[Any] = (),
) -> Any:
    """Returns a parametrization over chips, which `strict_chip` selects, and over cases.

    By default each case runs on one chip, by turns; with --all, on every chip.

    Args:
        names: of the arguments of a case.
        cases: a value each, or a tuple of values for several names.
        chips: by their names.
        also: tuples (chip, *values) that run by default in addition.
        whole: more cases, which run only with --all.
    """
    tuples, others = (
        [tuple(case) if "," in names else (case,) for case in some] for some in (cases, whole)
    )
    return sweeps.some(
        f"strict_chip, {names}",
        [(chip, *case) for case in tuples + others for chip in chips],
        [*((chips[place % len(chips)], *case) for place, case in enumerate(tuples)), *also],
    ).with_args(ids=str, indirect=["strict_chip"])


def on_first_chip(*chips: str) -> Any:
    """Returns a parametrization of `strict_chip` that runs on the first chip by default."""
    return sweeps.some("strict_chip", chips, chips[:1]).with_args(indirect=True)
