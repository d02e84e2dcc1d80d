"""The operations that the benchmarks measure, each with its cases."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cases import (
    block_circulant,
    convolution,
    real_transforms,
    stft,
    transforms_1d,
    transforms_nd,
)
from bench.cases.case import Case

OPERATIONS: dict[str, tuple[Case, ...]] = {
    "transforms_1d": transforms_1d.CASES,
    "real_transforms": real_transforms.CASES,
    "transforms_nd": transforms_nd.CASES,
    "convolution": convolution.CASES,
    "stft": stft.CASES,
    "block_circulant": block_circulant.CASES,
}


def cases_of(names: Sequence[str]) -> list[Case]:
    """Returns the cases of the named operations, or of all operations if there is no name.

    Raises:
        ValueError: a name is not known.
    """
    for name in names:
        if name not in OPERATIONS:
            raise ValueError(
                f"argument 'OPERATION' is {name!r}, allowed are {', '.join(OPERATIONS)}"
            )
    return [case for name in names or OPERATIONS for case in OPERATIONS[name]]
