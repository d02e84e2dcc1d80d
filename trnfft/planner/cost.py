"""Price of a recipe: the modelled time of its kernel, from the simulator's dry run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nki_kernels import hardware, simulator
from nki_kernels.hardware import NeuronCore
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe

_WHOLE = 2**26  # numbers of an input, up to which a batch is priced whole


class CannotRun(Exception):
    """The kernel does not take the recipe; the message says why."""


@dataclass(frozen=True)
class Price:
    """Modelled time of a batch, the busiest engine, and what finding it out took."""

    predicted_ns: float
    bound: str
    launches: int
    instructions: int  # of all cores, those of a loop counted once: what the dry run takes


def timeline(recipe: Recipe, batch: int, chip: NeuronCore, cores: int = 1) -> simulator.Timeline:
    """Dry run of the recipe's kernel on `batch` transforms, launched on so many cores.

    Raises:
        CannotRun: the kernel breaks a rule of the chip, or is warned of one: mostly, SBUF is too
            small, or its programs on two cores do not share the work.
    """
    algorithm = ALGORITHMS[recipe.algorithm]
    kernel = simulator.simulate(algorithm.kernel)
    inputs = [(shape, "float32") for shape in _inputs(recipe, batch)]
    try:
        with hardware.select(chip), simulator.strict():
            return simulator.dry_run(kernel.with_programs(cores), *inputs, *algorithm.specs(recipe))
    except (simulator.NkiValidationError, ValueError) as error:
        raise CannotRun(str(error)) from error


def price(recipe: Recipe, batch: int, chip: NeuronCore, cores: int = 1) -> Price:
    """Price of `batch` transforms that so many cores share: a dry run of the whole launch.

    That is short at any batch, as kernels make a long one a loop on the device, of which two
    iterations are run. Blocks overlap only inside of one, so parts of a batch that need no loop
    would promise too much. Batches of more than 256 MiB an input, up to those that no memory holds,
    are priced in proportion to one of that size.

    Raises:
        CannotRun: as for `timeline`.
    """
    largest = max(map(math.prod, _inputs(recipe, batch)))
    run = batch if largest <= _WHOLE else max(1, batch * _WHOLE // largest)
    found = timeline(recipe, run, chip, cores)
    busy = found.engine_busy_ns
    bound = max(busy, key=lambda engine: busy[engine])
    ns = found.total_ns * batch / run
    return Price(round(ns, 1), bound, found.launches, found.event_count)


def _inputs(recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
    """Shapes of the kernel's inputs; CannotRun where it does not take so many rows."""
    try:
        return ALGORITHMS[recipe.algorithm].inputs(recipe, batch)
    except ValueError as error:
        raise CannotRun(str(error)) from error
