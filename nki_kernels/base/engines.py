"""Operations that kernels share: tiles, transfers, transposes, products, evacuation, factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from nki_sim.hardware import PARTITIONS

from . import chip
from .isa import Tensor, nisa, nl

SMALLEST_SBUF = 192 << 10  # bytes of a partition, on the smallest chip
PSUM_BANK = 512  # fp32 numbers of a PSUM bank on each partition
DMA_RUN = 1024  # fp32 numbers of a 4 KiB DMA descriptor
HALF = PARTITIONS // 2  # half of the array: a row tile
WHOLE_RADIX = HALF  # the largest radix whose two parts are contracted together
NARROW = 32  # columns or partitions, up to which some stationary operands are refused
# Which of Wr, Wi and -Wi multiply the parts of x: for the real part of W x, then for the imaginary.
SPLIT_TERMS = ((0, 2), (1, 0))


# Tiles and transfers.


def sbuf(shape: Sequence[int], dtype: Any = nl.float32) -> Tensor:
    """Allocate a tile in SBUF."""
    return nl.ndarray(tuple(shape), dtype=dtype, buffer=nl.sbuf)  # type: ignore[no-any-return]


def psum(shape: Sequence[int], dtype: Any = nl.float32) -> Tensor:
    """Allocate a tile in PSUM."""
    return nl.ndarray(tuple(shape), dtype=dtype, buffer=nl.psum)  # type: ignore[no-any-return]


def hbm(shape: Sequence[int]) -> Tensor:
    """Allocate a result in HBM, which all programs of a launch write."""
    return nl.ndarray(tuple(shape), dtype=nl.float32, buffer=nl.shared_hbm)  # type: ignore[no-any-return]


def transfer(dst: Tensor, src: Tensor, base: object = None) -> None:
    """Copy between HBM and SBUF by DMA.

    base: the register in an address, or None. Without one the host writes the descriptors.
    """
    mode = nisa.dge_mode.none if base is None else nisa.dge_mode.unknown
    nisa.dma_copy(dst=dst, src=src, dge_mode=mode)


def addressed(
    x: Tensor, pattern: Sequence[Sequence[int]], offset: int, base: object, dimension: int = 0
) -> Tensor:
    """Return a view of whole HBM x, ``offset`` numbers after what the register ``base`` counts.

    dimension: that of x, whose places the register counts. base: None outside of loops.
    """
    return x.ap(pattern, offset, scalar_offset=base, indirect_dim=dimension)


def clear(dst: Tensor, engine: Any = None) -> None:
    """Write zeros; engine: the engine that does it, or None for the compiler's choice."""
    if engine is None:
        nisa.memset(dst=dst, value=0.0)
    else:
        nisa.memset(dst=dst, value=0.0, engine=engine)


def itemsize(dtype: Any) -> int:
    """Return the bytes of a number, float32 or bfloat16."""
    return 4 if dtype == nl.float32 else 2


# Transposes and products of the Tensor engine.


def padded_columns(count: int, rows: int) -> int:
    """Return how many columns a transpose makes of ``count`` partitions with ``rows`` numbers each.

    Where narrow stationary operands are refused, zeros fill up to 33 columns.
    """
    if not chip.refuses_narrow_operands() or count > NARROW:
        return count
    return count if rows > NARROW and count <= NARROW // 2 else NARROW + 1


def columns_read(columns: int) -> int:
    """Return how many columns a stationary operand reads: more than any chip refuses."""
    return columns if columns > NARROW else HALF


def transposed_dtype(dtype: Any) -> Any:
    """Return the dtype that a transpose leaves in PSUM: its own where transposes are exact."""
    return nl.float32 if chip.transposes_mix_rows() else dtype


def even_columns(columns: int, dtype: Any) -> int:
    """Return the columns of a transpose in PSUM, where each begins at a multiple of 4 bytes."""
    return columns if itemsize(dtype) == 4 else columns + columns % 2


