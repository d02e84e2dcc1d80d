"""Checks that need no torch, with hostile values."""

import math

import numpy as np
import pytest
import torch

from trnfft.base.checks import check_flag, finite, index, shown


def test_values_in_messages_take_one_short_line():
    assert shown(10**5000) == "an int of 16610 bits"
    assert shown((10**5000,)) == "of type tuple"
    assert shown(torch.ones(3, 3)).count("\n") == 0
    assert len(shown("x" * 10**6)) < 210
    assert shown("same") == "'same'"


@pytest.mark.parametrize(
    "value",
    [torch.tensor(True), torch.ones(3), np.array([1, 2]), "no", 1, None, math.nan],
    ids=str,
)
def test_flags_are_bool(value):
    with pytest.raises(TypeError, match="argument 'center' is .*, allowed are True and False"):
        check_flag("center", value)
    check_flag("center", np.bool_(True))


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(True),
        torch.ones(3),
        torch.empty((), dtype=torch.int64, device="meta"),
        np.array([1, 2]),
        True,
        "8",
        int,
    ],
    ids=str,
)
def test_ints_are_ints(value):
    with pytest.raises(TypeError, match="argument 'n' must be an int, not"):
        index("n", value)
    assert index("n", torch.tensor(3)) == index("n", np.int8(3)) == 3


def test_finite_numbers():
    assert finite("eps", 1) == 1 and finite("eps", np.float32(0.5)) == 0.5
    for value in (math.nan, -math.inf, 10**5000):
        with pytest.raises(ValueError, match="argument 'eps' is .* finite"):
            finite("eps", value)
    for value in (1j, "1", torch.tensor(1.0), None):
        with pytest.raises(TypeError, match="argument 'eps' must be a number"):
            finite("eps", value)
