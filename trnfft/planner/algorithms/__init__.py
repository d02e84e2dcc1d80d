"""The algorithms that the planner knows: what each can do, its kernel, tables and error.

An `Algorithm` describes one kernel of `nki_kernels`. `recipes(n)` are the ways worth pricing,
`arguments(recipe, ...)` is what the kernel takes after its input, of the shapes `inputs`, and
`specs(recipe)` the same as (shape, dtype) pairs, so that a price needs no tables.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations
from typing import Any

from nki_kernels import hardware
from nki_kernels.kernels import (
    axes,
    block_circulant,
    bluestein,
    butterfly,
    convolution,
    dft_gemm,
    four_step,
    image_convolution,
    long_bluestein,
    real_dft_gemm,
    real_stockham,
    split_four_step,
    stockham,
    strided_stockham,
)
from trnfft.planner import accuracy, tables
from trnfft.planner.factorization import prime_factors, radix_lists, seed_radices
from trnfft.planner.plan import (
    C2C,
    C2R,
    CIRCULANT,
    CIRCULANT_GRADIENTS,
    CONVOLUTION,
    R2C,
    Pass,
    Recipe,
)

SEED = "seed"  # the choice of the article that this project started from
RADIX_LISTS = 8  # Stockham's, for one length
SHORTEST_FOUR_STEP = 256  # below, a transform a partition is never slower
CONVOLUTIONS = 4  # Bluestein's, for one length
REAL_PAIRS = 3  # real Stockham's, for one length
LONG_LISTS = 3  # four-step's and long Bluestein's, whose dry runs take longer
WHOLE_RADIX = 64  # the largest that is contracted at once, both parts together


class Algorithm:
    """One kernel, and what the planner has to know about it."""

    name: str
    kernel: Any
    kind = C2C  # what its data and its result are
    rows = 128  # transforms that the kernel takes at once
    lighter = ""  # an algorithm that does the same with less work, where its error allows

    def why_not(self, n: int) -> str:
        """Why it cannot transform length n; "" if it can."""
        raise NotImplementedError

    def recipes(self, n: int) -> list[Recipe]:
        """Recipes for a length it can do, the likeliest first."""
        return [Recipe(self.name, n)]

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        """Shapes of the kernel's float32 input: one array of real data, two parts of complex."""
        if self.kind == R2C:
            return [(batch, recipe.n)]
        return [(batch, recipe.n // 2 + 1 if self.kind == C2R else recipe.n)] * 2

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        """What `arguments` returns, with (shape, dtype) in place of every table."""
        return self.arguments(recipe)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        """The kernel's arguments after its input; the tables are cached and read-only."""
        raise NotImplementedError

    def error(self, recipe: Recipe) -> float:
        """Predicted relative L2 error for random normal input."""
        raise NotImplementedError


class Gemm(Algorithm):
    """A kernel of matrix products, in float32, bfloat16 or refined: with pairs of bfloat16."""

    def __init__(self, dtype: str = "float32", refined: bool = False) -> None:
        self.dtype, self.refined = dtype, refined
        if dtype != "float32":
            self.name += "_bf16_refined" if refined else "_bf16"

    def stored(self, spec: Any) -> Any:
        """(shape, dtype) of a table that is (shape, "float32") in float32."""
        shape = spec[0]
        return ((2, *shape) if self.refined else shape), self.dtype


class DftGemm(Gemm):
    """One product with the whole DFT matrix."""

    name = "dft_gemm"
    kernel = dft_gemm.dft_gemm

    def why_not(self, n: int) -> str:
        return "" if n <= dft_gemm.MAX_LENGTH else f"takes N <= {dft_gemm.MAX_LENGTH}"

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        size = 2 * recipe.n * dft_gemm.transforms_per_slab(recipe.n)
        return (self.stored(((size, size), "float32")),)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        return (tables.dft_matrix(recipe.n, inverse, scale, self.dtype, self.refined),)

    def error(self, recipe: Recipe) -> float:
        if self.dtype == "float32":
            return accuracy.matrix_error(recipe.n)
        return accuracy.bfloat16_error(1, self.refined)


class Stockham(Gemm):
    """Stages of any radices on the Tensor engine."""

    name = "stockham"
    kernel = stockham.stockham

    def why_not(self, n: int) -> str:
        if not 2 <= n <= stockham.MAX_LENGTH:
            return f"takes 2 <= N <= {stockham.MAX_LENGTH}"
        largest = prime_factors(n)[-1]
        if largest > stockham.MAX_RADIX:
            return f"has no radix for the prime factor {largest}"
        return ""

    def recipes(self, n: int) -> list[Recipe]:
        lists = radix_lists(n, stage_work, RADIX_LISTS, stockham.MAX_RADIX)
        return [Recipe(self.name, n, radices) for radices in lists]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return tuple(map(self.stored, stage_specs(recipe.radices))), recipe.radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        n, radices = recipe.n, recipe.radices
        options = (inverse, scale, self.dtype, self.refined)
        return tables.cached(stockham.stockham_tables, n, radices, *options), radices

    def error(self, recipe: Recipe) -> float:
        if self.dtype == "float32":
            return accuracy.stages_error(recipe.radices)
        return accuracy.bfloat16_error(len(recipe.radices), self.refined)


class Butterfly(Algorithm):
    """Radix-4 butterflies on the Vector engine; compensated, it is the most accurate kernel."""

    kernel = butterfly.butterfly

    def __init__(self, compensated: bool) -> None:
        self.compensated = compensated
        self.name = "butterfly_kahan" if compensated else "butterfly"
        self.lighter = "butterfly" if compensated else ""
        self.longest = butterfly.MAX_COMPENSATED_LENGTH if compensated else butterfly.MAX_LENGTH

    def why_not(self, n: int) -> str:
        if 2 <= n <= self.longest and n & (n - 1) == 0:
            return ""
        return f"takes powers of two from 2 to {self.longest}"

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        # Small enough to serve as specs, too: about as many numbers as a transform has points.
        n, compensated = recipe.n, self.compensated
        found = tables.cached(butterfly.butterfly_tables, n, inverse, scale, compensated)
        return found, compensated

    def error(self, recipe: Recipe) -> float:
        if self.compensated:
            return accuracy.COMPENSATED_ERROR
        return accuracy.butterfly_error(recipe.n)


class Convolution(Algorithm):
    """Bluestein: a convolution with a chirp, by two transforms of a longer, smooth length."""

    def error(self, recipe: Recipe) -> float:
        assert recipe.inner is not None
        once = ALGORITHMS[recipe.inner.algorithm].error(recipe.inner)
        return accuracy.root_of_squares(once, once, accuracy.UNIT)


class Bluestein(Convolution):
    """A convolution with a chirp, by two Stockham transforms of a longer, smooth length."""

    name = "bluestein"
    kernel = bluestein.bluestein

    def why_not(self, n: int) -> str:
        longest = bluestein.MAX_CONVOLVED
        return "" if 2 <= n <= longest else f"takes 2 <= N <= {longest}"

    def recipes(self, n: int) -> list[Recipe]:
        work = partial(convolution_work, n)
        lists = [
            radices
            for m in bluestein.convolution_lengths(n)
            for radices in radix_lists(m, work, CONVOLUTIONS, stockham.MAX_RADIX)
        ]
        inner = [
            Recipe(Stockham.name, math.prod(radices), radices)
            for radices in sorted(lists, key=work)[:CONVOLUTIONS]
        ]
        return [Recipe(self.name, n, inner=recipe) for recipe in inner]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        assert recipe.inner is not None
        n, radices = recipe.n, recipe.inner.radices
        plain = stage_specs(radices) * 2
        last = len(plain) - 1
        specs = []
        for stage, spec in enumerate(plain):
            if stage in (0, len(radices) - 1, last):  # weighted: a matrix a product
                taken, made, done, left, slabs = bluestein.stage_shape(n, radices, stage)
                shape = (2 * slabs * taken, done * left // slabs, 2 * slabs * made)
                spec = (shape, "float32")
            specs.append(spec)
        return tuple(specs), radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        assert recipe.inner is not None
        n, m, radices = recipe.n, recipe.inner.n, recipe.inner.radices
        found = tables.cached(bluestein.bluestein_tables, n, m, radices, inverse, scale)
        return found, radices


class FourStep(Algorithm):
    """One transform spread over all partitions: for long ones, and for few of them."""

    name = "four_step"
    kernel = four_step.four_step
    rows = 1

    def why_not(self, n: int) -> str:
        if not SHORTEST_FOUR_STEP <= n <= four_step.MAX_LENGTH:
            return f"takes {SHORTEST_FOUR_STEP} <= N <= {four_step.MAX_LENGTH}"
        largest = prime_factors(n)[-1]
        if largest > four_step.MAX_RADIX:
            return f"has no radix for the prime factor {largest}"
        return ""

    def recipes(self, n: int) -> list[Recipe]:
        many = radix_lists(n, throughput, LONG_LISTS - 1, four_step.MAX_RADIX)
        few = radix_lists(n, latency, LONG_LISTS, four_step.MAX_RADIX)
        lists = list(dict.fromkeys([*many, *few]))[:LONG_LISTS]
        return [Recipe(self.name, n, radices) for radices in lists]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return spread_specs(recipe.radices), recipe.radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        n, radices = recipe.n, recipe.radices
        return tables.cached(four_step.four_step_tables, n, radices, inverse, scale), radices

    def error(self, recipe: Recipe) -> float:
        return accuracy.root_of_squares(accuracy.stages_error(recipe.radices), accuracy.UNIT)


class SplitFourStep(Algorithm):
    """Radix 2 or 4 through HBM, then four-step transforms: for what SBUF cannot hold."""

    name = "split_four_step"
    kernel = split_four_step.split_four_step
    rows = 1

    def why_not(self, n: int) -> str:
        shortest, longest = four_step.MAX_LENGTH + 2, split_four_step.MAX_SPLIT_LENGTH
        if n % 2 or not shortest <= n <= longest:
            return f"takes even N, {shortest} <= N <= {longest}"
        largest = prime_factors(n)[-1]
        if largest > four_step.MAX_RADIX:
            return f"has no radix for the prime factor {largest}"
        return "" if self.recipes(n) else f"takes multiples of 4 above {2 * four_step.MAX_LENGTH}"

    def recipes(self, n: int) -> list[Recipe]:
        return [
            Recipe(self.name, n, (split, *radices))
            for split in (2, 4)
            if n % split == 0 and n // split <= four_step.MAX_LENGTH
            for radices in radix_lists(n // split, spread_work, 1, four_step.MAX_RADIX)
        ]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return split_specs(recipe.radices), recipe.radices, False

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        n, radices = recipe.n, recipe.radices
        found = tables.cached(split_four_step.split_four_step_tables, n, radices, inverse, scale)
        return found, radices, inverse

    def error(self, recipe: Recipe) -> float:
        return accuracy.root_of_squares(
            accuracy.stages_error(recipe.radices), accuracy.UNIT, accuracy.UNIT
        )


class LongBluestein(Convolution):
    """Bluestein's convolution by two four-step transforms."""

    name = "long_bluestein"
    kernel = long_bluestein.long_bluestein
    rows = 1
    lighter = FourStep.name

    def why_not(self, n: int) -> str:
        longest = long_bluestein.MAX_CONVOLVED
        if SHORTEST_FOUR_STEP <= n <= longest:
            return ""
        return f"takes {SHORTEST_FOUR_STEP} <= N <= {longest}"

    def recipes(self, n: int) -> list[Recipe]:
        first = four_step.MAX_RADIX
        found: list[Recipe] = []
        left = max(2, -(-(2 * n - 1) // first))
        while len(found) < LONG_LISTS and first * left <= four_step.MAX_LENGTH:
            for rest in radix_lists(left, spread_work, 1, four_step.MAX_RADIX):
                inner = Recipe(FourStep.name, first * left, (first, *rest))
                found.append(Recipe(self.name, n, inner=inner))
            left += 1
        return found

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        assert recipe.inner is not None
        m, radices = recipe.inner.n, recipe.inner.radices
        opening = ((2, radices[0], m // radices[0]), "float32")
        closing = ((2, radices[-1], m // radices[-1]), "float32")
        return (opening, opening, closing, spread_specs(radices)), radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        assert recipe.inner is not None
        n, radices = recipe.n, recipe.inner.radices
        found = tables.cached(long_bluestein.long_bluestein_tables, n, radices, inverse, scale)
        return found, radices


class SplitBluestein(Convolution):
    """Bluestein's convolution by two transforms of `SplitFourStep`."""

    name = "split_bluestein"
    kernel = long_bluestein.split_bluestein
    rows = 1
    lighter = SplitFourStep.name

    def why_not(self, n: int) -> str:
        shortest, longest = long_bluestein.MAX_CONVOLVED + 1, long_bluestein.MAX_SPLIT_CONVOLVED
        return "" if shortest <= n <= longest else f"takes {shortest} <= N <= {longest}"

    def recipes(self, n: int) -> list[Recipe]:
        split, first, last = 4, WHOLE_RADIX, four_step.MAX_RADIX
        middle = -(-(2 * n - 1) // (split * first * last))
        radices = (split, first, middle, last)
        inner = Recipe(SplitFourStep.name, math.prod(radices), radices)
        return [Recipe(self.name, n, inner=inner)]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        assert recipe.inner is not None
        m, radices = recipe.inner.n, recipe.inner.radices
        split, first, last = radices[0], radices[1], radices[-1]
        loaded = ((split, 2, first, m // (split * first)), "float32")
        stored = ((2, last, m // last), "float32")
        return (loaded, loaded, stored, split_specs(radices)), radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        assert recipe.inner is not None
        n, radices = recipe.n, recipe.inner.radices
        found = tables.cached(long_bluestein.split_bluestein_tables, n, radices, inverse, scale)
        return found, radices


class RealDftGemm(Algorithm):
    """One product of real data with half of the DFT matrix, or of a half spectrum with its own."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "real_dft_gemm" if kind == R2C else "inverse_real_dft_gemm"
        self.kernel = getattr(real_dft_gemm, self.name)
        self.matrix = getattr(real_dft_gemm, f"{self.name}_matrix")

    def why_not(self, n: int) -> str:
        return "" if n <= dft_gemm.MAX_LENGTH else f"takes N <= {dft_gemm.MAX_LENGTH}"

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        n = recipe.n
        spectrum = n // 2 + 1 if self.kind == R2C else real_dft_gemm.contracted_half(n)
        sizes = [real_dft_gemm.transforms_per_slab(n) * size for size in (n, 2 * spectrum)]
        shape = tuple(sizes if self.kind == R2C else reversed(sizes))
        return ((shape, "float32"), *self._length(n))

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        found = tables.cached(self.matrix, recipe.n, inverse, scale)
        return (found, *self._length(recipe.n))

    def _length(self, n: int) -> tuple[int, ...]:
        return (n,) if self.kind == C2R else ()

    def error(self, recipe: Recipe) -> float:
        return accuracy.matrix_error(recipe.n)


class RealStockham(Algorithm):
    """Two stages of half the numbers, for real data or to real data."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "real_stockham" if kind == R2C else "inverse_real_stockham"
        self.kernel = getattr(real_stockham, self.name)
        self.tables = getattr(real_stockham, f"{self.name}_tables")

    def why_not(self, n: int) -> str:
        return "" if self._pairs(n) else "has no two radices, up to 128 and up to 64"

    @staticmethod
    def _pairs(n: int) -> list[tuple[int, int]]:
        """Radices, the likeliest first: the second one as large as possible, then an even first."""
        seconds = range(min(real_stockham.MAX_SPECTRUM_RADIX, n // 2), 1, -1)
        pairs = [(n // second, second) for second in seconds if n % second == 0]
        fitting = [pair for pair in pairs if pair[0] <= real_stockham.MAX_REAL_RADIX]
        return sorted(fitting, key=lambda pair: (pair[1] < 40, pair[0] % 2, -pair[1]))

    def recipes(self, n: int) -> list[Recipe]:
        return [Recipe(self.name, n, radices) for radices in self._pairs(n)[:REAL_PAIRS]]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return real_stockham_specs(self.kind, recipe.radices), recipe.radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        n, radices = recipe.n, recipe.radices
        return tables.cached(self.tables, n, radices, inverse, scale), radices

    def error(self, recipe: Recipe) -> float:
        return accuracy.stages_error(recipe.radices)


def real_stockham_specs(kind: str, radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of the tables of `RealStockham`."""
    radix, left = radices
    slots = real_stockham.slot_count(radix)
    together = real_stockham.slabs_together(radix, left)
    run = 4 * real_stockham.run_length(left)
    count = real_stockham.multiples(radix, left)[1]
    real = [together * radix, 2 * slots * together]
    pair, edge = [2 * left, slots - 1, run], (2 * left, 2 * count)
    if kind == C2R:
        real, pair, edge = real[::-1], pair[::-1], (count, 2, 2 * left)  # type: ignore[assignment]
    pairs = ((tuple(pair), "float32"),) if slots > 1 else ()
    first, last = (tuple(real), "float32"), (edge, "float32")
    return (first, pairs, last) if kind == R2C else (last, pairs, first)


class Axes(Algorithm):
    """A pass for each of several axes, in one launch."""

    rows = 1

    def __init__(self, kind: str) -> None:
        self.kind = kind
        names = {C2C: "axes", R2C: "real_axes", C2R: "axes_to_real"}
        kernels = {
            C2C: axes.transform_axes,
            R2C: axes.transform_real_axes,
            C2R: axes.transform_axes_to_real,
        }
        self.name, self.kernel = names[kind], kernels[kind]

    def why_not(self, n: int) -> str:
        return "takes shapes"

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        if self.kind == R2C:
            return [(batch, *recipe.held)]
        sizes = list(recipe.held)
        if self.kind == C2R:
            lengths = {item.axis: item.recipe.n for item in recipe.passes}
            sizes = [lengths[axis] for axis in range(len(lengths))]
            sizes[-1] = sizes[-1] // 2 + 1
        return [(batch, *sizes)] * 2

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        """Recipes for a shape with data of the shape `held` in it: every order of the axes.

        Raises:
            NotImplementedError: an axis has no kernel that serves as a pass.
        """
        last = len(shape) - 1
        first = range(last) if self.kind != C2C else range(last + 1)
        ways = [self._way(axis, shape) for axis in range(last + 1)]
        found = []
        for order in permutations(first):
            whole = {R2C: (last, *order), C2R: (*order, last), C2C: order}[self.kind]
            passes = tuple(Pass(axis, ways[axis], self._kept(axis, shape, held)) for axis in whole)
            name, n = self.name, math.prod(shape)
            found.append(Recipe(name, n, passes=passes, held=held))
        return found

    def _way(self, axis: int, shape: tuple[int, ...]) -> Recipe:
        """The likeliest recipe for one axis."""
        n = shape[axis]
        if axis < len(shape) - 1:
            names = [StridedStockham.name]
        elif self.kind == C2C:
            names = [DftGemm.name, Stockham.name]
        else:
            names = [a.name for a in REAL_ROWS if a.kind == self.kind]
        reasons = []
        for name in names:
            reason = PASSES[name].why_not(n)
            if not reason:
                return PASSES[name].recipes(n)[0]
            reasons.append(f"{name} {reason}")
        raise NotImplementedError(f"axis {axis} of length {n}: {'; '.join(reasons)}")

    def _kept(self, axis: int, shape: tuple[int, ...], held: tuple[int, ...]) -> int:
        """Outputs of an axis: of an inverse to real data, or cropped, only those asked for."""
        if self.kind == C2R:
            return held[axis]
        if self.kind == R2C and axis == len(shape) - 1:
            return shape[axis] // 2 + 1
        return shape[axis]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        found = [PASSES[item.recipe.algorithm].specs(item.recipe)[0] for item in recipe.passes]
        return self._numbers(recipe), tuple(found)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        found = []
        for item in recipe.passes:
            algorithm = PASSES[item.recipe.algorithm]
            found.append(algorithm.arguments(item.recipe, inverse, scale)[0])
            scale = 1.0
        return self._numbers(recipe), tuple(found)

    @staticmethod
    def _numbers(recipe: Recipe) -> tuple[Any, ...]:
        """The passes as the kernel takes them."""
        return tuple(
            (
                PASS_NUMBERS[item.recipe.algorithm],
                item.axis + 1,
                item.recipe.n,
                item.kept,
                item.recipe.radices,
            )
            for item in recipe.passes
        )

    def error(self, recipe: Recipe) -> float:
        errors = (PASSES[item.recipe.algorithm].error(item.recipe) for item in recipe.passes)
        return accuracy.root_of_squares(*errors)


class RowConvolution(Algorithm):
    """Circular convolution of real rows with a filter that is the same for all."""

    name = "convolve_rows"
    kernel = convolution.convolve_rows
    kind = CONVOLUTION

    def why_not(self, n: int) -> str:
        if n > convolution.MAX_LENGTH:
            return f"takes N <= {convolution.MAX_LENGTH}"
        return PASSES["real_stockham"].why_not(n)

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        return [(batch, recipe.n), *[(1, recipe.n // 2 + 1)] * 2]

    def recipes(self, n: int) -> list[Recipe]:
        pairs = PASSES["real_stockham"].recipes(n)
        return [Recipe(self.name, n, recipe.radices) for recipe in pairs]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        both = tuple(real_stockham_specs(kind, recipe.radices) for kind in (R2C, C2R))
        return both, recipe.radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        n, radices = recipe.n, recipe.radices
        return tables.cached(convolution.convolution_tables, n, radices), radices

    def error(self, recipe: Recipe) -> float:
        once = accuracy.stages_error(recipe.radices)
        return accuracy.root_of_squares(once, once, accuracy.UNIT)


class ImageConvolution(Axes):
    """Convolution of real images, padded to a shape: rows, columns there and back, rows."""

    def __init__(self) -> None:
        self.kind = CONVOLUTION
        self.name = "convolve_images"
        self.kernel = image_convolution.convolve_images

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        rows, columns = recipe.passes[0].recipe, recipe.passes[1].recipe
        return [(batch, *recipe.held), *[(1, rows.n // 2 + 1, columns.n)] * 2]

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        if len(shape) != 2:
            raise NotImplementedError(f"an image has 2 axes, not {len(shape)}")
        pairs = self.column_pairs(shape[0])
        if not pairs:
            raise NotImplementedError(f"axis 0 of length {shape[0]} has no two radices up to 64")
        passes = (
            Pass(1, Axes(R2C)._way(1, shape), shape[1] // 2 + 1),
            Pass(0, Recipe(StridedStockham.name, shape[0], pairs[0]), held[0]),
            Pass(1, Axes(C2R)._way(1, shape), held[1]),
        )
        return [Recipe(self.name, math.prod(shape), passes=passes, held=held)]

    @staticmethod
    def column_pairs(m: int) -> list[tuple[int, ...]]:
        """Radices of columns of m points, the likeliest first."""
        return sorted(StridedStockham.pairs(m), key=column_work)

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        rows, columns, back = (
            PASSES[item.recipe.algorithm].specs(item.recipe)[0] for item in recipe.passes
        )
        return self._numbers(recipe), (rows, (*columns, *columns[::-1]), back)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        rows, columns, back = (item.recipe for item in recipe.passes)
        make = image_convolution.column_tables
        found = (
            PASSES[rows.algorithm].arguments(rows)[0],
            tables.cached(make, columns.n, columns.radices),
            PASSES[back.algorithm].arguments(back, True, 1.0 / back.n)[0],
        )
        return self._numbers(recipe), found

    @staticmethod
    def _numbers(recipe: Recipe) -> tuple[Any, ...]:
        rows, columns, _ = (item.recipe for item in recipe.passes)
        kind = PASS_NUMBERS[rows.algorithm]
        kept = recipe.passes[1].kept, recipe.passes[2].kept
        return kind, rows.n, rows.radices, columns.n, columns.radices, *kept


def column_work(radices: tuple[int, ...]) -> float:
    """What the pass along columns takes for each point, in no unit: DMA, then transpositions.

    DMA loads and stores by those engines whose partitions the first radix fills.
    """
    radix, left = radices
    filled = 2 * radix * strided_stockham.slabs_together(radix, left) / hardware.PARTITIONS
    return 2 / filled + 32 / left


class BlockCirculant(Axes):
    """Rows times a block circulant matrix [p, q, k], or the gradients of that product."""

    rows = block_circulant.ROWS_SUMMED  # a price of fewer rows would be that of another layout

    def __init__(self, kind: str) -> None:
        self.kind = self.name = kind
        self.kernel = getattr(block_circulant, kind)

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        p, q, k = recipe.held
        if self.kind == CIRCULANT:
            return [(batch, q * k), (p, q, k), (1, p * k)]
        height = block_circulant.spectrum_rows(k)
        pitches = map(block_circulant.row_pitch, (batch, p))
        return [(batch, p * k), *((q, height, pitch) for pitch in pitches)]

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        if len(shape) != 3:
            raise NotImplementedError(f"a weight has 3 axes, not {len(shape)}")
        if shape[2] > block_circulant.MAX_BLOCK:
            raise NotImplementedError(f"takes blocks of up to {block_circulant.MAX_BLOCK}")
        layouts = block_circulant.layouts(*shape)
        return [Recipe(self.name, math.prod(shape), held=held, layout=each) for each in layouts]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return self.arguments(recipe)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        _, q, k = recipe.held
        found = tables.cached(block_circulant.block_circulant_tables, k)
        return found, tables.cached(block_circulant.signs_of, q), recipe.layout

    def error(self, recipe: Recipe) -> float:
        _, q, k = recipe.held
        return accuracy.root_of_squares(*map(accuracy.matrix_error, (k, 2 * q, k)))


class StridedStockham(Algorithm):
    """One or two stages along an axis that is not the last; a pass of `Axes`."""

    name = "strided_stockham"
    kernel = strided_stockham.strided_stockham

    def why_not(self, n: int) -> str:
        return "" if self._lists(n) else "has no one or two radices up to 64"

    @classmethod
    def _lists(cls, n: int) -> list[tuple[int, ...]]:
        return [(n,)] if 2 <= n <= strided_stockham.MAX_STRIDED_RADIX else cls.pairs(n)

    @staticmethod
    def pairs(n: int) -> list[tuple[int, ...]]:
        """Two radices, the likeliest first: the last one as large as possible."""
        largest = strided_stockham.MAX_STRIDED_RADIX
        lasts = [last for last in range(largest, 1, -1) if n % last == 0 and n > last]
        return [(n // last, last) for last in lasts if n // last <= largest]

    def recipes(self, n: int) -> list[Recipe]:
        return [Recipe(self.name, n, radices) for radices in self._lists(n)]

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        radix = recipe.n // recipe.radices[-1]
        left = recipe.radices[-1]
        closing = ((2 * left, radix, 2 * left), "float32")
        size = 2 * radix * strided_stockham.slabs_together(radix, left)
        opening = ((size, size), "float32")
        return ((closing,) if radix == 1 else (opening, closing)), recipe.radices

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        n, radices = recipe.n, recipe.radices
        make = strided_stockham.strided_stockham_tables
        return tables.cached(make, n, radices, inverse, scale), radices

    def error(self, recipe: Recipe) -> float:
        return accuracy.stages_error(recipe.radices)


def split_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of the tables of a split plan: the twiddle of the split, four-step's."""
    split, first = radices[0], radices[1]
    size = math.prod(radices[1:])
    return ((split - 1, 2, first, size // first), "float32"), spread_specs(radices[1:])


def spread_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of the tables of a four-step plan: first, stages, twiddle, last."""
    n = math.prod(radices)
    first, *middle, last = radices
    length = n // last
    stages = []
    done = first
    for radix in middle:
        stages.append(stage_spec(radix, done, length // (done * radix)))
        done *= radix
    opening = ((2 * first, 2 * first), "float32")
    twiddle = ((2, last, length), "float32")
    return opening, tuple(stages), twiddle, ((3, last, last), "float32")


def spread_work(radices: tuple[int, ...]) -> tuple[int, int, int]:
    """What a four-step plan's time follows: few stages, a wide last one, one piece at first."""
    return len(radices), -radices[-1], abs(radices[0] - WHOLE_RADIX)


def latency(radices: tuple[int, ...]) -> float:
    """What a four-step plan's time for one transform follows: trn1's nanoseconds.

    Of the tables, of loading and storing the data by those DMA engines whose partitions it
    fills, and of the Tensor engine, one after the other.
    """
    if len(radices) < 2:
        return math.inf
    chip, n = hardware.TRN1, math.prod(radices)
    first, last = radices[0], radices[-1]
    rows = 2 * first if 2 * first <= hardware.PARTITIONS else first
    numbers = sum(math.prod(shape) for shape, _ in spread_specs(radices)[1])
    numbers += 2 * n * hardware.PARTITIONS * (1 / rows + 1 / last)
    tensor = tensor_cycles(radices) * n / last / chip.tensor_ghz
    return 4 * numbers / chip.dma_total_bytes_per_ns + tensor


def throughput(radices: tuple[int, ...]) -> float:
    """What a four-step plan's time for 2^20 points follows: trn1's nanoseconds a point.

    Of the Tensor engine or of DMA, whichever takes longer, with a descriptor for each row of r1
    or C that is moved, and of starting. Blocks of more than 32 transforms are not worth it.
    """
    if len(radices) < 2 or min(radices[0], radices[-1]) < 16:
        return math.inf
    chip, n = hardware.TRN1, math.prod(radices)
    filled = hardware.PARTITIONS // radices[-1] * radices[-1]
    tensor = tensor_cycles(radices) / filled / chip.tensor_ghz
    descriptors = (radices[0] + radices[-1] * hardware.PARTITIONS / filled) / (8 * n)
    moved = 16 * (chip.dma_descriptor_ns * descriptors + 1 / chip.dma_bytes_per_ns)
    return max(tensor, moved / chip.dma_engines) + latency(radices) / 2**20


def tensor_cycles(radices: tuple[int, ...]) -> float:
    """Cycles a point of a four-step plan on the Tensor engine, for each c on the partitions."""
    first, *middle, last = radices
    length = math.prod(radices) // last
    # A product takes 4 cycles a column of the moving float32 table, but no less than to load data.
    least = 2 * hardware.PARTITIONS
    cycles = (1 if 2 * first <= hardware.PARTITIONS else 2) * max(8 * first, least) / first + 16
    done = first
    for radix in middle:
        rows = stage_spec(radix, done, length // (done * radix))[0][0]
        pieces = 1 if rows <= hardware.PARTITIONS else 2
        cycles += pieces * (least + max(4 * rows, least)) / (rows // 2)
        done *= radix
    return cycles


def stage_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of Stockham's tables."""
    specs = []
    left, done = math.prod(radices), 1
    for radix in radices:
        left //= radix
        specs.append(stage_spec(radix, done, left))
        done *= radix
    return tuple(specs)


def stage_spec(radix: int, done: int, left: int) -> Any:
    """(shape, dtype) of the table of a stage: [2 g r, matrices, 2 g r]."""
    slabs = stockham.slabs_per_product(radix, done, left)
    matrices = done if left > 1 else done // slabs
    return (2 * slabs * radix, matrices, 2 * slabs * radix), "float32"


def stage_work(radices: tuple[int, ...]) -> tuple[int, int]:
    """Matrix products of a transform, then numbers in the tables: what Stockham's time follows."""
    n = math.prod(radices)
    products = numbers = 0
    for radix, ((rows, matrices, columns), _) in zip(radices, stage_specs(radices), strict=True):
        slabs = rows // (2 * radix)
        pieces = 2 if rows > stockham.MAX_RADIX else 1  # parts contracted one after the other
        products += n // (radix * slabs) * pieces
        numbers += rows * matrices * columns
    return products, numbers


def convolution_work(n: int, radices: tuple[int, ...]) -> int:
    """Columns that Bluestein's products and transposes move: what its time follows."""
    columns = 0
    for stage in range(2 * len(radices)):
        contracted, produced, done, left, slabs = bluestein.stage_shape(n, radices, stage)
        pieces = stockham.piece_count(2 * slabs * contracted)
        # A product, and a transpose: of 128 columns at twice the rate, but VectorE copies them.
        columns += done * left // slabs * pieces * (2 * slabs * produced + 128)
    return columns


REAL_ROWS = (RealDftGemm(R2C), RealStockham(R2C), RealDftGemm(C2R), RealStockham(C2R))
ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        DftGemm(),
        DftGemm("bfloat16", refined=True),
        DftGemm("bfloat16"),
        Stockham(),
        Stockham("bfloat16", refined=True),
        Stockham("bfloat16"),
        FourStep(),
        SplitFourStep(),
        Butterfly(False),
        Butterfly(True),
        Bluestein(),
        LongBluestein(),
        SplitBluestein(),
        *REAL_ROWS,
        RowConvolution(),
        ImageConvolution(),
        BlockCirculant(CIRCULANT),
        BlockCirculant(CIRCULANT_GRADIENTS),
        Axes(C2C),
        Axes(R2C),
        Axes(C2R),
    )
}
PASSES: dict[str, Algorithm] = {**ALGORITHMS, StridedStockham.name: StridedStockham()}
PASS_NUMBERS = {
    DftGemm.name: axes.DFT_GEMM,
    Stockham.name: axes.STOCKHAM,
    StridedStockham.name: axes.STRIDED_STOCKHAM,
    "real_dft_gemm": axes.REAL_DFT_GEMM,
    "inverse_real_dft_gemm": axes.REAL_DFT_GEMM,
    "real_stockham": axes.REAL_STOCKHAM,
    "inverse_real_stockham": axes.REAL_STOCKHAM,
}


def seed_choice(n: int) -> Recipe | str:
    """The article's table: DFT-GEMM to 256, else [8^a, 4^b] Stockham, else a Bluestein's name.

    The article ends at 4096. Stages that exceed one partition's SBUF are done by four-step.
    """
    if n <= dft_gemm.MAX_LENGTH:
        return Recipe(DftGemm.name, n)
    radices = seed_radices(n)
    if radices is not None:
        fits = not ALGORITHMS[Stockham.name].why_not(n)
        return Recipe(Stockham.name if fits else FourStep.name, n, radices)
    names = (Bluestein.name, LongBluestein.name, SplitBluestein.name)
    return next((name for name in names if not ALGORITHMS[name].why_not(n)), names[-1])
