"""The sizes to which images are padded: the sizes that are priced, and the cheapest of them."""

import dataclasses

import pytest

from nki_kernels.convolution import image_convolution
from trnfft.planner import lengths
from trnfft.planner.kinds import Convolution
from trnfft.planner.lengths import plan_images


@pytest.fixture
def priced(monkeypatch):
    """Prices by shape and data, in place of searches; the others take 1 ms. What was asked."""
    prices, asked = {}, []
    plan = lengths.plan_for(Convolution((12, 12)), target="trn1")

    def found(kind, *, target):
        asked.append((kind.lengths, kind.held, target))
        price = prices.get((kind.lengths, kind.held), 1e6)
        if price is None:
            raise NotImplementedError
        choice = dataclasses.replace(plan.choice, predicted_ns=price)
        return dataclasses.replace(plan, candidates=(choice,), kind=kind)

    monkeypatch.setattr(lengths, "plan_for", found)
    return prices, asked


def test_two_even_lengths_of_each_axis_are_priced_both_ways(priced):
    _, asked = priced
    plan_images((100, 61), (111, 71), target="trn2")
    assert {target for *_, target in asked} == {"trn2"}
    for image, least in (((100, 61), (111, 71)), ((61, 100), (71, 111))):
        shapes = [shape for shape, padded_from, _ in asked if padded_from == image]
        assert len(shapes) == 4
        for axis in range(2):
            sizes = {shape[axis] for shape in shapes}
            assert len(sizes) == 2
            assert all(size % 2 == 0 for size in sizes)
            # All that is longer takes an eighth more, or 16 points.
            assert all(least[axis] <= size < least[axis] * 9 // 8 + 16 for size in sizes)


def test_columns_take_the_least_work(priced):
    _, asked = priced
    plan_images((100, 5), (111, 9))
    work = {}
    for m in range(112, 140, 2):
        if pairs := image_convolution.column_radices(m):
            work[m] = m * image_convolution.column_work(pairs[0])
    best = sorted(work, key=work.get)[:2]
    assert {shape[0] for shape, padded_from, _ in asked if padded_from == (100, 5)} == set(best)


def test_rows_are_as_short_as_they_can_be_where_one_product_transforms_them(priced):
    _, asked = priced
    plan_images((5, 100), (9, 240))
    assert {shape[1] for shape, padded_from, _ in asked if padded_from == (5, 100)} == {240, 242}


def test_long_rows_have_a_large_second_radix(priced):
    _, asked = priced
    plan_images((5, 900), (9, 1009))
    # 1024 = 16 x 64, 1010 = 101 x 10: the fewest points, each with more for small radices.
    rows = {shape[1] for shape, padded_from, _ in asked if padded_from == (5, 900)}
    assert 1010 not in rows and len(rows) == 2


@pytest.mark.parametrize("least, sizes", [(256, {256, 260}), (259, {260, 280}), (289, {290, 294})])
def test_rows_of_few_points_and_large_radices_are_priced(priced, least, sizes):
    _, asked = priced
    plan_images((5, 200), (9, least))
    assert {shape[1] for shape, padded_from, _ in asked if padded_from == (5, 200)} == sizes


@pytest.mark.parametrize("least, sizes", [(16, {16, 18}), (188, {192, 224})])
def test_columns_of_little_work_and_not_much_longer_are_priced(priced, least, sizes):
    _, asked = priced
    plan_images((10, 7), (least, 64))
    assert {shape[0] for shape, padded_from, _ in asked if padded_from == (10, 7)} == sizes


def test_rows_end_with_the_longest_that_a_kernel_takes(priced):
    _, asked = priced
    plan_images((5, 8000), (9, 8190))
    assert {shape[1] for shape, padded_from, _ in asked if padded_from == (5, 8000)} <= {8190, 8192}


def test_the_cheapest_is_taken(priced):
    prices, asked = priced
    image, turned = (100, 60), (60, 100)
    plan_images(image, (110, 70))
    shape = next(shape for shape, padded_from, _ in asked if padded_from == image)
    other = next(shape for shape, padded_from, _ in asked if padded_from == turned)
    prices[shape, image] = 5e5
    assert plan_images(image, (110, 70)).kind.lengths == shape
    floor = plan_images(image, (110, 70)).dma_floor_ns
    prices[other, turned] = 5e5 - 1.5 * floor  # and transposing takes two floors
    assert plan_images(image, (110, 70)).kind.held == image
    prices[other, turned] = 5e5 + 0.5 - 2 * floor
    assert plan_images(image, (110, 70)).kind.held == image
    prices[other, turned] = 5e5 - 3 * floor
    assert plan_images(image, (110, 70)).kind.held == turned
    prices[shape, image] = 0.0  # of no price: the last choice
    assert plan_images(image, (110, 70)).kind.held == turned


def test_what_no_kernel_takes_is_left_out(priced):
    prices, asked = priced
    plan_images((8, 9), (12, 14))
    for shape, padded_from, _ in asked[1:]:
        prices[shape, padded_from] = None
    assert plan_images((8, 9), (12, 14)).kind.lengths == asked[0][0]
    prices[asked[0][:2]] = None
    with pytest.raises(
        NotImplementedError, match=r"images of \(8, 9\) padded to \(12, 14\): split"
    ):
        plan_images((8, 9), (12, 14))
