"""Plan: what the planner decided, as immutable data that prints as a tree and is stored as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from operator import gt
from typing import Any

import msgspec

from nki_sim import hardware
from nki_sim.base.time_range import time_range
from nki_sim.measured_times import about, in_words
from trnfft.planner import accuracy
from trnfft.planner.problem import C2C, Problem, checked_cores
from trnfft.planner.schema import CandidateRow, PlanRow, RecipeRow, StepRow


@dataclass(frozen=True)
class Recipe:
    """A way to compute a transform of length `n`, or of a shape with `n` points, without a price.

    Attributes:
        algorithm: name of the algorithm.
        n: number of points.
        radices: radices of the stages, first to last.
        inner: the recipe of the transform from which this one is made, or None.
        passes: for a transform over several axes, a pass for each axis, first to last.
        held: shape of the data without padding, or as the algorithm defines it.
        layout: how a block circulant kernel fills the partitions.

    Examples:
        >>> from trnfft.planner.plan import Recipe
        >>> print(Recipe("stockham", 1024, (32, 32)))
        stockham 1024 = 32 x 32
    """

    algorithm: str
    n: int
    radices: tuple[int, ...] = ()
    inner: Recipe | None = None
    passes: tuple[Pass, ...] = ()
    held: tuple[int, ...] = ()
    layout: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.passes:
            return f"{self.algorithm} by {', then '.join(map(str, self.passes))}"
        if self.inner is not None:
            return f"{self.algorithm} {self.n} by {self.inner}"
        if self.radices:
            return f"{self.algorithm} {self.n} = {' x '.join(map(str, self.radices))}"
        if self.layout:
            return f"{self.algorithm} in the layout {self.layout}"
        if self.held:
            return f"{self.algorithm} {' x '.join(map(str, self.held))}"
        return f"{self.algorithm} {self.n}"

    def tree(self) -> list[str]:
        """Returns lines of text: this recipe, and below it the steps from which it is made."""
        if self.passes:
            lines = [f"{self.algorithm}, {self.n} points"]
            for index, item in enumerate(self.passes, 1):
                first, *rest = item.recipe.tree()
                is_last = index == len(self.passes)
                lines.append(f"{'└──' if is_last else '├──'} axis {item.axis}: {first}")
                lines.extend(f"{' ' if is_last else '│'}   {line}" for line in rest)
            return lines
        if self.inner is not None:
            first, *rest = self.inner.tree()
            below = [f"└── two transforms: {first}", *("    " + line for line in rest)]
            return [f"{self.algorithm}, N = {self.n}", *below]
        if self.layout:
            side, tiles, *pieces = self.layout
            names = zip(("weight", "input", "output"), pieces, strict=True)
            return [
                f"{self.algorithm}, blocks of {self.held[-1]}",
                f"├── frequencies that share a product: {side}",
                f"├── up to {tiles} tiles of 128 rows transformed at once",
                f"└── rows cut into pieces: {', '.join(f'{name} {n}' for name, n in names)}",
            ]
        if self.held:
            return [f"{self.algorithm}, {' x '.join(map(str, self.held))} points"]
        lines = [f"{self.algorithm}, N = {self.n}"]
        for index, radix in enumerate(self.radices, 1):
            branch = "└──" if index == len(self.radices) else "├──"
            lines.append(f"{branch} stage {index}: radix {radix}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Returns the recipe as JSON types, without empty fields."""
        entry: dict[str, Any] = {"algorithm": self.algorithm, "n": self.n}
        if self.radices:
            entry["radices"] = list(self.radices)
        if self.inner is not None:
            entry["inner"] = self.inner.to_dict()
        if self.passes:
            entry["passes"] = [item.to_dict() for item in self.passes]
        if self.held:
            entry["held"] = list(self.held)
        if self.layout:
            entry["layout"] = list(self.layout)
        return entry

    @classmethod
    def from_dict(cls, entry: Any) -> Recipe:
        """Returns the recipe that `to_dict` wrote; ValueError where `entry` is something else."""
        return cls.from_row(msgspec.convert(entry, RecipeRow))

    @classmethod
    def from_row(cls, row: StepRow) -> Recipe:
        """Returns the recipe in a row of a file."""
        if not isinstance(row, RecipeRow):
            return cls(row.algorithm, row.n, row.radices)
        inner = None if row.inner is None else cls.from_row(row.inner)
        passes = tuple(Pass(item.axis, cls.from_row(item.recipe), item.kept) for item in row.passes)
        return cls(row.algorithm, row.n, row.radices, inner, passes, row.held, row.layout)


