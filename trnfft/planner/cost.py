"""Price of a recipe: the modelled time of its kernel, from the simulator's dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_kernels import hardware, simulator
from nki_kernels.hardware import NeuronCore
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe

BLOCK_POINTS = (2**17, 2**19)  # kernels take at least and at most so many points at once
STEADY_INSTRUCTIONS = 800  # simulated at least before a kernel's time is taken to be linear
LONG_INSTRUCTIONS = 2000  # so many that what overlaps with the next block is negligible


class CannotRun(Exception):
    """The kernel does not take the recipe; the message says why."""


@dataclass(frozen=True)
class Price:
    """Modelled time of a batch, the busiest engine, and what finding it out took."""

    predicted_ns: float
    bound: str
    launches: int
    instructions: int  # of a core, simulated to learn the price


def timeline(recipe: Recipe, batch: int, chip: NeuronCore, cores: int = 1) -> simulator.Timeline:
    """Dry run of the recipe's kernel on `batch` transforms, launched on so many cores.

    Raises:
        CannotRun: the kernel breaks a rule of the chip, or is warned of one: mostly, SBUF is too
            small, or its programs on two cores do not share the work.
    """
    algorithm = ALGORITHMS[recipe.algorithm]
    kernel: Any = simulator.simulate(algorithm.kernel)
    try:
        inputs = [(shape, "float32") for shape in algorithm.inputs(recipe, batch)]
        with hardware.select(chip), simulator.strict():
            return simulator.dry_run(kernel[cores], *inputs, *algorithm.specs(recipe))
    except (simulator.NkiValidationError, ValueError) as error:
        raise CannotRun(str(error)) from error


def price(recipe: Recipe, batch: int, chip: NeuronCore, cores: int = 1) -> Price:
    """Price of `batch` transforms that so many cores share.

    A large batch is not simulated whole. Parts of it are, each larger than the one before, until
    instructions grow in proportion: the kernel repeats itself, and so its time goes on linearly.
    What is large enough is so for each core: two take parts twice as large. Tests bound the
    difference from whole batches by 5%.

    Raises:
        CannotRun: as for `timeline`.
    """
    size = min(batch, cores * ALGORITHMS[recipe.algorithm].rows)
    found = timeline(recipe, size, chip, cores)
    simulated = found.instructions
    slope = found.total_ns / size
    while size < batch:
        points = size * recipe.n // cores
        if found.instructions // cores >= LONG_INSTRUCTIONS and points >= BLOCK_POINTS[1]:
            slope = found.total_ns / size
            break
        larger = min((2 if points >= BLOCK_POINTS[1] else 4) * size, batch)
        before, found = found, timeline(recipe, larger, chip, cores)
        simulated += found.instructions
        slope = (found.total_ns - before.total_ns) / (larger - size)
        repeats = found.instructions > 0.9 * before.instructions * larger / size
        size, points = larger, larger * recipe.n // cores
        enough = STEADY_INSTRUCTIONS if points >= BLOCK_POINTS[0] else LONG_INSTRUCTIONS
        if repeats and found.instructions // cores >= enough:
            break
    predicted_ns = found.total_ns + slope * (batch - size)
    busy = found.engine_busy_ns
    bound = max(busy, key=lambda engine: busy[engine])
    return Price(round(predicted_ns, 1), bound, found.launches, simulated // cores)
