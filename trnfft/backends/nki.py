"""Transforms by the NKI kernels: on a NeuronCore, or in the CPU simulator of one.

A transform of several dimensions is one launch, or one launch for each dimension with copies by
torch between them, as the plan says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import nki_sim
from nki_sim import hardware
from trnfft.backends import torch_neuron
from trnfft.backends.backend import Backend, Call, Parts
from trnfft.backends.device_tables import uploaded
from trnfft.backends.half_spectrum import half_of, whole_of, with_real_mirrors
from trnfft.base.config import NEURON_DEVICES
from trnfft.base.devices import execution_on
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import C2C, C2R, R2C
from trnfft.planner.plan import Plan, Recipe
from trnfft.planner.planner import plan
from trnfft.planner.separate import SEPARATE


class Nki(Backend):
    """The kernels: "nki" on a NeuronCore, "nki-sim" in the simulator. They take float32 data only.

    Every method may raise:
        RuntimeError: the backend is "nki", and the tensors are on another device.
        TypeError: the tensors are not float32.
        ValueError: their shapes do not fit the recipe.
        NotImplementedError: no kernel can transform a length with this precision.
    """

    has_kernels = True
    is_in_graph = False  # whether its launches are those of a graph

    def __init__(self, name: str) -> None:
        self.name = name

    def c2c(self, parts: Parts, call: Call) -> Parts:
        if call.planned:
            return self._in_planned_order(parts, call)
        if _is_one_point(call):
            return self._of_one_point(parts, call)
        recipe = self._recipe(C2C, parts, call)
        if recipe is None:
            return super().c2c(parts, call)
        y = self.run(recipe, _rows(parts, call), call.inverse, call.scale)
        return _with_lead(parts, call, y)

    def r2c(self, parts: Parts, call: Call) -> Parts:
        if _is_one_point(call):
            (real,) = self._of_one_point(parts, call)
            half = (real, torch.zeros_like(real))
            return with_real_mirrors(half, call.sizes, call.inverse)
        recipe = self._recipe(R2C, parts, call)
        if recipe is None:
            return with_real_mirrors(super().r2c(parts, call), call.sizes, call.inverse)
        x = _rows(parts, call)
        if not _is_for(R2C, recipe):
            x = (x[0], torch.zeros_like(x[0]))
        y: Parts = tuple(self.run(recipe, x, call.inverse, call.scale))
        if not _is_for(R2C, recipe):
            y = with_real_mirrors(half_of(*y), call.sizes, call.inverse)
        elif call.inverse:  # kernels for real data make zeros by themselves, none of them negative
            y = with_real_mirrors(y, call.sizes, call.inverse)
        return _with_lead(parts, call, y)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        if _is_one_point(call):
            return self._of_one_point(parts[:1], call)
        recipe = self._recipe(C2R, parts, call)
        if recipe is None:
            return super().c2r(parts, call)
        x = _rows(parts, call)
        if not _is_for(C2R, recipe):
            x = whole_of(x[0], x[1], call.sizes[-1])
        y = self.run(recipe, x, call.inverse, call.scale)
        return _with_lead(parts, call, y[:1])

    # Where a plan has a launch for each dimension, each dimension is transformed alone.
    c2c_rows, r2c_rows, c2r_rows = c2c, r2c, c2r

    def prepared(self, like: torch.Tensor, call: Call) -> Callable[[Parts], Parts]:
        if not _is_one_point(call):
            self._recipe(call.kind, (like,), call)  # the plan is searched for now, and remembered
        return super().prepared(like, call)

    def _dimensions(self, parts: Parts, call: Call, count: int) -> Parts:
        """Transforms along the first `count` of the dimensions, the last of these first.

        After each dimension a copy turns the array, so that the last dimension becomes the first,
        and the one before it the last. So kernels get contiguous rows, and as many copies as
        dimensions bring all of them back. `trnfft.planner.kinds.transform` counts these copies.
        """
        sizes, scale = call.sizes, call.scale
        for index in reversed(range(len(sizes))):
            if index < count and sizes[index] > 1:
                alone = call._replace(sizes=(sizes[index],), norm=scale)
                parts, scale = self.c2c_rows(parts, alone), 1.0
            parts = tuple(_turned(part, len(sizes)) for part in parts)
        return parts

    def run(
        self, recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
    ) -> list[torch.Tensor]:
        self._check(x[0])
        algorithm, cores = ALGORITHMS[recipe.algorithm], hardware.degree()
        algorithm.check_inputs(recipe, [tuple(part.shape) for part in x])
        if self.name == "nki":
            tables = self._tables(recipe, inverse, scale, x[0].device)
            operands = [part.contiguous() for part in x]
            if x[0].device.type == "xla":
                y = algorithm.kernel[cores](*operands, *tables)
            else:
                y = torch_neuron.launch(algorithm.kernel, cores, operands, tables)
            return list(y) if isinstance(y, (tuple, list)) else [y]
        arrays = [part.detach().resolve_neg().cpu().contiguous().numpy() for part in x]
        arguments = algorithm.arguments(recipe, inverse, scale)
        y = nki_sim.simulate(algorithm.kernel).with_programs(cores)(*arrays, *arguments)
        results: list[np.ndarray] = list(y) if isinstance(y, (tuple, list)) else [y]
        return [torch.from_numpy(part).to(x[0].device) for part in results]

    def _of_one_point(self, parts: Parts, call: Call) -> Parts:
        """Multiplies by the scale, without a launch, and without a sum.

        A sum would turn -0.0 into 0.0 and an infinity into NaN.
        """
        self._check(parts[0])
        return tuple(part * call.scale for part in parts)

    def _tables(self, recipe: Recipe, inverse: bool, scale: float, device: torch.device) -> Any:
        arguments = ALGORITHMS[recipe.algorithm].arguments
        return uploaded(device, None, arguments, recipe, inverse, scale)

    def _recipe(self, kind: str, parts: Parts, call: Call) -> Recipe | None:
        """Returns the recipe for one launch, or None where the plan has one for each dimension."""
        recipe = self._plan(kind, parts, call).recipe
        return None if recipe.algorithm == SEPARATE else recipe

    def _plan(self, kind: str, parts: Parts, call: Call) -> Plan:
        """Returns the plan of a transform of this kind, for the device of the parts."""
        self._check(parts[0])
        sizes = call.sizes
        return plan(
            n=sizes[0] if len(sizes) == 1 else None,
            shape=sizes if len(sizes) > 1 else None,
            batch=math.prod(parts[0].shape[: -len(sizes)]),
            inverse=call.inverse if kind == C2C else kind == C2R,
            real=kind != C2C,
            precision=call.precision,
            execution=execution_on(parts[0].device, self.is_in_graph),
        )

    def _check(self, x: torch.Tensor) -> None:
        if self.name == "nki" and x.device.type not in NEURON_DEVICES:
            raise RuntimeError(
                f"argument 'input' is on device '{x.device}', backend \"nki\" allows "
                f'{", ".join(NEURON_DEVICES)}; move it with .to("xla"), or use backend "nki-sim"'
            )
        if x.dtype != torch.float32:
            raise TypeError(
                f"argument 'input' has {x.dtype} parts, backend \"{self.name}\" allows "
                f"torch.float32: the NeuronCore has no float64; use input.float(), for a complex "
                f'tensor input.to(torch.complex64), or trnfft.set_backend("matmul")'
            )


def _is_one_point(call: Call) -> bool:
    return all(size == 1 for size in call.sizes)


def _is_for(kind: str, recipe: Recipe) -> bool:
    """Returns whether the kernel takes data of this kind; complex data may be cheaper."""
    return ALGORITHMS[recipe.algorithm].kind == kind


def _rows(parts: Parts, call: Call) -> Parts:
    """Returns [..., *sizes] as [B, *sizes]."""
    return tuple(part.reshape(-1, *part.shape[-len(call.sizes) :]) for part in parts)


def _turned(x: torch.Tensor, dims: int) -> torch.Tensor:
    """Returns [..., N] with the last of `dims` dimensions as the first of them, by a copy.

    Where only one of the dimensions has more than one index, no number moves.
    """
    first, last = x.ndim - dims, x.shape[-1]
    lead, others = x.shape[:first], x.shape[first:-1]
    rows = math.prod(others)
    if rows > 1 and last > 1:
        x = x.reshape(-1, rows, last).mT.contiguous()
    return x.reshape(*lead, last, *others)


def _with_lead(parts: Parts, call: Call, y: Sequence[torch.Tensor]) -> Parts:
    """Returns [B, ...] with the leading dimensions of `parts`."""
    lead = parts[0].shape[: -len(call.sizes)]
    return tuple(part.reshape(*lead, *part.shape[1:]) for part in y)
