"""Stockham FFT with any radices, stages on the Tensor engine: one launch, natural order.

Mathematics.  N = r1 r2 ... rs. After stage i the state is Z_i[K, m] with K < R_i = r1...ri (the
output index so far, in natural order) and m < M_i = N / R_i (the input index still to do). Stage i
splits m = j M_i + m' and contracts j:

    Z_i[K + R_(i-1) k, m'] = sum_j exp(-+2 pi i j (K / R_i + k / r_i)) Z_(i-1)[K, j M_i + m']

so that the twiddle is part of the stage's matrix, of which each K has its own (exponents are
reduced exactly in integers, and a scale is folded into the first stage). Z_0 is the input and Z_s
the output, both in natural order: Stockham's autosort.

Layout on the NeuronCore.  Transforms lie on partitions. A slab is the contraction of one (K, m'); g
<= 64 / r slabs fill the array. As in dft_gemm, the Tensor engine transposes the data of the slabs
(stationary = data, moving = identity) and multiplies it as the stationary operand once more, so
that the transforms return to partitions. The engine reads a stationary operand along one strided
run. So the state between stages is [K][j][part][m'], where j belongs to the next stage, and a
product takes slabs M_i / g apart: (j, part, slab) is one run of stride M_i / g. The input, whole
rows as DMA brings them, is [part][j][m'], one run of (part, j, slab). The last stage, where M_i =
1, takes g consecutive K. Up to four products share a PSUM bank, where consecutive m' lie side by
side (column stride 16 bytes), so that the evacuation writes at full rate. For r > 64 the real and
the imaginary part are contracted one after the other. For r <= 32 two row tiles of the array work
side by side, each on its own products and its own PSUM bank (stage.py): up to eight
products go together (stage_products.py).

Tables that fit SBUF beside two states (16 bytes a point) stay there. Other tables are streamed:
they are read from HBM for each block of transforms, chunk by chunk, each chunk before the products
of the chunk ahead of it. Input comes into a few tiles in turn (row_transforms.py), because only a
small part of SBUF may be written by DMA. Where transposes mix rows, on NeuronCore-v2, bad rows are
set aside before (row_guard.py).

A stage reads what the stage before it wrote last. So where SBUF has room, stages of consecutive
blocks take turns, and blocks of many rows begin and end with half blocks, because nothing overlaps
the first load and the last store. On NeuronCore-v2, ScalarE and VectorE share PSUM's port: there
ScalarE evacuates everything except the first stage's transposes, while VectorE sets rows aside.

Precision.  As in dft_gemm the tables' dtype decides: float32, bfloat16 (the state is bfloat16
between stages, too), or refined, which means pairs of bfloat16 for tables and transposed data. PSUM
and HBM are fp32 throughout.

Why it is fast.  As modelled for trn1, a stage costs 38 ps a point on the Tensor engine for r <= 64,
and 26 ps in full row tiles, whatever r is, against 59 ps of the DMA floor: two stages of radix 64
beat four stages of radix 8. VectorE never multiplies, so that twiddles are free. The DMA of a
streamed table runs behind the products. It takes half a floor, twice as much if r > 64. The kernel
needs 128 transforms to fill the array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..base.arguments import check_factors, check_tables, rows_and_length
from ..base.engines import DMA_RUN, hbm
from ..base.isa import Tensor, nki
from ..base.launch import HbmRows
from ..base.packing import unpack
from ..base.table_terms import Array, TableSpec
from .row_transforms import RowTransforms
from .stage import check_radices, stage_spec, stage_table, stages_of
from .stage_products import Tabled


def stockham_tables(
    n: int,
    radices: tuple[int, ...],
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> tuple[Array, ...]:
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
    """
    check_radices(n, radices)
    return tuple(
        stage_table(stage, inverse, 1.0 if stage.done > 1 else scale, dtype, refined)
        for stage in stages_of(radices)
    )


def stockham_specs(
    radices: tuple[int, ...], dtype: str = "float32", refined: bool = False
) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``stockham_tables(n, radices, ...)``."""
    return tuple(stage_spec(stage, dtype, refined) for stage in stages_of(radices))


@nki.jit
def stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, by stages of any radices.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N].
        tables, places: the two results of ``pack(stockham_tables(N, radices, ...))``.
        radices: a tuple of ints with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    _, n = rows_and_length(x_re, x_im)
    check_factors(radices, n)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    source, target = [HbmRows(x_re, n), HbmRows(x_im, n)], [HbmRows(y_re, n), HbmRows(y_im, n)]
    stockham_rows(source, target, radices, unpack(tables, places))
    return y_re, y_im


def stockham_rows(
    source: Sequence[HbmRows],
    target: Sequence[HbmRows],
    radices: tuple[int, ...],
    tables: Sequence[Tensor],
) -> None:
    """Transform the rows of source into target, each the real and the imaginary part.

    Zeros follow data that is shorter than N; outputs beyond the target's columns are not stored.
    """
    n, stages = math.prod(radices), stages_of(radices)
    check_tables(tables, len(stages))
    tabled = [Tabled(stage, table) for stage, table in zip(stages, tables, strict=True)]
    each = max(stages[0].tiles, DMA_RUN // n)
    RowTransforms(source, target, [tabled], each, n).run()
