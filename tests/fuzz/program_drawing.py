"""Random programs: they run on torch's complex dtypes as they grow, so that most steps fit."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import torch

from tests.fuzz import program_mixes
from tests.fuzz.program import NATIVE, Outcome, Program, Step, run
from tests.fuzz.program_steps import (
    GRADIENTS,
    LEAVES,
    NATIVE_LEAVES,
    READS,
    SOURCES,
    UNDER_NO_GRAD,
    VIEWS,
    WRITES,
)

SHAPES = ((), (1,), (3,), (4,), (2, 3), (3, 3), (4, 2), (1, 3), (2, 1, 3), (2, 2, 2), (0, 2))
SHAPE_WEIGHTS = (1, 1, 4, 2, 6, 5, 3, 1, 2, 2, 1)
TABLES = {
    "view": VIEWS,
    "write": WRITES,
    "read": READS,
    "no_grad": UNDER_NO_GRAD,
    "gradient": GRADIENTS,
    "native": program_mixes.NATIVES,
    "mixed read": program_mixes.READS,
    "mixed write": program_mixes.WRITES,
}
WEIGHTS = {"view": 5, "write": 6, "read": 4, "no_grad": 1, "gradient": 2}
OF_MIXES = {"native": 3, "mixed read": 4, "mixed write": 6, "view": 2, "write": 1, "read": 2}
WEIGHS = ("weigh", "weigh", "weigh_whole", "weigh_abs")
MOST_NUMBERS = 500  # numbers of a tensor
TRIES = 8  # attempts to find a step that torch accepts
ERRORS_KEPT = 0.1  # share of refused steps that are kept, as the end of their program
MAY_COPY = re.compile(r"ravel|reshape|flatten|contiguous")
NAME = re.compile(r"\b([antz]\d+)\b")


class Drawing:
    """A program as it grows."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        dtype = "float32" if self._draw.random() < 0.1 else "float64"
        self.program = Program((), dtype)
        self._held: dict[str, torch.Tensor] = {}
        self.is_over = False

    def add(self, kind: str, text: str, target: str = "") -> bool:
        """Adds a step if torch accepts it, or if the program is to end with an error.

        Returns whether the program has the step now.
        """
        longer = replace(self.program, steps=(*self.program.steps, Step(kind, text, target)))
        outcome = run(longer, NATIVE)
        is_taken = outcome.error is None and _is_small(outcome)
        if not is_taken and (outcome.error is None or self._draw.random() > ERRORS_KEPT):
            return False
        self.program, self.is_over = longer, not is_taken
        self._held = tensors(outcome)
        return True

    def begin(self) -> None:
        """Adds leaves, and one to three complex tensors made of the leaves."""
        shape = self._draw.choices(SHAPES, SHAPE_WEIGHTS)[0]
        for name, kinds in (("a0", LEAVES), ("a1", LEAVES), ("n0", NATIVE_LEAVES)):
            text = self._draw.choice(kinds[:1] + 2 * kinds[1:])
            count = torch.Size(shape).numel()
            factor = self._draw.choice((1.3, 2.1, 2.9))
            self.add("leaf", f"{name} = {text.format(count=count, factor=factor, shape=shape)}")
        for i in range(self._draw.choices((1, 2, 3), (5, 4, 1))[0]):
            for _ in range(TRIES):
                places = {"a": "a0", "b": self._draw.choice(("a0", "a1")), "n": "n0"}
                text = self._draw.choice(SOURCES).format(**places)
                if self.add("source", f"z{i} = {text}", f"z{i}") or self.is_over:
                    break

    def step(self, i: int, weights: dict[str, int]) -> None:
        """Adds one step of a kind in `weights`, if an attempt finds one."""
        for _ in range(TRIES):
            drawn_kind = self._draw.choices([*weights], [*weights.values()])[0]
            template = self._draw.choice(TABLES[drawn_kind])
            kind = drawn_kind.split()[-1]
            places = self._places(i)
            if places is None or not self._is_safe(template, places):
                continue
            text, target = template, ""
            if kind in ("view", "read", "native"):
                target = f"n{i + 1}" if kind == "native" else f"t{i}"
                text = f"{target} = {text}"
            elif kind == "no_grad":
                text = f"with torch.no_grad(): {text}"
            elif "{result}" in template:
                is_native = places["l"][0] == "n" and "{l}" in template
                target = f"n{i + 1}" if is_native else f"t{i}"
            if self.add(kind, text.format(**places, result=target), target):
                return

    def end(self) -> None:
        """Adds gradients of one to three tensors."""
        followed = [name for name, x in self._held.items() if x.requires_grad and x.numel()]
        wanted = self._draw.choice((1, 1, 2, 3))
        names = self._draw.sample(followed, min(len(followed), wanted))
        weighed = [f"{self._draw.choice(WEIGHS)}({name})" for name in names]
        if self._draw.random() < 0.5 and names:
            weighed = [f"({' + '.join(weighed)})"]
        for text in weighed:
            if not self.is_over:
                self.add("gradient", f"{text}.backward(retain_graph=True)")

    def _places(self, i: int) -> dict[str, Any] | None:
        draw = self._draw
        made = [name for name in self._held if name[0] in "tz"]
        if draw.random() < 0.08:
            made += [name for name in self._held if name[0] == "a"]
        complexes = [name for name in made if self._held[name].is_complex()]
        if not complexes:
            return None
        # The newest and the first tensor are drawn more often, for views of views and their bases.
        x = draw.choice((*made, made[-1], made[-1], made[0]))
        z = draw.choice((*complexes, complexes[-1], complexes[0]))
        real = [n for n, value in self._held.items() if not value.is_complex()]
        natives = [n for n, value in self._held.items() if n[0] == "n" and value.is_complex()]
        leaf = draw.choice([n for n in self._held if n[0] in "an"])
        return {
            "x": x,
            "z": z,
            "w": draw.choice(complexes),
            "y": self._of_shape_of(x, [n for n in self._held if n[0] in "atz"]),
            "o": self._fitting(x),
            "r": self._of_shape_of(z, real),
            "n": self._of_shape_of(z, natives),
            "l": leaf,
            "i": draw.randrange(max(self._held[x].ndim, 1)),
            "k": draw.choice((0, -1)),
            "weigh": draw.choice(WEIGHS),
        }

    def _is_safe(self, template: str, places: dict[str, Any]) -> bool:
        """Returns whether the tensors exist, and torch's own tensors would not end the process."""
        if "{n}" in template and not places["n"]:
            return False
        if "{x}.data" in template and self._held[places["x"]].requires_grad:
            return False  # torch would not see the write
        if not self._held[places["x"]].is_contiguous() and MAY_COPY.search(template):
            return False  # the strides decide whether the result is a view or a copy
        written = places["z" if template.startswith("{z}") else "x"]
        if "{o}" in template and self._overlap(written, places["o"]):
            return False  # torch's own tensors would read numbers that they have written
        views = [name for name in (places["x"], places["z"]) if self._held[name]._is_view()]
        return not (views and "register_hook" in template)  # fails after a write into their bases

    def _overlap(self, x: str, y: str) -> bool:
        """Returns whether two tensors share some numbers, and not all in the same places."""
        first, second = (self._held[name] for name in (x, y))
        if first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr():
            return False
        layouts = [(part.stride(), part.storage_offset(), part.dtype) for part in (first, second)]
        if layouts[0] == layouts[1] and first.shape == second.shape:
            return False
        return bool(_bytes_of(first) & _bytes_of(second))

    def _of_shape_of(self, x: str, names: list[str]) -> str:
        """Returns one of the names, with the shape of `x` if a name has that shape."""
        same = [name for name in names if self._held[name].shape == self._held[x].shape]
        return self._draw.choice(same or names) if names else ""

    def _fitting(self, x: str) -> str:
        """Returns the name of a tensor that can be written into `x`."""
        names = [n for n in self._held if n[0] in "atz"]
        if not self._held[x].is_complex():
            names = [n for n in names if not self._held[n].is_complex()] or names
        return self._of_shape_of(x, names)


