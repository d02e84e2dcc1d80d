"""Stages of Stockham's algorithm: their slabs, the layout of slabs in SBUF, and their tables.

stockham.py has the mathematics and runs the stages; other kernels run some of them, too.

Row tiles.  A product of g slabs with 2 g r <= 128 rows has a block-diagonal table, which multiplies
zeros where g > 1. For r <= 32, two row tiles of the array, of 64 rows each, take products of their
own instead. They work side by side in the time of one product, with half the columns. Their
operands are still transposed together, as one strided run of 128 numbers. So the operands of both
row tiles lie one after the other in the state: they belong to K and K + 1 (if M_i = 1, to g
consecutive K each), and in the first stage to two rows of a partition. Where a K has less than 64
rows, zeros follow it, in the state and in the table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..isa import nl
from ..roots import roots
from ..table_terms import rounded_table, table_spec
from ..tiles import DMA_RUN, NARROW, PARTITIONS, WHOLE_RADIX

MAX_RADIX = 128
# two states of 8 bytes a point take 160 KiB of the smallest chip's 192 KiB of SBUF
MAX_LENGTH = 10240
_PADDED = 8192  # numbers of a row, up to which zeros may lie between slabs


class Stage(nl.NKIObject):
    """A stage of transforms whose state is [K < done][j < contracted][part][m' < left]."""

    contracted: int  # inputs of a slab
    produced: int  # outputs of a slab
    done: int  # R_(i-1)
    left: int  # M_i
    following: int  # radix of the next stage; 1 if there is none
    slabs: int  # slabs of a product; they lie left / slabs apart or, if left = 1, are consecutive K
    factor: float = 1.0  # on the sums of a last stage whose table has one term; it costs nothing
    halves: int = 1  # row tiles of the array, side by side; each of two has products of its own
    spread: int = 0  # numbers from K to K of the results, where these are not 2 left
    table: Any = None  # in HBM
    tiles: Any = None  # [piece][term] of the table in SBUF, or None where it is streamed


def slabs_per_product(radix: int, done: int, left: int, following: int) -> int:
    """Return how many slabs g one product takes: 2 g r <= 128.

    If M_i = 1, g divides R_(i-1). Otherwise g divides the next radix, so that one evacuation can
    lay out the results. Where this leaves most of the array empty, g is a multiple of the next
    radix that divides M_i.
    """
    return slabs_within(PARTITIONS, radix, done, left, following)


def slabs_within(rows: int, radix: int, done: int, left: int, following: int) -> int:
    """Return ``slabs_per_product`` for ``rows`` rows of the array."""
    best = 1
    for g in range(2, rows // (2 * radix) + 1):
        if left == 1:
            fits = done % g == 0
        else:
            fits = following % g == 0 or (
                4 * radix * best <= rows and left % g == 0 and g % following == 0
            )
        if fits:
            best = g
    return best


def length_of(radices: Any) -> int:
    """Return the product of the radices."""
    n = 1
    for radix in radices:
        n *= radix
    return n


def stage_of(radices: Any, index: int) -> Stage:
    """Return a stage of a whole transform, without its table."""
    done, left = length_of(radices[0:index]), length_of(radices[index + 1 : len(radices)])
    radix = radices[index]
    following = radices[index + 1] if index + 1 < len(radices) else 1
    slabs = slabs_per_product(radix, done, left, following)
    return Stage(radix, radix, done, left, following, slabs)


def stages_of(radices: Any) -> Any:
    """Return the stages of a whole transform, without tables, in row tiles where that is faster."""
    stages: Any = []
    for index in range(len(radices)):
        stage = stage_of(radices, index)
        use_row_tiles(stage)
        if index > 0:
            stages[index - 1].spread = pitch_of(stage)
        stages.append(stage)
    return stages


def use_row_tiles(stage: Stage) -> None:
    """Let two row tiles of the array multiply a stage's slabs, if that takes less time."""
    radix, left = stage.contracted, stage.left
    if 2 * radix > WHOLE_RADIX or stage.done * left == 1:
        return
    tiled = Stage(radix, radix, stage.done, left, stage.following, 1, 1.0, 2)
    if left > 1:
        tiled.slabs = slabs_within(WHOLE_RADIX, radix, stage.done, left, stage.following)
        fits = stage.done % 2 == 0 or (stage.done == 1 and radix * left <= DMA_RUN)
    else:
        # Their rows begin at multiples of a power of two, so that all K are equally far apart.
        while 4 * radix * tiled.slabs <= WHOLE_RADIX and stage.done % (4 * tiled.slabs) == 0:
            tiled.slabs *= 2
        fits = stage.done % 2 == 0
    used, pitch = 2 * radix * left, pitch_of(tiled)
    fits = fits and (pitch == used or (pitch <= 2 * used and stage.done * pitch <= _PADDED))
    if fits and slab_columns(tiled) < slab_columns(stage):
        stage.slabs, stage.halves = tiled.slabs, 2


def slab_columns(stage: Any) -> float:
    """Return the columns that the Tensor engine moves for a slab's product and half transpose."""
    columns = max(64, 2 * stage.slabs * stage.produced)
    return (columns + PARTITIONS // 2) / (stage.slabs * stage.halves)


def piece_count(stage: Any) -> int:
    """Return 2 where real and imaginary part are contracted one after the other, else 1."""
    return 1 if 2 * stage.contracted <= PARTITIONS else 2


def product_count(stage: Any) -> int:
    """Return the products of the Tensor engine for a transform, each with ``piece_count`` terms.

    The products of two row tiles count as one. In a first stage they belong to two transforms.
    """
    tiles = stage.halves if stage.done > 1 else 1
    return int(stage.done * stage.left // (stage.slabs * tiles))


def input_length(stage: Any) -> int:
    """Return how many numbers of each part a first stage reads of a row."""
    return int(stage.contracted * stage.left)


def output_length(stage: Any) -> int:
    """Return how many numbers of each part a stage makes of a row."""
    return int(stage.produced * stage.done * stage.left)


def pitch_of(stage: Any) -> int:
    """Return the numbers of a stage's input from K to K, or from row to row in a first stage.

    Two row tiles read 64 rows for each; zeros fill these rows where the slabs have fewer numbers.
    """
    if stage.halves == 1:
        return int(2 * stage.contracted * stage.left)
    return int(WHOLE_RADIX * (stage.left if stage.left > 1 else 1) // stage.slabs)


def row_numbers(stage: Any) -> int:
    """Return the numbers of a stage's input for each row."""
    return int(stage.done * pitch_of(stage))


def operand_rows(stage: Any) -> int:
    """Return the rows that a product, or a product in each row tile, contracts at once."""
    if stage.halves > 1:
        return PARTITIONS
    return int(2 * stage.slabs * stage.contracted // piece_count(stage))


def slab_stride(stage: Any) -> int:
    """Return the numbers from row to row of a product's operand, in the state."""
    spacing = stage.left // stage.slabs if stage.left > 1 else 1
    return int(spacing if piece_count(stage) == 1 or stage.done == 1 else 2 * spacing)


def padding_of(stage: Any) -> int:
    """Return how many numbers follow a state, because a narrow operand must read more columns."""
    return max(0, NARROW + 1 - operand_rows(stage)) * slab_stride(stage)


def first_number(stage: Any, product: int, piece: int) -> int:
    """Return where in a row's state a product's operand begins."""
    if stage.left == 1:
        at = product * stage.slabs * stage.halves * pitch_of(stage)
    else:
        spacing = stage.left // stage.slabs
        at = product // spacing * stage.halves * pitch_of(stage) + product % spacing
    apart = stage.contracted * stage.left if stage.done == 1 else stage.left
    return int(at + piece * apart)


def stockham_tables(
    n: int,
    radices: tuple[int, ...],
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of ``stockham``, one for each stage: [2 g r, matrices, 2 r g].

    Rows are (part, j, slab) in the first stage, (slab, j, part) in the last stage, (j, part, slab)
    in the others, and (part, j) for r > 64; columns are (part, k, slab). In row tiles there are 64
    rows for each, zeros among them. The tables are computed in float64 and rounded once.

    Args:
        n: length of the transform, up to 10240.
        radices: radices with product n, each 2 to 128.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.
        dtype: "float32" or "bfloat16".
        refined: with "bfloat16" only, whether tables have a leading axis with the rounded table
            and what rounding lost.

    Returns:
        A tuple of arrays.

    Raises:
        ValueError: the radices do not multiply to n, a radix is out of range, or n is too long.
    """
    check_radices(n, radices)
    return tuple(
        stage_table(stage, inverse, 1.0 if stage.done > 1 else scale, dtype, refined)
        for stage in stages_of(radices)
    )


def check_radices(n: int, radices: tuple[int, ...]) -> None:
    """Raise ValueError where ``stockham_tables`` does."""
    if math.prod(radices) != n or not radices:
        raise ValueError(f"radices {radices}: their product must be n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: Stockham in SBUF accepts lengths up to {MAX_LENGTH}")


def stockham_specs(
    radices: tuple[int, ...], dtype: str = "float32", refined: bool = False
) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``stockham_tables(n, radices, ...)``."""
    return tuple(stage_spec(stage, dtype, refined) for stage in stages_of(radices))


def stage_table(
    stage: Stage, inverse: bool, scale: float, dtype: str = "float32", refined: bool = False
) -> np.ndarray[Any, Any]:
    """Return the table of one stage, see ``stockham_tables``: a matrix for each K, or for g K."""
    r, done = stage.contracted, stage.done
    j, k = np.arange(r)[:, None], np.arange(r)[None, :]
    outputs = np.arange(done)[:, None, None]
    # j (K / R_i + k / r) = j (K + R_(i-1) k) / R_i, reduced modulo R_i.
    matrix = scale * roots(j * (outputs + done * k), done * r, inverse)
    slabs = stage.slabs
    each = matrix[:, None] if stage.left > 1 else matrix.reshape(done // slabs, slabs, r, r)
    table = slab_matrices(stage, each)
    return rounded_table(in_row_tiles(stage, table) if stage.halves > 1 else table, dtype, refined)


def slab_matrices(stage: Stage, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return complex [matrices, g or 1, j, k], one matrix for each slab, as a stage's table."""
    split = np.stack([np.stack([w.real, w.imag], 3), np.stack([-w.imag, w.real], 3)], 2)
    split = np.broadcast_to(split, (len(w), stage.slabs, *split.shape[2:]))
    if stage.done == 1 or piece_count(stage) == 2:
        rows = "ajs"
    else:
        rows = "jas" if stage.left > 1 else "sja"
    order = f"Gsajbk,st->{rows}Gbkt"
    full: np.ndarray[Any, Any] = np.einsum(order, split, np.eye(stage.slabs))
    return full.reshape(2 * stage.slabs * stage.contracted, len(w), -1)


def in_row_tiles(stage: Stage, table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a table [2 g r, matrices, columns] as [128, matrices / 2, columns], or one twice.

    Each row tile has half of the rows, with zeros where it reads numbers between slabs.
    """
    runs = stage.slabs if stage.left == 1 else 1  # runs of rows, each followed by its zeros
    rows, matrices, columns = table.shape
    used = rows // runs
    table = table.reshape(runs, used, matrices, columns)
    table = np.pad(table, ((0, 0), (0, WHOLE_RADIX // runs - used), (0, 0), (0, 0)))
    table = table.reshape(WHOLE_RADIX, matrices, columns)
    if stage.done == 1:
        return np.concatenate([table, table])
    return np.concatenate([table[:, 0::2], table[:, 1::2]])


def stage_spec(stage: Stage, dtype: str = "float32", refined: bool = False) -> Any:
    """Return the (shape, dtype) of ``stage_table(stage, ...)``."""
    rows = operand_rows(stage) * piece_count(stage)
    matrices = stage.done if stage.left > 1 else stage.done // stage.slabs
    if stage.done > 1:
        matrices //= stage.halves
    return table_spec((rows, matrices, 2 * stage.slabs * stage.produced), dtype, refined)
