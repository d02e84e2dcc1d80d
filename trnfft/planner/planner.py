"""The planner: candidates, their prices, and the cheapest one within the error budget."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest

from nki_kernels import hardware
from nki_kernels.kernels import stockham
from trnfft import config
from trnfft.planner import accuracy, algorithms, cost, wisdom
from trnfft.planner.algorithms import ALGORITHMS, PASSES, SEED, Axes
from trnfft.planner.factorization import LARGEST_RADIX, radix_lists, smooth_numbers
from trnfft.planner.plan import (
    C2C,
    C2R,
    CIRCULANT,
    CIRCULANT_GRADIENTS,
    CONVOLUTION,
    R2C,
    Candidate,
    Plan,
    Recipe,
)

HOST = "host"  # torch.fft in float64: no kernel, no launch
DTYPES = ("float16", "bfloat16", "float32", "float64")
SEARCH_INSTRUCTIONS = 6000  # simulated in a search, after which only untried algorithms go on
REMEMBERED = 4096  # plans kept in memory
FAST_LENGTHS = 24  # smooth ones that next_fast_len ranks: more are too long, or take too long
IMAGE_LENGTHS = 2  # of each axis that plan_images prices
PRICED_LENGTHS = 2  # of these, for each way to rank them
DIRECT = ("stockham", "four_step", "split_four_step")  # for long smooth lengths: no convolution

_plans: dict[object, Plan] = {}


def plan(
    n: int | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    real: bool = False,
    padded_from: tuple[int, ...] | None = None,
    batch: int = 1,
    inverse: bool = False,
    dtype: object = "float32",
    precision: str | None = None,
    target: str | None = None,
    max_error: float | None = None,
    algorithms: str | Iterable[str] | None = None,
) -> Plan:
    """The cheapest way to transform `batch` rows or arrays of points within the error budget.

    Prices are times that the simulator models for one NeuronCore. They are looked up among the
    remembered plans first: in memory, in the user's cache folder, in those that trnfft ships.

    Args:
        n: length of the transform, 1 or more.
        shape: instead of `n`, lengths of a transform over several axes.
        real: whether the data is real or, with `inverse`, the result is: then the other side is
            a half spectrum, with shape[-1] // 2 + 1 numbers along the last axis. Where that is
            cheaper, or no kernel for real data fits, the plan is that of complex data.
        padded_from: shape of the data that `shape` is padded from with zeros at the end; of an
            inverse with `real` what is kept of the result. Rows without data cost nothing.
        batch: number of transforms, 1 or more. Prices are for it rounded up to a power of two.
        inverse: the direction. Both cost the same for complex data.
        dtype: of the real and imaginary part: float16, bfloat16 and float32 (all computed in
            float32) or float64 (on the host), as a torch or NumPy dtype or its name.
        precision: a mode, see `trnfft.set_precision`. Default: what `trnfft.get_precision()`
            returns.
        target: the chip, "trn1", "trn2" or "trn3". Default: what the environment variable
            NEURON_PLATFORM_TARGET_OVERRIDE names, else trn1.
        max_error: largest relative L2 error. Default: that of the precision mode.
        algorithms: names of the algorithms to choose from, or "seed" for the choice of DFT-GEMM
            for n <= 256, else [8^a, 4^b] Stockham, else Bluestein. Default: all.

    Raises:
        TypeError, ValueError: an argument is of the wrong type, out of range or not known.
        NotImplementedError: no kernel can do the length, the shape in one launch, or the error.
    """
    # Tuples, so that True and 1, or a list of names, are fine as keys.
    names = algorithms if algorithms is None or isinstance(algorithms, str) else tuple(algorithms)
    precision = config.get_precision() if precision is None else precision
    chip = hardware.current().name if target is None else target
    size = n if shape is None and padded_from is None else (n, *_shapes(n, shape, padded_from))
    what = (type(n), size, type(batch), batch, inverse, real)
    key = (*what, dtype, precision, chip, max_error, names)
    try:
        return _plans[key]
    except (KeyError, TypeError):  # TypeError: something unhashable, which the checks will name
        problem = _problem(n, shape, padded_from, _kind(real, inverse))
        found = _plan(problem, batch, inverse, dtype, precision, chip, max_error, names)
    if len(_plans) >= REMEMBERED:
        _plans.clear()
    _plans[key] = found
    return found


def next_fast_len(target: int, real: bool = False) -> int:
    """The length from `target` on whose transforms take the least time by the planner's prices.

    Lengths up to 128 are returned as they are: one matrix product transforms them, in a time that
    grows with the length. Above, the next 24 lengths without a prime factor above 13 are ranked
    by the work of their stages, and the likeliest have their price for about 2^20 points looked
    up as `plan` does it: a search of about a second each, up to four of them, the first time on
    a computer. A length beyond the kernels is the next one without a prime factor above 13.

    Args:
        target: the least length, 1 or more.
        real: whether the data is real. Lengths up to 256 are returned as they are then; above
            8192 a real transform runs as a complex one of its length.

    Raises:
        TypeError: `target` is no integer.
        ValueError: `target` is less than 1.
    """
    return _next_fast_len(_at_least_one("target", target), bool(real), hardware.current().name)


@functools.lru_cache(REMEMBERED)
def _next_fast_len(target: int, real: bool, chip: str) -> int:
    if target <= (2 * LARGEST_RADIX if real else LARGEST_RADIX):
        return target
    smooth = smooth_numbers(target, target * 5 // 4)[:FAST_LENGTHS]
    batch = max(1, 2**20 // target)  # the same for all, so that prices compare

    def price(n: int) -> float:
        try:
            found = plan(n, real=real, batch=batch, precision="fast", target=chip)
            return found.predicted_ns or 0.0
        except NotImplementedError:  # it does not fit into SBUF
            return math.inf

    two_stages = PASSES["real_stockham"]
    if real and (fitting := [n for n in smooth if not two_stages.why_not(n)]):
        # A stage takes as long as one of radix 64, whatever fits into it.
        fitting.sort(key=lambda n: n / two_stages.recipes(n)[0].radices[-1])
        return min(fitting[: 2 * PRICED_LENGTHS], key=price)
    direct = [n for n in smooth if not all(ALGORITHMS[name].why_not(n) for name in DIRECT)]
    return min(_likeliest(direct), key=price) if direct else smooth[0]


def _likeliest(lengths: list[int]) -> list[int]:
    """Those worth a price: the best by each of the ranks that order the planner's recipes."""

    def stages(n: int) -> tuple[int, int]:
        # Larger radices save products, but their stages take longer than stage_work knows.
        lists = radix_lists(n, algorithms.stage_work, 1, algorithms.WHOLE_RADIX)
        return algorithms.stage_work(lists[0])

    def points(n: int) -> float:
        return n * algorithms.throughput(radix_lists(n, algorithms.throughput, 1)[0])

    short = [n for n in lengths if n <= stockham.MAX_LENGTH]
    best = sorted(short, key=stages)[:PRICED_LENGTHS] + sorted(lengths, key=points)[:PRICED_LENGTHS]
    return sorted(set(best))