def drawn(draw: random.Random) -> Program:
    """Returns a random program of two to six steps and their gradients."""
    drawing = Drawing(draw)
    drawing.begin()
    weights = OF_MIXES if draw.random() < 0.5 else WEIGHTS
    for i in range(draw.randint(2, 6)):
        if not drawing.is_over:
            drawing.step(i, weights)
    if not drawing.is_over:
        drawing.end()
    return drawing.program


def is_free(step: Step, wrapper: str) -> bool:
    """Returns whether a function can contain this step."""
    # make_fx cannot see writes without gradients, and torch.compile moves them to the end.
    is_compiled = wrapper in ("traced", "compiled")
    kinds = ["view", "read", "write", "native"] + ["no_grad"] * (not is_compiled)
    return step.kind in kinds and not re.search(
        r"item\(|tolist|numpy|complex\(\w*\.sum|float\(|checkpoint\(", step.text
    )


def tensors(outcome: Outcome) -> dict[str, torch.Tensor]:
    """Returns the tensors of a run by name, in the order in which they were made."""
    found = outcome.found.items()
    return {name: x for name, x in found if NAME.fullmatch(name) and isinstance(x, torch.Tensor)}


def _bytes_of(x: torch.Tensor) -> set[int]:
    """Returns the places of a tensor's numbers in its storage, in units of a real number."""
    pair = 2 if x.is_complex() else 1
    places = torch.tensor([pair * x.storage_offset()])
    for size, stride in zip(x.shape, x.stride(), strict=True):
        places = (places[:, None] + pair * stride * torch.arange(size)).flatten()
    return {place + i for place in places.tolist() for i in range(pair)}


def _is_small(outcome: Outcome) -> bool:
    """Returns whether the tensors have few numbers, of a size that can be compared."""
    with torch.no_grad():
        for x in tensors(outcome).values():
            if x.numel() > MOST_NUMBERS:
                return False
            if x.numel() and x.is_floating_point() and not bool(x.detach().abs().max() < 1e6):
                return False
            if x.numel() and x.is_complex() and not bool(x.detach().abs().max() < 1e6):
                return False
    return True