@dataclass(frozen=True)
class Pass:
    """One axis of a transform over several axes.

    Attributes:
        axis: number of the axis among the transformed axes, from 0 on.
        recipe: how the axis is transformed.
        kept: how many of the outputs are kept.
    """

    axis: int
    recipe: Recipe
    kept: int

    def __str__(self) -> str:
        return f"axis {self.axis}: {self.recipe}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the pass as JSON types."""
        return {"axis": self.axis, "recipe": self.recipe.to_dict(), "kept": self.kept}


@dataclass(frozen=True)
class Candidate:
    """A recipe that the planner considered, with its price and the reason why it was rejected.

    Attributes:
        recipe: the recipe.
        predicted_ns: the modelled time of the whole batch on the chip in ns, or None without a
            price.
        predicted_error: the relative L2 error for random normal input, or None where the recipe
            cannot run.
        bound: the engine that is busy for most of the time, or "" without a price.
        launches: number of kernel launches.
        rejected: the reason for the rejection, "" for the choice.
        least_ns: a lower bound of the time in ns, where the bound was enough to reject the
            candidate.
        low_ns, high_ns: the modelled time in ns by the cheapest and the dearest reading of the
            records on which costs are based; None for candidates that are much dearer than others.
    """

    recipe: Recipe
    predicted_ns: float | None = None
    predicted_error: float | None = None
    bound: str = ""
    launches: int = 0
    rejected: str = ""
    least_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None

    @property
    def high_error(self) -> float | None:
        """The error by the least favourable record of what a chip rounds."""
        if self.predicted_error is None:
            return None
        name, radices = self.recipe.algorithm, self.recipe.radices
        return accuracy.high_error(name, radices, self.predicted_error)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields of the recipe and of the candidate as JSON types."""
        return {
            **self.recipe.to_dict(),
            "predicted_ns": self.predicted_ns,
            **({} if self.low_ns is None else {"low_ns": self.low_ns, "high_ns": self.high_ns}),
            "predicted_error": self.predicted_error,
            "bound": self.bound,
            "launches": self.launches,
            "rejected": self.rejected,
            **({} if self.least_ns is None else {"least_ns": self.least_ns}),
        }

    @classmethod
    def from_row(cls, row: CandidateRow) -> Candidate:
        """Returns the candidate in a row of a file."""
        price = row.predicted_ns, row.predicted_error, row.bound, row.launches
        bounds = row.least_ns, row.low_ns, row.high_ns
        return cls(Recipe.from_row(row), *price, row.rejected, *bounds)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Problem):
    """A problem, and all candidates that were considered to solve it, the choice first.

    `trnfft.plan` returns plans. The fields of the problem are those of
    `trnfft.planner.problem.Problem`.

    Attributes:
        candidates: the choice, then the other candidates by price, then those without a price.
    """

    candidates: tuple[Candidate, ...]

    @classmethod
    def of(cls, problem: Problem, candidates: tuple[Candidate, ...]) -> Plan:
        """Returns the plan for a problem, or a given plan with these candidates instead."""
        return cls(**{**vars(problem), "candidates": candidates})

    @property
    def problem(self) -> Problem:
        """What the plan solves, without candidates."""
        return Problem(**{name: getattr(self, name) for name in Problem.__dataclass_fields__})

    @property
    def choice(self) -> Candidate:
        """The candidate that was not rejected."""
        return self.candidates[0]

    @property
    def recipe(self) -> Recipe:
        """The recipe to run."""
        return self.choice.recipe

    @property
    def algorithm(self) -> str:
        """Name of the algorithm, or "host" where no kernel runs."""
        return self.recipe.algorithm

    @property
    def radices(self) -> tuple[int, ...]:
        """Radices of the stages, first to last; empty for an algorithm without radices."""
        return self.recipe.radices

    @property
    def inner(self) -> Recipe | None:
        """The recipe of the transform, of another length, from which this one is made, or None."""
        return self.recipe.inner

    @property
    def launches(self) -> int:
        """Number of kernel launches."""
        return self.choice.launches

    @property
    def predicted_ns(self) -> float | None:
        """Modelled time of the batch on the chip in ns; None on the host, which has no model."""
        return self.choice.predicted_ns

    @property
    def low_ns(self) -> float | None:
        """Modelled time in ns by the cheapest reading of the records of others; None on the host.

        Records of what a copy or an instruction costs differ; see docs/timing_model.md.
        """
        return self.choice.low_ns

    @property
    def high_ns(self) -> float | None:
        """Modelled time in ns by the dearest reading of the records of others; None on the host."""
        return self.choice.high_ns

    @property
    def with_launches_ns(self) -> float | None:
        """About the time with the launches in ns, or None on the host.

        What a launch adds was measured by others. Choices are made by `predicted_ns`, because every
        recipe is one launch, which adds the same to all.
        """
        return self.with_launches_of(self.choice)

    def with_launches_of(self, candidate: Candidate) -> float | None:
        """Returns `with_launches_ns` for another candidate, or None where it has no price."""
        if candidate.predicted_ns is None:
            return None
        chip = hardware.chip(self.target)
        return chip.with_launches_ns(candidate.predicted_ns, candidate.launches)

    @property
    def predicted_error(self) -> float:
        """Relative L2 error to expect for random normal input."""
        return self.choice.predicted_error or 0.0

    @property
    def high_error(self) -> float:
        """The relative L2 error by the least favourable record; see `docs/precision.md`."""
        return self.choice.high_error or 0.0

    @property
    def bound(self) -> str:
        """The engine that is busy for most of the time: dma, tensor, vector, scalar or gpsimd."""
        return self.choice.bound

    def __repr__(self) -> str:
        ns = self.predicted_ns
        price = "on the host" if ns is None else f"{ns / 1e3:.4g} us modelled"
        return f"<Plan: {self.title}: {self.recipe}, {price}>"

    def with_direction(self, inverse: bool) -> Plan:
        """Returns the plan for a direction. Both cost the same: only the tables differ."""
        return replace(self, inverse=inverse)

    def tree(self) -> str:
        """Returns readable text: the transform, its price, and its steps."""
        error = f"relative error {self.predicted_error:.1e}"
        if self.high_error > self.predicted_error:
            error += f" (by one record {self.high_error:.1e})"
        ns, with_launches = self.predicted_ns, self.with_launches_ns
        if ns is None or with_launches is None:
            price = [f"on the host, not modelled, {error}"]
        else:
            price = [
                f"kernel {time_range(ns, self.low_ns, self.high_ns, 'us')}, modelled; "
                f"with {in_words(self.launches)}, about {about(with_launches)}",
                f"bound by {self.bound}, DMA floor {self.dma_floor_ns / 1e3:.3g} us, {error}",
            ]
        first, *rest = self.recipe.tree()
        steps = [f"└── {first}", *("    " + line for line in rest)]
        return "\n".join([self.title, *price, *steps])

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as JSON types."""
        return {
            "n": self.n,
            "batch": self.batch,
            "inverse": self.inverse,
            "precision": self.precision,
            "target": self.target,
            "max_error": self.max_error,
            **({} if self.kind == C2C else {"kind": self.kind}),
            **({"shape": list(self.shape)} if self.shape else {}),
            **({"padded_from": list(self.padded_from)} if self.padded_from else {}),
            **({} if self.cores == 1 else {"cores": self.cores}),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }

    @classmethod
    def from_dict(cls, entry: Any) -> Plan:
        """Returns the plan that `to_dict` wrote; ValueError where `entry` is something else."""
        return cls.from_row(msgspec.convert(entry, PlanRow))

    @classmethod
    def from_row(cls, row: PlanRow) -> Plan:
        """Returns the plan in a row of a file, for a known chip and with sizes that fit.

        Whether its choice solves its problem is checked by the algorithms: see wisdom.py.

        Raises:
            ValueError: the row is not a plan; the message says why.
        """
        chip = hardware.chip(row.target)
        if row.candidates[0].rejected:
            raise ValueError("a plan's first candidate is its choice; this plan has none")
        if row.shape and math.prod(row.shape) != row.n:
            raise ValueError(f"shape {row.shape} has {math.prod(row.shape)} points, not {row.n}")
        if len(row.padded_from) != len(row.shape) or any(map(gt, row.padded_from, row.shape)):
            raise ValueError(f"data of shape {row.padded_from} is no part of shape {row.shape}")
        return cls(
            n=row.n,
            kind=row.kind,
            shape=row.shape,
            padded_from=row.padded_from,
            batch=row.batch,
            inverse=row.inverse,
            precision=row.precision,
            target=chip.name,
            max_error=row.max_error,
            cores=checked_cores(row.cores, chip),
            candidates=tuple(map(Candidate.from_row, row.candidates)),
        )

    def to_json(self) -> str:
        """Returns one line of JSON, from which `from_json` makes an equal plan."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Returns the plan that `to_json` wrote; ValueError where `text` is something else."""
        return cls.from_row(msgspec.json.decode(text, type=PlanRow))
