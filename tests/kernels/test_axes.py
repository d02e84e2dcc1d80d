"""The kernels over several axes, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for real and complex arrays with any order of axes, padded or
cropped, in both directions and in loops, on every chip. Arrays must not mix, and large planes must
fit.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from nki_kernels.nd import axes, strided_stockham
from nki_sim import hardware
from tests import sweeps
from tests.registry import REGISTRY
from tests.tolerances import near, transforms
from trnfft.planner.kinds import Transform
from trnfft.planner.plan import Pass, Recipe

from .launched import dry, launch, parts
from .samples import fits, normal, real
from .turns import on_chips, on_first_chip

CHIPS = "trn2", "trn1"
pytestmark = pytest.mark.usefixtures("strict_chip")


# Of data of each kind, the kernel, and the kernels of the last axis for one radix and for more.
KERNELS = {
    "c2c": ("axes", "dft_gemm", "stockham"),
    "r2c": ("real_axes", "real_dft_gemm", "real_stockham"),
    "c2r": ("axes_to_real", "inverse_real_dft_gemm", "inverse_real_stockham"),
}


def one_pass(radices, axis, last, kept=None, part="c2c"):
    """A pass along an axis, from 1 on; the others than the last one are of complex data."""
    n, has_stages = math.prod(radices), len(radices) > 1 or axis < last
    name = KERNELS[part][1 + has_stages] if axis == last else "strided_stockham"
    recipe = REGISTRY[name].recipe(n, radices if has_stages else ())
    whole = n // 2 + 1 if axis == last and part == "r2c" else n
    return Pass(axis - 1, recipe, kept or whole)


def solution(passes, part):
    """The planner's algorithm for data of a kind, and the recipe of these passes."""
    algorithm = REGISTRY[KERNELS[part][0]]
    lengths = tuple(each.recipe.n for each in passes)
    return algorithm, Recipe(algorithm.name, Transform(lengths, part=part), passes=tuple(passes))


def run(x, passes, part="c2c", inverse=False, scale=1.0, degree=1):
    """The result, complex in float64."""
    return launch(*solution(passes, part), parts(x), inverse, scale, cores=degree)[0]


def check(x, radices, order, kept=None, inverse=False, degree=1):
    """Fails unless complex x [B, n1, ...] is transformed in this order to the exact result."""
    lengths = [math.prod(r) for r in radices]
    kept = kept or lengths
    x = x.astype(np.complex64)
    passes = [one_pass(radices[a - 1], a, len(radices), kept[a - 1]) for a in order]
    result = run(x, passes, "c2c", inverse, 1.0, degree)
    places = range(1, x.ndim)
    x = x.astype(complex)
    exact = (
        np.fft.ifftn(x, lengths, places, "forward") if inverse else np.fft.fftn(x, lengths, places)
    )
    exact = exact[(slice(None), *map(slice, kept))]
    near(result, exact, transforms(lengths), message=f"order {order}")


def check_real(x, radices, order, degree=1):
    """Fails unless real x [B, n1, ...] and any half spectrum are near their transforms.

    As NumPy: of the last axis, imaginary parts of the first and the Nyquist number are ignored.
    """
    lengths, held = sizes(radices), x.shape[1:]
    last = len(lengths)
    passes = [one_pass(radices[a - 1], a, last) for a in order]
    passes.insert(0, one_pass(radices[-1], last, last, part="r2c"))
    spectrum = run(x, passes, "r2c", degree=degree)
    exact = np.fft.rfftn(x.astype(float), lengths, range(1, last + 1))
    near(spectrum, exact, transforms(lengths), message=f"order {order}")

    passes = [one_pass(radices[a - 1], a, last, held[a - 1]) for a in order]
    passes.append(one_pass(radices[-1], last, last, held[-1], "c2r"))
    z = normal(*exact.shape)
    back = run(z, passes, "c2r", True, 1 / math.prod(lengths), degree)
    exact = np.fft.irfftn(z, lengths, range(1, last + 1))[(slice(None), *map(slice, held))]
    near(back, exact, transforms(lengths), message=f"order {order}")


