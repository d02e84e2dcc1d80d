"""Properties that all algorithms share: default arguments, and the shortest and longest lengths."""

from dataclasses import astuple

import numpy as np
import pytest

from nki_kernels.convolution import block_circulant
from nki_kernels.fft import four_step_tables
from tests.registry import REGISTRY
from trnfft.planner import planner
from trnfft.planner.algorithms import ALGORITHMS, STRIDED_STOCKHAM
from trnfft.planner.kinds import BlockCirculant, Convolution, Transform
from trnfft.planner.plan import Recipe

RESIDENT = [name for name in REGISTRY if name.startswith("resident")]


def example(algorithm):
    """A recipe of an algorithm: a short one, of 64 points where it takes them."""
    if algorithm.takes_shapes:
        return algorithm.recipes_for(algorithm.samples[0])[0]
    if algorithm.short:
        return algorithm.short[0]
    n = next(n for n in (64, *range(algorithm.shortest, 2**13)) if not algorithm.why_not(n))
    return algorithm.recipes(n)[0]


def leaves(tables):
    return [tables] if isinstance(tables, np.ndarray) else sum(map(leaves, tables), [])


@pytest.mark.parametrize("name", REGISTRY)
def test_forward_without_a_factor_by_default(name):
    algorithm, recipe = REGISTRY[name], example(REGISTRY[name])
    by_default, forward = algorithm.tables(recipe), algorithm.tables(recipe, False, 1.0)
    for one, other in zip(leaves(by_default), leaves(forward), strict=True):
        assert np.array_equal(one, other)
    assert algorithm.settings(recipe) == algorithm.settings(recipe, False)
    packed, *rest = algorithm.arguments(recipe)
    other, *others = algorithm.arguments(recipe, False, 1.0)
    assert packed is other and rest == others


@pytest.mark.parametrize("name", [n for n, each in REGISTRY.items() if not each.takes_shapes])
def test_the_shortest_and_longest_lengths(name):
    algorithm = REGISTRY[name]
    taken = [n for n in (algorithm.shortest, algorithm.longest) if not algorithm.why_not(n)]
    assert taken or name in ("split_four_step", "strided_stockham")
    for n in taken:
        assert algorithm.recipes(n)[0].n == n
    for n in (algorithm.shortest - 1, algorithm.longest + 1, 2 * algorithm.longest):
        assert n == 0 or algorithm.why_not(n)


def test_one_or_two_strided_stages():
    assert STRIDED_STOCKHAM.recipes(2) == [Recipe("strided_stockham", Transform((2,)), (2,))]
    assert STRIDED_STOCKHAM.recipes(64) == [Recipe("strided_stockham", Transform((64,)), (64,))]
    for n in (1, 67, 127):
        assert STRIDED_STOCKHAM.why_not(n) == "has no one or two radices up to 64"


def test_the_largest_radix_is_a_prime_that_is_taken():
    for name in ("stockham", "four_step"):
        assert ALGORITHMS[name].why_not(127 * 8) == ""
        assert ALGORITHMS[name].why_not(131 * 8) == "has no radix for the prime factor 131"


# Lengths where ranks that differ a little would choose others. Plans are made of these.
LIKELIEST = [
    ("four_step", 350, [(2, 5, 35), (2, 7, 25), (7, 50)]),
    ("four_step", 2688, [(21, 128), (24, 112), (28, 96)]),
    ("four_step", 3250, [(26, 125), (50, 65), (13, 2, 125)]),
    ("four_step", 3861, [(33, 117), (39, 99), (11, 3, 117)]),
    ("four_step", 6292, [(52, 121), (26, 2, 121), (13, 4, 121)]),
    ("four_step", 8192, [(64, 128), (32, 2, 128), (16, 4, 128)]),
    ("four_step", 8424, [(72, 117), (78, 108), (81, 104)]),
    ("four_step", 16384, [(32, 4, 128), (128, 128), (64, 2, 128)]),
    ("four_step", 999999, [(111, 77, 117), (77, 111, 117), (117, 77, 111)]),
    ("four_step", 2**20, [(128, 64, 128), (64, 4, 32, 128), (64, 8, 16, 128)]),
    (
        "stockham",
        1000,
        [(40, 25), (25, 40), (50, 20), (20, 50), (125, 8), (8, 125), (100, 10), (10, 100)]
        + [(8, 5, 25), (2, 25, 20)],
    ),
    ("bluestein", 992, [(32, 64), (64, 32), (128, 16), (32, 63)]),
    ("long_bluestein", 671, [(128, 16), (128, 17), (128, 11)]),
    ("long_bluestein", 100003, [(128, 13, 121), (128, 13, 122), (128, 17, 92)]),
    ("split_four_step", 2**20, [(128, 64, 128), (32, 32, 8, 128), (64, 128, 128)]),
    ("split_four_step", 2**21, [(64, 32, 8, 128), (128, 128, 128), (32, 32, 16, 128)]),
    ("split_four_step", 2**26, [(128, 64, 64, 128)]),
    ("split_bluestein", 300007, [(118, 40, 128), (119, 40, 128), (120, 40, 128)]),
    ("real_stockham", 52, [(2, 26), (4, 13), (13, 4)]),
    ("real_stockham", 276, [(23, 12), (6, 46), (46, 6)]),
    ("real_stockham", 928, [(29, 32), (16, 58), (58, 16)]),
    ("real_stockham", 960, [(15, 64), (16, 60), (20, 48)]),
    ("real_four_step", 16384, [(128, 128), (64, 2, 128), (32, 4, 128)]),
    ("real_four_step", 2**20, [(128, 64, 128)]),
    ("inverse_real_four_step", 2**18, [(64, 32, 128), (128, 16, 128), (64, 64, 64)]),
    ("inverse_real_four_step", 16384, [(128, 128), (64, 2, 128), (64, 4, 64)]),
]


