"""Searches for lengths: the length, from a given one on, that takes the least time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from nki_kernels.convolution import image_convolution
from nki_kernels.fft import butterfly_tables, four_step_tables, stage
from nki_kernels.real import real_stockham
from nki_sim import hardware
from trnfft.base import cache, config
from trnfft.base.checks import brief, check_flag
from trnfft.planner.algorithms import FOUR_STEP, REAL_STOCKHAM, SPLIT_FOUR_STEP, STOCKHAM
from trnfft.planner.algorithms.four_step import throughput
from trnfft.planner.algorithms.split_four_step import split_work
from trnfft.planner.algorithms.stockham import stage_work
from trnfft.planner.factorization import LARGEST_RADIX, radix_lists, smooth_numbers
from trnfft.planner.kinds import Convolution
from trnfft.planner.kinds.kind import at_least_one
from trnfft.planner.plan import Plan
from trnfft.planner.planner import REMEMBERED, plan, plan_for

MOST_POINTS = 2**62
FAST_LENGTHS = 24  # smooth lengths that next_fast_len ranks; further ones are too long
IMAGE_LENGTHS = 2  # lengths of each axis that plan_images prices
PRICED_LENGTHS = 2  # lengths that next_fast_len prices, for each way to rank them
DIRECT = (STOCKHAM, FOUR_STEP, SPLIT_FOUR_STEP)  # algorithms without a convolution


def next_fast_len(target: int, real: bool = False) -> int:
    """Returns the length from `target` on whose transforms take the least time by planned prices.

    The counterpart in SciPy is `scipy.fft.next_fast_len`. See `docs/planner.md`.

    Lengths up to 128 are returned as they are, because one matrix product transforms them, in a
    time that grows with the length. For a longer `target`, the next 24 lengths without a prime
    factor above 13 are ranked by the work of their stages. The prices of the likeliest lengths, for
    about 2^20 points, are then looked up as `trnfft.plan` does. The first time on a computer, this
    needs up to four searches of about a second each. A length beyond the kernels becomes the next
    one without a prime factor above 13.

    Prices are for the precision of the context, and for the chip and the degree of LNC that
    `trnfft.plan` has by default. Under "kahan", the result is the next power of two, up to 4096,
    because no other length is so accurate. Under "double", on the host, lengths are ranked as under
    "fast".

    Args:
        target: the least length, 1 or more.
        real: whether the data is real. Lengths up to 256 are then returned as they are. Above 8192,
            a real transform runs as a complex transform of the same length.

    Returns:
        The length, an int.

    Raises:
        TypeError: `target` is not an int.
        ValueError: `target` is less than 1, or larger than any tensor.

    Examples:
        >>> import trnfft
        >>> trnfft.next_fast_len(100), trnfft.next_fast_len(1009)
        (100, 1024)
    """
    least, chip = at_least_one("target", target), hardware.current()
    if least > MOST_POINTS:
        raise ValueError(
            f"argument 'target' is {brief(least)}, allowed is 1 to {MOST_POINTS}: a tensor has no "
            f"more elements"
        )
    check_flag("real", real)
    mode = config.get_precision()
    if mode == "double":  # this mode has no prices
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
            best = plan(n, real=real, batch=batch, precision=precision, target=chip, cores=cores)
            return best.predicted_ns or math.inf
        except NotImplementedError:  # the transform does not fit into SBUF
            return math.inf

    if real and (fitting := [n for n in smooth if not REAL_STOCKHAM.why_not(n)]):
        # Every stage takes as long as a stage of radix 64, whatever its radix.
        fitting.sort(key=lambda n: n / max(way.radices[-1] for way in REAL_STOCKHAM.recipes(n)))
        return min(fitting[: 2 * PRICED_LENGTHS], key=price)
    direct = [n for n in smooth if not all(each.why_not(n) for each in DIRECT)]
    return min(_likeliest(direct), key=price) if direct else smooth[0]


def _likeliest(lengths: list[int]) -> list[int]:
    """Returns the lengths worth a price: the best by each rank that orders recipes."""

    def stages(n: int) -> tuple[int, int]:
        return stage_work(radix_lists(n, stage_work, 1, stage.MAX_RADIX)[0])

    def points(n: int) -> float:
        if n > four_step_tables.MAX_LENGTH:
            return n * split_work(SPLIT_FOUR_STEP.recipes(n)[0].radices)
        # There are thousands of lists with more than the fewest stages.
        return n * throughput(radix_lists(n, throughput, 1, spare=0)[0])

    short = [n for n in lengths if n <= stage.MAX_LENGTH]
    best = sorted(short, key=stages)[:PRICED_LENGTHS] + sorted(lengths, key=points)[:PRICED_LENGTHS]
    return sorted(set(best))


def forget() -> None:
    """Forgets the lengths that were found. The plans on which they are based remain."""
    _next_fast_len.cache_clear()


def plan_images(
    image: tuple[int, int], least: tuple[int, int], *, target: str | None = None
) -> Plan[Convolution]:
    """Returns the cheapest plan to convolve an image, padded to even sizes from `least` on.

    `kind.held` of the result is `image`, or `image` with its axes exchanged. The axes are
    exchanged where it is better to transform columns first, even if transposing the images and the
    results costs as much as reading and writing them. The first search for an image takes some
    seconds. All plans that it tries are remembered.

    Args:
        image: (H, W) of the image.
        least: the least padded size.
        target: the chip, as for `plan`.
    """
    plans: list[Plan[Convolution]] = []
    for turned in (1, -1):
        (height, width), (rows, columns) = image[::turned], least[::turned]
        for m in _image_lengths(rows, _column_work):
            for n in _image_lengths(columns, _row_work):
                with contextlib.suppress(NotImplementedError):
                    size = (height, width)
                    plans.append(plan_for(Convolution((m, n), size), target=target))
    if not plans:
        raise NotImplementedError(
            f"no kernel convolves images of {image} padded to {least}: split them into tiles"
        )

    def cost(plan: Plan[Convolution]) -> float:
        transposing = 0.0 if plan.kind.held == image else 2 * plan.dma_floor_ns
        return (plan.predicted_ns or math.inf) + transposing

    return min(plans, key=cost)


def _image_lengths(least: int, work: Callable[[int], float]) -> list[int]:
    most = min(least + least // 8 + 16, real_stockham.MAX_LENGTH + 1)
    lengths = range(least + least % 2, most, 2)
    return sorted(lengths, key=work)[:IMAGE_LENGTHS]


def _column_work(m: int) -> float:
    pairs = image_convolution.column_radices(m)
    return m * image_convolution.column_work(pairs[0]) if pairs else math.inf


def _row_work(n: int) -> float:
    """Returns the work of a row, in no unit: its points, and the second stage's work per matrix."""
    if n <= 2 * LARGEST_RADIX:
        return n
    if REAL_STOCKHAM.why_not(n):
        return math.inf
    return n * (1 + 16 / REAL_STOCKHAM.recipes(n)[0].radices[-1])
