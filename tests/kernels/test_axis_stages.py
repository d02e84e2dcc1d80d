"""Stages of several axes, in the simulator, compared with NumPy in float64.

The tests protect right numbers of complex and real arrays in both directions, for axes of one and
of several radices and for radices of several axes, with an array on each partition and with arrays
that are spread over all, in loops and on every chip. Arrays must not mix, and data must travel over
HBM once.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_sim
from nki_kernels.base.launch import LAUNCH_INSTRUCTIONS
from nki_kernels.nd.axis_stages import Axes, digits_of, stages_of_axes
from nki_kernels.nd.four_step_axes import cuts_of, four_step_axes_tables
from nki_sim import hardware
from tests.registry import REGISTRY
from tests.tolerances import near, operands, pairs, transforms
from trnfft.planner.kinds import Transform
from trnfft.planner.plan import Recipe

from .arrays import data_of, exact_of
from .independence import check_rows_are_independent
from .launched import dry, launch, parts
from .samples import fits
from .turns import on_chips

pytestmark = pytest.mark.usefixtures("strict_chip")

BY_PART = {"c2c": "", "r2c": "real_", "c2r": "inverse_real_"}


def solution(family, radices, lengths, part, data=(), ending=""):
    """The planner's algorithm, and its recipe with these radices."""
    algorithm = REGISTRY[f"{BY_PART[part]}{family}_axes{ending}"]
    return algorithm, Recipe(algorithm.name, Transform(lengths, data, part), radices)


def tolerance_of(radices, lengths, ending=""):
    stages = len(radices)
    return {"": transforms(lengths), "_bf16": operands(stages), "_bf16_refined": pairs(stages)}[
        ending
    ]


def check(found, batch, inverse=False, degree=1, ending=""):
    """Fails unless one launch fits and is near the exact result."""
    recipe, scale = found[1], 0.5
    lengths, part, data = recipe.kind.lengths, recipe.kind.part, recipe.kind.data
    x = data_of(batch, lengths, part, data)
    result, timeline = launch(*found, parts(x), inverse, scale, cores=degree)
    exact = scale * exact_of(x, lengths, part, data, inverse)
    allowed = tolerance_of(recipe.radices, lengths, ending)
    near(result, exact, allowed, message=f"{batch} {recipe} {inverse}")
    assert fits(timeline)


# Radices and lengths: a radix an axis, several radices of the first and of the last axis, radices
# of several axes, axes of one point, row tiles and two pieces.
ROWS = [
    *(((4, 6), (4, 6)), ((28, 28), (28, 28)), ((16, 16, 16), (16, 16, 16)), ((9, 35), (9, 35))),
    *(((2, 3, 2, 3), (2, 3, 2, 3)), ((36, 20), (6, 6, 20)), ((3, 40), (3, 5, 8))),
    *(((5, 4, 18), (20, 18)), ((4, 4, 36), (16, 3, 12)), ((70, 12), (70, 12)), ((6, 70), (6, 70))),
    *(((8, 9), (1, 8, 1, 9)), ((16, 3, 8), (16, 24)), ((3, 25, 4), (3, 100)), ((6, 2, 9), (12, 9))),
    ((2, 3, 5, 7), (6, 35)),
]
# The last radix is c, of one axis, of a part of one, or of several axes.
SPREAD = [
    *(((16, 20), (16, 20)), ((40, 33), (40, 33)), ((70, 17), (70, 17)), ((4, 5, 36), (20, 36))),
    *(((8, 3, 20), (8, 60)), ((12, 2, 3, 10), (24, 30)), ((4, 9, 24), (4, 18, 12))),
    *(
        ((6, 40), (6, 4, 10)),
        ((3, 7, 30), (3, 7, 6, 5)),
        ((24, 18), (4, 6, 18)),
        ((2, 128), (2, 128)),
    ),
    ((5, 16), (1, 5, 16)),
]


def is_taken(radices, lengths, part):
    """Half spectra need the whole last axis in the last radix."""
    return part == "c2c" or radices[-1] % lengths[-1] == 0


CASES = [("stockham", *case) for case in ROWS] + [("four_step", *case) for case in SPREAD]


