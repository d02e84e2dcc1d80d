"""Random programs on models: they run on torch's complex dtypes as they grow."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace

import torch

from tests.fuzz.model_steps import OPTIMIZERS, TABLES, WEIGHTS
from tests.fuzz.models import BLOCKS
from tests.fuzz.program import NATIVE, Outcome, Program, Step, run

TRIES = 6  # attempts to find a step that torch accepts
LARGEST = 1e4  # of a number that is compared


def drawn(draw: random.Random) -> Program:
    """Returns a random program on a model of one to three blocks, with three to eight steps."""
    kinds = draw.choices([*BLOCKS], k=draw.choice((1, 1, 2, 3)))
    steps = [Step("model", f"m = model({', '.join(map(repr, kinds))})")]
    if draw.random() < 0.5:
        steps.append(Step("model", "x.requires_grad_()"))
    program = Program(tuple(steps), has_models=True, is_patched=draw.random() < 0.4)
    program = _with_one_of(draw, program, [f"opt = {text}" for text in OPTIMIZERS], "model")
    for i in range(draw.randint(3, 8)):
        kind = draw.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        program = _with_one_of(draw, program, TABLES[kind], kind, f"t{i}")
    end = [Step("end", "t8 = flat(m.parameters())", "t8"), Step("end", "t9 = gradients(m)", "t9")]
    return replace(program, steps=(*program.steps, *end))


def _with_one_of(
    draw: random.Random, program: Program, texts: Sequence[str], kind: str, result: str = ""
) -> Program:
    """Returns the program with one step more, if an attempt finds one that torch accepts."""
    for _ in range(TRIES):
        text = draw.choice(texts)
        target = result if "{result}" in text else ""
        step = Step(kind, text.replace("{result}", result), target)
        longer = replace(program, steps=(*program.steps, step))
        outcome = run(longer, NATIVE)
        with contextlib.suppress(RuntimeError):  # torch.vmap may leave its tensors in a model
            if outcome.error is None and _is_small(outcome, target):
                return longer
    return program


def _is_small(outcome: Outcome, target: str) -> bool:
    """Returns whether the parameters and the new result can be compared."""
    found = [*outcome.found["m"].parameters()]
    found += [outcome.found[target]] if target else []
    with torch.no_grad():
        return all(bool((x.abs() < LARGEST).all()) for x in found)