def sizes(radices):
    """Lengths of the axes."""
    return [math.prod(each) for each in radices]


def orders(count):
    return [tuple(order) for order in itertools.permutations(range(1, count + 1))]


# Radices of each axis; one for DFT-GEMM, and each length in every kernel that takes it.
PLANE = [((12,), (20,)), ((3, 5), (7,)), ((8, 8), (10, 12)), ((2, 2), (2, 2)), ((31,), (129,))]
SPACE = [((6,), (8,), (10,)), ((2, 3), (5,), (3, 4)), ((4,), (3, 3), (2, 2, 2))]


LINE = [((20,),), ((200,),), ((4, 5, 6),)]
POWERS = [((8, 8), (16, 16)), ((4, 4), (128,)), ((4,), (8,), (128,)), ((16,), (16, 32))]


@on_chips("radices", LINE + PLANE + SPACE + POWERS, CHIPS)
def test_all_orders_and_batches_both_ways(strict_chip, radices):
    for place, order in enumerate(orders(len(radices))):
        inverse = place % 2 == 1
        batch = 3 if inverse and math.prod(sizes(radices)) < 4000 else 1
        check(normal(batch, *sizes(radices)), radices, order, None, inverse)


@pytest.mark.parametrize(
    ("radices", "batch", "instructions"),
    [
        (((12,), (20,)), 1, 30_000),
        (((3, 5), (4, 6)), 2, 30_000),
        (((3, 5), (4, 6)), 9, 1),
        (((6,), (8,), (10,)), 1, 30_000),
        sweeps.whole(((6,), (8,), (10,)), 9, 1),
    ],
    ids=str,
)
def test_loops_and_two_programs(monkeypatch, strict_chip, radices, batch, instructions):
    """A program reads in a pass what both have written in the one before."""
    degree = hardware.current().programs_per_launch
    monkeypatch.setattr(strided_stockham, "_INSTRUCTIONS", instructions)
    monkeypatch.setattr(strided_stockham, "_TOGETHER", instructions)
    places = range(1, len(radices) + 1)
    for order in (places, places[::-1]):
        check(normal(batch, *sizes(radices)), radices, order, None, True, degree)
    check_real(real(batch, *sizes(radices)), radices, places[:-1], degree)


def test_four_axes():
    radices = ((3,), (2, 2), (5,), (6,))
    for order in ((4, 3, 2, 1), (1, 2, 3, 4), (2, 4, 1, 3)):
        check(normal(2, 3, 4, 5, 6), radices, order)


@pytest.mark.parametrize("lengths", [{1: 6, 3: 8}, {2: 7}], ids=str)
def test_some_axes_are_left_alone(lengths):
    x = normal(2, 6, 7, 8)
    passes = [one_pass((n,), axis, 3) for axis, n in lengths.items()]
    result = run(x, passes)
    exact = np.fft.fftn(x.astype(complex), axes=tuple(lengths))
    near(result, exact, transforms(tuple(lengths.values())))


# Radices, what the input holds of each axis, and what is kept of the output: whole and partial
# rows of a partition, less than one, one number.
PADDED = [
    (((8, 8), (10, 30)), (40, 200), (50, 250)),
    (((8, 8), (16, 16)), (41, 255), (7, 1)),
    (((12,), (20,)), (1, 1), (11, 19)),
    (((5, 6), (60,)), (3, 31), (29, 60)),
    (((4, 9), (4, 9)), (35, 36), (1, 35)),
    (((6,), (2, 4), (3, 5)), (5, 3, 11), (4, 7, 8)),
    (((2, 3), (8,), (10,)), (1, 8, 4), (6, 3, 10)),
    (((10, 20), (4, 5)), (190, 17), (200, 19)),  # several rows a partition
    (((10, 20), (12,)), (200, 7), (3, 5)),
    (((4,), (128, 64)), (3, 5000), (4, 8000)),  # rows that GpSimdE copies
]


