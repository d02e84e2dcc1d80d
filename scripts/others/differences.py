"""Compares the outcomes of tests with the known differences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Difference:
    """Tests of a suite that fail, or that are left out, for one reason.

    `tests` are node ids, in which * stands for any characters. `modes` are those in which the tests
    fail. `sometimes` is for outcomes that chance decides, and for tests with subtests, because
    pytest expects of each subtest what is expected of the test. Tests that are left out run in no
    mode.
    """

    suite: str
    tests: tuple[str, ...]
    reason: str
    modes: tuple[str, ...] = ()
    sometimes: bool = False
    left_out: bool = False


def matches(pattern: str, name: str) -> bool:
    """Whether a node id fits a pattern, in which * stands for any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def apply(
    differences: Iterable[Difference], mode: str, items: list[pytest.Item]
) -> list[pytest.Item]:
    """Marks the tests that should fail as such, and takes those that are left out from `items`.

    The marks are strict: pytest counts a marked test that passes as a failure.

    Returns:
        The tests that are left out.

    Raises:
        pytest.UsageError: A pattern of this mode fits no test.
    """
    left_out = []
    unused = []
    for one in differences:
        if not one.left_out and mode not in one.modes:
            continue
        for pattern in one.tests:
            found = [item for item in items if matches(pattern, item.nodeid)]
            if not found:
                unused.append(pattern)
            elif one.left_out:
                left_out += found
            for item in found:
                item.add_marker(pytest.mark.xfail(reason=one.reason, strict=not one.sometimes))
    if unused:
        raise pytest.UsageError(
            f"known_differences.toml names tests that are not there: {', '.join(unused)}; "
            "delete their entries or correct them"
        )
    items[:] = [item for item in items if item not in left_out]
    return left_out
