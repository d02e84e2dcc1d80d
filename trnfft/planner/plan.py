"""Plan: what the planner decided, as immutable data that prints as a tree and is stored as JSON."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, Generic

import msgspec

from nki_kernels.convolution.block_circulant import Blocking
from nki_sim import hardware
from nki_sim.base.time_range import time_range
from nki_sim.measured_times import about
from trnfft.planner import accuracy
from trnfft.planner.kinds import K, Kind, Transform
from trnfft.planner.problem import Execution, Problem, checked_cores
from trnfft.planner.schema import CandidateRow, PassRow, PlanRow, RecipeRow, StepRow, as_json


@dataclass(frozen=True)
class Recipe(Generic[K]):
    """A way to compute what a kind says, without a price.

    Attributes:
        algorithm: name of the algorithm.
        kind: what it computes: a record of `trnfft.planner.kinds`.
        radices: radices of the stages, first to last.
        inner: the recipe of the transform from which this one is made, or None.
        passes: for a transform over several axes, a pass for each axis, first to last.
        blocking: how a block circulant kernel fills the partitions, or None.

    Examples:
        >>> from trnfft.planner.kinds import Transform
        >>> from trnfft.planner.plan import Recipe
        >>> print(Recipe("stockham", Transform((1024,)), (32, 32)))
        stockham 1024 = 32 x 32
    """

    algorithm: str
    kind: K
    radices: tuple[int, ...] = ()
    inner: Recipe | None = None
    passes: tuple[Pass, ...] = ()
    blocking: Blocking | None = None

    @property
    def n(self) -> int:
        """Number of points, as `Problem.n`."""
        return self.kind.points

    def __str__(self) -> str:
        if self.passes:
            return f"{self.algorithm} by {', then '.join(map(str, self.passes))}"
        if self.inner is not None:
            return f"{self.algorithm} {self.n} by {self.inner}"
        if self.radices:
            return f"{self.algorithm} {self.n} = {' x '.join(map(str, self.radices))}"
        if self.blocking is not None:
            return f"{self.algorithm} in the layout {astuple(self.blocking)}"
        return f"{self.algorithm} {self._sizes}"

    @property
    def _sizes(self) -> str:
        return " x ".join(map(str, self.kind.numbers))

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
        if (blocking := self.blocking) is not None:
            pieces = f"input {blocking.of_input}, output {blocking.of_output}"
            return [
                f"{self.algorithm}, blocks of {self.kind.sizes[-1]}",
                f"├── frequencies that share a product: {blocking.side}",
                f"├── up to {blocking.tiles} tiles of 128 rows transformed at once",
                f"└── rows cut into pieces: weight {blocking.of_weight}, {pieces}",
            ]
        if not self.radices and not self.kind.is_rows:
            return [f"{self.algorithm}, {self._sizes} points"]
        axes = len(self.kind.transformed)
        size = f"N = {self.n}" if axes == 1 else f"{self.n} points"
        lines = [f"{self.algorithm}, {size}"]
        for index, radix in enumerate(self.radices, 1):
            branch = "└──" if index == len(self.radices) else "├──"
            lines.append(f"{branch} stage {index}: radix {radix}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Returns the recipe as JSON types, without empty fields."""
        return as_json(self.to_row())

    @staticmethod
    def from_dict(entry: object) -> Recipe:
        """Returns the recipe that `to_dict` wrote; ValueError where `entry` is something else."""
        return Recipe.from_row(msgspec.convert(entry, RecipeRow))

    def to_row(self, known: Kind | None = None) -> RecipeRow:
        """Returns the recipe as a row of a file, which leaves out the kind where it is `known`."""
        return RecipeRow(
            algorithm=self.algorithm,
            kind=None if self.kind == known else self.kind,
            radices=self.radices,
            inner=None if self.inner is None else self.inner.to_step(),
            passes=tuple(each.to_row() for each in self.passes),
            blocking=self.blocking,
        )

    @staticmethod
    def from_row(row: RecipeRow, known: Kind | None = None) -> Recipe:
        """Returns the recipe in a row of a file, of the kind `known` where the row has none."""
        kind = row.kind or known
        if kind is None:
            raise ValueError(f"the recipe of {row.algorithm!r} has no kind")
        inner = None if row.inner is None else Recipe.from_step(row.inner)
        passes = tuple(map(Pass.from_row, row.passes))
        return Recipe(row.algorithm, kind, row.radices, inner, passes, row.blocking)

    def to_step(self) -> StepRow:
        """Returns a recipe for rows, which is part of another recipe, as a row of a file."""
        assert isinstance(self.kind, Transform) and self.kind.is_rows
        return StepRow(
            algorithm=self.algorithm, n=self.n, part=self.kind.part, radices=self.radices
        )

    @staticmethod
    def from_step(row: StepRow) -> Recipe[Transform]:
        """Returns the recipe in such a row."""
        return Recipe(row.algorithm, Transform((row.n,), part=row.part), row.radices)


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

    def to_row(self) -> PassRow:
        """Returns the pass as a row of a file."""
        return PassRow(axis=self.axis, recipe=self.recipe.to_step(), kept=self.kept)

    @classmethod
    def from_row(cls, row: PassRow) -> Pass:
        """Returns the pass in a row of a file."""
        return cls(row.axis, Recipe.from_step(row.recipe), row.kept)


