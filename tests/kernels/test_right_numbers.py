"""Kernels for one axis, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices, precision, batch and chip, in both
directions, on one core and on all, and in loops on the device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from nki_kernels.base import launch
from nki_kernels.fft import split_four_step
from nki_kernels.fft.bluestein import MAX_CONVOLVED, convolution_lengths
from nki_kernels.fft.butterfly_tables import Geometry
from nki_kernels.nd import strided_stockham
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, relative_error, unit

from .launched import BF16, COMPENSATED, REFINED, Launched, both_ways
from .samples import normal

LATER = "trn2", "trn3"


@dataclass(frozen=True)
class Case:
    """Launches of a kernel with radices; the directions alternate from batch to batch.

    A batch is a number of rows or, along a middle axis, of members and of columns.
    """

    algorithm: str
    n: int
    radices: tuple[int, ...]
    batches: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)  # of the tables
    chip: str = "trn1"
    cores: int = 1
    # About the instructions of a loop's body, or None. The last batch is then that of each core,
    # which is long enough for a loop and leaves a rest.
    body: int | None = None

    def __str__(self) -> str:
        where = f"{self.chip}, {self.cores}" + ("" if self.body is None else ", loops")
        batches = ", ".join(map(str, self.batches))
        options = "".join(f" {value}" for value in self.options.values())
        return f"{self.algorithm} {self.n} {self.radices}{options} {batches} on {where}"


def cases(
    algorithms: str | Sequence[str],
    sizes: Iterable[Any],
    *batches: Any,
    chips: str | Sequence[str] = "trn1",
    **options: Any,
) -> list[Case]:
    """Returns cases of each size and algorithm, on one core of the chips by turns.

    A size is a length, or radices, or both; without batches it is a pair with its own ones.
    """
    found, turn = list[Case](), itertools.cycle([chips] if isinstance(chips, str) else chips)
    for size in sizes:
        size, many = (size, batches) if batches else size
        if isinstance(size, int):
            size = size, ()
        n, radices = size if isinstance(size[-1], tuple) else (math.prod(size), size)
        for algorithm in [algorithms] if isinstance(algorithms, str) else algorithms:
            found.append(Case(algorithm, n, radices, tuple(many), chip=next(turn), **options))
    return found


def on_chips(cases: Iterable[Case], chips: Sequence[str] = hardware.NAMES) -> list[Case]:
    """Returns the cases on each of the chips, on all cores if they are on all."""
    found = list[Case]()
    for case, chip in itertools.product(cases, chips):
        is_whole = case.cores == hardware.chip(case.chip).programs_per_launch
        cores = hardware.chip(chip).programs_per_launch if is_whole else 1
        found.append(replace(case, chip=chip, cores=cores))
    return found


# Matrix products: by default lengths around which rows of a slab, pieces and row tiles change in
# number.

REAL_GEMM = both_ways("real_dft_gemm")
BORDERS = [*range(1, 18), 20, 21, 31, 32, 33, 42, 43, 60, 63, 64, 65, 66, 85, 97, 127, 128, 129]
BORDERS += [130, 178, 191, 192, 193, 253, 254, 255, 256]
ROUNDED = [
    case
    for options in (BF16, REFINED)
    for case in cases(
        "dft_gemm",
        [1, 2, 3, 31, 64, 65, 128, 129, 200, 256],
        *(1, 150),
        options=options,
        chips=("trn1", "trn2"),
    )
]
DFT_GEMM = [
    *cases("dft_gemm", BORDERS, 3, 300),
    *cases("dft_gemm", [(1, [70000]), (5, [9001]), (60, [2500]), (100, [1153])]),
    *cases(REAL_GEMM, BORDERS, 2, 300),
    *cases(REAL_GEMM, [(1, [40000]), (60, [2500])]),
    *ROUNDED,
]
MORE_DFT_GEMM = [
    *cases("dft_gemm", range(1, 257), 3, 300),
    *cases(REAL_GEMM, range(1, 257), 2, 300),
    *cases(REAL_GEMM, [(2, [20001]), (5, [9001]), (99, [1153])]),
    *on_chips(ROUNDED),
]
ODD_AND_EVEN = [129, 130, 255, 256, 509, 997, 1024, 1025, 2047]
FOLDED_DFT = cases(
    "folded_dft",
    [(n, (1, 20, 130) if n < 1000 else (1, 20)) for n in ODD_AND_EVEN],
    chips=("trn1", "trn2"),
)
FOLDED_DFT += cases("folded_dft", [129], 1, 20, 130, chips="trn2")

# Stockham: plans of the first kernels, wide ones, odd radices, radices above 64, one stage alone.

PLANS = [(2, 2), (4, 4, 4, 4), (8, 8, 8), (8, 8, 4, 4), (64, 64), (32, 125), (27, 81), (2, 127)]
PLANS += [(3, 5, 7, 11), (128, 2), (13, 64), (100,), (2,)]
LONG = [(8, 8, 8, 4), (4,) * 6, (8,) * 4, (5,) * 5]
# Whose tables do not all stay in SBUF; beyond N = 4096 the input comes in two parts.
STREAMED = [(2,) * 12, (32, 128), (70, 70), (8, 8, 8, 4, 4), (32, 16, 16), (64, 128), (128, 64)]
STREAMED += [(80, 128)]
COARSE = [(2, 2), (3, 5, 7, 11), (2, 127), (128, 2), (100,), (2,), (8, 8, 4, 4)]
# Halves of exactly 64 rows, others with zeros behind them, in the first, a middle and the last
# stage; radices up to 32 whose stages have an odd number of K, so that they take the whole array.
ROW_TILES = [(32, 32), (8, 30), (24, 16), (16, 25), (64, 12), (4, 8, 28), (2, 25, 4), (3, 32, 5)]


def with_batches(sizes, few, many, most=1000):
    """Sizes with few batches, or, up to so many numbers, with many."""
    return [(each, many if math.prod(each) < most else few) for each in sizes]


TILED = [
    *cases("stockham", ROW_TILES, 258, 3, chips=("trn1", "trn2")),
    *cases("stockham", [(24, 25)], 258, 3, options=REFINED),
    *cases("stockham", [(24, 25)], 258, 3, options=BF16, chips="trn2"),
]
STOCKHAM = [
    *cases("stockham", with_batches([*PLANS, (32, 128)], (2, 1), (2, 130))),
    *cases("stockham", [(70, 70)], 2, 130),
    *cases("stockham", with_batches(COARSE[::2], (2, 1), (2, 130)), options=BF16),
    *cases("stockham", with_batches(COARSE[1::2], (2, 1), (2, 130)), options=REFINED),
    *cases("stockham", [(2, 127), (128, 64)], 2, 1, options=BF16),
    *cases("stockham", [(128, 2), (128, 64)], 2, 1, options=REFINED),
    # Every even length in two stages, and several transforms a partition.
    *cases(
        "stockham", [(2, n // 2) for n in (*range(4, 34, 2), 60, 62, 64, 66, 68, 96, 126, 128)], 5
    ),
    *cases("stockham", [((16, 16), [1500]), ((5, 6, 7), [700])]),
    *TILED,
]
MORE_STOCKHAM = [
    *cases("stockham", [(2, n // 2) for n in range(4, 130, 2)], 5),
    *on_chips(TILED),
]
DEAR_STOCKHAM = [
    case
    for options in ({}, BF16, REFINED)
    for case in cases(
        "stockham", with_batches(PLANS + LONG + STREAMED, (2, 1), (2, 130)), options=options
    )
]

# Real data in two stages: extremes of either radix, odd and even, and what 64 and 128 numbers a
# product leave unused.

REAL_STOCKHAM = both_ways("real_stockham")
SMALL = [*itertools.product((2, 3, 8), repeat=2), (4, 5), (15, 4)]
LARGE = [(2, 64), (33, 2), (127, 3), (32, 32), (43, 22), (65, 33), (128, 64)]
MORE_LARGE = [(2, 63), (3, 64), (128, 2), (127, 2), (16, 16), (8, 32), (64, 32), (21, 21)]
MORE_LARGE += [(50, 60), (64, 64), (127, 61)]


def of_rows(radices):
    """Radices with batches of rows on each partition."""
    n = math.prod(radices)
    return radices, (2, 300) if n < 300 else (130,) if n < 4000 else (3,)


OF_REAL_ROWS = [
    *cases(REAL_STOCKHAM, map(of_rows, SMALL + LARGE)),
    *cases(REAL_STOCKHAM, [(2, 2), (5, 3), (8, 15)], 257, 1500),
]
MORE_OF_REAL_ROWS = [
    *cases(REAL_STOCKHAM, map(of_rows, itertools.product((2, 3, 4, 5, 8, 15), repeat=2))),
    *cases(REAL_STOCKHAM, map(of_rows, MORE_LARGE)),
    *cases(REAL_STOCKHAM, [(15, 8), (32, 30)], 257, 1500),
]

# Transforms that are spread over the partitions.

FOUR_STEP_PLANS = [(2, 2), (3, 5), (64, 64), (128, 128), (128, 2), (2, 127), (5, 6, 7, 8)]
FOUR_STEP_PLANS += [(7, 11, 13), (100, 3, 9), (80, 125), (64, 2, 128), (2, 2, 2), (16, 16, 16)]
FOUR_STEP_PLANS += [(32, 32, 40), (3, 4, 5, 6, 7), (12, 100, 3)]
FOUR_STEP_PLANS += [(2, 3, 3, 8, 2)]  # of which two products of a stage share a matrix
SPLIT = [(2, 64, 64), (9, 16, 27), (16, 16, 16), (64, 32, 64), (65, 6, 12), (128, 8, 16)]
BLOCKS = [(8, 4, 8), (16, 2, 16), (10, 6, 30), (64, 30)]
OF_LONG = [
    (1, (65, 2)),
    (7, (65, 2)),
    (65, (65, 2)),  # the data fill exactly one row
    (67, (67, 2)),
    (131, (128, 3)),
    (509, (70, 15)),
    (1009, (70, 3, 10)),
    (4099, (100, 82)),
    (4099, (80, 2, 52)),
]
OF_SPLIT = [
    (1, (65, 3, 20)),
    (37, (65, 6, 12)),
    (1009, (66, 6, 12)),
    (2304, (128, 4, 9)),  # the data fill exactly 64 rows
    (4099, (128, 5, 13)),  # one piece
    (4099, (67, 4, 70)),
]
# Two radices and three; an odd number of slots and one between; slots that nobody reads; a row in
# several parts, in loads and in what is closed at once.
THERE = [(4, 34), (4, 64), (22, 38), (4, 9, 34), (16, 4, 40), (10, 7, 36), (6, 64, 34)]
THERE += [(26, 33, 50)]
BOTH = [(98, 66), (128, 128), (100, 3, 100), (128, 10, 34), (128, 17, 128)]
BACK = [(34, 34), (34, 5, 36), (36, 64, 34)]  # whose first radix is larger
REAL_FOUR_STEP = [
    *cases(
        "real_four_step", with_batches(THERE + BOTH, [3], (1, 37), 10001), chips=("trn1", "trn2")
    ),
    *cases(
        "inverse_real_four_step",
        with_batches(BOTH + BACK, [3], (1, 37), 10001),
        chips=("trn2", "trn1"),
    ),
    *cases("real_four_step", [(4, 34)], 1, 37, chips="trn2"),
    *cases("real_four_step", [(4, 9, 34)], 1, 37),
]
SPREAD = [
    *cases("four_step", with_batches(FOUR_STEP_PLANS, (1, 2), (1, 2, 5), 2000)),
    *cases("split_four_step", with_batches(SPLIT, (1, 2), (1, 2, 3), 10_000)),
    *cases("four_step", [(BLOCKS[0], [130]), *((each, [33]) for each in BLOCKS), (BLOCKS[3], [7])]),
    *cases("long_bluestein", OF_LONG, 1, 2, 4),
    *cases("split_bluestein", [*((each, [1]) for each in OF_SPLIT[2:5])]),
    *cases("split_bluestein", [(OF_SPLIT[place], [3]) for place in (0, 1, 5)]),
    *cases("four_step", [(64, 8, 128)], 1),
    *cases("long_bluestein", [(65537, (128, 9, 114))], 1),
    *cases("split_bluestein", [(65537, (66, 24, 84))], 1),  # two pieces
    *cases("split_bluestein", [(98299, (72, 32, 96))], 1, chips="trn2"),  # three
    *REAL_FOUR_STEP,
]
MORE_SPREAD = [
    *cases("four_step", [(32, 4, 4, 32)], 1, 2),
    *(case for batch in (7, 33, 130) for case in cases("four_step", BLOCKS, batch)),
    *cases("four_step", [(90, 100, 20), (31, 55, 5, 30), (128, 64, 128)], 1),
    *cases("split_bluestein", [(65537, (66, 24, 84))], 1, chips="trn2"),
    *cases("split_bluestein", [(98299, (72, 32, 96))], 1),
    *on_chips(REAL_FOUR_STEP, ("trn1", "trn2")),
]
DEAR_SPREAD = cases("split_bluestein", OF_SPLIT, *(1, 1, 3, 3))

# Bluestein's algorithm.


def split(m):
    """Radices with product ``m``: two as equal as can be, the larger first, or one."""
    pairs = [(m // r, r) for r in range(2, 102) if m % r == 0 and r <= m // r <= 128]
    return min(pairs, default=(m,))


def convolved(*lengths, place=0):
    """Lengths with the radices of their shortest convolution, or of another one."""
    return [(n, split(convolution_lengths(n)[place])) for n in lengths]


def every_convolution(*lengths):
    return [(n, split(m)) for n in lengths for m in convolution_lengths(n)]


# Convolutions that are much longer than needed, or have one stage.
OTHERS = [(997, each) for each in ((128, 16), (16, 125), (4, 8, 8, 8))]
MORE_OTHERS = [(997, each) for each in ((64, 64), (16, 128), (125, 16), (8, 16, 16))]
PADDED = [(2, (64, 64)), (64, (128,)), (63, (125,)), (20, (40,))]
BLUESTEIN = [
    *cases("bluestein", convolved(*range(1, 10), 16, 17, 19, 31, 32, 33, 40), 2, 130),
    *cases("bluestein", convolved(127, 509), 130),
    *cases("bluestein", convolved(131, 997), 1),
    *cases("bluestein", convolved(257, 998, 2048), 2),
    *cases("bluestein", [*convolved(2053, 5120, place=-1), (4099, (64, 13, 10))], 2),  # streamed
    *cases("bluestein", [(OTHERS[0], [3]), (OTHERS[1], [130]), (OTHERS[2], [3])]),
    *cases("bluestein", PADDED, 5),
    *cases("bluestein", every_convolution(1, 50, 997), 3),
    # Rows of the second are stored 5 at a time, because 4 KiB do not hold all 10 of a partition.
    *cases("bluestein", convolved(31), 4500),
    *cases("bluestein", convolved(101), 1200, chips="trn2"),
]
MORE_BLUESTEIN = [
    *cases("bluestein", every_convolution(307), 3),
    *cases("bluestein", convolved(131), 1500),
    *cases("bluestein", convolved(499), 700, chips="trn2"),
]
DEAR_BLUESTEIN = [
    *cases(
        "bluestein",
        convolved(*range(1, 41), 127, 131, 257, 509, 997, 998, 1009, 2039, 2048),
        *(1, 1, 2, 2, 130, 130),
    ),
    *cases(
        "bluestein",
        convolved(2053, 2999, 4096, 4099, 5119, 5120, place=-1),
        *(1, 1, 2, 2, 130, 130),
    ),
    *cases("bluestein", OTHERS + MORE_OTHERS, 3, 130),
    *cases("bluestein", [(4099, (64, 13, 10))], 2, 130),
]

# The Vector engine, in both modes.

SHORT, DEAR = [2**k for k in range(1, 9)], [4096, 8192]
BUTTERFLY = [
    *cases("butterfly", SHORT, 1, 300),
    *cases("butterfly", [512, 1024, 2048, 16384], 3),
    *cases("butterfly", SHORT[:5], 1, 300, options=COMPENSATED),
    *cases("butterfly", [64, 128, 512, 4096], 3, options=COMPENSATED),
]
MORE_BUTTERFLY = [
    *cases("butterfly", DEAR, 3),
    *cases("butterfly", [256, 1024, 2048], 3, options=COMPENSATED),
    *cases("butterfly", [512, 1024], 1, 128, 300),
    *cases("butterfly", [64, 128, 256], 1, 128, 300, options=COMPENSATED),
]

# Along a middle axis, with members and columns.

ONE = [(2,), (3,), (5,), (8,), (31,), (32,), (63,), (64,)]
TWO = [*itertools.product((2, 3, 9), repeat=2), (4, 5), (5, 4), (2, 64), (64, 2), (61, 3), (22, 21)]
MORE_TWO = [*itertools.product((2, 3, 4, 5, 9), repeat=2), (3, 61)]
MANY, COLUMNS = [(7,), (64,), (6, 10), (2, 61), (61, 2), (16, 16)], [255, 256, 512, 513, 700, 1025]
TOGETHER = (300, 1), (131, 1), (40, 5), (9, 63), (5, 65)  # members of one product
STRIDED = [
    *cases("strided_stockham", ONE + TWO, (1, 1), (5, 40), (2, 129)),
    *cases("strided_stockham", [(each, [(1, n)]) for each, n in zip(MANY, COLUMNS, strict=True)]),
    *cases("strided_stockham", [(6, 10), (16, 16)], (1, 513)),
    *cases("strided_stockham", [(6, 10)], (1, 1025)),
    *cases("strided_stockham", [(5,), (3, 4)], *TOGETHER),
    *cases("strided_stockham", [((61, 59), [(1, 200)]), ((64, 64), [(1, 3), (2, 70)])]),
]
MORE_STRIDED = [
    *cases("strided_stockham", MORE_TWO, (1, 1), (5, 40), (2, 129)),
    *cases("strided_stockham", MANY, *((1, columns) for columns in COLUMNS)),
    *cases("strided_stockham", [(40, 50), (61, 59), (64, 64)], (1, 3), (2, 70), (1, 200)),
]

# Later chips, on all cores. Of one row, the second core has none; of an odd number of long
# transforms, two cores share the last.

OF_COMPLEX_DATA = [
    *cases("stockham", [(20, 24)], 130),
    *cases("stockham", [(20, 24), (4, 4, 4)], 130, options=BF16),
    *cases("stockham", [(2, 127)], 130, options=REFINED),
    # Of two programs, the one with 253 rows has a block more than the one with 254.
    *cases("bluestein", [(17, (36,))], 507),
    *cases("bluestein", [(1, (2,)), (257, (27, 20))], 130),
    *cases("bluestein", [(997, (50, 40))], 3),
    *cases("dft_gemm", [1, 3, 31, 64, 65, 128, 129, 200, 256], 1, 150, 151),
    *cases("four_step", [(64, 3, 50), (7, 16), (70, 20), (5, 4, 3, 40)], 1, 5),
    *cases("split_four_step", [(2, 16, 80), (70, 3, 30)], 1, 3),
    *cases("long_bluestein", [(997, (70, 29))], 1, 3),
    *cases("split_bluestein", [(2003, (66, 4, 32))], 3),
    *cases("butterfly", [2, 128], 1, 2, 301),
    *cases("butterfly", [8192], 3),
    *cases("butterfly", [16], 1, 2, 131, options=COMPENSATED),
    *cases("butterfly", [512], 3, options=COMPENSATED),
    *cases("folded_dft", [131], 507),
    *cases(
        "strided_stockham",
        [(3,), (20,), (2, 61), (5, 13), (10, 12), (64, 2)],
        *((2, 150), (1, 201), (3, 1)),
    ),
]
OF_REAL_DATA = [
    *cases(REAL_GEMM, [1, 2, 3, 31, 64, 65, 127, 128, 129, 200, 256], 150),
    *cases(REAL_STOCKHAM, [(20, 24), (9, 31), (2, 3)], 20, 130),
    *cases(REAL_STOCKHAM, [(16, 61)], 130),
]
LATER_CHIPS = [
    *on_chips(OF_COMPLEX_DATA, ["trn2"]),
    *(on_chips([case], LATER)[place // 2 % 2] for place, case in enumerate(OF_REAL_DATA)),
]
MORE_LATER_CHIPS = on_chips(OF_COMPLEX_DATA + OF_REAL_DATA, LATER)

# Loops on the device, and what they leave.


def butterflies(lengths, blocks, rest, compensated=False):
    """Lengths, each with a batch of so many blocks and a rest."""
    rows = [128 * max(1, Geometry(n, compensated).points // n) for n in lengths]
    return [(n, [blocks * each + rest]) for n, each in zip(lengths, rows, strict=True)]


LOOPS = [
    *cases("stockham", [((4, 4), (1, 17001)), ((16, 16), (1, 1401)), ((2, 37), (1, 4001))], body=1),
    *cases("bluestein", [((67, (15, 9)), [4001]), ((509, (32, 32)), [701])], body=1),
    *cases("dft_gemm", [(3, [24001]), (24, [2251]), (64, [1101]), (100, [551])], body=1),
    *cases("dft_gemm", [(256, [309])], body=1),
    *cases("folded_dft", [(131, [701])], body=1),
    *cases("four_step", [((16, 8, 20), [23]), ((70, 12), [35])], body=100),
    *cases("split_four_step", [((33, 16, 65), (2, 1)), ((128, 40, 64), [1])], body=64),
    *cases("long_bluestein", [(131, (128, 3)), (1009, (70, 3, 10))], 9, body=100),
]
LOOPS_OF_REAL_DATA = [
    *cases(REAL_GEMM, [(64, [2251]), (256, [551])], body=1),
    *cases(REAL_STOCKHAM, [((3, 5), (1, 3, 20501)), ((16, 20), (1, 951))], body=1),
    *cases(both_ways("real_four_step"), [((34, 34), (1, 3, 21))], body=1),
    *cases(both_ways("real_four_step"), [((36, 4, 40), (1, 37))], body=300),
]
LOOPS_OF_BUTTERFLIES = [
    *cases("butterfly", butterflies((16, 1024, 8192), 2, 3), body=1),
    *cases("butterfly", butterflies((8, 256), 2, 3, True), options=COMPENSATED, body=1),
]
# Members and columns of loops over members, over columns, with and without a rest.
STRIDED_LOOPS = [
    case
    for batch in ((9, 200), (40, 33), (300, 3), (1, 2600), (2, 1301), (3, 1030))
    for case in cases("strided_stockham", [(3,), (3, 5)], batch, body=1)
]
IN_LOOPS = [
    *on_chips(STRIDED_LOOPS, ["trn1", "trn2"]),
    *LOOPS,
    *on_chips([LOOPS[place] for place in (0, 3, 6, 8, 10, 11, 16)], ["trn2"]),
    *(on_chips([case])[place // 2 % 2] for place, case in enumerate(LOOPS_OF_REAL_DATA)),
    *(LOOPS_OF_BUTTERFLIES[place] for place in (0, 3)),
]
DEAR_LOOPS = on_chips(LOOPS + STRIDED_LOOPS + LOOPS_OF_REAL_DATA + LOOPS_OF_BUTTERFLIES)


SLOW = [
    *cases("split_four_step", [(128, 64, 4, 128)], 1),
    *cases("split_bluestein", [(1048573, (128, 128, 128))], 1),
    *cases("butterfly", butterflies([2**k for k in range(1, 13)], 1, 131)),
    *cases("butterfly", [8192, 16384], 131),
    *cases(
        "butterfly", butterflies([2**k for k in range(1, 13)], 1, 131, True), options=COMPENSATED
    ),
]

FEW = [*DFT_GEMM, *FOLDED_DFT, *STOCKHAM, *OF_REAL_ROWS, *SPREAD, *BLUESTEIN, *BUTTERFLY]
FEW += [*STRIDED, *LATER_CHIPS, *IN_LOOPS]
MORE = [*MORE_DFT_GEMM, *on_chips(FOLDED_DFT), *MORE_STOCKHAM, *MORE_OF_REAL_ROWS, *MORE_SPREAD]
MORE += [*MORE_BLUESTEIN, *MORE_BUTTERFLY, *MORE_STRIDED, *MORE_LATER_CHIPS]
WEEKLY = [*DEAR_STOCKHAM, *DEAR_SPREAD, *DEAR_BLUESTEIN, *DEAR_LOOPS]


def check(patch: pytest.MonkeyPatch, case: Case) -> None:
    """Fails unless the launches of a case are near the exact results, and are loops if asked."""
    if case.body is not None:
        patch.setattr(launch, "BODY_INSTRUCTIONS", case.body)
        patch.setattr(split_four_step, "_UNROLLED", 0)  # loops in each pass
        patch.setattr(split_four_step, "_PIECE", 130)
        for name, value in (("_INSTRUCTIONS", 1), ("_TOGETHER", 1), ("_COLUMNS", 256)):
            patch.setattr(strided_stockham, name, value)
    launched = Launched(case.algorithm, case.chip, case.cores)
    *others, last = case.batches
    if case.body is not None and not isinstance(last, tuple):
        last *= case.cores
    for place, batch in enumerate((*others, last)):
        inverse = (case.n // 2 + place + launched.is_to_real) % 2 == 1
        x = launched.data(batch, case.n)
        timeline = launched.check(x, case.radices, inverse, n=case.n, **case.options)
    assert case.body is None or timeline.instructions > len(timeline.events)


@sweeps.some("case", [*FEW, *(case for case in MORE if case not in FEW)], FEW).with_args(ids=str)
def test_right_numbers(monkeypatch, case):
    check(monkeypatch, case)


@pytest.mark.weekly
@pytest.mark.sweep
@pytest.mark.parametrize("case", WEEKLY, ids=str)
def test_right_numbers_of_a_dear_case(monkeypatch, case):
    check(monkeypatch, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_right_numbers_of_a_slow_case(monkeypatch, case):
    check(monkeypatch, case)


@pytest.mark.parametrize(
    ("algorithm", "batch", "n", "radices"),
    [("dft_gemm", 2500, 60, ()), ("stockham", 5, 512, (16, 32))],
)
def test_products_have_the_precision_of_their_tables(algorithm, batch, n, radices):
    """Refined ones are more accurate than of bfloat16 alone, and less than those of float32."""
    launched, x = Launched(algorithm), normal(batch, n)
    for options, finer in ((BF16, REFINED), (REFINED, {})):
        result, _, exact = launched.transform(x, radices, **options)
        near(result, exact, launched.tolerance(n, radices, **options))
        assert relative_error(result, exact) > 2 * launched.tolerance(n, radices, **finer)


@pytest.mark.parametrize(
    ("algorithm", "radices"),
    [
        *(("real_dft_gemm", (n,)) for n in (1, 2, 3, 8, 63, 127, 128, 129, 256)),
        *(("real_stockham", each) for each in ((2, 2), (2, 5), (5, 2), (4, 6), (7, 9), (64, 3))),
        ("real_four_step", (34, 38)),
        ("real_four_step", (36, 4, 40)),
    ],
    ids=str,
)
def test_imaginary_parts_that_real_data_has_not(algorithm, radices):
    """They are zero in spectra, and are ignored in what is transformed back."""
    there, back = map(Launched, both_ways(algorithm))
    n = math.prod(radices)
    own = [0, n // 2] if n % 2 == 0 else [0]
    spectra = back.data(4, n)
    spectra[:, own] = spectra[:, own].real + 1e6j
    back.check(spectra, radices)
    result, _, _ = there.transform(there.data(3, n), radices)
    np.testing.assert_array_equal(result[:, own].imag, 0)


def test_compensated_transform_of_a_small_signal_on_a_large_constant():
    x, launched = 1e4 + normal(4, 1024), Launched("butterfly")
    signal = slice(1, None)  # everything but the constant, a 3e5th of the norm
    result, _, exact = launched.transform(x, compensated=True)
    near(result[:, signal], exact[:, signal], unit("float32"))
    difference = np.linalg.norm((launched.transform(x)[0] - exact)[:, signal])
    assert difference > 1e-5 * np.linalg.norm(exact[:, signal])


@pytest.mark.weekly
@pytest.mark.parametrize("step", [29, sweeps.whole(1)])
def test_convolution_lengths_are_long_enough_smooth_and_sorted(step):
    assert convolution_lengths(997) == [2000, 2016, 2048]
    assert convolution_lengths(2048) == [4095, 4096]
    for n in (*range(1, 300), *range(300, MAX_CONVOLVED, step), MAX_CONVOLVED):
        lengths = convolution_lengths(n)
        assert lengths == sorted(set(lengths))
        assert 2 * n - 1 <= lengths[0] and lengths[0] >= 2 and lengths[-1] <= 10240