@on_chips("family, radices, lengths", CASES)
@pytest.mark.parametrize("part", BY_PART)
def test_arrays_in_both_directions(strict_chip, family, radices, lengths, part):
    if not is_taken(radices, lengths, part) and (family == "stockham" or part == "c2r"):
        algorithm, recipe = solution(family, radices, lengths, part)
        with pytest.raises(ValueError, match="radices"):
            algorithm.tables(recipe)
        return
    found = solution(family, radices, lengths, part)
    for inverse, batch in ((False, 2), (True, 131 if family == "stockham" else 7)):
        check(found, batch, inverse)


@on_chips("radices, lengths", [ROWS[1], ROWS[5], ROWS[11]])
@pytest.mark.parametrize("ending", ["_bf16", "_bf16_refined"])
@pytest.mark.parametrize("part", BY_PART)
def test_products_of_bfloat16(strict_chip, radices, lengths, ending, part):
    check(solution("stockham", radices, lengths, part, (), ending), 130, True, ending=ending)


@on_chips("radices, lengths, data", [
    ((28, 28), (28, 28), (17, 28)),
    ((3, 4, 30), (12, 5, 6), (7, 5, 6)),
])  # fmt: skip
@pytest.mark.parametrize("part", ["c2c", "r2c"])
def test_zeros_along_the_first_axis(strict_chip, radices, lengths, data, part):
    check(solution("stockham", radices, lengths, part, data), 130)


@on_chips("family, radices, lengths", [
    ("stockham", (8, 9), (8, 9)),
    ("stockham", (4, 5, 6), (20, 6)),
    ("four_step", (16, 20), (16, 20)),
    ("four_step", (8, 3, 20), (8, 3, 20)),
    ("four_step", (4, 9, 24), (4, 18, 12)),
], ("trn2", "trn1"))  # fmt: skip
@pytest.mark.parametrize("part", BY_PART)
def test_loops_and_two_programs(short_loops, strict_chip, family, radices, lengths, part):
    degree = hardware.current().programs_per_launch
    for batch in (1, 2, 1500 if family == "stockham" else 120):
        check(solution(family, radices, lengths, part), batch, degree=degree)


@st.composite
def problems(draw):
    """A transform of two to four axes, of up to 3000 points."""
    lengths, left = [], 3000
    for _ in range(draw(st.integers(2, 4))):
        lengths.append(draw(st.integers(1, min(left, 160))))
        left //= lengths[-1]
    return Transform(
        tuple(draw(st.permutations(lengths))), part=draw(st.sampled_from(list(BY_PART)))
    )


@pytest.mark.weekly
@pytest.mark.sweep
@given(problems(), st.data())
@settings(deadline=None, max_examples=150)
def test_any_recipe_of_any_shape(kind, choice):
    chip = hardware.chip(choice.draw(st.sampled_from(hardware.NAMES)))
    degree = choice.draw(st.integers(1, chip.programs_per_launch))
    for family in ("stockham", "four_step"):
        algorithm = REGISTRY[f"{BY_PART[kind.part]}{family}_axes"]
        try:
            recipe = choice.draw(st.sampled_from(algorithm.recipes_for(kind)))
        except NotImplementedError:
            continue
        with hardware.select(chip), nki_sim.strict():
            check((algorithm, recipe), choice.draw(st.sampled_from((1, 3, 40))), degree=degree)


@on_chips("family, radices, lengths, part, ending", [
    ("stockham", (8, 9), (8, 9), "c2c", ""),
    ("stockham", (4, 5, 6), (20, 6), "c2c", "_bf16"),
    ("stockham", (16, 12), (16, 12), "r2c", ""),
    ("stockham", (16, 12), (16, 12), "c2r", ""),
    ("stockham", (6, 70), (6, 70), "c2r", "_bf16_refined"),
    ("four_step", (16, 20), (16, 20), "c2c", ""),
    ("four_step", (8, 3, 20), (8, 3, 20), "r2c", ""),
    ("four_step", (4, 9, 24), (4, 18, 12), "c2r", ""),
    ("four_step", (40, 33), (40, 33), "r2c", ""),
], ("trn1", "trn2"))  # fmt: skip
def test_arrays_are_independent(strict_chip, family, radices, lengths, part, ending):
    found, degree = (
        solution(family, radices, lengths, part, (), ending),
        hardware.current().programs_per_launch,
    )
    x = data_of(131 if family == "stockham" else 9, lengths, part)
    x = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)

    def run(spoiled):
        return launch(*found, parts(spoiled), True, cores=degree)[0]

    with np.errstate(all="ignore"):
        double = x.astype(complex if np.iscomplexobj(x) else float)
        exact = exact_of(double, lengths, part, (), True)
        check_rows_are_independent(run, x, exact, tolerance_of(radices, lengths, ending))


