"""The planner: it prices candidates and chooses the cheapest within the error budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from nki_sim import hardware
from trnfft.base import cache, config
from trnfft.base.checks import brief, check_flag
from trnfft.base.memory import return_freed_memory
from trnfft.planner import accuracy, cost, wisdom
from trnfft.planner.algorithms import ALGORITHMS, Algorithm
from trnfft.planner.algorithms.algorithm import LengthAlgorithm
from trnfft.planner.bounds import least_ns
from trnfft.planner.dry_runs import NEAR, DryRuns
from trnfft.planner.kinds import C2C, C2R, R2C, K, Transform
from trnfft.planner.kinds.kind import KindRecord, at_least_one
from trnfft.planner.plan import Candidate, Plan, Recipe, cost_ns
from trnfft.planner.problem import (
    Problem,
    checked_accuracy,
    checked_execution,
    checked_launch,
    checked_transform,
)
from trnfft.planner.seed import SEED, seed_choice
from trnfft.planner.separate import (
    SEPARATE,
    as_complex,
    dearer_candidate,
    most_ns,
    separate_candidate,
)

HOST = "host"  # torch.fft in float64: no kernel, no launch
# Of a transform in one launch.
LONGEST = max(each.longest for each in ALGORITHMS.values() if isinstance(each, LengthAlgorithm))
MOST_POINTS = 2**29  # of an array: 2 GiB of float32
_MOST_BATCH = 2**256  # more than any memory holds; times of more are no floats
REMEMBERED = 1024  # plans kept in memory, of about 6 KB each

About = Callable[[Problem], float]
Names = tuple[str, ...] | None  # algorithms to choose from: names, (SEED,) alone, or None for all


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
    cores: int | None = None,
    execution: str = "graph",
    max_error: float | None = None,
    algorithms: str | Iterable[str] | None = None,
) -> Plan[Transform]:
    """Returns the cheapest way within the error budget to transform a batch of rows or arrays.

    Nothing runs. Prices are times that the simulator models for launches on one NeuronCore, or on
    two. Rows are one launch. Several axes are one launch, or one launch an axis with copies by
    torch between them: the algorithm is then "separate_launches".

    The function first looks for a remembered plan: in memory, in the user's cache folder, and among
    the plans that trnfft ships. Otherwise it searches. torch and SciPy have no counterpart; FFTW's
    planner has the same purpose. See `docs/planner.md`.

    Args:
        n: length of the transform, 1 or more.
        shape: in place of `n`, the lengths of a transform over several axes.
        real: whether the data is real or, with `inverse`, the result is. The other side is then
            half a spectrum, with shape[-1] // 2 + 1 numbers along the last axis. The plan is that
            of complex data where it is cheaper, or where no kernel for real data fits.
        padded_from: shape of the data that zeros at the end extend to `shape`. For an inverse with
            `real`, the shape of the part of the result that is kept. Rows without data cost
            nothing.
        batch: number of transforms, 1 or more.
        inverse: the direction. Both directions cost the same for complex data.
        dtype: dtype of the real and the imaginary part: float16, bfloat16 or float32, all computed
            in float32, or float64, computed on the host. A dtype of torch or NumPy, or its name.
        precision: a mode, see `trnfft.set_precision`. Default: the mode of the context.
        target: the chip, "trn1", "trn2" or "trn3". Default: the chip that the environment variable
            NEURON_PLATFORM_TARGET_OVERRIDE names, otherwise that of the EC2 instance, otherwise
            trn1.
        cores: the degree of LNC, which is the number of physical NeuronCores that share a launch:
            1, or 2 on trn2 and trn3. Default: the value of NEURON_LOGICAL_NC_CONFIG, otherwise the
            highest degree of the chip. The variable describes the chip of this computer. For
            another `target`, it holds only where that chip has the degree, so
            NEURON_LOGICAL_NC_CONFIG=2 is no error for trn1.
        execution: "graph" for compiled graphs and PyTorch/XLA, or "eager" for TorchNeuron's eager
            mode, where every launch and every operator of torch around it costs about 60 us.
        max_error: largest relative L2 error. Default: that of the precision mode.
        algorithms: names of the algorithms to choose from, or "seed" for a fixed choice: DFT-GEMM
            for n <= 256, otherwise [8^a, 4^b] Stockham, otherwise Bluestein. Default: all
            algorithms.

    Returns:
        A `trnfft.planner.plan.Plan`. It holds the choice, its price, and all candidates that were
        considered.

    Raises:
        TypeError, ValueError: an argument has the wrong type, is out of range or is unknown.
        NotImplementedError: no kernel can compute the length, a length of the shape, or the error.

    Examples:
        >>> import trnfft
        >>> plan = trnfft.plan(1024, batch=1024, target="trn1")
        >>> plan.algorithm, plan.radices, plan.bound
        ('stockham', (64, 16), 'tensor')
        >>> plan.predicted_ns > plan.dma_floor_ns
        True
    """
    precision = config.get_precision() if precision is None else precision
    check_flag("real", real)
    check_flag("inverse", inverse)
    mode, budget = checked_accuracy(precision, dtype, max_error)
    part = C2C if not real else C2R if inverse else R2C
    kind = checked_transform(n, shape, padded_from, part)
    problem = _problem(kind, batch, mode, budget, target, cores, execution, bool(inverse))
    return solved(problem, _checked_names(algorithms))


def plan_for(
    kind: K,
    *,
    batch: int = 1,
    precision: str = "fast",
    target: str | None = None,
    cores: int | None = None,
    execution: str = "graph",
) -> Plan[K]:
    """Returns the cheapest way to compute what a kind says: one launch, or separate launches.

    `trnfft.plan` is the same for transforms. Separate launches, with what torch moves between them,
    are a candidate for several axes, Fourier layers, frames and real planes. See `docs/layers.md`
    and `docs/convolution.md`.

    Args:
        kind: a record of `trnfft.planner.kinds`: `Convolution`, `BlockCirculant`, `SpectralLayer`,
            `SpectralGradients`, `Frames`, `RealPlanes`, or `Transform`.
        batch: number of rows, images, samples, frames or planes.
        precision: "fast", "bf16" or "bf16_refined". There is no kernel for the other modes.
        target, cores, execution: as for `trnfft.plan`.

    Returns:
        A `trnfft.planner.plan.Plan`. Its algorithm is `SEPARATE` of `trnfft.planner.separate` where
        separate launches are cheaper.

    Raises:
        TypeError, ValueError: an argument has the wrong type, is out of range or is unknown.
        NotImplementedError: no kernel can compute it, nor its transforms.

    Examples:
        >>> from trnfft.planner.kinds import BlockCirculant, Convolution, Frames, SpectralLayer
        >>> from trnfft.planner.planner import plan_for
        >>> plan = plan_for(Convolution((1024,)), batch=128, target="trn1")
        >>> plan.algorithm, plan.radices
        ('convolve_rows', (32, 32))
        >>> plan_for(BlockCirculant(4, 4, 64), batch=256, target="trn1").algorithm
        'block_circulant'
        >>> layer = SpectralLayer(64, 64, lengths=(1024,), kept=(16,))
        >>> plan_for(layer, batch=32, target="trn1").launches
        1
        >>> plan_for(Frames(512, hop=128, bands=80), batch=6000, target="trn1").algorithm
        'frame_bands'
    """
    if not isinstance(kind, KindRecord):
        raise TypeError(f"argument 'kind' is {brief(kind)}, allowed are records of planner.kinds")
    mode, budget = checked_accuracy(precision, "float32", None)
    if budget < accuracy.MAX_ERRORS["fast"] and not isinstance(kind, Transform):
        raise NotImplementedError(f"no kernel computes a {kind.title} in the precision {mode!r}")
    return solved(_problem(kind, batch, mode, budget, target, cores, execution))


def _problem(
    kind: K,
    batch: int,
    mode: str,
    budget: float,
    target: str | None,
    cores: int | None,
    execution: str,
    inverse: bool = False,
) -> Problem[K]:
    chip, degree = checked_launch(target, cores)
    return Problem(
        kind=kind,
        batch=at_least_one("batch", batch),
        inverse=inverse,
        precision=mode,
        target=chip.name,
        max_error=budget,
        cores=degree,
        execution=checked_execution(execution),
    )


def forget() -> None:
    """Forgets the plans in memory. Plans in files remain."""
    solved.cache_clear()
    wisdom.forget()


@cache.cached(REMEMBERED)
def solved(problem: Problem, names: Names = None) -> Plan:
    """Returns the plan for a problem: from memory, from a file, or by a search."""
    kind = problem.kind
    forward = replace(problem, kind=kind.priced, inverse=False)
    if problem.precision == "double":
        error = accuracy.double_error(forward.n)
        host = Candidate(Recipe(HOST, forward.kind), predicted_error=error)
        solution = Plan.of(forward, (host,))
    elif kind.is_rows and kind.name in (R2C, C2R) and names is None:
        solution = _real_plan(forward)
    else:
        solution = _planned(forward, names)
    return solution.solving(kind, problem.inverse, problem.execution)


def _checked_names(algorithms: str | Iterable[str] | None) -> Names:
    """Returns names of algorithms as `search` expects them; ValueError where one is unknown."""
    if algorithms is None:
        return None
    if not isinstance(algorithms, Iterable) or getattr(algorithms, "ndim", 1) == 0:
        raise TypeError(f"argument 'algorithms' is {brief(algorithms)}, allowed are names")
    names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
    for name in names:
        if (
            not isinstance(name, str)
            or name not in (*ALGORITHMS, SEED)
            or (name == SEED and len(names) > 1)
        ):
            raise ValueError(
                f"argument 'algorithms' has {brief(name)}, which is not an algorithm; allowed are "
                f"{', '.join(each for each in ALGORITHMS if '_bf16' not in each)}, many of which "
                f"have forms that end with _bf16 and _bf16_refined, and {SEED!r} alone"
            )
    return names


def _real_plan(problem: Problem[Transform]) -> Plan[Transform]:
    """Returns the cheaper of a plan for real data and a plan for complex data.

    What torch moves to make complex data, or real results, is part of the price of the latter.
    """
    complex_plan = as_complex(problem, lambda rows: _planned(rows, None))
    try:
        real = _planned(problem, None)
    except NotImplementedError:
        return complex_plan
    best, other = real, complex_plan
    if cost_ns(other.choice, problem) < cost_ns(best.choice, problem):
        best, other = other, best
    rejected = replace(other.choice, rejected=_why_rejected(other.choice, best.choice, problem))
    return replace(best, candidates=(best.choice, rejected, *best.candidates[1:]))


def _planned(problem: Problem, names: Names) -> Plan:
    """Returns the plan for a problem, remembered where error and algorithms are the defaults.

    Eager mode changes the plan only of what separate launches compute, too.
    """
    if not problem.is_usual or names is not None:
        return search(problem, names)
    is_eager = problem.execution == "eager"
    if is_eager and problem.kind.separate(problem.batch) is None:
        graph = _planned(replace(problem, execution="graph"), None)
        return graph.solving(graph.kind, graph.inverse, "eager")
    plan = wisdom.recall(problem)
    if plan is None:
        plan = wisdom.remember(_eager_plan(problem) if is_eager else search(problem))
        return_freed_memory()
    return plan


def _eager_plan(problem: Problem) -> Plan:
    """Returns the plan for eager mode, from the prices of the plan for a graph."""
    graph = _planned(replace(problem, execution="graph"), None)
    others = [each for each in graph.candidates if each.recipe.algorithm != SEPARATE]
    known = [replace(each, rejected="") if each.predicted_ns else each for each in others]
    return _choose(problem, [*known, *_separate(problem, known)])


def search(problem: Problem, names: Names = None) -> Plan:
    """Returns the plan for a problem, with all candidates that were considered, the choice first.

    Args:
        problem: the problem to solve.
        names: algorithms to choose from, "seed", or None for all.

    Raises:
        ValueError: an algorithm is unknown.
        NotImplementedError: no candidate can solve the problem.
    """
    _check_points(problem)
    candidates, recipes = _recipes(problem, names)
    errors = {recipe: _error(recipe, problem) for recipe in recipes}
    is_apart = names is None and problem.kind.separate(problem.batch) is not None
    if recipes and min(errors.values()) > problem.max_error and not is_apart:
        closest = min(recipes, key=errors.__getitem__)
        raise NotImplementedError(_too_inaccurate(problem, closest, errors[closest]))
    exact = _exact_candidates(problem) if names is None else []
    # Of separate launches there is a candidate already.
    exact = [each for each in exact if each.recipe.algorithm != SEPARATE]
    known = {each.recipe for each in exact}
    others = [recipe for recipe in recipes if recipe not in known]
    estimates: dict[Problem, float] = {}

    def about(rows: Problem) -> float:
        if rows not in estimates:
            estimates[rows] = _about_ns(rows)
        return estimates[rows]

    rival = partial(most_ns, problem, about=about)
    is_rivalled = is_apart and isinstance(problem.kind, Transform)
    launches = [*exact, *_priced(others, problem, exact, rival if is_rivalled else None)]
    if is_apart:
        candidates += _separate(problem, launches, about)
    return _choose(problem, [*launches, *candidates])


def _separate(
    problem: Problem, launches: list[Candidate], about: About | None = None
) -> list[Candidate]:
    """Returns the candidate of separate launches beside those of one launch, which have prices."""
    if isinstance(problem.kind, Transform):
        cheapest = min((cost_ns(each, problem) for each in launches), default=math.inf)
        if dearer := dearer_candidate(problem, cheapest, about or _about_ns):
            return dearer
    return separate_candidate(problem, solved)


def _about_ns(problem: Problem) -> float:
    """Returns about the nanoseconds of rows: the price of the recipe with the lowest bound.

    It is 0 without such a price.
    """
    chip = hardware.chip(problem.target)
    try:
        _, recipes = _recipes(problem, None)
        fitting = [each for each in recipes if _error(each, problem) <= problem.max_error]
        recipe = min(fitting, key=lambda each: least_ns(each, problem))
        return cost.price(recipe, problem.batch, chip, problem.cores).predicted_ns
    except (NotImplementedError, ValueError, cost.CannotRun):
        return 0.0


def check_longest(n: int) -> None:
    """Raises NotImplementedError for a transform that is too long for any kernel."""
    if n > LONGEST:
        raise NotImplementedError(
            f"N = {brief(n)} is more than the {LONGEST} points that a launch transforms: split it "
            f'over several cores or launches, see "Longer transforms" in docs/planner.md, or use '
            f'trnfft.set_precision("double"), which transforms any length on the host'
        )


def _check_points(problem: Problem) -> None:
    """Raises NotImplementedError for too large a problem, before the search."""
    if problem.batch > _MOST_BATCH:
        raise NotImplementedError(
            f"argument 'batch' is {brief(problem.batch)}, which no memory holds; use a smaller one"
        )
    kind = problem.kind
    if kind.is_rows:
        check_longest(problem.n)
    elif problem.n > MOST_POINTS and (
        isinstance(kind, Transform) or kind.separate(problem.batch) is None
    ):
        shape = " x ".join(map(brief, kind.sizes))
        raise NotImplementedError(
            f"shape {shape} has more than {MOST_POINTS} points, and no tensor on a chip more than "
            f"2 GiB: split it, or transform one axis after the other"
        )


def _exact_candidates(problem: Problem) -> list[Candidate]:
    """Returns the priced candidates of "fast" where more error is allowed.

    With them, a mode that allows more error is never slower than "fast".
    """
    budget = accuracy.MAX_ERRORS["fast"]
    if problem.max_error <= budget:
        return []
    try:
        plan = _planned(replace(problem, precision="fast", max_error=budget), None)
    except NotImplementedError:
        return []
    priced = [each for each in plan.candidates if each.predicted_ns is not None]
    return [replace(each, rejected="") for each in priced]


def _recipes(problem: Problem, names: Names) -> tuple[list[Candidate], list[Recipe]]:
    """Returns candidates that cannot solve the problem, and the recipes of the others in turn."""
    kind = problem.kind
    if not kind.is_rows:
        return _recipes_for_shape(problem, names)
    if names == (SEED,):
        choice = seed_choice(problem)
        if isinstance(choice, Recipe):
            return [], [choice]
        names = (choice,)
    candidates, queues = [], []
    for algorithm in _asked(names):
        if algorithm.kind != kind.name:
            if names is not None:
                reason = f"is {algorithm.kind}, this is {kind.name}"
                candidates.append(Candidate(Recipe(algorithm.name, kind), rejected=reason))
            continue
        try:
            if algorithm.takes_shapes:
                raise NotImplementedError("takes shapes")
            queues.append(algorithm.recipes_for(kind))
        except NotImplementedError as reason:
            recipe = Recipe(algorithm.name, kind)
            candidates.append(Candidate(recipe, rejected=str(reason)))
    turns = zip_longest(*queues)
    return candidates, [recipe for turn in turns for recipe in turn if recipe is not None]


def _recipes_for_shape(problem: Problem, names: Names) -> tuple[list[Candidate], list[Recipe]]:
    """Returns all recipes of the algorithms that accept shapes of this kind.

    Where none does, a kind that separate launches compute has a candidate without a price.
    """
    if names == (SEED,):
        raise NotImplementedError(f"algorithms {SEED!r} is a choice for one length, not for shapes")
    kind, recipes, rejected = problem.kind, list[Recipe](), list[Candidate]()
    for algorithm in ALGORITHMS.values() if names is None else _asked(names):
        is_fitting = algorithm.takes_shapes and algorithm.kind == kind.name
        try:
            if algorithm.kind != kind.name:
                raise NotImplementedError(f"is {algorithm.kind}, this is {kind.name}")
            if not algorithm.takes_shapes:
                raise NotImplementedError("takes one length")
            recipes += algorithm.recipes_for(kind)
        except NotImplementedError as reason:
            if is_fitting or names is not None:
                rejected.append(Candidate(Recipe(algorithm.name, kind), rejected=str(reason)))
    if recipes:
        return rejected if names is not None else [], recipes
    last = rejected[-1]
    if names is None and kind.separate(problem.batch) is not None:
        return [last], []
    raise NotImplementedError(
        f"no kernel transforms shape {kind.sizes} in one launch: {last.recipe.algorithm} "
        f"{last.rejected}; use other sizes, or transform one axis after the other"
    )


def _asked(names: Names) -> list[Algorithm]:
    """Returns the algorithms of these names, or without names all algorithms for one length."""
    if names is None:
        return [algorithm for algorithm in ALGORITHMS.values() if not algorithm.takes_shapes]
    return [ALGORITHMS[name] for name in names]


def _error(recipe: Recipe, problem: Problem) -> float:
    """Returns the error that a problem has to allow: by all records if its budget is a number."""
    stated = ALGORITHMS[recipe.algorithm].stated_error(recipe)
    if problem.is_usual:
        return stated
    return accuracy.high_error(recipe.algorithm, recipe.radices, stated)


def _priced(
    recipes: list[Recipe],
    problem: Problem,
    known: list[Candidate],
    rival: Callable[[float], float] | None = None,
) -> list[Candidate]:
    """Returns the recipes with their prices, or with the reasons why they have none.

    Of an algorithm that is out of the question, one candidate stands for all. `known` are
    candidates with prices; `rival` is as for `DryRuns`.
    """
    errors = {recipe: _error(recipe, problem) for recipe in recipes}
    fitting = {recipe.algorithm for recipe in recipes if errors[recipe] <= problem.max_error}
    suitable: list[Recipe] = []
    others: dict[str, Candidate] = {}
    for recipe in recipes:
        name = recipe.algorithm
        algorithm = ALGORITHMS[name]
        reason = ""
        if errors[recipe] > problem.max_error:
            reason = f"its error exceeds {problem.max_error:.2g}"
        elif algorithm.lighter in fitting:  # it is never slower, and its dry run is shorter
            reason = f"{algorithm.lighter} does the same with less work"
        if reason:
            error = algorithm.stated_error(recipe)
            others.setdefault(name, Candidate(recipe, predicted_error=error, rejected=reason))
        else:
            suitable.append(recipe)
    cheapest = min((candidate.predicted_ns or math.inf for candidate in known), default=math.inf)
    priced = DryRuns(problem, cheapest, rival).priced(suitable)
    names = {candidate.recipe.algorithm for candidate in priced}
    return [*priced, *(each for name, each in others.items() if name not in names)]


def _choose(problem: Problem, candidates: list[Candidate]) -> Plan:
    """Returns the plan: the choice first, then candidates by cost, then those without a price.

    Of candidates whose costs hardly differ, the choice is the one with the fewest launches and
    operators, and then the one with the least dear reading of the records.
    """
    priced = [candidate for candidate in candidates if candidate.predicted_ns is not None]
    if not priced:
        raise NotImplementedError(_cannot_run(problem, candidates))
    priced.sort(key=lambda candidate: cost_ns(candidate, problem))
    # Launches are not modelled, so that they do not make a larger difference alike.
    limit = cost_ns(priced[0], problem) + (NEAR - 1) * (priced[0].predicted_ns or 0.0)
    near = [candidate for candidate in priced if cost_ns(candidate, problem) <= limit]
    best = min(near, key=_launched_and_high)
    others = [candidate for candidate in priced if candidate is not best]
    rejected = [replace(other, rejected=_why_rejected(other, best, problem)) for other in others]
    unpriced = [candidate for candidate in candidates if candidate.predicted_ns is None]
    return Plan.of(problem, (best, *rejected, *unpriced))


def _launched_and_high(candidate: Candidate) -> tuple[int, float]:
    return candidate.launches + candidate.operators, candidate.high_ns or math.inf


def _why_rejected(candidate: Candidate, best: Candidate, problem: Problem) -> str:
    ratio = cost_ns(candidate, problem) / cost_ns(best, problem)
    if ratio < 1:
        return f"is {100 * (1 - ratio):.1g}% quicker, but may take longer by other records"
    if ratio > 1.005:  # otherwise it would print as 1
        return f"takes {ratio:.3g} times as long"
    return f"takes {100 * (ratio - 1):.1g}% longer" if ratio > 1 else "takes as long"


def _too_inaccurate(problem: Problem, closest: Recipe, error: float) -> str:
    return (
        f"no kernel transforms N = {problem.n} with a relative error of at most "
        f"{problem.max_error:.2g}: the most accurate is {closest} with {error:.2g}; "
        f'allow that with max_error, or use precision "double"'
    )


def _cannot_run(problem: Problem, candidates: list[Candidate]) -> str:
    kind = problem.kind
    size = f"N = {problem.n}" if kind.is_rows else f"shape {kind.sizes}"
    first: dict[str, str] = {}  # one reason for each algorithm, whose recipes have similar ones
    for candidate in candidates:
        first.setdefault(candidate.recipe.algorithm, candidate.rejected)
    apart = first.pop(SEPARATE, "")
    launches = f" (separate launches: {apart})" if apart else ""
    if len(set(first.values())) == 1:
        (name, reason), *_ = first.items()
        return (
            f"no kernel transforms {size} on {problem.where}: {name} {reason}; use other sizes, or "
            f'trnfft.set_precision("double"), which transforms any size on the host{launches}'
        )
    what = "a length" if kind.is_rows else "sizes"
    return (
        f"no kernel transforms {size} on {problem.where}; use {what} without large prime "
        f'factors, as trnfft.next_fast_len returns, or trnfft.set_precision("double"), which '
        f"transforms any {'length' if kind.is_rows else 'size'} on the host{launches}"
    )