@pytest.mark.parametrize("name, n, radices", LIKELIEST)
def test_the_likeliest_recipes(name, n, radices):
    recipes = ALGORITHMS[name].recipes(n)
    assert [(each.inner or each).radices for each in recipes] == radices


def test_an_algorithm_solves_its_kind():
    recipe = Recipe("dft_gemm", Transform((64,)))
    assert ALGORITHMS["dft_gemm"].solves(recipe, Transform((64,)))
    others = (Transform((64,), part="r2c"), Transform((8, 8)), Transform((65,)))
    for other in (*others, Transform((64,), (60,)), Convolution((64,))):
        assert not ALGORITHMS["dft_gemm"].solves(recipe, other)
    assert not ALGORITHMS["axes"].solves(recipe, Transform((64,)))


def test_shapes_of_kernels_inputs():
    half = (3, 5), (3, 5)
    for n in (8, 9):
        back, rows = Recipe("", Transform((n,), part="c2r")), Recipe("", Convolution((n,)))
        assert ALGORITHMS["inverse_real_dft_gemm"].inputs(back, 3) == [*half]
        assert ALGORITHMS["convolve_rows"].inputs(rows, 3) == [(3, n), (1, 5), (1, 5)]
    for filters, allowed in ((1, True), (3, True), (2, False)):  # for all rows, or for each
        shapes = [(3, 8), (filters, 5), (filters, 5)]
        found = ALGORITHMS["convolve_rows"].inputs_beside(Recipe("", Convolution((8,))), shapes)
        assert (found == shapes) == allowed
    cropped = Recipe("", Convolution((8,), (6,), (5,)), (2, 4))
    assert ALGORITHMS["convolve_rows"].inputs(cropped, 3) == [(3, 6), (1, 5), (1, 5)]
    assert ALGORITHMS["convolve_rows"].settings(cropped) == ((2, 4), 5)
    back = planner.plan(shape=(4, 6, 8), real=True, inverse=True, target="trn1").recipe
    assert ALGORITHMS["axes_to_real"].inputs(back, 2) == [(2, 4, 6, 5)] * 2
    kind = Transform((4, 6, 8), (3, 6, 7), "c2r")
    back = ALGORITHMS["inverse_real_dft_gemm_axes"].recipes_for(kind)[0]
    assert ALGORITHMS["inverse_real_dft_gemm_axes"].inputs(back, 2) == [(2, 4, 6, 5)] * 2
    assert ALGORITHMS["inverse_real_dft_gemm_axes"].settings(back) == ((3, 6, 7),)
    image = planner.plan_for(Convolution((12, 14), (7, 9)), target="trn1").recipe
    algorithm = ALGORITHMS["convolve_images"]
    assert algorithm.inputs(image, 3) == [(3, 7, 9), (1, 8, 12), (1, 8, 12)]
    shapes = [(3, 7, 9), (5, 8, 12), (5, 8, 12)]
    assert algorithm.inputs_beside(image, shapes) == shapes


def test_a_layout_of_a_weight_takes_its_number_of_rows():
    algorithm = ALGORITHMS["block_circulant"]
    recipes = algorithm.recipes_for(BlockCirculant(4, 4, 128))
    layouts = {recipe: astuple(recipe.blocking) for recipe in recipes}
    limited = [each for each in recipes if block_circulant.most_rows(layouts[each])]
    assert limited
    for recipe in limited:
        most = block_circulant.most_rows(layouts[recipe])
        assert algorithm.inputs(recipe, most)[0] == (most, 4, 128)
        with pytest.raises(ValueError, match=f"takes up to {most} rows, not {most + 1}$"):
            algorithm.inputs(recipe, most + 1)


