"""The price of a recipe: the modelled time of its kernel, from a dry run of the simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import nki_sim
from nki_sim import hardware
from nki_sim.hardware import NeuronCore
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe

_WHOLE = 2**26  # numbers of an input up to which a batch is priced as a whole


class CannotRun(Exception):
    """The kernel cannot run the recipe; the message says why."""


@dataclass(frozen=True)
class Price:
    """Modelled time of a batch, its busiest engine, its traffic, and the effort of the dry run.

    ``low_ns`` and ``high_ns`` are `Timeline.low_ns` and `Timeline.high_ns`; see `with_range`.
    """

    predicted_ns: float
    bound: str
    launches: int
    # instructions of all cores, with a loop's body counted once, which the dry run executed
    instructions: int
    hbm_bytes: int  # that DMA reads from HBM and writes to it
    low_ns: float | None = None
    high_ns: float | None = None
    timeline: nki_sim.Timeline | None = field(default=None, repr=False, compare=False)
    times: float = 1.0  # how many batches of the timeline's size the price is for

    def with_range(self) -> Price:
        """Returns the price with its range, which takes a third of the dry run's time."""
        dry = self.timeline
        if dry is None:
            return self
        low, high = (round(each * self.times, 1) for each in (dry.low_ns, dry.high_ns))
        ns = self.predicted_ns
        return replace(self, low_ns=min(low, ns), high_ns=max(high, ns), timeline=None)

    def without_timeline(self) -> Price:
        """Returns the price alone, to keep: a timeline holds each instruction."""
        return replace(self, timeline=None)


def timeline(recipe: Recipe, batch: int, chip: NeuronCore, cores: int = 1) -> nki_sim.Timeline:
    """Runs the recipe's kernel dry on `batch` transforms, launched on `cores` cores.

    Raises:
        CannotRun: the kernel breaks a rule of the chip, or causes a warning. Most often SBUF is too
            small, or the programs on two cores do not share the work.
    """
    algorithm = ALGORITHMS[recipe.algorithm]
    kernel = nki_sim.simulate(algorithm.kernel)
    inputs = [(shape, "float32") for shape in _inputs(recipe, batch)]
    try:
        with hardware.select(chip), nki_sim.strict():
            return nki_sim.dry_run(kernel.with_programs(cores), *inputs, *algorithm.specs(recipe))
    except (nki_sim.NkiValidationError, ValueError) as error:
        raise CannotRun(str(error)) from error


def price(recipe: Recipe, batch: int, chip: NeuronCore, cores: int = 1) -> Price:
    """Returns the price of `batch` transforms on `cores` cores, from a dry run of the launch.

    The dry run is short for any batch: kernels make a long batch a loop on the device, of which two
    iterations are run. Blocks overlap only within an iteration, so that the price of a part of the
    batch without a loop would be too low. A batch with more than 256 MiB in one input is priced in
    proportion to a batch of this size.

    Raises:
        CannotRun: as for `timeline`.
    """
    largest = max(map(math.prod, _inputs(recipe, batch)))
    run = batch if largest <= _WHOLE else max(1, batch * _WHOLE // largest)
    dry = timeline(recipe, run, chip, cores)
    busy = dry.engine_busy_ns
    bound = max(busy, key=lambda engine: busy[engine])
    return Price(
        predicted_ns=round(dry.total_ns * batch / run, 1),
        bound=bound,
        launches=dry.launches,
        instructions=dry.event_count,
        hbm_bytes=dry.hbm_bytes * batch // run,
        timeline=dry,
        times=batch / run,
    )


def _inputs(recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
    """Returns the shapes of the kernel's inputs."""
    try:
        return ALGORITHMS[recipe.algorithm].inputs(recipe, batch)
    except ValueError as error:
        raise CannotRun(str(error)) from error