@on_chips("radices, held, kept", PADDED, CHIPS)
def test_padded_input_and_cropped_output(strict_chip, radices, held, kept):
    for place, order in enumerate(orders(len(held))):
        x = normal(2 if math.prod(held) < 12_000 else 1, *held)
        check(x, radices, order, kept)
        if place == 0:
            check(x, radices, order, None, inverse=True)  # padded only


def test_rows_between_passes_avoid_a_pitch_of_a_power_of_two():
    def pitch(shape, *strided):
        passes = [axes.Pass(axes.STOCKHAM, len(shape) - 1, 1, 1, (), ())]
        passes += [axes.Pass(axes.STRIDED_STOCKHAM, axis, 1, 1, (), ()) for axis in strided]
        return axes.row_pitch(shape, passes)

    assert pitch((2, 64, 256), 1) == 272
    assert pitch((2, 64, 128), 1) == 144
    assert pitch((2, 64, 64), 1) == 64
    assert pitch((2, 64, 250), 1) == 250
    assert pitch((2, 8, 64, 256), 2) == 272
    assert pitch((2, 8, 64, 256), 2, 1) == 256  # runs of axis 1 go over rows


# Radices of each axis, the last one real, and real numbers that the input holds.
REAL = [
    (((12,), (20,)), None),
    (((12,), (21,)), None),
    (((3, 5), (10, 30)), (9, 211)),
    (((3, 5), (9, 5)), (15, 44)),
    (((16,), (127, 2)), None),  # rows of 128 numbers
    (((2, 2), (128,)), (3, 100)),
    (((10, 20), (4, 5)), (190, 17)),  # several rows a partition
    (((10, 20), (12,)), (199, 7)),
    (((6,), (5,), (7,)), None),
    (((6,), (2, 4), (8, 3)), (5, 5, 17)),
    *(((each,), (math.prod(each) - 3,)) for each in ((30,), (5, 6), (9, 5))),
]


@on_chips("radices, held", REAL, CHIPS)
def test_real_data_forward_and_back(strict_chip, radices, held):
    for place, order in enumerate(orders(len(radices) - 1)):
        for batch in (1, 3) if place == 0 else (3,):
            check_real(real(batch, *(held or sizes(radices))), radices, order)


def modelled(shape, passes, part="c2c"):
    """Timeline without data of arguments of this shape."""
    return dry(*solution(passes, part), *[shape] * (1 if part == "r2c" else 2))


@on_first_chip("trn1", "trn2")
def test_modelled_time_of_a_plane(strict_chip):
    """Two passes over HBM are two DMA floors; the second chip has 4/3 of the first one's rate."""
    limit = {"trn1": 4.1, "trn2": 5.0}[strict_chip]
    floor = hardware.current().dma_floor_ns(2**20)
    for order in ((1, 2), (2, 1)):
        plane = modelled((1, 1024, 1024), [one_pass((16, 64), a, 2) for a in order]).total_ns
        assert plane <= limit * floor
    passes = [one_pass((16, 64), 2, 2, part="r2c"), one_pass((16, 64), 1, 2)]
    assert modelled((1, 1024, 1024), passes, "r2c").total_ns <= 0.65 * plane


LARGE = [
    ((1, 2000, 3000), ((40, 50), (50, 60))),
    ((1, 4096, 640), ((64, 64), (20, 32))),
    ((1, 64, 8192), ((64,), (128, 64))),
    ((1, 4096, 32), ((64, 64), (32,))),
]


@pytest.mark.weekly
@sweeps.some(
    "strict_chip, shape, radices, part",
    [(chip, *case, part) for chip in ("trn1", "trn2") for case in LARGE for part in KERNELS],
    [
        ("trn1", *LARGE[1], "c2c"),
        ("trn2", *LARGE[3], "r2c"),
        ("trn1", *LARGE[2], "c2r"),
    ],
).with_args(ids=str, indirect=["strict_chip"])
def test_large_planes_fit(strict_chip, shape, radices, part):
    columns, rows = one_pass(radices[0], 1, 2), one_pass(radices[1], 2, 2, part=part)
    read = (*shape[:2], shape[2] // 2 + 1) if part == "c2r" else shape
    assert fits(modelled(read, [rows, columns] if part == "r2c" else [columns, rows], part))
