"""Predicted errors, and the errors that a precision mode allows.

Errors are ||X - reference|| / ||reference|| in the L2 norm for random normal input, against
float64. The constants are fits to the simulator over many lengths; tests compare them with it.
"""

from __future__ import annotations

import math

UNIT = 2.0**-24  # half the distance of float32 numbers around 1

MAX_ERRORS = {
    "fast": 1e-6,
    "kahan": 5e-8,
    "double": 1e-14,
    "bf16": 1e-2,
    "bf16_refined": 2e-5,
}


def root_of_squares(*errors: float) -> float:
    """The error of steps one after the other, whose errors are independent."""
    return math.sqrt(sum(error * error for error in errors))


def matrix_error(length: int) -> float:
    """A sum of `length` products a point: a random walk, cut by blocked summation from 64 on."""
    return 0.42 * UNIT * math.sqrt(min(length, 64))


def stages_error(radices: tuple[int, ...]) -> float:
    """Stages that multiply by matrices with twiddles in them."""
    return root_of_squares(*map(matrix_error, radices))


def bfloat16_error(stages: int, refined: bool) -> float:
    """Stages with bfloat16 operands, or with pairs of them, which lose 2^-8 as much again."""
    return (0.23 * 2.0**-16 if refined else 1.05 * 2.0**-9) * math.sqrt(stages)


def butterfly_error(n: int) -> float:
    """Stages of additions and twiddle products, log2(n) of them."""
    return 0.6 * UNIT * math.sqrt(max(1.0, math.log2(n)))


COMPENSATED_ERROR = 0.42 * UNIT  # the last rounding, whatever the length is


def double_error(n: int) -> float:
    """torch.fft in float64."""
    return 2.0**-53 * math.sqrt(max(1.0, math.log2(n)))
