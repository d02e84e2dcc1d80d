"""Predicted errors, and the errors that a precision mode allows.

An error is ||X - reference|| / ||reference|| in the L2 norm for random normal input, against a
reference in float64. The constants are fitted to the simulator's results over many lengths; tests
compare them with these results.
"""

from __future__ import annotations

import math

UNIT = 2.0**-24  # half the distance between float32 numbers near 1

MAX_ERRORS = {
    "fast": 1e-6,
    "kahan": 5e-8,
    "double": 1e-14,
    "bf16": 1e-2,
    "bf16_refined": 2e-5,
}


REFINED = "_bf16_refined"  # the end of the names of algorithms on pairs of bfloat16


def root_of_squares(*errors: float) -> float:
    """Returns the error of consecutive steps whose errors are independent."""
    return math.sqrt(sum(error * error for error in errors))


def matrix_error(length: int) -> float:
    """Returns the error of a sum of `length` products for each output.

    Rounding errors form a random walk, which blocked summation cuts from 64 products on.
    """
    return 0.42 * UNIT * math.sqrt(min(length, 64))


def stages_error(radices: tuple[int, ...]) -> float:
    """Returns the error of stages that multiply by matrices which contain the twiddles."""
    return root_of_squares(*map(matrix_error, radices))


def bfloat16_error(stages: int, refined: bool) -> float:
    """Returns the error of stages with bfloat16 operands or, refined, with pairs of bfloat16.

    The rounding of a pair is 2^-8 of the rounding of one bfloat16 number.
    """
    return (0.23 * 2.0**-16 if refined else 1.05 * 2.0**-9) * math.sqrt(stages)


def high_error(algorithm: str, radices: tuple[int, ...], error: float) -> float:
    """Returns the error of an algorithm if a chip rounds each product to the operands' dtype.

    Documents say that PSUM gets products as they are. The authors of the article "FFT is a GEMM,
    and then it isn't" measured on trn1 and trn2 that three and six products of pairs of bfloat16
    have the error of one product, 1.7e-3. Both readings hold until `bench.probes` asked a chip.

    Args:
        algorithm: the name of the algorithm.
        radices: the radices of its stages; () for one stage.
        error: the error by documents.
    """
    if not algorithm.endswith(REFINED):
        return error
    return float(f"{bfloat16_error(max(1, len(radices)), refined=False):.2e}")


def butterfly_error(n: int) -> float:
    """Returns the error of log2(n) stages of additions and products with twiddles."""
    return 0.6 * UNIT * math.sqrt(max(1.0, math.log2(n)))


COMPENSATED_ERROR = 0.42 * UNIT  # the error of the last rounding, for any length


def double_error(n: int) -> float:
    """Returns the error of torch.fft in float64."""
    return 2.0**-53 * math.sqrt(max(1.0, math.log2(n)))
