"""The sizes to which images are padded: the sizes that are priced, and the cheapest of them."""

import dataclasses

import pytest

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


@pytest.mark.parametrize(
    "image, least, axis, sizes",
    [
        # Columns take the least work, and are not much longer.
        ((100, 5), (111, 9), 0, {112, 116}),
        ((10, 7), (16, 64), 0, {16, 18}),
        ((10, 7), (188, 64), 0, {192, 224}),
        # Rows are as short as they can be where one product transforms them.
        ((5, 100), (9, 240), 1, {240, 242}),
        # Others have few points and a large second radix: 1010 = 101 x 10 is none of them.
        ((5, 200), (9, 256), 1, {256, 260}),
        ((5, 200), (9, 259), 1, {260, 280}),
        ((5, 200), (9, 289), 1, {300, 306}),
        ((5, 900), (9, 1009), 1, {1020, 1026}),
        # The longest that a kernel takes is the last.
        ((5, 8000), (9, 8190), 1, {8190, 8192}),
    ],
)
def test_the_sizes_of_an_axis_that_are_priced(priced, image, least, axis, sizes):
    _, asked = priced
    plan_images(image, least)
    assert {shape[axis] for shape, padded_from, _ in asked if padded_from == image} == sizes


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
