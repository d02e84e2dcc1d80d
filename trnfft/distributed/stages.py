"""The steps of a route in stages: a transform with the exchanges that pass while it is computed.

An exchange belongs to the transform before it. If there is none, or if it is across devices, the
exchange belongs to the transform after it. `overlap.py` decides the number of chunks of a stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trnfft.distributed import four_step, overlap
from trnfft.distributed.four_step import Long
from trnfft.distributed.layout import Layout
from trnfft.distributed.overlap import Work
from trnfft.distributed.route import (
    Across,
    Exchanged,
    Problem,
    Step,
    Transformed,
    route,
    sizes_of,
)

_ENOUGH = 16  # numbers along a dimension that suffice to cut it into chunks and blocks


@dataclass(frozen=True)
class Stage:
    """Steps that are done together.

    Attributes:
        layout: the layout before all of them.
        done: the dimensions that are transformed before.
        before: the exchange before the transform.
        step: the transform.
        after: the exchange after it.
        dim: the dimension that is cut, or None where none can be.
        chunks: the number of chunks.
        long: the transform across devices.
    """

    layout: Layout
    done: frozenset[int]
    before: Exchanged | None = None
    step: Transformed | Across | None = None
    after: Exchanged | None = None
    dim: int | None = None
    chunks: tuple[int, ...] = (1,)
    long: Long | None = None

    @property
    def between(self) -> Layout:
        """Returns the layout after the exchange before the transform."""
        return _moved(self.layout, self.before)

    @property
    def following(self) -> Stage:
        """Returns an empty stage that follows this one."""
        dims = set[int]()
        if self.step:
            dims = {self.step.dim} if isinstance(self.step, Across) else set(self.step.dims)
        return Stage(_moved(self.between, self.after), self.done | dims)


@dataclass(frozen=True)
class Stages:
    """The stages of a route.

    Attributes:
        problem: the transform that is wanted.
        inverse, norm: of the transforms, as in `trnfft.ops.transforms`.
        device: the type of the devices.
        itemsize: bytes of a real number.
    """

    problem: Problem
    inverse: bool
    norm: str
    device: str
    itemsize: int

    def __iter__(self) -> Iterator[Stage]:
        """Yields the stages, one after the other.

        Raises:
            NotImplementedError: there is no way.
        """
        left = list(route(self.problem))
        stage = Stage(self.problem.source, frozenset())
        while left:
            stage = _with_steps(stage, left)
            if isinstance(stage.step, Across):
                stage = self._across(stage, stage.step)
            elif stage.step:
                stage = self._cut(stage, stage.step)
            yield stage
            stage = stage.following

    def _across(self, stage: Stage, step: Across) -> Stage:
        """Returns the stage with the number of chunks of its exchanges."""
        line, mesh = self.problem.lines[step.dim], stage.layout.mesh
        sizes = sizes_of(self.problem, stage.done)
        box = stage.layout.box(sizes, (0,) * len(mesh))
        rows = math.prod(x.size for dim, x in enumerate(box) if dim != step.dim)
        long = Long(line.length or 1, self.inverse, self.norm, self.problem.across, rows)
        arguments = long, mesh, step.along, self.device, self.itemsize
        return replace(stage, long=long, chunks=four_step.chunks_of_exchanges(*arguments))

    def _cut(self, stage: Stage, step: Transformed) -> Stage:
        """Returns the stage with a dimension that is whole during all of it, and its chunks."""
        mesh = stage.layout.mesh
        sizes = [sizes_of(self.problem, x.done) for x in (stage, stage.following)]
        box = stage.between.box(sizes[0], (0,) * len(mesh))
        needed = {
            *step.dims,
            *([stage.before.source] if stage.before else []),
            *([stage.after.target] if stage.after else []),
        }
        others = [dim for dim in range(len(box)) if dim not in needed]
        if not others:
            return stage
        # The first dimension with enough numbers: cutting along the last one gives many small
        # pieces.
        dim = min(others, key=lambda dim: (-min(box[dim].size, _ENOUGH), dim))
        held = [
            (stage.before, stage.layout, sizes[0], 1 if step.operation == "r2c" else 2),
            (stage.after, stage.between, sizes[1], 1 if step.operation == "c2r" else 2),
        ]
        work = Work(
            self.device,
            mesh,
            tuple(
                (exchange.along, self.itemsize * parts * layout.largest(shape))
                for exchange, layout, shape, parts in held
                if exchange
            ),
            tuple(self.problem.lines[dim].length or 1 for dim in step.dims),
            math.prod(x.size for i, x in enumerate(box) if i not in step.dims),
            step.operation != "c2c",
            box[dim].size,
        )
        return replace(stage, dim=dim, chunks=(overlap.chunks_of(work),))


def _with_steps(stage: Stage, left: list[Step]) -> Stage:
    """Returns the stage with the first of these steps, which are removed from the list."""
    step = left.pop(0)
    if isinstance(step, Exchanged):
        stage = replace(stage, before=step)
        if not left or not isinstance(left[0], Transformed):
            return stage
        step = left.pop(0)
    assert not isinstance(step, Exchanged)
    stage = replace(stage, step=step)
    if isinstance(step, Transformed) and left and isinstance(left[0], Exchanged):
        stage = replace(stage, after=left[0])
        del left[0]
    return stage


def _moved(layout: Layout, step: Exchanged | None) -> Layout:
    return layout.moved(step.source, step.target) if step else layout