def forget() -> None:
    """Forget the plans in memory; those in files remain."""
    _plans.clear()
    _next_fast_len.cache_clear()
    wisdom.forget()


def plan_convolution(
    shape: tuple[int, ...],
    *,
    padded_from: tuple[int, ...] | None = None,
    batch: int = 1,
    target: str | None = None,
) -> Plan:
    """The way to convolve rows of shape (n,), or images padded to (m, n), in one launch.

    Prices are for a filter whose spectrum is given and is the same for the batch.

    Args:
        shape: that of the transforms.
        padded_from: of images, the shape of the data and of what is kept. Default: `shape`.
        batch, target: as for `plan`.

    Raises:
        TypeError, ValueError: an argument is of the wrong type, out of range or not known.
        NotImplementedError: no kernel can do it.
    """
    chip = hardware.current().name if target is None else target
    key = ("convolution", shape, padded_from, batch, chip)
    if key not in _plans:
        problem = _problem(None, shape, padded_from, CONVOLUTION)
        if len(shape) > 1 and not problem.shape:
            problem = replace(problem, shape=shape, padded_from=shape)
        _plans[key] = _plan(problem, batch, False, "float32", "fast", chip, None, None)
    return _plans[key]


def plan_block_circulant(
    shape: tuple[int, int, int],
    *,
    batch: int = 1,
    gradients: bool = False,
    target: str | None = None,
) -> Plan:
    """The way to multiply rows by a block circulant matrix in one launch.

    Args:
        shape: of the weight, (p, q, k).
        batch: rows.
        gradients: to plan the launch that makes the gradients instead.
        target: as for `plan`.

    Raises:
        TypeError, ValueError: an argument is of the wrong type, out of range or not known.
        NotImplementedError: no kernel can do it.
    """
    chip = hardware.current().name if target is None else target
    kind = CIRCULANT_GRADIENTS if gradients else CIRCULANT
    key = (kind, shape, batch, chip)
    if key not in _plans:
        problem = _problem(None, shape, None, kind)
        _plans[key] = _plan(problem, batch, False, "float32", "fast", chip, None, None)
    return _plans[key]


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
        raise NotImplementedError(f"no kernel convolves images of {image} padded to {least}")

    def cost(plan: Plan) -> float:
        transposing = 0.0 if plan.padded_from == image else 2 * plan.dma_floor_ns
        return (plan.predicted_ns or math.inf) + transposing

    return min(found, key=cost)


