"""Tests of tables of refused calls, each with the type of its error and a part of its message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def refused(call: Callable[..., Any], rows: Sequence[tuple[Any, ...]]) -> Callable[..., None]:
    """Returns a test that fails unless each row of arguments is refused with its error.

    Args:
        call: gets the arguments of a row.
        rows: arguments, the type of the error, and a pattern for its message, which names the row.
    """

    @pytest.mark.parametrize("row", rows, ids=[row[-1] for row in rows])
    def test(row):
        *arguments, error, message = row
        with pytest.raises(error, match=message):
            call(*arguments)

    return test


def called(call: Callable[[], Any]) -> Any:
    """The call of rows that are functions of no arguments."""
    return call()
