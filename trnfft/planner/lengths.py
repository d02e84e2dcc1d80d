"""Searches for lengths: the one from a given one on that takes the least time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from nki_kernels import hardware
from nki_kernels.kernels import (
    butterfly_tables,
    four_step_tables,
    image_convolution,
    real_stockham,
    stockham_stages,
)
from trnfft import cache, config
from trnfft.checks import check_flag, shown
from trnfft.planner.algorithms import FOUR_STEP, REAL_STOCKHAM, SPLIT_FOUR_STEP, STOCKHAM
from trnfft.planner.algorithms.four_step import throughput
from trnfft.planner.algorithms.split_four_step import split_work
from trnfft.planner.algorithms.stockham import stage_work
from trnfft.planner.factorization import LARGEST_RADIX, radix_lists, smooth_numbers
from trnfft.planner.plan import Plan
from trnfft.planner.planner import REMEMBERED, plan, plan_convolution
from trnfft.planner.problem import at_least_one

MOST_POINTS = 2**62
FAST_LENGTHS = 24  # smooth ones that next_fast_len ranks: more are too long, or take too long
IMAGE_LENGTHS = 2  # of each axis that plan_images prices
PRICED_LENGTHS = 2  # of these, for each way to rank them
DIRECT = (STOCKHAM, FOUR_STEP, SPLIT_FOUR_STEP)  # for long smooth lengths: no convolution


def next_fast_len(target: int, real: bool = False) -> int:
    """The length from `target` on whose transforms take the least time by the planner's prices.

    Lengths up to 128 are returned as they are: one matrix product transforms them, in a time that
    grows with the length. Above, the next 24 lengths without a prime factor above 13 are ranked
    by the work of their stages, and the likeliest have their price for about 2^20 points looked
    up as `plan` does it: a search of about a second each, up to four of them, the first time on
    a computer. A length beyond the kernels is the next one without a prime factor above 13.
    Prices are for the precision of the context and for the chip and the degree of LNC of launches,
    as `plan` has them by default. Under "kahan" it is the next power of two, up to 4096: no other
    length is that accurate. Under "double", on the host, it is ranked as under "fast".

    Args:
        target: the least length, 1 or more.
        real: whether the data is real. Lengths up to 256 are returned as they are then; above
            8192 a real transform runs as a complex one of its length.

    Raises:
        TypeError: `target` is no integer.
        ValueError: `target` is less than 1, or more than any tensor has.
    """
    least, chip = at_least_one("target", target), hardware.current()
    if least > MOST_POINTS:
        raise ValueError(
            f"argument 'target' is {shown(least)}, allowed is 1 to {MOST_POINTS}: a tensor has no "
            f"more elements"
        )
    check_flag("real", real)
    mode = config.get_precision()
    if mode == "double":  # which has no prices
        mode = "fast"
    return _next_fast_len(least, bool(real), chip.name, hardware.degree(), mode)


@cache.cached(REMEMBERED)
def _next_fast_len(target: int, real: bool, chip: str, cores: int, precision: str) -> int:
    power = 1 << (target - 1).bit_length()
    if precision == "kahan" and power <= butterfly_tables.MAX_COMPENSATED_LENGTH:
        return power
    if target <= (2 * LARGEST_RADIX if real else LARGEST_RADIX):
        return target
    smooth = smooth_numbers(target, target * 5 // 4)[:FAST_LENGTHS]
    batch = max(1, 2**20 // target)  # the same for all, so that prices compare

    def price(n: int) -> float:
        try:
            found = plan(n, real=real, batch=batch, precision=precision, target=chip, cores=cores)
            return found.predicted_ns or math.inf
        except NotImplementedError:  # it does not fit into SBUF
            return math.inf

    if real and (fitting := [n for n in smooth if not REAL_STOCKHAM.why_not(n)]):
        # A stage takes as long as one of radix 64, whatever fits into it.
        fitting.sort(key=lambda n: n / _second_radix(n))
        return min(fitting[: 2 * PRICED_LENGTHS], key=price)
    direct = [n for n in smooth if not all(each.why_not(n) for each in DIRECT)]
    return min(_likeliest(direct), key=price) if direct else smooth[0]


def _likeliest(lengths: list[int]) -> list[int]:
    """Those worth a price: the best by each of the ranks that order the planner's recipes."""

    def stages(n: int) -> tuple[int, int]:
        return stage_work(radix_lists(n, stage_work, 1, stockham_stages.MAX_RADIX)[0])

    def points(n: int) -> float:
        if n > four_step_tables.MAX_LENGTH:
            return n * split_work(SPLIT_FOUR_STEP.recipes(n)[0].radices)
        # Lists of more than the fewest stages are thousands.
        return n * throughput(radix_lists(n, throughput, 1, spare=0)[0])

    short = [n for n in lengths if n <= stockham_stages.MAX_LENGTH]
    best = sorted(short, key=stages)[:PRICED_LENGTHS] + sorted(lengths, key=points)[:PRICED_LENGTHS]
    return sorted(set(best))


def forget() -> None:
    """Forget the lengths found; the plans that say so remain."""
    _next_fast_len.cache_clear()


def plan_images(
    image: tuple[int, int], least: tuple[int, int], *, target: str | None = None
) -> Plan:
    """The cheapest `plan_convolution` for an image, padded to even sizes from `least` on.

    The result's `padded_from` is `image`, or `image` with its axes exchanged, where columns are
    better transformed first, even if transposing the images and the results costs as much as
    reading and writing them. The first time for an image it takes some seconds; then all that was
    tried is remembered as plans are.

    Raises:
        NotImplementedError: no kernel can do it.
    """
    found: list[Plan] = []
    for turned in (1, -1):
        (height, width), (rows, columns) = image[::turned], least[::turned]
        for m in _image_lengths(rows, _column_work):
            for n in _image_lengths(columns, _row_work):
                with contextlib.suppress(NotImplementedError):
                    size = (height, width)
                    found.append(plan_convolution((m, n), padded_from=size, target=target))
    if not found:
        raise NotImplementedError(
            f"no kernel convolves images of {image} padded to {least}: split them into tiles"
        )

    def cost(plan: Plan) -> float:
        transposing = 0.0 if plan.padded_from == image else 2 * plan.dma_floor_ns
        return (plan.predicted_ns or math.inf) + transposing

    return min(found, key=cost)


def _image_lengths(least: int, work: Callable[[int], float]) -> list[int]:
    """The even lengths from `least` on that take the least work, if any kernel takes them."""
    most = min(least + least // 8 + 16, real_stockham.MAX_LENGTH + 1)
    lengths = range(least + least % 2, most, 2)
    return sorted(lengths, key=work)[:IMAGE_LENGTHS]


def _column_work(m: int) -> float:
    pairs = image_convolution.column_radices(m)
    return m * image_convolution.column_work(pairs[0]) if pairs else math.inf


def _row_work(n: int) -> float:
    """In no unit: the points, and what the second stage does for each matrix."""
    if n <= 2 * LARGEST_RADIX:
        return n
    if REAL_STOCKHAM.why_not(n):
        return math.inf
    return n * (1 + 16 / REAL_STOCKHAM.recipes(n)[0].radices[-1])


def _second_radix(n: int) -> int:
    """The largest of real Stockham's likeliest recipes."""
    return max(recipe.radices[-1] for recipe in REAL_STOCKHAM.recipes(n))
