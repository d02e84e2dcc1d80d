"""Checks of kernels' arguments, as their errors name the argument, its value and what is allowed.

Without them a wrong shape is found by an instruction in the middle of a kernel, or divides by zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .tensor import Tensor

_LARGEST_RADIX = 128  # partitions


def rows_and_length(*parts: Tensor) -> tuple[int, int]:
    """Return B and N of ``x`` [B, N], or of ``x_re`` and ``x_im``; raise ValueError otherwise."""
    check_shapes(("B", "N"), *parts)
    return parts[0].shape[0], parts[0].shape[1]


def batch_and_lengths(*parts: Tensor) -> tuple[int, tuple[int, ...]]:
    """Return B and (n1, n2, ...) of ``x`` [B, n1, n2, ...], or of ``x_re`` and ``x_im``.

    Raise ValueError unless they have a shape, and the same one, of two dimensions or more.
    """
    axes = len(getattr(parts[0], "shape", ())) - 1
    names = ["N"] if axes <= 1 else [f"n{axis}" for axis in range(1, axes + 1)]
    check_shapes(("B", *names), *parts)
    return parts[0].shape[0], tuple(parts[0].shape[1:])


def lengths_for(name: str, lengths: object, count: int) -> tuple[int, ...]:
    """Return argument ``name``; raise TypeError unless it is a tuple of ``count`` positive ints."""
    if not are_positive(lengths, count):
        raise TypeError(
            f"argument {name!r} is {lengths!r}, allowed is a tuple of a positive int for each of "
            f"{count} axes"
        )
    return tuple(cast("Sequence[int]", lengths))


def check_shapes(dimensions: Sequence[str], *parts: Tensor) -> None:
    """Raise ValueError unless ``x``, or both ``x_re`` and ``x_im``, have so many dimensions."""
    names = ["x"] if len(parts) == 1 else ["x_re", "x_im"]
    for name, part in zip(names, parts, strict=True):
        same = "" if part is parts[0] else f", the shape {tuple(parts[0].shape)} of 'x_re'"
        check_dimensions(name, part, dimensions, same)
        if tuple(part.shape) != tuple(parts[0].shape):
            raise _wrong_shape(name, part, dimensions, same)


def check_dimensions(name: str, tensor: Tensor, dimensions: Sequence[str], more: str = "") -> None:
    """Raise ValueError unless ``tensor`` is a tensor with so many dimensions."""
    if len(getattr(tensor, "shape", ())) != len(dimensions):
        raise _wrong_shape(name, tensor, dimensions, more)


def _wrong_shape(name: str, tensor: Tensor, dimensions: Sequence[str], more: str) -> ValueError:
    given = f"has shape {tuple(tensor.shape)}" if hasattr(tensor, "shape") else f"is {tensor!r}"
    return ValueError(f"argument {name!r} {given}, allowed is [{', '.join(dimensions)}]{more}")


def are_positive(numbers: Any, count: int | None = None) -> bool:
    """Return whether ``numbers`` is a tuple of ``count``, or of some, positive ints."""
    if not isinstance(numbers, (tuple, list)) or len(numbers) == 0:
        return False
    is_count = count is None or len(numbers) == count
    return is_count and all(isinstance(n, (int, np.integer)) and n > 0 for n in numbers)


def product_of(radices: Sequence[int]) -> int:
    """Return the product; raise TypeError unless ``radices`` is a tuple of ints up to 128."""
    if not are_positive(radices) or max(radices) > _LARGEST_RADIX:
        raise TypeError(
            f"argument 'radices' is {radices!r}, allowed is a tuple of positive ints "
            f"up to {_LARGEST_RADIX}"
        )
    return math.prod(radices)


def two_of(radices: Sequence[int]) -> tuple[int, int]:
    """Return the two radices; raise TypeError unless they are two positive ints."""
    product_of(radices)
    if len(radices) != 2:
        raise TypeError(f"argument 'radices' is {radices!r}, allowed are two positive ints")
    return radices[0], radices[1]


def check_tables(tables: Sequence[Tensor], count: int) -> None:
    """Raise ValueError unless there are ``count`` tables, as many as the rows' length needs."""
    if len(tables) != count:
        raise ValueError(
            f"argument 'places' has {len(tables)} tables, allowed are {count} for this length and "
            f"these radices: pass both results of pack(tables)"
        )


def check_factors(radices: Sequence[int], n: int) -> None:
    """Raise ValueError unless the product of ``radices`` is the length of the rows."""
    product = product_of(radices)
    if product != n:
        raise ValueError(
            f"argument 'radices' is {radices}, whose product is {product}, but the rows have "
            f"length {n}: pass the radices that the tables were made for"
        )


def convolved_length(radices: Sequence[int], n: int) -> int:
    """Return the product; raise ValueError unless Bluestein's convolution of rows fits into it."""
    product = product_of(radices)
    if product < 2 * n - 1:
        raise ValueError(
            f"argument 'radices' is {radices}, whose product is {product}, allowed for rows of "
            f"length {n} are products of at least {2 * n - 1}"
        )
    return product


def check_matrix(matrix: Tensor, numbers: int, results: int, most: int) -> None:
    """Raise ValueError unless ``matrix`` is [numbers g, results g], or two of such tables.

    most: the largest ``numbers g`` where g is more than 1.
    """
    shape = tuple(matrix.shape)
    copies = shape[-2] // numbers if len(shape) in (2, 3) else 0
    is_right = copies == 1 or 1 < copies <= most // numbers
    if not is_right or shape not in (
        (numbers * copies, results * copies),
        (2, numbers * copies, results * copies),
    ):
        raise ValueError(
            f"argument 'matrix' has shape {shape}, allowed for rows of this length is "
            f"({numbers} g, {results} g) with g up to {max(1, most // numbers)}, or a pair of such "
            f"tables: pass the table that the function beside the kernel returns for this length"
        )