@on_chips("family, radices, lengths, batch", [
    ("stockham", (64, 64), (64, 64), 1024),
    ("stockham", (94, 94), (94, 94), 256),
    ("stockham", (16, 16, 16), (16, 16, 16), 1024),
    ("four_step", (128, 128), (128, 128), 64),
    ("four_step", (64, 8, 80), (64, 64, 10), 16),
    ("four_step", (64, 10, 3, 124), (640, 372), 4),
])  # fmt: skip
@pytest.mark.parametrize("part", BY_PART)
def test_one_trip_over_hbm(strict_chip, family, radices, lengths, batch, part):
    if not is_taken(radices, lengths, part):
        part = "c2c"
    found = solution(family, radices, lengths, part)
    timeline = dry(*found, *found[1].kind.input_shapes(batch))
    least = found[1].kind.least_bytes(batch)
    tables = 4 * sum(math.prod(shape) for shape, _ in found[0].table_specs(found[1]))
    assert least <= timeline.hbm_bytes <= 1.01 * least + 2 * tables
    assert fits(timeline)


@on_chips("family, radices, lengths, part", [
    ("stockham", (94, 94), (94, 94), "c2r"),
    ("four_step", (64, 8, 80), (64, 64, 10), "r2c"),
    ("four_step", (64, 16, 8, 128), (1024, 1024), "c2c"),
])  # fmt: skip
def test_a_launch_has_few_instructions(strict_chip, family, radices, lengths, part):
    """Of as many arrays as HBM holds."""
    algorithm, recipe = solution(family, radices, lengths, part)
    batch = hardware.HBM_TENSOR_BYTES // 4 // recipe.kind.points
    timeline = dry(algorithm, recipe, *recipe.kind.input_shapes(batch))
    assert fits(timeline)
    assert len(timeline.events) <= LAUNCH_INSTRUCTIONS
    assert timeline.instructions >= 2 * len(timeline.events)


# Digits and tables


def test_a_stage_of_a_whole_axis_has_one_matrix():
    stages = stages_of_axes((28, 28), Axes((28, 28)))
    assert [stage.matrices for stage in stages] == [1, 1]
    twiddled = stages_of_axes((28, 4, 7), Axes((28, 28)))
    assert twiddled[2].matrices < 28 * 4 // twiddled[2].slabs


@pytest.mark.parametrize(
    ("radices", "lengths"),
    [((4, 6), (6, 4)), ((8, 2), (4, 4)), ((4,), (4, 4)), ((4, 4, 2), (4, 4)), ((3, 4, 1), (3, 4))],
)
def test_radices_that_are_no_digits_are_refused(radices, lengths):
    with pytest.raises(ValueError, match="each must divide what the radices before it leave"):
        digits_of(radices, lengths)


@pytest.mark.parametrize(
    ("radices", "axes", "message"),
    [
        ((16, 9), Axes((16, 20)), "the last of which is a product of the last axes"),
        ((320,), Axes((16, 20)), "there must be two or more"),
        ((16, 4, 5), Axes((16, 20), to_real=True), "the last of which is a product"),
        ((16, 200), Axes((16, 200)), "may have up to 128 numbers of data and 512"),
        ((100, 100, 2, 100), Axes((100, 100, 200)), "up to 1048576, and without the last one 9200"),
        ((130, 20), Axes((130, 20)), "each must be 2 to 128"),
    ],
)
def test_radices_without_a_last_step_are_refused(radices, axes, message):
    with pytest.raises(ValueError, match=message):
        four_step_axes_tables(axes, radices)


@given(st.integers(1, 5000), st.integers(1, 40))
def test_cuts_are_all_lines_once(lines, most):
    cuts = cuts_of(lines, most)
    assert [cut.first for cut in cuts[1:]] == [
        cut.first + cut.partitions * cut.each for cut in cuts[:-1]
    ]
    assert cuts[0].first == 0 and cuts[-1].first + cuts[-1].partitions * cuts[-1].each == lines
    assert all(1 <= cut.partitions <= 128 and cut.each <= most for cut in cuts)
