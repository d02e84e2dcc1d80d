"""Four-step of real data: each transform is spread over all partitions, for long or few ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from nki_kernels.real import inverse_real_four_step, real_four_step, real_four_step_tables
from nki_sim.hardware import PARTITIONS, NeuronCore
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm
from trnfft.planner.kinds import R2C
from trnfft.planner.plan import Recipe

SHORTEST = 4096  # below, real Stockham or, for few transforms, complex four-step is never slower
LISTS = 3  # lists of radices for one length


class RealFourStep(LengthAlgorithm):
    """One transform of or to real data over all partitions, with half the work of four-step."""

    shortest = SHORTEST
    takes = "even radices"
    roundings = 1
    bound_varies = 1.0  # loads count, which bounds leave out
    ahead = Ahead(524288, 2, "trn1")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "real_four_step" if kind == R2C else "inverse_real_four_step"
        module: Any = real_four_step if kind == R2C else inverse_real_four_step
        self.kernel = getattr(module, self.name)
        tables: Any = real_four_step_tables
        self.make_tables = getattr(tables, f"{self.name}_tables")
        self.make_specs = getattr(tables, f"{self.name}_specs")
        self.longest = tables.MAX_LENGTH if kind == R2C else tables.MAX_INVERSE_LENGTH
        self.check = getattr(tables, f"check_{self.name.removesuffix('real_four_step')}radices")

    def why_not_inside(self, n: int) -> str:
        return "" if self._radix_lists(n) else "has no two or three radices that the kernel takes"

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, radices) for radices in self._radix_lists(n)[:LISTS]]

    def _radix_lists(self, n: int) -> list[tuple[int, ...]]:
        """Returns (R, C) or (R, L, C) with product n, lists with the least work first."""
        lists: list[tuple[int, ...]] = []
        for columns in range(PARTITIONS, 1, -2):
            for radix in range(PARTITIONS, 1, -2):
                if n % (radix * columns) == 0:
                    middle = n // (radix * columns)
                    radices = (radix, middle, columns) if middle > 1 else (radix, columns)
                    with suppress(ValueError):  # the kernel does not take them
                        self.check(n, radices)
                        lists.append(radices)
        return sorted(lists, key=tensor_cycles)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        return 0.97 * tensor_cycles(recipe.radices) * max(1.0, rows) / chip.tensor_columns_per_ns


def tensor_cycles(radices: tuple[int, ...]) -> float:
    """Returns the Tensor engine's cycles of a transform: 4 a float32 column, 2 if transposed."""
    digits = real_four_step_tables.forward_digits(radices)
    cycles = 8 * digits.slots * digits.middle // digits.tiles
    cycles += 16 * digits.middle * (digits.radix // 2)
    if digits.middle > 1:
        product = max(256, 8 * digits.together * digits.middle)
        cycles += len(digits.groups) * (2 * digits.columns + product)
    return float(cycles)