def transpose(dst: Tensor, data: Tensor, identity: Tensor) -> None:
    """Transpose SBUF data [P, ...], one strided run, to PSUM [..., columns], zeros from P on.

    dst has ``transposed_dtype(data.dtype)``.
    """
    rows, columns = data.shape[0], dst.shape[-1]
    nisa.nc_matmul(
        dst=dst,
        stationary=data,
        moving=identity if identity.shape == (rows, columns) else identity[0:rows, 0:columns],
        is_moving_onezero=True,
        is_transpose=bool(dst.dtype == data.dtype),
        accumulate=False,
    )


def multiply(
    dst: Tensor,
    stationary: Tensor,
    moving: Tensor,
    accumulate: bool,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
) -> None:
    """Multiply stationary [K, M], transposed, by moving [K, N], into PSUM [M, N].

    An operand that is known to hold only ones and zeros takes less time.
    """
    nisa.nc_matmul(
        dst=dst,
        stationary=stationary,
        moving=moving,
        is_stationary_onezero=is_stationary_onezero,
        is_moving_onezero=is_moving_onezero,
        accumulate=accumulate,
    )


def multiply_row_tile(
    dst: Tensor,
    stationary: Tensor,
    moving: Tensor,
    low: int,
    size: int,
    accumulate: bool,
    is_onezero: bool = False,
) -> None:
    """Run ``multiply`` on up to ``size`` partitions from ``low`` on, in a row tile of that size.

    Row tiles work side by side where each writes into a PSUM bank of its own. The whole array is a
    row tile of 128 partitions. is_onezero: whether ``moving`` holds only ones and zeros.
    """
    if size == PARTITIONS:
        multiply(dst, stationary, moving, accumulate, False, is_onezero)
        return
    nisa.nc_matmul(
        dst=dst,
        stationary=stationary,
        moving=moving,
        is_moving_onezero=is_onezero,
        accumulate=accumulate,
        tile_position=(low, 0),
        tile_size=(size, PARTITIONS),
    )


def row_tiles(tiles: int) -> list[slice]:
    """Return the partitions of each row tile, of the whole array or its halves."""
    return [slice(None)] if tiles == 1 else [slice(0, HALF), slice(HALF, PARTITIONS)]


def multiply_tile(
    dst: Tensor, stationary: Tensor, moving: Tensor, tile: int, tiles: int, accumulate: bool
) -> None:
    """Run ``multiply`` in the whole array, where ``tiles`` is 1, or in one of two row tiles."""
    if tiles > 1:
        rows = row_tiles(tiles)[tile]
        stationary, moving = stationary[rows], moving[rows]
    multiply_row_tile(dst, stationary, moving, tile * HALF, PARTITIONS // tiles, accumulate)


# Evacuation of PSUM.


def evacuate(
    bank: Tensor,
    dst: Tensor | None = None,
    *,
    dtype: Any = nl.float32,
    is_scalar: bool = True,
    factor: float = 1.0,
    marks: Tensor | None = None,
) -> Tensor:
    """Move a PSUM bank to SBUF, by default to a fresh tile; return the tile.

    is_scalar: whether ScalarE does it, else VectorE. ScalarE multiplies by the factor, and adds
    marks [P, 1], at no cost.
    """
    if dst is None:
        dst = sbuf(bank.shape, dtype)
    if not is_scalar:
        nisa.tensor_copy(dst=dst, src=bank, engine=nisa.engine.vector)
    elif marks is None:
        nisa.activation(dst=dst, op=nl.copy, data=bank, scale=factor)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=bank, scale=factor, bias=marks)
    return dst


class Turns:
    """The engine that moves results out of PSUM: ScalarE or, every ``every`` times, VectorE.

    VectorE takes no turn where the two engines exclude each other, because ScalarE is faster.
    """

    def __init__(self, every: int) -> None:
        self.count = 0
        self.every = 0 if chip.psum_port_is_shared() else every

    def evacuate(self, bank: Tensor, dst: Tensor) -> None:
        """Move results to their places in SBUF, by the engine whose turn it is."""
        self.count += 1
        is_vector = self.every > 0 and self.count % self.every == 0
        evacuate(bank, dst, is_scalar=not is_vector)


# Products with factors.


