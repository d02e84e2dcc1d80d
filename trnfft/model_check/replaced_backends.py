"""Replaces the backends while a model is checked.

`Planned` replaces the kernels: it asks the planner as the backend "nki" does, notes each launch in
the one method that calls kernels, and computes the numbers by the references of the operators. It
also notes and computes the transforms that the kernels refuse, so that the model goes on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from trnfft.backends.backend import Backend, Call, Parts
from trnfft.backends.matmul import Matmul
from trnfft.backends.nki import Nki
from trnfft.backends.torch_native import TorchNative
from trnfft.model_check.watch import Watch
from trnfft.ops.reference import reference
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import C2C, C2R, R2C
from trnfft.planner.plan import Plan, Recipe
from trnfft.planner.separate import SEPARATE

Method = Callable[[Parts, Call], Parts]


def in_place_of(backend: Backend, watch: Watch) -> Backend:
    """Returns the replacement of a backend, which reports to the watch."""
    if isinstance(backend, Nki):
        return Planned(watch)
    return OnTheHost(watch) if isinstance(backend, TorchNative) else Products(watch)


class _Reporting(Backend):
    """What the replacements share: each transform passes `_computed`, which tells the watch."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def c2c(self, parts: Parts, call: Call) -> Parts:
        return self._computed(C2C, super().c2c, parts, call)

    def r2c(self, parts: Parts, call: Call) -> Parts:
        return self._computed(R2C, super().r2c, parts, call)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        return self._computed(C2R, super().c2r, parts, call)

    def prepared(self, like: torch.Tensor, call: Call) -> Callable[[Parts], Parts]:
        return Backend.prepared(self, like, call)  # without a plan, which may raise

    def _computed(self, kind: str, method: Method, parts: Parts, call: Call) -> Parts:
        raise NotImplementedError


class Planned(_Reporting, Nki):
    """Moves data as the backend "nki" does, with torch.fft in place of the kernels."""

    name = "nki"
    asked = ""  # the transform; a kernel of another kind may compute it

    def run(
        self, recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
    ) -> list[torch.Tensor]:
        self._check(x[0])
        algorithm = ALGORITHMS[recipe.algorithm]
        algorithm.check_inputs(recipe, [tuple(part.shape) for part in x])
        with self.watch.on_the_device():
            x = tuple(part.contiguous() for part in x)
        kind = recipe.kind
        self.watch.launched(recipe, kind.batch_of(x[0].shape[0]), self.asked or kind.name)
        with self.watch.apart():
            return reference(recipe, x, inverse, scale)

    def _computed(self, kind: str, method: Method, parts: Parts, call: Call) -> Parts:
        self.asked = kind
        try:
            with self.watch.on_the_device():
                return method(parts, call)
        except (NotImplementedError, TypeError) as error:
            self.watch.refused_by_kernels(kind, error)
        with self.watch.apart():
            whole: Parts = getattr(TorchNative(), kind)(parts, call._replace(precision="fast"))
            return whole

    def _recipe(self, kind: str, parts: Parts, call: Call) -> Recipe | None:
        recipe = super()._recipe(kind, parts, call)
        if recipe is None and not _has_one_launch(self._plan(kind, parts, call)):
            shape = " x ".join(map(str, call.sizes))
            self.watch.falls_back(
                kind,
                f"no kernel transforms {shape} points in one launch: there is one launch for each "
                f"dimension",
            )
        return recipe

    def _check(self, x: torch.Tensor) -> None:
        """Raises a TypeError for other parts than float32; any device stands for a NeuronCore."""
        try:
            Nki._check(Nki("nki-sim"), x)
        except TypeError as error:
            raise TypeError(str(error).replace('"nki-sim"', '"nki"')) from None


def _has_one_launch(plan: Plan) -> bool:
    """Returns whether a plan has one launch among its candidates, be it dearer than several."""
    priced = [each for each in plan.candidates if each.predicted_ns is not None]
    return any(each.recipe.algorithm != SEPARATE for each in priced)


class OnTheHost(_Reporting, TorchNative):
    """Transforms by torch.fft, which in the precision "double" runs on the host."""

    def whole(self, x: Parts, call: Call, native: bool) -> Parts:
        self._note(call.kind, call.precision)
        with self.watch.apart():
            return super().whole(x, call, native)

    def _computed(self, kind: str, method: Method, parts: Parts, call: Call) -> Parts:
        self._note(kind, call.precision)
        with self.watch.apart():
            return method(parts, call)

    def _note(self, kind: str, precision: str) -> None:
        message = 'backend "torch" was chosen: torch.fft needs complex numbers on the device'
        if precision == "double":
            message = 'precision "double" runs on the host; the other precisions run as kernels'
        self.watch.falls_back(kind, message)


class Products(_Reporting, Matmul):
    """Transforms by matrix products of torch."""

    def _computed(self, kind: str, method: Method, parts: Parts, call: Call) -> Parts:
        message = 'backend "matmul" was chosen: operators of torch take the place of one kernel'
        self.watch.falls_back(kind, message)
        return method(parts, call)