@dataclass(frozen=True)
class Candidate(Generic[K]):
    """A recipe that the planner considered, with its price and the reason why it was rejected.

    Attributes:
        recipe: the recipe.
        predicted_ns: the modelled time of the whole batch on the chip in ns, or None without a
            price.
        predicted_error: the relative L2 error for random normal input, or None where the recipe
            cannot run, or where its launches were not planned because they take too long.
        bound: the engine that is busy for most of the time, or "" without a price.
        launches: number of kernel launches.
        rejected: the reason for the rejection, "" for the choice.
        least_ns: a lower bound of the time in ns, where the bound was enough to reject the
            candidate.
        low_ns, high_ns: the modelled time in ns by the cheapest and the dearest reading of the
            records on which costs are based; None for candidates that are much dearer than others.
        operators: number of torch's operators beside the launches. What these operators move is
            part of `predicted_ns`.
    """

    recipe: Recipe[K]
    predicted_ns: float | None = None
    predicted_error: float | None = None
    bound: str = ""
    launches: int = 0
    rejected: str = ""
    least_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    operators: int = 0

    @property
    def high_error(self) -> float | None:
        """The error by the least favourable record of what a chip rounds."""
        if self.predicted_error is None:
            return None
        name, radices = self.recipe.algorithm, self.recipe.radices
        return accuracy.high_error(name, radices, self.predicted_error)

    def to_row(self, known: Kind) -> CandidateRow:
        """Returns the candidate as a row of a plan that solves the kind `known`."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        recipe = own.pop("recipe").to_row(known)
        return CandidateRow(**msgspec.structs.asdict(recipe), **own)

    @classmethod
    def from_row(cls, row: CandidateRow, known: Kind) -> Candidate:
        """Returns the candidate in a row of a plan that solves the kind `known`."""
        own = {field.name: getattr(row, field.name) for field in fields(cls)[1:]}
        return cls(Recipe.from_row(row, known), **own)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Problem[K]):
    """A problem, and all candidates that were considered to solve it, the choice first.

    `trnfft.plan` returns plans. The fields of the problem are those of
    `trnfft.planner.problem.Problem`.

    Attributes:
        candidates: the choice, then the other candidates by price, then those without a price.
    """

    candidates: tuple[Candidate[K], ...]

    @classmethod
    def of(cls, problem: Problem, candidates: tuple[Candidate, ...]) -> Plan:
        """Returns the plan for a problem, or a given plan with these candidates instead."""
        return cls(**{**vars(problem), "candidates": candidates})

    @property
    def problem(self) -> Problem:
        """What the plan solves, without candidates."""
        return Problem(**{field.name: getattr(self, field.name) for field in fields(Problem)})

    @property
    def choice(self) -> Candidate[K]:
        """The candidate that was not rejected."""
        return self.candidates[0]

    @property
    def recipe(self) -> Recipe[K]:
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
    def operators(self) -> int:
        """Number of torch's operators beside the launches."""
        return self.choice.operators

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
        """About the time of an eager call in ns, or None on the host.

        What launches add to `predicted_ns` was measured by others. TorchNeuron launches each kernel
        and each operator of torch, and PyTorch/XLA the graph of a call. A choice for the execution
        "eager" is made by this time, a choice for a graph by `predicted_ns`.
        """
        return self.with_launches_of(self.choice)

    def with_launches_of(self, candidate: Candidate) -> float | None:
        """Returns `with_launches_ns` for another candidate, or None where it has no price."""
        if candidate.predicted_ns is None:
            return None
        return eager_ns(candidate, self.target)

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

    @property
    def work(self) -> str:
        """What a call runs, in words: "kernel", or "2 kernels and 14 operators of torch"."""
        kernels = "kernel" if self.launches == 1 else f"{self.launches} kernels"
        if not self.operators:
            return kernels
        one = "an operator" if self.operators == 1 else f"{self.operators} operators"
        return f"{kernels} and {one} of torch"

    def __repr__(self) -> str:
        ns = self.predicted_ns
        price = "on the host" if ns is None else f"{ns / 1e3:.4g} us modelled"
        return f"<Plan: {self.title}: {self.recipe}, {price}>"

    def solving(self, kind: K, inverse: bool, execution: Execution = "graph") -> Plan[K]:
        """Returns the plan for another direction, a kind with the same `priced`, an execution."""
        own = replace(self, inverse=inverse, execution=execution)
        if kind == self.kind:
            return own
        candidates = [
            replace(each, recipe=replace(each.recipe, kind=kind)) for each in self.candidates
        ]
        return replace(own, kind=kind, candidates=tuple(candidates))

    def tree(self) -> str:
        """Returns readable text: the transform, its price, and its steps."""
        error = f"relative error {self.predicted_error:.1e}"
        if self.high_error > self.predicted_error:
            error += f" (by one record {self.high_error:.1e})"
        ns, with_launches = self.predicted_ns, self.with_launches_ns
        if ns is None or with_launches is None:
            price = [f"on the host, not modelled, {error}"]
        else:
            launched = hardware.chip(self.target).launches.in_words(self.launches, self.operators)
            gap = " " if self.work == "kernel" else "\n"
            price = [
                f"{self.work} {time_range(ns, self.low_ns, self.high_ns, 'us')}, modelled;{gap}"
                f"{launched}, about {about(with_launches)}",
                f"bound by {self.bound}, DMA floor {self.dma_floor_ns / 1e3:.3g} us, {error}",
            ]
        first, *rest = self.recipe.tree()
        steps = [f"└── {first}", *("    " + line for line in rest)]
        return "\n".join([self.title, *price, *steps])

    def to_row(self) -> PlanRow:
        """Returns the plan as a row of a file."""
        own = {field.name: getattr(self, field.name) for field in fields(Problem)}
        candidates = tuple(candidate.to_row(self.kind) for candidate in self.candidates)
        return PlanRow(**own, candidates=candidates)

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as JSON types."""
        return as_json(self.to_row())

    @classmethod
    def from_dict(cls, entry: object) -> Plan:
        """Returns the plan that `to_dict` wrote; ValueError where `entry` is something else."""
        return cls.from_row(msgspec.convert(entry, PlanRow))

    @classmethod
    def from_row(cls, row: PlanRow) -> Plan:
        """Returns the plan in a row of a file, for a known chip and with sizes that fit.

        Whether its choice solves its problem is checked by the algorithms: see wisdom.py.
        """
        chip = hardware.chip(row.target)
        if row.candidates[0].rejected:
            raise ValueError("a plan's first candidate is its choice; this plan has none")
        own = {field.name: getattr(row, field.name) for field in fields(Problem)}
        own.update(target=chip.name, cores=checked_cores(row.cores, chip))
        candidates = tuple(Candidate.from_row(each, row.kind) for each in row.candidates)
        return cls(**own, candidates=candidates)

    def to_json(self) -> str:
        """Returns one line of JSON, from which `from_json` makes an equal plan."""
        return msgspec.json.encode(self.to_row()).decode()

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Returns the plan that `to_json` wrote; ValueError where `text` is something else."""
        return cls.from_row(msgspec.json.decode(text, type=PlanRow))


def eager_ns(candidate: Candidate, target: str) -> float:
    """Returns about the time of an eager call in ns; infinity for a candidate without a price."""
    ns = math.inf if candidate.predicted_ns is None else candidate.predicted_ns
    return hardware.chip(target).with_launches_ns(ns, candidate.launches, candidate.operators)


def cost_ns(candidate: Candidate, problem: Problem) -> float:
    """Returns the time in ns by which searches choose; infinity for a candidate without a price.

    In a graph, which is one launch whatever it holds, launches add nothing.
    """
    ns = math.inf if candidate.predicted_ns is None else candidate.predicted_ns
    launches_graphs = hardware.chip(problem.target).launches.compiled is None
    if problem.execution == "graph" or launches_graphs:
        return ns
    return eager_ns(candidate, problem.target)