def factor_views(factors: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """Return the real and imaginary part of factors for both parts of data, by strides of 0.

    factors: a whole SBUF tile [P, 2, L]. shape: that of the data, [p, 2, n], or [p, 2, rows, n] for
    the same factors in every row.
    """
    length = factors.shape[2]
    pattern = [[2 * length, shape[0]], [0, 2]]
    if len(shape) == 4:
        pattern.append([0, shape[2]])
    pattern.append([1, shape[-1]])
    return [factors.ap(pattern), factors.ap(pattern, length)]


def times(bank: Tensor, factors: Tensor, replaces: bool) -> Tensor:
    """Return PSUM numbers times factors, on VectorE.

    replaces: whether the products may take the place of the numbers. A sum of two operands takes
    half the time if one is in PSUM; where VectorE and ScalarE share PSUM, that does not pay.
    """
    product = bank if replaces and not chip.psum_port_is_shared() else sbuf(bank.shape)
    nisa.tensor_tensor(dst=product, data1=bank, data2=factors, op=nl.multiply)
    return product


def multiply_complex(dst: Tensor, x: Tensor, factors: Sequence[Tensor]) -> None:
    """Set dst = x times factors, split complex SBUF [P, 2, ...], on VectorE; dst may be x.

    factors: [real, imaginary], each for both parts of x, as ``factor_views`` returns them.
    """
    by_real, by_imaginary = sbuf(x.shape), sbuf(x.shape)
    nisa.tensor_tensor(dst=by_real, data1=x, data2=factors[0], op=nl.multiply)
    nisa.tensor_tensor(dst=by_imaginary, data1=x, data2=factors[1], op=nl.multiply)
    nisa.tensor_tensor(dst=dst[:, 0], data1=by_real[:, 0], data2=by_imaginary[:, 1], op=nl.subtract)
    nisa.tensor_tensor(dst=dst[:, 1], data1=by_imaginary[:, 0], data2=by_real[:, 1], op=nl.add)


def multiply_banks(dst: Tensor, banks: Sequence[Tensor], factors: Tensor) -> None:
    """Set dst = banks times factors, on VectorE; dst and factors are split complex SBUF [P, 2, n].

    banks: PSUM [P, n], real and imaginary part. VectorE reads an operand in PSUM and an operand in
    SBUF at once, but two operands in SBUF one after the other. So half of the products go to PSUM.
    """
    shape = banks[0].shape
    products = sbuf((shape[0], 2, shape[1]))
    for part in range(2):
        here, there = banks[part], banks[1 - part]
        crossed = psum(shape)
        nisa.tensor_tensor(dst=products[:, part], data1=here, data2=factors[:, 0], op=nl.multiply)
        nisa.tensor_tensor(dst=crossed, data1=there, data2=factors[:, 1], op=nl.multiply)
        op = nl.subtract if part == 0 else nl.add
        nisa.tensor_tensor(dst=dst[:, part], data1=products[:, part], data2=crossed, op=op)


def multiply_through_psum(dst: Tensor, x: Tensor, factors: Tensor) -> None:
    """Set dst = x times factors, split complex SBUF [P, 2, n]; dst may be x.

    ScalarE copies x to PSUM, where VectorE takes half the cycles. This is for kernels that leave
    ScalarE idle.
    """
    for low, count in chunks(x.shape[2], PSUM_BANK):
        columns, banks = slice(low, low + count), [psum((x.shape[0], count)) for _ in range(2)]
        for part, bank in enumerate(banks):
            nisa.activation(dst=bank, op=nl.copy, data=x[:, part, columns])
        multiply_banks(dst[:, :, columns], banks, factors[:, :, columns])


def cuts(low: int, end: int, parts: int | None = None) -> list[tuple[int, int]]:
    """Return (low, end) of so many parts of a range, of about equal size.

    parts: by default as few as have up to 128 numbers each.
    """
    count = -(-(end - low) // PARTITIONS) if parts is None else parts
    ends = [low + (end - low) * index // max(1, count) for index in range(count + 1)]
    return list(pairwise(ends))


def chunks(size: int, most: int = PARTITIONS) -> list[tuple[int, int]]:
    """Return (first, count) of the parts of a size, each but the last with ``most`` numbers."""
    return [(low, min(most, size - low)) for low in range(0, size, most)]


def element_count(sizes: Sequence[int]) -> int:
    """Return how many numbers a tensor of this shape has."""
    return math.prod(sizes)