def test_shapes_that_are_refused_say_why():
    with pytest.raises(NotImplementedError, match="an image has 2 axes, not 1"):
        ALGORITHMS["resident_planes"].recipes_for(Transform((256,)))
    for name in RESIDENT:
        shape = ALGORITHMS[name].samples[0].lengths
        with pytest.raises(NotImplementedError, match="takes no padding"):
            ALGORITHMS[name].recipes_for(Transform(shape, (1, *shape[1:])))
        with pytest.raises(NotImplementedError, match="takes (powers of two|axes of 64)"):
            ALGORITHMS[name].recipes_for(Transform((*shape[1:], 8)))
    for name in (name for name in ALGORITHMS if "dft_gemm_axes" in name):
        with pytest.raises(NotImplementedError, match="takes up to 256 points"):
            ALGORITHMS[name].recipes_for(Transform((16, 17), part=ALGORITHMS[name].kind))
    with pytest.raises(NotImplementedError, match="an image has 2 axes, not 3"):
        planner.plan_for(Convolution((8, 8, 8)))
    with pytest.raises(NotImplementedError, match="axis 0 of length 8194 has no two radices up to"):
        planner.plan_for(Convolution((8194, 8)))
    with pytest.raises(
        NotImplementedError,
        match="axis 1 of length 262: real_dft_gemm takes N <= 256; real_stockham has no two",
    ):
        planner.plan_for(Convolution((8, 262)))
    with pytest.raises(NotImplementedError, match="axis 1 of length 8191: dft_gemm takes "):
        ALGORITHMS["axes"].recipes_for(Transform((8, 8191)))
    with pytest.raises(NotImplementedError, match="takes blocks of up to 256; use other"):
        planner.plan_for(BlockCirculant(1, 1, 257))
    assert planner.plan_for(BlockCirculant(1, 1, 256)).launches == 1


def test_lengths_that_are_refused_say_why():
    most = four_step_tables.MAX_LENGTH
    for name, n, reason in [
        ("bluestein", 1, "takes 2 <= N <= 5120"),
        ("four_step", 2**20 + 2, "takes 256 <= N <= 1048576"),
        ("four_step", 7**7, "has states of 16807 numbers or more, SBUF holds 9200"),
        ("folded_dft", 128, "takes 129 <= N <= 2047"),
        ("folded_dft", 2048, "takes 129 <= N <= 2047"),
        ("folded_dft", 2021, "takes no N > 768 without a prime factor of at least 53"),
        ("long_bluestein", 255, "takes 256 <= N <= 262144"),
        ("split_bluestein", 32768, "takes 32769 <= N <= 4194304"),
        ("split_bluestein", 4194305, "takes 32769 <= N <= 4194304"),
        ("split_four_step", 524288, "takes 524289 <= N <= 67108864"),
        ("split_four_step", 67108865, "takes 524289 <= N <= 67108864"),
        ("split_four_step", 131 * 2**13, "has no radix for the prime factor 131"),
        (
            "split_four_step",
            13**6,
            f"has no factor that fills 33 to 128 partitions and leaves {most} points or fewer",
        ),
        ("real_stockham", 131, "has no two radices, up to 128 and up to 64"),
        ("real_four_step", 4095, "takes 4096 <= N <= 1048576"),
        ("real_four_step", 1048577, "takes 4096 <= N <= 1048576"),
        ("real_four_step", 5001, "has no two or three radices that the kernel takes"),
        ("inverse_real_four_step", 524289, "takes 4096 <= N <= 524288"),
    ]:
        assert ALGORITHMS[name].why_not(n) == reason
    for name, n in [
        ("folded_dft", 768),
        ("folded_dft", 901),
        ("split_bluestein", 32769),
        ("split_bluestein", 2**22),
        ("split_four_step", 524290),
        ("split_four_step", 3**13),
        ("split_four_step", 2**26),
        ("split_four_step", 127 * 2**13),
        ("split_four_step", 2**20),
        ("split_four_step", 2**21),
    ]:
        assert ALGORITHMS[name].why_not(n) == ""


def test_input_of_other_shapes_is_named():
    recipe = Recipe("dft_gemm", Transform((8,)))
    ALGORITHMS["dft_gemm"].check_inputs(recipe, [(3, 8), (3, 8)])
    with pytest.raises(ValueError, match=r"shapes \[\(3, 9\), \(3, 8\)\]; dft_gemm 8 needs \["):
        ALGORITHMS["dft_gemm"].check_inputs(recipe, [(3, 9), (3, 8)])