def _image_lengths(least: int, work: Callable[[int], float]) -> list[int]:
    """The even lengths from `least` on that take the least work."""
    lengths = range(least + least % 2, least + least // 8 + 16, 2)
    possible = [n for n in lengths if work(n) < math.inf]
    return sorted(possible, key=work)[:IMAGE_LENGTHS]


def _column_work(m: int) -> float:
    pairs = algorithms.ImageConvolution.column_pairs(m)
    return m * algorithms.column_work(pairs[0]) if pairs else math.inf


def _row_work(n: int) -> float:
    """In no unit: the points, and what the second stage does for each matrix."""
    if n <= 2 * LARGEST_RADIX:
        return n
    kernel = PASSES["real_stockham"]
    return math.inf if kernel.why_not(n) else n * (1 + 16 / kernel.recipes(n)[0].radices[-1])


def _kind(real: bool, inverse: bool) -> str:
    return C2C if not real else C2R if inverse else R2C


def _shapes(n: object, shape: object, padded_from: object) -> tuple[object, object]:
    """Both shapes as tuples, for use as keys."""
    if shape is not None and n is not None:
        raise TypeError(f"arguments 'n' and 'shape' are {n} and {shape}, allowed is one of them")
    return tuple(
        tuple(sizes) if isinstance(sizes, Iterable) else sizes  # type: ignore[return-value]
        for sizes in (shape, padded_from)
    )


def _problem(n: object, shape: object, padded_from: object, kind: str) -> Plan:
    """What is to be planned, as a plan with neither batch nor candidates."""
    if shape is None and padded_from is None:
        return Plan(_at_least_one("n", n), 1, False, "", "", 0.0, (), kind)
    sizes = _sizes("shape", (n,) if shape is None else shape)
    held = sizes if padded_from is None else _sizes("padded_from", padded_from)
    if len(held) != len(sizes) or any(a > b for a, b in zip(held, sizes, strict=True)):
        raise ValueError(
            f"argument 'padded_from' is {held}, allowed are {len(sizes)} sizes up to {sizes}"
        )
    if len(sizes) == 1 and held == sizes:
        return Plan(sizes[0], 1, False, "", "", 0.0, (), kind)
    return Plan(math.prod(sizes), 1, False, "", "", 0.0, (), kind, sizes, held)


def _sizes(name: str, sizes: object) -> tuple[int, ...]:
    if not isinstance(sizes, Iterable):
        raise TypeError(f"argument {name!r} must be a tuple of ints, not {type(sizes).__name__}")
    found = tuple(_at_least_one(name, size) for size in sizes)
    if not found:
        raise ValueError(f"argument {name!r} is (), allowed are one or more sizes")
    return found


def _plan(
    problem: Plan,
    batch: int,
    inverse: bool,
    dtype: object,
    precision: str,
    target: str,
    max_error: float | None,
    names: str | tuple[str, ...] | None,
) -> Plan:
    """`plan` for arguments that are not in memory."""
    batch = _at_least_one("batch", batch)
    batch = 1 << (batch - 1).bit_length()
    chip = hardware.chip(target)
    config.check_precision(precision)
    if _dtype_name(dtype) == "float64" or precision == "double":
        return _host_plan(problem, batch, bool(inverse), chip.name)
    budget = accuracy.MAX_ERRORS[precision] if max_error is None else float(max_error)
    if not budget > 0:
        raise ValueError(f"argument 'max_error' is {max_error!r}, allowed is any positive number")
    request = replace(problem, batch=batch, precision=precision, target=chip.name, max_error=budget)
    if request.kind in (R2C, C2R) and not request.shape and names is None:
        found = _real_plan(request, max_error is None)
    else:
        found = _found(request, max_error is None, names)
    return found.with_direction(bool(inverse))


def _real_plan(request: Plan, is_usual: bool) -> Plan:
    """The cheaper of a kernel for real data and, with zeros for the rest, for complex data."""
    complex_plan = _found(replace(request, kind=C2C), is_usual, None)
    as_complex = replace(complex_plan, kind=request.kind)
    try:
        real = _found(request, is_usual, None)
    except NotImplementedError:
        return as_complex
    best, other = real, as_complex
    if (as_complex.predicted_ns or math.inf) < (real.predicted_ns or math.inf):
        best, other = as_complex, real
    rejected = replace(other.choice, rejected=_why_rejected(other.choice, best.choice))
    return replace(best, candidates=(best.choice, rejected, *best.candidates[1:]))


def _found(request: Plan, is_usual: bool, names: str | tuple[str, ...] | None) -> Plan:
    """The plan for a request, remembered if it has its mode's own error and any algorithm."""
    if is_usual and names is None:
        return wisdom.recall(request) or wisdom.remember(search(request))
    return search(request, names)


def search(request: Plan, names: str | tuple[str, ...] | None = None) -> Plan:
    """`request` with candidates: all that were considered, the cheapest that fits first.

    Args:
        request: a plan without candidates.
        names: algorithms to choose from, "seed", or None for all.

    Raises:
        ValueError: an algorithm is not known.
        NotImplementedError: no candidate can do it.
    """
    chip = hardware.chip(request.target)
    candidates, recipes = _recipes(request, names)
    if recipes and min(map(_error, recipes)) > request.max_error:
        raise NotImplementedError(_too_inaccurate(request, min(recipes, key=_error)))
    fitting = {recipe.algorithm for recipe in recipes if _error(recipe) <= request.max_error}
    simulated = 0
    tried: set[str] = set()
    for recipe in recipes:
        skipped = simulated > SEARCH_INSTRUCTIONS or _error(recipe) > request.max_error
        if skipped and recipe.algorithm in tried:
            continue
        candidate, instructions = _priced(recipe, request, chip, fitting)
        tried.add(recipe.algorithm)
        simulated += instructions
        candidates.append(candidate)
    return _choose(request, candidates)


def _recipes(
    request: Plan, names: str | tuple[str, ...] | None
) -> tuple[list[Candidate], list[Recipe]]:
    """Candidates that cannot do the length, and recipes of the others, taking turns."""
    if request.shape:
        return [], _axis_orders(request)
    n = request.n
    if names == SEED:
        choice = algorithms.seed_choice(n)
        if isinstance(choice, Recipe) and not ALGORITHMS[choice.algorithm].why_not(n):
            return [], [choice]
        names = choice.algorithm if isinstance(choice, Recipe) else choice
    candidates, queues = [], []
    for name in _checked_names(names):
        if ALGORITHMS[name].kind != request.kind:
            if names is not None:
                reason = f"is {ALGORITHMS[name].kind}, this is {request.kind}"
                candidates.append(Candidate(Recipe(name, n), rejected=reason))
            continue
        reason = ALGORITHMS[name].why_not(n)
        if reason:
            candidates.append(Candidate(Recipe(name, n), rejected=reason))
        else:
            queues.append(ALGORITHMS[name].recipes(n))
    turns = zip_longest(*queues)
    return candidates, [recipe for turn in turns for recipe in turn if recipe is not None]


def _axis_orders(request: Plan) -> list[Recipe]:
    """Every order of the axes of a shape.

    Raises:
        NotImplementedError: an axis has no kernel.
    """
    (several,) = (a for a in ALGORITHMS.values() if isinstance(a, Axes) and a.kind == request.kind)
    try:
        return several.orders(request.shape, request.padded_from)
    except NotImplementedError as reason:
        raise NotImplementedError(
            f"no kernel transforms shape {request.shape} in one launch: {reason}; use other "
            f"sizes, or transform one axis after the other"
        ) from None


def _checked_names(names: str | tuple[str, ...] | None) -> Iterator[str]:
    if names is None:
        yield from (name for name in ALGORITHMS if not isinstance(ALGORITHMS[name], Axes))
        return
    for name in (names,) if isinstance(names, str) else names:
        if name not in tuple(ALGORITHMS):
            raise ValueError(
                f"argument 'algorithms' has {name!r}, which is no algorithm; known are "
                f"{', '.join(ALGORITHMS)}, and {SEED!r} alone"
            )
        yield name


def _error(recipe: Recipe) -> float:
    return float(f"{ALGORITHMS[recipe.algorithm].error(recipe):.2e}")


def _priced(
    recipe: Recipe, request: Plan, chip: hardware.NeuronCore, fitting: set[str]
) -> tuple[Candidate, int]:
    """The recipe with its price or the reason why it has none, and the instructions simulated."""
    error = _error(recipe)
    if error > request.max_error:
        return Candidate(recipe, None, error, rejected=_exceeds(request.max_error)), 0
    lighter = ALGORITHMS[recipe.algorithm].lighter
    if lighter in fitting:  # never slower, and its dry run is shorter
        return Candidate(recipe, None, error, rejected=f"{lighter} does the same with less work"), 0
    try:
        price = cost.price(recipe, request.batch, chip)
    except cost.CannotRun as reason:
        return Candidate(recipe, rejected=str(reason)), 0
    priced = Candidate(recipe, price.predicted_ns, error, price.bound, price.launches)
    return priced, price.instructions


def _choose(request: Plan, candidates: list[Candidate]) -> Plan:
    """`request` with the candidates in order: the choice, by price, those without a price.

    Raises:
        NotImplementedError: there is no choice.
    """
    priced = [candidate for candidate in candidates if candidate.predicted_ns is not None]
    if not priced:
        raise NotImplementedError(_cannot_run(request, candidates))
    priced.sort(key=lambda candidate: candidate.predicted_ns or 0.0)
    best, *others = priced
    rejected = [replace(other, rejected=_why_rejected(other, best)) for other in others]
    unpriced = [candidate for candidate in candidates if candidate.predicted_ns is None]
    return replace(request, candidates=(best, *rejected, *unpriced))


def _exceeds(max_error: float) -> str:
    return f"its error exceeds {max_error:.2g}"


def _why_rejected(candidate: Candidate, best: Candidate) -> str:
    assert candidate.predicted_ns is not None and best.predicted_ns is not None
    return f"takes {candidate.predicted_ns / best.predicted_ns:.3g} times as long"


def _too_inaccurate(request: Plan, closest: Recipe) -> str:
    return (
        f"no kernel transforms N = {request.n} with a relative error of at most "
        f"{request.max_error:.2g}: the most accurate is {closest} with {_error(closest):.2g}; "
        f'allow that with max_error, or use precision "double"'
    )


def _cannot_run(request: Plan, candidates: list[Candidate]) -> str:
    reasons = "; ".join(
        f"{candidate.recipe.algorithm} {candidate.rejected}"
        for candidate in candidates
        if candidate.rejected
    )
    size = f"shape {request.shape}" if request.shape else f"N = {request.n}"
    return (
        f"no kernel transforms {size} on {request.target}: {reasons}; use another length "
        f'or trnfft.set_backend("auto")'
    )


def _host_plan(problem: Plan, batch: int, inverse: bool, target: str) -> Plan:
    """float64 on the host. What the chip would take is no part of it."""
    n, budget = problem.n, accuracy.MAX_ERRORS["double"]
    choice = Candidate(Recipe(HOST, n), predicted_error=accuracy.double_error(n))
    return replace(
        problem,
        batch=batch,
        inverse=inverse,
        precision="double",
        target=target,
        max_error=budget,
        candidates=(choice,),
    )


def _dtype_name(dtype: object) -> str:
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in DTYPES:
        raise TypeError(
            f"argument 'dtype' is {name}, allowed are {', '.join(DTYPES)}: the dtype of the real "
            f"and imaginary part"
        )
    return name


def _at_least_one(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"argument {name!r} must be an int, not {type(value).__name__}")
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"argument {name!r} is {number}, allowed is 1 or more")
    return number
