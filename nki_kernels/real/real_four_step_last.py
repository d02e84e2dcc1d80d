"""The last DFT of the real four-step kernel, in steps that alternate with those of other stages.

real_four_step.py has the mathematics: there are two lines of outputs, and the second line runs
backwards.
"""

from __future__ import annotations

from ..fft.twiddled_stage import finish_sums
from ..isa import nisa, nl
from ..tiles import multiply
from .real_four_step_bundles import Closing, Pipeline, Portion, Spread, Step, store_bundle

_EVACUATIONS = 4  # consecutive evacuations of a closing, during which others wait for ScalarE


def closing_steps(spread: Spread) -> int:
    """Return the number of steps that close a bundle."""
    steps = 0
    half = spread.radix // 2
    for low in range(0, half, spread.portion):
        slots = min(spread.portion, half - low)
        for line in range(2):
            count = evacuation_count(Closing(None, line, 0, slots, None), spread)
            steps += 1 + -(-count // _EVACUATIONS)
    return steps + 2


def queue_steps(portion: Portion, line: Pipeline) -> None:
    """Queue a portion's steps: products of each closing, then evacuations of the one before."""
    spread = line.spread
    finish_sums(line.sums)
    half = min(spread.portion, spread.radix // 2 - portion.low)
    closings = [Closing(portion, 0, 0, half, None), Closing(portion, 1, 0, half, None)]
    if portion.is_last:
        closings.append(Closing(portion, 0, half, 1, None))
    ready = line.opened + line.late
    for index in range(len(closings) + 1):
        if index < len(closings):
            line.steps.append(Step(closings[index], -1, 0, ready, False))
        if index > 0:
            total = evacuation_count(closings[index - 1], spread)
            for first in range(0, total, _EVACUATIONS):
                count = min(_EVACUATIONS, total - first)
                line.steps.append(Step(closings[index - 1], first, count, ready, False))
    line.steps[len(line.steps) - 1].is_last = portion.is_last


def evacuation_count(closing: Closing, spread: Spread) -> int:
    """Return how many instructions move a closing out of PSUM."""
    if closing.line == 0:
        return -(-closing.slots // spread.fine)
    return int(spread.middle * spread.fine)


def close_some(line: Pipeline, count: int) -> None:
    """Run up to ``count`` steps of closing that are ready."""
    for _ in range(count):
        if line.closed == len(line.steps):
            return
        step = line.steps[line.closed]
        if step.ready > line.opened:
            return
        line.closed += 1
        if step.first < 0:
            last_products(step.closing, line)
        for number in range(step.first, step.first + step.count):
            leave(step.closing, number, line.spread)
        if step.is_last:
            store_bundle(step.closing.portion.bundle, line.target, line.spread)


def last_products(closing: Closing, line: Pipeline) -> None:
    """Compute a closing's DFT over the partitions."""
    spread, portion = line.spread, closing.portion
    low, high = closing.low, closing.low + closing.slots
    shape = (spread.columns, portion.bundle.rows, spread.middle, closing.slots)
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for part in range(2):
        matrix = line.tables.last[:, 2 * closing.line + part]
        multiply(bank, matrix, portion.tile[:, part, :, :, low:high], part > 0)
    closing.bank = bank


def leave(closing: Closing, number: int, spread: Spread) -> None:
    """Move results out of PSUM: slots of one t for all k2, or slots of one s for one k2."""
    half, fine, result = spread.radix // 2, spread.fine, closing.portion.bundle.result
    slot = closing.portion.low + closing.low
    if closing.line == 0:
        size = min(fine, closing.slots)
        slot += number * size
        data = closing.bank[:, :, :, number * size : (number + 1) * size]
        low = half - size - slot if slot < half else half
        length = spread.radix * spread.middle
        outputs = result[:, :, 0:length].reshape_dim(2, (spread.middle, spread.radix))
        target = outputs[:, :, :, low : low + size]
    else:
        # The second line runs backwards: slot K ends at -K, before the next multiple of R.
        k2, s = number // fine, number % fine
        data = closing.bank[:, :, k2, s : closing.slots : fine]
        low = spread.radix * (spread.middle - k2) - s - (half - fine - slot)
        target = result[:, :, low : low + closing.slots - fine + 1 : fine]
    nisa.activation(dst=target, op=nl.copy, data=data)
