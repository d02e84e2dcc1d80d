"""A stage of Stockham's FFT: its geometry in the Tensor engine, and its table.

stockham.py has the mathematics and the layout. A product contracts j of `slabs` values of m',
left / slabs apart, or where left = 1 of as many consecutive K. Two row tiles of the array may take
products side by side: those of K and K + 1, or in a first stage of two rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..base.engines import DMA_RUN, NARROW, PARTITIONS, PSUM_BANK, WHOLE_RADIX
from ..base.roots import dft_matrix_of_axes, roots
from ..base.table_terms import Array, TableSpec, rounded_table, table_spec

MAX_RADIX = PARTITIONS
# 8 bytes a point take 160 KiB of the smallest chip's 192 KiB of SBUF
MAX_LENGTH = 10240
_PADDED = 8192  # numbers of a row, up to which zeros may lie between slabs


@dataclass(frozen=True)
class Group:
    """Consecutive products of a stage, whose results are one strided run."""

    first: int  # the first product
    K: int  # K of the first one
    m: int  # m' of the first one
    count: int


@dataclass(frozen=True)
class AxisDft:
    """The DFT of a whole axis, of which a stage may transform several at once."""

    n: int
    inputs: int  # n, or n // 2 + 1 of the half spectrum of real results
    outputs: int  # n, or n // 2 + 1 of the half spectrum of real data


def matrix_of_axes(axes: Sequence[AxisDft], inverse: bool) -> Array:
    """Return the matrix of whole axes; half of the last spectrum counts for both halves."""
    lengths, inputs, outputs = zip(*((dft.n, dft.inputs, dft.outputs) for dft in axes), strict=True)
    w: Array = dft_matrix_of_axes(lengths, inverse, inputs, outputs)
    if inputs[-1] < lengths[-1]:
        frequencies = np.arange(len(w)) % inputs[-1]
        w = w * np.where(2 * frequencies % lengths[-1] == 0, 1, 2)[:, None]
    return w


@dataclass(frozen=True)
class Stage:
    """A stage whose state is [row][K < done][j < contracted][part][m' < left].

    The state of a first stage is [row][part][j][m'], in natural order. Where several axes are
    transformed, one after the other, K counts the outputs of the axes before in natural order, K'',
    and then those of the stage's own axis, K'.
    """

    contracted: int  # inputs of a slab
    produced: int  # outputs of a slab
    done: int  # R_(i-1)
    left: int  # M_i
    following: int  # radix of the next stage; 1 if there is none
    slabs: int = 1  # slabs of a product
    tiles: int = 1  # row tiles of the array
    factor: float = 1.0  # on the results of a last stage, at no cost; its table has one term
    parts: int = 2  # of the input; 1 in a first stage of real data
    result_parts: int = 2  # 1 in a last stage with real results
    before: int = 1  # outputs of the axes that are transformed already: K = K' before + K''
    axes: tuple[AxisDft, ...] = ()  # where the stage transforms whole axes, or it is one radix

    @property
    def pieces(self) -> int:
        """2 where real and imaginary part are contracted one after the other, else 1."""
        return 1 if self.parts * self.contracted <= PARTITIONS else 2

    @property
    def pair(self) -> int:
        """Rows that a product takes: those of the row tiles in a first stage, else 1."""
        return self.tiles if self.done == 1 else 1

    @property
    def columns(self) -> int:
        """Columns of a product: all parts of its outputs."""
        return self.result_parts * self.produced * self.slabs

    @property
    def inputs(self) -> int:
        """Complex numbers of a row before the stage."""
        return self.contracted * self.done * self.left

    @property
    def outputs(self) -> int:
        """Complex numbers of a row after the stage."""
        return self.produced * self.done * self.left

    @property
    def inside(self) -> int:
        """Outputs of the axis that the stage transforms which are done: the numbers of K'."""
        return self.done // self.before

    @property
    def run(self) -> int:
        """Consecutive K whose results lie at equal distances in natural order."""
        return self.done if self.before == 1 or self.inside == 1 else self.before

    @cached_property
    def rows(self) -> int:
        """Numbers that a product contracts at once, in all row tiles."""
        if self.tiles > 1:
            return PARTITIONS
        return self.parts * self.slabs * self.contracted // self.pieces

    @property
    def sharing(self) -> int:
        """Products whose matrices are the same, because only K'' differs."""
        step = (self.slabs if self.left == 1 else 1) * (self.tiles // self.pair)
        return self.before // step if self.before % step == 0 else 1

    @property
    def matrices(self) -> int:
        """Matrices of the table: one for all K that share it or that a product takes."""
        count = self.done if self.left > 1 else self.done // self.slabs
        return count // (self.tiles // self.pair) // self.sharing

    @property
    def products(self) -> int:
        """Products of a row; those of two row tiles, or of two rows in a first stage, are one."""
        return self.done * self.left // (self.slabs * (self.tiles // self.pair))

    @cached_property
    def spacing(self) -> int:
        """Numbers from slab to slab of a product, and products of one K."""
        return self.left // self.slabs if self.left > 1 else 1

    @cached_property
    def stride(self) -> int:
        """Numbers from one number of an operand to the next."""
        return self.spacing * (1 if self.pieces == 1 or self.done == 1 else 2)

    @cached_property
    def pitch(self) -> int:
        """Numbers from K to K; zeros follow those of a K where a row tile has room for more."""
        if self.tiles == 1:
            return self.parts * self.contracted * self.left
        return WHOLE_RADIX * (self.left if self.left > 1 else 1) // self.slabs

    @cached_property
    def numbers(self) -> int:
        """Numbers of a row's state."""
        return self.done * self.pitch

    @cached_property
    def padding(self) -> int:
        """Numbers behind a state, which transposes of narrow operands read, too."""
        return max(0, NARROW + 1 - self.rows) * self.stride

    @property
    def together(self) -> int:
        """Products whose transposed operands share a PSUM bank."""
        return PSUM_BANK // (PARTITIONS * self.pieces)

    @property
    def most(self) -> int:
        """Products of a group: those that fit a PSUM bank, as operands and as results."""
        return min(self.tiles * self.together, PSUM_BANK // self.columns)

    def groups(self) -> Iterator[Group]:
        """Yield the groups of a row, in the order of their products."""
        if self.left == 1:
            step = self.slabs * (self.tiles // self.pair)
            for first in range(0, self.products, self.most):
                yield Group(first, first * step, 0, min(self.most, self.products - first))
            return
        inner = self.left // self.following
        run = inner if 1 < inner < self.spacing else self.spacing
        for product, K in enumerate(range(0, self.done, self.tiles // self.pair)):
            for start in range(0, self.spacing, run):
                for low in range(start, start + run, self.most):
                    count = min(self.most, start + run - low)
                    yield Group(product * self.spacing + low, K, low, count)

    def first_number(self, row: int, group: Group, index: int, piece: int) -> int:
        """Return where in a state the operand of a group's product begins."""
        step = self.pitch * self.slabs * self.tiles if self.left == 1 else 1
        apart = self.contracted * self.left if self.done == 1 else self.left
        at = row * self.numbers + group.K * self.pitch + group.m
        return at + index * step + piece * apart

    def results_at(self, row: int, group: Group, index: int, tile: int) -> tuple[int, int, int]:
        """Return (row, K, m') of the results of a group's products from one on, in a row tile."""
        if self.done == 1:
            return row + tile, group.K, group.m + index
        if self.left == 1:
            return row, group.K + (index * self.tiles + tile) * self.slabs, 0
        return row, group.K + tile, group.m + index


def stage_of(radices: tuple[int, ...], index: int) -> Stage:
    """Return a stage of a whole transform, in one row tile."""
    done, left = math.prod(radices[:index]), math.prod(radices[index + 1 :])
    radix = radices[index]
    following = radices[index + 1] if index + 1 < len(radices) else 1
    stage = Stage(radix, radix, done, left, following)
    return replace(stage, slabs=slabs_within(PARTITIONS, stage))


def stages_of(radices: tuple[int, ...]) -> list[Stage]:
    """Return the stages of a whole transform, in row tiles where that is faster."""
    return [in_row_tiles(stage_of(radices, index)) for index in range(len(radices))]


def slabs_within(rows: int, stage: Stage, widest: int = 0) -> int:
    """Return how many slabs g a product takes on so many rows of the array: 2 g r <= rows.

    If M_i = 1, g divides R_(i-1). Otherwise g divides the next radix, so that one evacuation can
    lay out the results. Where this leaves most of the array empty, g is a multiple of the next
    radix that divides M_i. widest: takes the place of r, where results are wider.
    """
    numbers, best = max(stage.parts * stage.contracted, 2 * widest), 1
    for g in range(2, rows // numbers + 1):
        if stage.left == 1:
            fits = stage.run % g == 0
        else:
            fits = stage.following % g == 0 or (
                2 * numbers * best <= rows and stage.left % g == 0 and g % stage.following == 0
            )
        if fits:
            best = g
    return best


def in_row_tiles(stage: Stage) -> Stage:
    """Return a stage with two row tiles of the array, if these take less time."""
    numbers, done, left = stage.parts * stage.contracted, stage.done, stage.left
    if numbers > WHOLE_RADIX or done * left == 1:
        return stage
    tiled = replace(stage, slabs=1, tiles=2)
    if left > 1:
        tiled = replace(tiled, slabs=slabs_within(WHOLE_RADIX, stage))
        fits = done % 2 == 0 or (done == 1 and stage.contracted * left <= DMA_RUN)
    else:
        # Their rows begin at multiples of a power of two, so that all K are equally far apart.
        while 2 * numbers * tiled.slabs <= WHOLE_RADIX and stage.run % (4 * tiled.slabs) == 0:
            tiled = replace(tiled, slabs=2 * tiled.slabs)
        fits = stage.run % 2 == 0
    used = numbers * left
    fits = fits and (tiled.pitch == used or (tiled.pitch <= 2 * used and tiled.numbers <= _PADDED))
    return tiled if fits and _slab_columns(tiled) < _slab_columns(stage) else stage


def _slab_columns(stage: Stage) -> float:
    """Return the columns that the Tensor engine moves for a slab's product and half transpose."""
    return (max(64, stage.columns) + PARTITIONS // 2) / (stage.slabs * stage.tiles)


# Tables.


def check_radices(n: int, radices: tuple[int, ...]) -> None:
    """Raise ValueError unless the stages of ``radices`` are a transform of length n."""
    if math.prod(radices) != n or not radices:
        raise ValueError(f"radices {radices}: their product must be n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: Stockham in SBUF accepts lengths up to {MAX_LENGTH}")


def stage_table(
    stage: Stage, inverse: bool, scale: float, dtype: str = "float32", refined: bool = False
) -> Array:
    """Return the table of a stage, [2 g r, matrices, 2 r g]: see ``stockham_tables``."""
    matrix = scale * stage_matrices(stage, inverse)
    slabs, shape = stage.slabs, matrix.shape[1:]
    each = matrix[:, None] if stage.left > 1 else matrix.reshape(-1, slabs, *shape)
    table = slab_matrices(stage, each)[:, :: stage.sharing]
    return rounded_table(table, dtype, refined)


def stage_matrices(stage: Stage, inverse: bool) -> Array:
    """Return complex [K, j, k], the matrix of each K with its twiddles."""
    r, done, inside = stage.contracted, stage.done, stage.inside
    if stage.axes:
        matrix = matrix_of_axes(stage.axes, inverse)
        return np.broadcast_to(matrix, (done, *matrix.shape))
    j, k = np.arange(r)[:, None], np.arange(r)[None, :]
    outputs = np.arange(done)[:, None, None] // stage.before
    # j (K' / R_i + k / r_i) = j (K' + R_(i-1) k) / R_i, reduced modulo R_i.
    return roots(j * (outputs + inside * k), inside * r, inverse)


def slab_matrices(stage: Stage, w: Array) -> Array:
    """Return complex [matrices, g or 1, j, k], one matrix for each slab, as a stage's table."""
    split = np.stack([np.stack([w.real, w.imag], 3), np.stack([-w.imag, w.real], 3)], 2)
    split = split[:, :, : stage.parts, :, : stage.result_parts]
    split = np.broadcast_to(split, (len(w), stage.slabs, *split.shape[2:]))
    rows = "jas" if stage.left > 1 else "sja"
    if stage.done == 1 or stage.pieces == 2:
        rows = "ajs"
    full: Array = np.einsum(f"Gsajbk,st->{rows}Gbkt", split, np.eye(stage.slabs))
    full = full.reshape(stage.parts * stage.slabs * stage.contracted, len(w), -1)
    return full if stage.tiles == 1 else _with_row_tiles(stage, full)


def _with_row_tiles(stage: Stage, table: Array) -> Array:
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


def stage_spec(
    stage: Stage, dtype: str = "float32", refined: bool = False, matrices: int | None = None
) -> TableSpec:
    """Return the (shape, dtype) of a stage's table; matrices: how many it has, if others."""
    count = stage.matrices if matrices is None else matrices
    return table_spec((stage.rows * stage.pieces, count, stage.columns), dtype, refined)
