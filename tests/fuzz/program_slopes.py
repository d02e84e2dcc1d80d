"""Gradients by differences, for programs whose gradients torch refuses to compute."""

from __future__ import annotations

import re

import torch

from tests.fuzz.program import NATIVE, Outcome, Program, Step, run

STEP = 1e-6
TOLERANCE = 1e-4


def are_right(program: Program, split: Outcome) -> bool | None:
    """Returns whether the gradients of the leaves are those of the loss in the program's last step.

    Returns:
        None where the differences cannot decide: in float32, after other gradients, and after
            writes without gradients.
    """
    *steps, last = program.steps
    loss = re.fullmatch(r"(.*)\.backward\((retain_graph=True)?\)", last.text)
    is_only = not any(step.kind == "gradient" for step in steps)
    is_followed = not any(step.kind == "no_grad" for step in steps)
    if program.dtype != "float64" or not (is_only and is_followed) or loss is None:
        return None
    names = [name for name, x in split.found.items() if _is_real_leaf(name, x)]
    for name in names:
        found = split.found[name].grad
        for i in range(split.found[name].numel()):
            above, below = (_loss(program, loss[1], name, i, change) for change in (STEP, -STEP))
            if above is None or below is None:
                return None
            slope = (above - below) / (2 * STEP)
            ours = 0.0 if found is None else float(found.flatten()[i])
            if abs(slope - ours) > TOLERANCE * max(1.0, abs(slope)):
                return False
    return bool(names)


def _is_real_leaf(name: str, x: object) -> bool:
    return bool(re.fullmatch(r"a\d", name)) and isinstance(x, torch.Tensor) and x.requires_grad


def _loss(program: Program, text: str, name: str, i: int, change: float) -> float | None:
    """Returns the loss after a change of one number of a leaf."""
    leaves = [step for step in program.steps if step.kind == "leaf"]
    others = [step for step in program.steps[:-1] if step.kind != "leaf"]
    changed = Step("no_grad", f"with torch.no_grad(): {name}.view(-1)[{i}] += {change}")
    loss = Step("read", f"loss = ({text}).item()")
    outcome = run(Program((*leaves, changed, *others, loss)), NATIVE)
    return None if outcome.error is not None else outcome.found["loss"]
